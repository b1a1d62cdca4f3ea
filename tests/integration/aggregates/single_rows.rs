//! Aggregations by all dimensions of an array: each group is a single row.

use std::sync::Arc;

use arrow::array::Float32Array;
use tet_sql::ArrayOptions;
use tet_sql::format::tet::{DatasetSpec, Dtype};

use crate::cells;
use crate::support::sql::{plan, register_rows, rows, sample};

#[tokio::test]
async fn groups_of_single_cells_are_projections() {
    let cells = || (0..5 * 4 * 6).map(|n| (n % 7 != 3).then_some((n * 13 % 41) as f32));
    let bytes = || cells!(cells().map(|value| value.unwrap_or(f32::NAN)));
    let spec = |name: &str| {
        DatasetSpec::new(name, Dtype::F32, &[5, 4, 6], &[2, 4, 4])
            .with_dim_names(["time", "lat", "lon"])
    };
    let repeated = spec("repeated").with_labels("lat", ["1", "2", "1", "3"]);
    let datasets = [(spec("v"), bytes()), (repeated, bytes())];
    let (_folder, _, ctx) = sample(&datasets, ArrayOptions::new()).await;
    let axes = [("time", 5), ("lat", 4), ("lon", 6)];
    register_rows(
        &ctx,
        "rows_v",
        &axes,
        Arc::new(cells().collect::<Float32Array>()),
    );
    let functions = "count(*), count(value), count(DISTINCT value), sum(value), avg(value), min(value), max(value), \
                     median(value), first_value(value ORDER BY lat), count(*) FILTER (WHERE value > 9), \
                     sum(10 / (lat + 2)) FILTER (WHERE lat <> 2), count(value) FILTER (WHERE lat = 1)";
    for (sql, is_aggregated) in [
        ("SELECT DISTINCT * FROM {t}".to_string(), false),
        ("SELECT DISTINCT value + 1 AS x, lon, lat, time FROM {t} WHERE value < 30".to_string(), false),
        (format!("SELECT lon, lat, time, {functions} FROM {{t}} GROUP BY lon, lat, time"), false),
        (
            "SELECT n, sum(s) FROM (SELECT time, lat, lon, lat % 2 AS n, sum(value) AS s FROM {t} GROUP BY time, lat, lon, n) GROUP BY n"
                .to_string(),
            false,
        ),
        ("SELECT time, lat, lon, max(value) AS m FROM {t} GROUP BY time, lat, lon HAVING max(value) > 30".to_string(), false),
        ("SELECT DISTINCT lat, lon, value FROM {t}".to_string(), true),
        ("SELECT time, lat, lon, stddev(value) FROM {t} GROUP BY time, lat, lon".to_string(), true),
        ("SELECT time, lat, lon, sum(value) FROM {t} GROUP BY ROLLUP (time, lat, lon)".to_string(), true),
        (
            "SELECT a.time, a.lat, a.lon, count(*) FROM {t} a JOIN {t} b USING (time) GROUP BY a.time, a.lat, a.lon".to_string(),
            true,
        ),
        ("SELECT time, lat + 0, lon, count(*) FROM {t} GROUP BY time, lat + 0, lon".to_string(), true),
    ] {
        let of_array = sql.replace("{t}", "v");
        let shown = plan(&ctx, &of_array).await;
        assert_eq!(aggregates_cells(&shown), is_aggregated, "{sql}\n{shown}");
        let mut found = rows(&ctx, &of_array).await;
        let mut expected = rows(&ctx, &sql.replace("{t}", "rows_v")).await;
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{sql}");
    }
    let shown = plan(&ctx, "SELECT DISTINCT * FROM repeated").await;
    assert!(aggregates_cells(&shown), "{shown}");
    assert_eq!(
        rows(
            &ctx,
            "SELECT time, lat, lon, count(*) FROM repeated GROUP BY 1, 2, 3"
        )
        .await
        .len(),
        90
    );
}

/// Returns `true` if a plan groups by at least three columns.
fn aggregates_cells(plan: &str) -> bool {
    let groups = plan.split("gby=[").skip(1);
    let mut groups = groups.map(|text| text.split("], aggr").next().unwrap_or_default());
    groups.any(|groups| groups.matches('@').count() >= 3)
}
