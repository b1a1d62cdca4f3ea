//! ROLLUP, CUBE and GROUPING SETS over arrays.

use tet_sql::ArrayOptions;
use tet_sql::format::tet::{DatasetSpec, Dtype};

use crate::cells;
use crate::support::sql::{assert_same_without, plan, rows, rows_without, run, sample};

fn datasets() -> Vec<(DatasetSpec, Vec<u8>)> {
    let value = |n: i32| match n % 11 {
        4 => f32::NAN,
        _ => (n * 37 % 97) as f32,
    };
    let spec = DatasetSpec::new("v", Dtype::F32, &[40, 6, 10], &[16, 6, 4])
        .with_dim_names(["time", "lat", "lon"]);
    vec![(spec, cells!((0..40 * 6 * 10).map(value)))]
}

#[tokio::test]
async fn sets_are_computed_from_one_aggregation() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    let aggregates =
        "count(*), count(value), sum(value), avg(value), min(value), max(value), median(value)";
    for sets in [
        "ROLLUP (time % 4, lat)",
        "CUBE (lat, lon)",
        "GROUPING SETS ((lat), (time % 4, lat), ())",
        "GROUPING SETS ((lat), (lat), (lon))",
        "lon, ROLLUP (lat)",
        "CUBE (CASE WHEN lat > 2 THEN lon END, lat)",
        "ROLLUP (abs(time + lon - 20) % 5, lat)",
    ] {
        for predicate in [
            "true",
            "value > 50",
            "lat + lon < 9",
            "lat > 100",
            "value > 100",
        ] {
            let sql = format!("SELECT {aggregates} FROM v WHERE {predicate} GROUP BY {sets}");
            let text = plan(&ctx, &sql).await;
            let is_empty = predicate.contains("100");
            assert!(
                is_empty || text.contains("ArrayGroupingSetsExec"),
                "{sql}\n{text}"
            );
            let mut found = rows(&ctx, &sql).await;
            let mut expected = rows_without(&ctx, "tet.array_aggregates", &sql).await;
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{sql}");
        }
    }
    for sql in [
        "SELECT lat, lon % 2, grouping(lat), grouping(lon % 2), avg(value) FROM v GROUP BY CUBE (lat, lon % 2)",
        "SELECT lat, count(*) FROM v GROUP BY ROLLUP (lat) HAVING count(*) > 300",
        "SELECT DISTINCT lat, max(value) FROM v GROUP BY ROLLUP (lat)",
    ] {
        assert_same_without(&ctx, "tet.array_aggregates", sql).await;
    }
}

/// The array is read once for all sets.
#[tokio::test]
async fn chunks_are_read_once() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    let ran = run(
        &ctx,
        "SELECT lat, avg(value) FROM v GROUP BY CUBE (lat, lon)",
    )
    .await;
    assert_eq!(ran.reads(), 9);
}

/// With as many groups as cells, nothing is gained.
#[tokio::test]
async fn groups_of_single_cells_are_left_to_datafusion() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    let sql = "SELECT sum(value) FROM v GROUP BY CUBE (time, lat, lon)";
    assert!(!plan(&ctx, sql).await.contains("ArrayGroupingSetsExec"));
    assert_eq!(rows(&ctx, sql).await.len(), 41 * 7 * 11);
}
