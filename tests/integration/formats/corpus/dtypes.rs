//! Every element type, raw and compressed, with the extreme values of each.

use arrow::array::Array;
use tet_sql::ArrayOptions;
use tet_sql::format::tet::Dtype;
use tet_sql::provider::source::GridSource;

use super::assert_slices_same;
use crate::support::cells::{
    ACCESS, OpenFile, assert_same, column_type, counted, data, from_column, number,
};
use crate::support::npy::NpyArray;

#[tokio::test]
async fn cells_match_numpy() {
    for dtype in Dtype::ALL {
        let array = NpyArray::open(&data(&format!("dtypes/dtype_{dtype}.npy")));
        assert_eq!((array.dtype, array.shape.as_slice()), (dtype, &[7, 5][..]));
        for codec in ["raw", "zstd"] {
            for access in ACCESS {
                let path = data(&format!("dtypes/dtype_{dtype}_{codec}.tet"));
                let options = ArrayOptions::new().with_access(access);
                let file = OpenFile::open(&path, options.clone()).await.unwrap();
                let raw = options.with_nan_as_null(false);
                let raw = OpenFile::open(&path, raw).await.unwrap();
                let what = format!("{dtype}, {codec}, {access}");

                let grid = file.grid("v");
                assert_eq!(grid.dataset().dtype(), Some(dtype));
                assert_eq!(grid.dataset().shape(), [7, 5]);
                assert_eq!(grid.dataset().chunk_shape(), [3, 2]);
                assert_eq!(grid.describe().unwrap().codecs, [codec]);
                assert_eq!(grid.attributes()[0].data_type(), &column_type(dtype));

                let labels = counted(&array.shape);
                let cells = array.cells(None);
                assert_same(&file.table("v", &labels).await, &cells, &what);
                assert_slices_same(&file, "v", &cells);
                assert_same(&raw.table("v", &labels).await, &array.raw_cells(), &what);
                assert_slices_same(&raw, "v", &array.raw_cells());
            }
        }
    }
}

#[tokio::test]
async fn min_max_and_counts_match_numpy() {
    for dtype in Dtype::ALL {
        let array = NpyArray::open(&data(&format!("dtypes/dtype_{dtype}.npy")));
        let cells: Vec<_> = array.cells(None).into_iter().flatten().collect();
        // Integers are compared as integers: f64 cannot distinguish the largest of them from their
        // neighbours.
        let order = |a: &&u64, b: &&u64| match dtype {
            Dtype::I64 => (**a as i64).cmp(&(**b as i64)),
            Dtype::U64 => a.cmp(b),
            _ => number(dtype, **a).total_cmp(&number(dtype, **b)),
        };
        let min = *cells.iter().min_by(order).unwrap();
        let max = *cells.iter().max_by(order).unwrap();
        for codec in ["raw", "zstd"] {
            for access in ACCESS {
                let path = data(&format!("dtypes/dtype_{dtype}_{codec}.tet"));
                let options = ArrayOptions::new().with_access(access);
                let file = OpenFile::open(&path, options).await.unwrap();
                let sql = "SELECT min(value), max(value), count(value), count(*) FROM f.v";
                let batches = file.query(sql).await.unwrap();
                let row = &batches[0];
                let found: Vec<_> = row.columns().iter().flat_map(from_column).collect();
                let what = format!("{dtype}, {codec}, {access}");
                let expected = [min, max, cells.len() as u64, 35].map(Some);
                assert_same(&found, &expected, &what);
                assert_eq!(row.column(0).data_type(), &column_type(dtype), "{what}");
                assert_eq!(row.column(0).len(), 1, "{what}");
            }
        }
    }
}

#[tokio::test]
async fn equality_filters_find_exact_values() {
    for dtype in Dtype::ALL {
        let array = NpyArray::open(&data(&format!("dtypes/dtype_{dtype}.npy")));
        let cells = array.cells(None);
        for access in ACCESS {
            let path = data(&format!("dtypes/dtype_{dtype}_zstd.tet"));
            let options = ArrayOptions::new().with_access(access);
            let file = OpenFile::open(&path, options).await.unwrap();
            for (row, column) in [(0, 0), (2, 1), (3, 2), (6, 4)] {
                let cell = cells[row * 5 + column];
                let sql = format!("SELECT value FROM f.v WHERE r = {row} AND c = {column}");
                let batches = file.query(&sql).await.unwrap();
                let found: Vec<_> = batches
                    .iter()
                    .flat_map(|b| from_column(b.column(0)))
                    .collect();
                assert_same(
                    &found,
                    &[cell],
                    &format!("{dtype}, {access}, {row}, {column}"),
                );
            }
        }
    }
}
