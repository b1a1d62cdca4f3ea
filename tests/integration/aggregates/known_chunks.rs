//! Chunks whose aggregates follow from statistics without a read. Each answer is compared with the
//! same cells stored as rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, Int64Array, PrimitiveArray, UInt64Array};
use half::f16;
use tet_sql::ArrayOptions;
use tet_sql::format::tet::{DatasetSpec, Dtype};
use tetration::catalog::embed_indexes_in_tet;

use crate::cells;
use crate::support::sql::{open, register_rows, rows, run, session, write};

const AXES: [(&str, usize); 3] = [("day", 5), ("lat", 3), ("lon", 4)];
const PER_DAY: usize = 12;

/// Five days of one chunk each: constant, zero, missing, varying, and another constant.
fn days<T: Copy>(constants: [T; 3], missing: T, number: impl Fn(usize) -> T) -> Vec<T> {
    let day = |cell: usize| match cell / PER_DAY {
        0 => constants[0],
        1 => constants[1],
        2 => missing,
        3 => number(cell % PER_DAY),
        _ => constants[2],
    };
    (0..5 * PER_DAY).map(day).collect()
}

fn with_nulls<T: ArrowPrimitiveType>(cells: &[T::Native]) -> ArrayRef {
    let cells = cells.iter().enumerate();
    let cells = cells.map(|(cell, value)| (cell / PER_DAY != 2).then_some(*value));
    Arc::new(PrimitiveArray::<T>::from_iter(cells))
}

#[tokio::test]
async fn constant_and_missing_chunks_are_not_read() {
    use arrow::datatypes::{Float32Type, Float64Type, Int16Type};

    let f32s = days([7.5, 0.0, -2.25], f32::NAN, |n| n as f32 - 4.5);
    let f64s = days([2f64.powi(900), 0.0, -0.75], f64::NAN, |n| n as f64);
    let halves = days([1.5, 0.0, -8.0].map(f16::from_f32), f16::NAN, |n| {
        f16::from_f32(n as f32)
    });
    let singles: Vec<f32> = halves.iter().map(|half| half.to_f32()).collect();
    let i16s = days([-300, 0, 7], i16::MIN, |n| n as i16 - 3);
    let i64s = days([1 << 61, 0, -1], 1, |n| n as i64);
    let none_missing: Vec<i64> = i64s.clone();
    let u64s = days([3 << 61, 0, 3], 9, |n| n as u64);
    // A negative zero and a positive zero, each constant within its chunk.
    let zeros = days([-0.0, 0.0, 1.0], f32::NAN, |n| n as f32);
    let cases: [(&str, Dtype, Vec<u8>, ArrayRef, bool); 7] = [
        (
            "f32",
            Dtype::F32,
            cells!(f32s.clone()),
            with_nulls::<Float32Type>(&f32s),
            true,
        ),
        (
            "f64",
            Dtype::F64,
            cells!(f64s.clone()),
            with_nulls::<Float64Type>(&f64s),
            false,
        ),
        (
            "f16",
            Dtype::F16,
            cells!(halves),
            with_nulls::<Float32Type>(&singles),
            true,
        ),
        (
            "i16",
            Dtype::I16,
            cells!(i16s.clone()),
            with_nulls::<Int16Type>(&i16s),
            true,
        ),
        (
            "i64",
            Dtype::I64,
            cells!(i64s),
            Arc::new(Int64Array::from(none_missing)),
            false,
        ),
        (
            "u64",
            Dtype::U64,
            cells!(u64s.clone()),
            Arc::new(UInt64Array::from(u64s)),
            false,
        ),
        (
            "zeros",
            Dtype::F32,
            cells!(zeros.clone()),
            with_nulls::<Float32Type>(&zeros),
            true,
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, dtype, cells, values, is_tame) in cases {
        let path = folder.path().join(format!("{name}.tet"));
        let mut spec = DatasetSpec::new("v", dtype, &[5, 3, 4], &[1, 3, 4])
            .with_dim_names(["day", "lat", "lon"]);
        if dtype == Dtype::I16 {
            spec = spec.with_attribute("_FillValue", "-32768");
        }
        write(&path, &[(spec, cells)]);
        embed_indexes_in_tet(&path, 0).unwrap();
        let ctx = open(&path, ArrayOptions::new()).await;
        register_rows(&ctx, "theirs", &AXES, values);
        let deviation = match is_tame {
            true => ", round(stddev_pop(value), 9), round(var_pop(value), 6)",
            false => "",
        };
        let all = format!(
            "count(value), sum(value), avg(value), min(value), max(value), count(*){deviation}"
        );
        for (select, rest, expected) in [
            (all.as_str(), "", (4, 1)),
            (&format!("lat, {all}"), "GROUP BY lat", (4, 1)),
            (&format!("day, {all}"), "GROUP BY day", (4, 1)),
            (
                &format!("lon, lat, {all}"),
                "WHERE lon > 0 AND lat <> 1 GROUP BY lon, lat",
                (4, 1),
            ),
            (
                &format!("lon % 2, day / 2, {all}"),
                "WHERE day <> 3 GROUP BY lon % 2, day / 2",
                (4, 0),
            ),
            // A count of values needs only the number of missing cells, not constant chunks. Arrays
            // that cannot have missing cells need no statistics either.
            (
                "lon, count(value)",
                "WHERE lat = 1 GROUP BY lon",
                if matches!(name, "i64" | "u64") {
                    (0, 0)
                } else {
                    (5, 0)
                },
            ),
        ] {
            let sql = |table: &str| format!("SELECT {select} FROM {table} {rest}");
            let ran = run(&ctx, &sql("v")).await;
            let metrics = ["chunks_known_by_zone_map", "chunks_read"].map(|name| ran.metric(name));
            assert_eq!((metrics[0], metrics[1]), expected, "{name}: {}", sql("v"));
            let sorted = |mut rows: Vec<String>| {
                rows.sort();
                rows
            };
            let theirs = rows(&ctx, &sql("theirs")).await;
            // DataFusion treats zeros of either sign as equal and may show either.
            let plain = |rows: Vec<String>| -> Vec<String> {
                rows.iter().map(|row| row.replace("-0.0", "0.0")).collect()
            };
            assert_eq!(
                sorted(plain(ran.rows)),
                sorted(plain(theirs)),
                "{name}: {}",
                sql("v")
            );
        }
    }
}

/// A chunk with missing cells is read for sums, even if all its other cells are equal.
#[tokio::test]
async fn chunks_with_some_missing_cells_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    let numbers = [2.0, f64::NAN, 2.0, 2.0];
    let spec = |name: &str| DatasetSpec::new(name, Dtype::F64, &[4], &[4]);
    let infinite = cells!([f64::INFINITY; 4]);
    write(
        &path,
        &[(spec("v"), cells!(numbers)), (spec("w"), infinite)],
    );
    embed_indexes_in_tet(&path, 0).unwrap();
    let ctx = open(&path, ArrayOptions::new()).await;
    for (sql, reads, expected) in [
        ("SELECT sum(value), count(value) FROM v", 1, "6.0 3"),
        ("SELECT max(value), count(value) FROM v", 0, "2.0 3"),
        ("SELECT count(value) FROM v WHERE dim_0 < 2", 1, "1"),
        (
            "SELECT sum(value), min(value), stddev_pop(value) FROM w",
            0,
            "inf inf NaN",
        ),
    ] {
        let ran = run(&ctx, sql).await;
        assert_eq!(
            (ran.reads(), ran.rows),
            (reads, vec![expected.to_string()]),
            "{sql}"
        );
    }
}

