//! Files that the `tet convert` of `tetration` made from HDF5, NetCDF and Zarr files.

use tet_sql::format::tet::Dtype;
use tet_sql::{ArrayOptions, TableRole};

use super::{assert_slices_same, assert_whole_same};
use crate::formats::reference::Reference;
use crate::support::cells::{ACCESS, Cell, OpenFile, assert_same, data, from_stored, number};

/// The files with their datasets.
const FILES: [(&str, &[&str]); 6] = [
    ("era.h5.tet", &["lat", "lon", "t2m", "time"]),
    (
        "h5_cf_3d_h5.tet",
        &[
            "coordinates/lat",
            "coordinates/lon",
            "coordinates/time",
            "f32",
            "f64",
            "i32",
            "i64",
            "temperature",
        ],
    ),
    (
        "h5_groups_3d_h5.tet",
        &[
            "aux/scale",
            "primary/f32",
            "primary/f64",
            "primary/i32",
            "primary/i64",
        ],
    ),
    (
        "netcdf_cf_3d_nc.tet",
        &[
            "f32",
            "f64",
            "i32",
            "i64",
            "lat",
            "lon",
            "temperature",
            "time",
        ],
    ),
    (
        "netcdf_groups_3d_nc.tet",
        &["primary/f32", "primary/f64", "primary/i32", "primary/i64"],
    ),
    (
        "zarr_groups_3d.tet",
        &["primary/f32", "primary/f64", "primary/i32", "primary/i64"],
    ),
];

/// Returns the non-null cells as numbers.
fn numbers(dtype: Dtype, cells: &[Cell]) -> Vec<f64> {
    cells
        .iter()
        .flatten()
        .map(|cell| number(dtype, *cell))
        .collect()
}

#[tokio::test]
async fn cells_match_tetration() {
    for (name, datasets) in FILES {
        let path = data(&format!("converted/{name}"));
        let reference = Reference::open(&path);
        assert_eq!(reference.names(), datasets, "{name}");
        for access in ACCESS {
            let options = ArrayOptions::new()
                .with_access(access)
                .with_decode_times(false);
            let file = OpenFile::open(&path, options.clone()).await.unwrap();
            let raw = options.with_nan_as_null(false).with_fill_as_null(false);
            let raw = OpenFile::open(&path, raw).await.unwrap();
            let tables = file.schema.container().tables().iter();
            let stored = tables.filter(|table| table.role != TableRole::Wide);
            let found: Vec<_> = stored.map(|table| table.name.as_str()).collect();
            assert_eq!(found, datasets, "{name}");
            assert_eq!(file.schema.warnings(), &[] as &[String], "{name}");
            for dataset in datasets {
                let what = format!("{name}, {dataset}, {access}");
                let array = reference.array(dataset);
                let cells = from_stored(array.dtype, &array.bytes);
                assert_slices_same(&raw, dataset, &cells);

                // Only `temperature` has a fill value. The conversion from HDF5 replaced it by NaN,
                // the conversion from NetCDF kept it.
                let is_there = |cell: &Cell| {
                    let value = number(array.dtype, cell.unwrap());
                    !value.is_nan() && (*dataset != "temperature" || value != -9999.0)
                };
                let cells: Vec<Cell> = cells
                    .into_iter()
                    .map(|cell| Some(cell).filter(is_there)?)
                    .collect();
                assert_whole_same(&file, dataset, &cells);

                let table = format!("f.\"{dataset}\"");
                let count: u64 = array.shape.iter().product();
                let answer = file.answer(&format!("SELECT count(*) FROM {table}")).await;
                assert_eq!(answer, count.to_string(), "{what}");
                let numbers = numbers(array.dtype, &cells);
                let answer = file
                    .answer(&format!("SELECT count(value) FROM {table}"))
                    .await;
                assert_eq!(answer, numbers.len().to_string(), "{what}");
                let sql = format!("SELECT sum(CAST(value AS DOUBLE)) FROM {table}");
                let sum = file.number(&sql).await.unwrap();
                let magnitude: f64 = numbers.iter().map(|number| number.abs()).sum();
                let expected: f64 = numbers.iter().sum();
                assert!(
                    (sum - expected).abs() <= 1e-9 * magnitude,
                    "{what}: {sum}, expected {expected}"
                );
                // `tetration` adds fill values like other values, and its sum is NaN if any cell is
                // NaN.
                let json = format!("{{\"dataset\":\"{dataset}\",\"sum\":[]}}");
                let expected = reference.query(&json).operation_sum.unwrap();
                if !expected.is_nan() {
                    let sum = raw.number(&sql).await.unwrap();
                    assert!(
                        (sum - expected).abs() <= 1e-9 * (magnitude + 9999.0),
                        "{what}: {sum}, tetration {expected}"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn coordinates_of_rows_match_their_cells() {
    for (name, dataset) in [
        ("h5_groups_3d_h5.tet", "primary/i64"),
        ("netcdf_cf_3d_nc.tet", "temperature"),
        ("zarr_groups_3d.tet", "primary/f32"),
    ] {
        let path = data(&format!("converted/{name}"));
        let array = Reference::open(&path).array(dataset);
        // Indices instead of coordinates, because some coordinates of these files would be decoded
        // as times.
        let options = ArrayOptions::new()
            .with_decode_coords(false)
            .with_nan_as_null(false)
            .with_fill_as_null(false);
        let file = OpenFile::open(&path, options).await.unwrap();
        let found = file
            .table(dataset, &crate::support::cells::counted(&array.shape))
            .await;
        assert_same(&found, &from_stored(array.dtype, &array.bytes), name);
    }
}
