//! Groups and predicates over two dimensions, which are evaluated on the pairs of their coordinates.

use std::sync::Arc;

use arrow::array::Float32Array;
use datafusion::prelude::SessionContext;
use tempfile::TempDir;
use tet_sql::ArrayOptions;
use tet_sql::format::tet::{DatasetSpec, Dtype};
use tetration::catalog::embed_indexes_in_tet;

use crate::cells;
use crate::support::sql::{assert_same_without, open, plan, register_rows, rows, write};

const AXES: [(&str, usize); 3] = [("time", 24), ("lat", 5), ("lon", 12)];

/// The array `v` in chunks of 7 x 5 x 5 with zone maps, and the table `rows_v` with the same cells as rows.
/// Every seventh cell and one chunk are missing.
async fn sample() -> (TempDir, SessionContext) {
    let is_missing = |n: usize| n % 7 == 3 || ((7..14).contains(&(n / 60)) && n % 12 < 5);
    let cells = || (0..24 * 5 * 12).map(|n| (!is_missing(n)).then_some((n * 13 % 41) as f32));
    let spec = DatasetSpec::new("v", Dtype::F32, &[24, 5, 12], &[7, 5, 5])
        .with_dim_names(["time", "lat", "lon"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    let bytes = cells!(cells().map(|value| value.unwrap_or(f32::NAN)));
    write(&path, &[(spec, bytes)]);
    embed_indexes_in_tet(&path, 0).unwrap();
    let ctx = open(&path, ArrayOptions::new()).await;
    let values = Arc::new(cells().collect::<Float32Array>());
    register_rows(&ctx, "rows_v", &AXES, values);
    (folder, ctx)
}

/// Checks that a query over the array is answered in array space, and like over rows. `is_reduced` is `true` if
/// it makes no rows.
async fn check(ctx: &SessionContext, sql: &str, is_reduced: bool) {
    let text = plan(ctx, &sql.replace("{t}", "v")).await;
    assert!(text.contains("ArrayAggregateExec"), "{sql}\n{text}");
    assert!(!(is_reduced && text.contains("by_row")), "{sql}\n{text}");
    let mut found = rows(ctx, &sql.replace("{t}", "v")).await;
    let mut expected = rows(ctx, &sql.replace("{t}", "rows_v")).await;
    found.sort();
    expected.sort();
    assert_eq!(found, expected, "{sql}");
}

#[tokio::test]
async fn groups_over_two_dimensions_are_reduced_on_chunks() {
    let (_folder, ctx) = sample().await;
    let aggregates = "sum(value), count(value), count(*), min(value), max(value), count(*) FILTER (WHERE value IS NULL)";
    for keys in [
        "(time + lon / 3) % 24",
        "(time + lon / 3) % 24, lat",
        "time + lon, lon",
        "time % 6, (time + lon) % 5",
        "lat * 12 + lon",
        "abs(lat - 2) + abs(lon - 5), time / 12",
        "time - lat, time + lat, lon",
        // Null is a group, too.
        "CASE WHEN lat > 2 THEN lon END",
        "(time + lon) % 4, time - lon",
    ] {
        let sql = format!("SELECT {keys}, {aggregates} FROM {{t}} GROUP BY {keys}");
        check(&ctx, &sql, true).await;
        // All pairs of an aggregation are of the same two dimensions; others make rows.
        for (predicate, is_reduced) in [
            ("time > 5 AND lon <> 4", true),
            ("lat + lon > 6", false),
            ("abs(time - lon) < 3 AND lat < 4 AND value > 9", false),
            ("time = 100", true),
            ("time + lon = 1000", false),
        ] {
            let sql =
                format!("SELECT {keys}, {aggregates} FROM {{t}} WHERE {predicate} GROUP BY {keys}");
            check(&ctx, &sql, is_reduced).await;
        }
    }
}

#[tokio::test]
async fn filters_over_two_dimensions_are_reduced_on_chunks() {
    let (_folder, ctx) = sample().await;
    for filter in [
        "(lat - 2) * (lat - 2) + (lon - 5) * (lon - 5) <= 4",
        "lat + lon > 7 AND lat * lon < 20",
        "time > lon AND value > 20",
        "lat + lon > 1000",
        "time + lon = 12 AND time BETWEEN 3 AND 9",
    ] {
        for keys in ["time", "lat, lon", "time / 6", "(time + lon) % 24"] {
            for predicate in ["true", "lat < lon", "value > 5"] {
                let has_one_pair = !keys.contains('+') && predicate != "lat < lon";
                let sql = format!(
                    "SELECT {keys}, sum(value) FILTER (WHERE {filter}), count(*) FILTER (WHERE {filter}), \
                     max(value), count(*) FROM {{t}} WHERE {predicate} GROUP BY {keys}"
                );
                check(&ctx, &sql, has_one_pair).await;
            }
        }
    }
}

/// Aggregates that need rows find the groups of two dimensions, too.
#[tokio::test]
async fn accumulators_of_rows() {
    let (_folder, ctx) = sample().await;
    for sql in [
        "SELECT (time + lon) % 24, median(value), max(time), min(lat + lon) FROM v GROUP BY (time + lon) % 24",
        "SELECT lat, (time + lon) % 24, sum(value * lat), count(*) FROM v WHERE lat < lon GROUP BY lat, (time + lon) % 24",
        "SELECT lat, avg(time), median(value) FROM v WHERE time > lon GROUP BY lat",
    ] {
        let text = plan(&ctx, sql).await;
        assert!(text.contains("ArrayAggregateExec"), "{sql}\n{text}");
        assert_same_without(&ctx, "tet.array_aggregates", sql).await;
    }
}

/// An expression that fails on some pair is left to DataFusion, which evaluates it where rows are.
#[tokio::test]
async fn expressions_that_fail_are_left_to_datafusion() {
    let (_folder, ctx) = sample().await;
    let sql = "SELECT 12 / (time - lat), count(*) FROM v WHERE time > 4 AND value > 3 GROUP BY 1";
    assert_same_without(&ctx, "tet.array_aggregates", sql).await;
    let sql = "SELECT 12 / (time - lat), count(*) FROM v GROUP BY 1";
    assert!(!plan(&ctx, sql).await.contains("ArrayAggregateExec"));
}