/// Tiles of a TileDB array store the sums of integers.
#[cfg(feature = "tiledb")]
#[tokio::test]
async fn sums_of_whole_tiles_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grid.tiledb");
    let ctx = session();
    let cells = "SELECT n / 8 AS y, n % 8 AS x, n * n - 50 AS v, CAST(n AS BIGINT UNSIGNED) AS u, n / 2.0e0 AS f \
                 FROM generate_series(0, 95) AS g(n)";
    let copy = format!(
        "COPY ({cells}) TO '{}' STORED AS TILEDB OPTIONS (dims 'y, x', tile '3, 8')",
        path.display()
    );
    rows(&ctx, &copy).await;
    let location = path.display();
    rows(
        &ctx,
        &format!("CREATE EXTERNAL TABLE tiles STORED AS TILEDB LOCATION '{location}'"),
    )
    .await;
    rows(&ctx, &format!("CREATE TABLE theirs AS {cells}")).await;
    // Each attribute has a chunk per tile.
    for (select, rest, known, read) in [
        (
            "sum(v), avg(v), count(v), sum(u), avg(u)",
            "WHERE y >= 3",
            6,
            0,
        ),
        ("y / 3, sum(v), avg(u), max(v)", "GROUP BY y / 3", 8, 0),
        ("y / 6, sum(v)", "WHERE y > 0 GROUP BY y / 6", 3, 1),
        ("x, sum(v)", "GROUP BY x", 0, 4),
        // The values of the other tile decide which of its cells count.
        ("sum(v), avg(v)", "WHERE v > 600", 2, 1),
        ("sum(v), round(stddev_pop(v), 6)", "WHERE y >= 3", 0, 3),
        ("sum(f)", "WHERE y >= 3", 0, 3),
    ] {
        let sql = |table: &str| format!("SELECT {select} FROM {table} {rest}");
        let ran = run(&ctx, &sql("tiles")).await;
        let metrics = ["chunks_known_by_zone_map", "chunks_read"].map(|name| ran.metric(name));
        assert_eq!(metrics, [known, read], "{select} {rest}");
        let mut found = ran.rows;
        let mut expected = rows(&ctx, &sql("theirs")).await;
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{select} {rest}");
    }
}
