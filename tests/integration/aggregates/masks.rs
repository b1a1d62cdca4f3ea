//! Aggregates of one array where another array has certain values, computed on stored cells.

use tempfile::TempDir;
use tet_sql::ArrayOptions;
use tet_sql::format::tet::{DatasetSpec, Dtype, TetWriter};

use crate::cells;
use crate::support::sql::{assert_same_without, open, plan, rows, run, write};

/// `a` and `b` with NaN, `i` with a fill value, `n` without one, and `small` in other chunks.
fn datasets() -> Vec<(DatasetSpec, Vec<u8>)> {
    let dims = ["time", "lat", "lon"];
    let spec = |name: &str, dtype, chunk: &[u64]| {
        DatasetSpec::new(name, dtype, &[9, 5, 7], chunk)
            .with_dim_names(dims)
            .with_labels("lat", ["20", "10", "0", "-10", "-20"])
    };
    let float = |n: i32, step: i32| match n % 13 {
        4 => f32::NAN,
        _ => (n * step % 97) as f32 - 40.0,
    };
    let all = || 0..9 * 5 * 7;
    vec![
        (
            spec("a", Dtype::F32, &[4, 5, 3]),
            cells!(all().map(|n| float(n, 37))),
        ),
        (
            spec("b", Dtype::F64, &[4, 5, 3]),
            cells!(all().map(|n| f64::from(float(n + 5, 29)))),
        ),
        (
            spec("i", Dtype::I16, &[4, 5, 3]).with_attribute("_FillValue", "-5"),
            cells!(all().map(|n| (n * 31 % 61 - 20) as i16)),
        ),
        (
            spec("n", Dtype::U8, &[4, 5, 3]),
            cells!(all().map(|n| (n * 11 % 50) as u8)),
        ),
        (
            spec("small", Dtype::F32, &[2, 3, 7]),
            cells!(all().map(|n| float(n + 2, 41))),
        ),
    ]
}

async fn sample() -> (TempDir, datafusion::prelude::SessionContext) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("masks.tet");
    write(&path, &datasets());
    let ctx = open(&path, ArrayOptions::new()).await;
    (folder, ctx)
}

#[tokio::test]
async fn other_arrays_mask_cells_without_rows() {
    let (_folder, ctx) = sample().await;
    for predicate in [
        "b > 3",
        "b BETWEEN -10 AND 20",
        "b <> 7",
        "b < -30 OR b > 30",
        "b > 1000",
        "i > 3",
        "n > 20 AND n < 40",
        "b > 3 AND lat >= 0 AND time IN (1, 2, 7)",
        "small > 0",
        "b > (SELECT avg(b) FROM time_lat_lon)",
    ] {
        for keys in ["", "lat", "time, lon", "lat, lon"] {
            for aggregates in [
                "avg(a), count(a), count(*), sum(a)",
                "min(a), max(a), stddev(a), min(i), max(i), sum(i), count(i)",
                "avg(small), avg(b), max(b)",
            ] {
                let from = format!("FROM time_lat_lon WHERE {predicate}");
                let sql = match keys {
                    "" => format!("SELECT {aggregates} {from}"),
                    keys => format!("SELECT {keys}, {aggregates} {from} GROUP BY {keys}"),
                };
                let text = plan(&ctx, &sql).await;
                assert!(text.contains("ArrayAggregateExec"), "{sql}\n{text}");
                assert!(!text.contains("by_row"), "{sql}\n{text}");
                let found = rounded(rows(&ctx, &sql).await);
                rows(&ctx, "SET tet.array_aggregates = false").await;
                let expected = rounded(rows(&ctx, &sql).await);
                rows(&ctx, "SET tet.array_aggregates = true").await;
                assert_eq!(found, expected, "{sql}");
            }
        }
    }
}

/// Sums of floating-point numbers depend on their order in the last digits.
fn rounded(rows: Vec<String>) -> Vec<String> {
    let round = |cell: &str| match cell.parse::<f64>() {
        Ok(number) if cell.contains('.') => format!("{number:.6}"),
        _ => cell.to_string(),
    };
    let mut rows: Vec<String> = rows
        .iter()
        .map(|row| row.split(' ').map(round).collect::<Vec<_>>().join(" "))
        .collect();
    rows.sort();
    rows
}

#[tokio::test]
async fn filter_clauses_and_joins_mask_cells() {
    let (_folder, ctx) = sample().await;
    for sql in [
        "SELECT lat, max(a) FILTER (WHERE b > 3), min(b) FILTER (WHERE a > 3), count(*) FROM time_lat_lon GROUP BY lat",
        "SELECT lat, max(a) FILTER (WHERE b > 3 AND lat > 0), max(a) FROM time_lat_lon GROUP BY lat",
        "SELECT x.lat, max(x.value) FROM a x JOIN b y USING (time, lat, lon) WHERE y.value > 3 GROUP BY x.lat",
    ] {
        assert_same_without(&ctx, "tet.array_aggregates", sql).await;
        let text = plan(&ctx, sql).await;
        assert!(!text.contains("by_row"), "{sql}\n{text}");
    }
}

#[tokio::test]
async fn masks_that_need_rows() {
    let (_folder, ctx) = sample().await;
    for sql in [
        // No number marks a cell of `n` as skipped.
        "SELECT lat, max(n) FROM time_lat_lon WHERE b > 3 GROUP BY lat",
        // Null cells satisfy the predicate.
        "SELECT lat, max(a) FROM time_lat_lon WHERE b > 3 OR b IS NULL GROUP BY lat",
        "SELECT lat, max(a) FROM time_lat_lon WHERE b > 3 OR n > 7 GROUP BY lat",
    ] {
        assert_same_without(&ctx, "tet.array_aggregates", sql).await;
        let text = plan(&ctx, sql).await;
        assert!(text.contains("by_row"), "{sql}\n{text}");
    }
}

/// With zone maps of the mask, chunks without cells that count are not read.
#[tokio::test]
async fn zone_maps_of_the_mask_prune_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pruned.tet");
    let spec = |name: &str| {
        DatasetSpec::new(name, Dtype::F32, &[8, 4], &[2, 4]).with_dim_names(["time", "lon"])
    };
    let mut writer = TetWriter::create(&path, vec![spec("a"), spec("mask")]).unwrap();
    writer.embed_zone_maps();
    let cells: Vec<u8> = cells!((0..32).map(|n| n as f32));
    writer.write_dataset(0, &cells).unwrap();
    let cells: Vec<u8> = cells!((0..32).map(|n| (n / 8) as f32));
    writer.write_dataset(1, &cells).unwrap();
    writer.finish().unwrap();
    let ctx = open(&path, ArrayOptions::new()).await;
    let ran = run(
        &ctx,
        "SELECT avg(a), count(*) FROM time_lon WHERE mask >= 3",
    )
    .await;
    assert_eq!(ran.rows, ["27.5 8"]);
    // One chunk of each array.
    assert_eq!(ran.reads(), 2);
}
