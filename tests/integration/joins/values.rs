//! Cross joins of arrays with literal values below aggregates: which are computed once per row of values, and that the
//! answers equal those over rows.

use std::sync::Arc;

use arrow::array::Float32Array;
use tet_sql::ArrayOptions;
use tet_sql::format::tet::{DatasetSpec, Dtype};

use crate::cells;
use crate::support::sql::{plan, register_rows, rows, sample};

#[tokio::test]
async fn aggregates_run_once_per_row_of_values() {
    let cells = || (0..24 * 5 * 6).map(|n| (n % 7 != 3).then_some((n * 13 % 41) as f32));
    let spec = DatasetSpec::new("v", Dtype::F32, &[24, 5, 6], &[7, 5, 4])
        .with_dim_names(["time", "lat", "lon"]);
    let bytes = cells!(cells().map(|value| value.unwrap_or(f32::NAN)));
    let (folder, _, ctx) = sample(&[(spec, bytes)], ArrayOptions::new()).await;
    let axes = [("time", 24), ("lat", 5), ("lon", 6)];
    register_rows(
        &ctx,
        "rows_v",
        &axes,
        Arc::new(cells().collect::<Float32Array>()),
    );
    let climate = "(SELECT lat, lon, avg(value) AS mean FROM {t} GROUP BY lat, lon)";
    let skill = "count(*), sum(b.value - a.value), max(abs(b.value - a.value))";
    for (sql, is_expanded) in [
        (
            format!(
                "SELECT lead, {skill} FROM {{t}} a CROSS JOIN (VALUES (1), (3), (30)) l(lead) \
                 JOIN {{t}} b ON b.time = a.time + lead AND b.lat = a.lat AND b.lon = a.lon GROUP BY lead"
            ),
            true,
        ),
        (
            format!(
                "SELECT a.lat, lead + 1 AS n, lead, {skill} FROM {{t}} a, (VALUES (1), (3)) l(lead), {{t}} b \
                 WHERE b.time = a.time + lead AND b.lat = a.lat AND b.lon = a.lon AND a.lon > 1 GROUP BY lead, a.lat"
            ),
            true,
        ),
        (
            format!(
                "SELECT lead, round(sum((a.value - c.mean) * (b.value - c.mean)), 3) FROM {{t}} a CROSS JOIN (VALUES (1), (2)) l(lead) \
                 JOIN {{t}} b ON b.time = a.time + lead AND b.lat = a.lat AND b.lon = a.lon \
                 JOIN {climate} c ON c.lat = a.lat AND c.lon = a.lon GROUP BY lead"
            ),
            false,
        ),
        (
            "SELECT n, lat, avg(value) FROM {t}, generate_series(1, 4) AS s(n) WHERE value % 5 < n GROUP BY n, lat".to_string(),
            true,
        ),
        (
            "SELECT n, avg(value) FROM {t}, generate_series(1, 40) AS s(n) WHERE value % 5 < n GROUP BY n".to_string(),
            false,
        ),
        // Thresholds, with and without rows above them, and a value for which there is none.
        (
            "SELECT th, lat, count(*) FROM {t} CROSS JOIN (VALUES (10.0), (39.5), (99)) v(th) WHERE value > th GROUP BY th, lat"
                .to_string(),
            true,
        ),
        (
            "SELECT name, th, count(*) FILTER (WHERE value > th) AS n, avg(value) \
             FROM {t}, (VALUES ('low', 10), ('high', NULL), (NULL, 30)) v(name, th) GROUP BY name, th HAVING count(*) > 3"
                .to_string(),
            true,
        ),
        (
            "SELECT e - 1 AS e, sum(value * th) FROM {t}, (SELECT x AS e, y * 2 + 1 AS th FROM (VALUES (1, 2), (2, 2)) v(x, y)) \
             GROUP BY e"
                .to_string(),
            true,
        ),
        // Two groups of the same name.
        (
            "SELECT l.lat, v.lat, count(*) FROM {t} AS v, (VALUES (1), (2)) AS l(lat) GROUP BY l.lat, v.lat".to_string(),
            true,
        ),
        (
            "SELECT a.lat AS x, b.lat AS y, lead, count(*) FROM {t} a, (VALUES (1), (2)) AS l(lead), {t} b \
             WHERE a.time = b.time AND a.lon = b.lon AND b.lat = a.lat + lead GROUP BY a.lat, b.lat, lead"
                .to_string(),
            true,
        ),
        // A hash join of all cells, and groups by values.
        (
            "SELECT lead, count(*) FROM {t} a JOIN {t} b ON a.value = b.value AND a.lat = b.lat, (VALUES (1), (2)) AS l(lead) GROUP BY lead"
                .to_string(),
            false,
        ),
        (
            "SELECT lead, value, count(*) FROM {t}, (VALUES (1), (2)) AS l(lead) GROUP BY lead, value".to_string(),
            false,
        ),
        // The rows of values are not told apart by the groups.
        (
            "SELECT lat, count(*), sum(value * th) FROM {t}, (VALUES (10), (20)) v(th) GROUP BY lat".to_string(),
            false,
        ),
        (
            "SELECT th, count(value) FROM {t}, (VALUES (10, 1), (20, 2), (10, 3)) v(th, n) GROUP BY th".to_string(),
            false,
        ),
        (
            "SELECT th / 7, count(value) FROM {t}, (VALUES (10), (20)) v(th) GROUP BY th / 7".to_string(),
            false,
        ),
        // Joins look up the matches of all rows at once.
        (
            "SELECT name, avg(value) FROM {t} JOIN (VALUES ('a', 1, 3), ('b', 2, 4)) r(name, low, high) \
             ON lat BETWEEN low AND high GROUP BY name"
                .to_string(),
            false,
        ),
        (
            "SELECT l, count(value) FROM {t} JOIN (VALUES (1), (2)) v(l) ON lat = l GROUP BY l".to_string(),
            false,
        ),
        (
            "SELECT th, count(*) FROM (SELECT DISTINCT value FROM {t}), (VALUES (10), (20)) v(th) GROUP BY th".to_string(),
            false,
        ),
    ] {
        let of_array = sql.replace("{t}", "v");
        let shown = plan(&ctx, &of_array).await;
        let is_found = shown.contains("UnionExec") || shown.contains("InterleaveExec");
        assert_eq!(is_found, is_expanded, "{sql}\n{shown}");
        let mut found = rows(&ctx, &of_array).await;
        let mut expected = rows(&ctx, &sql.replace("{t}", "rows_v")).await;
        found.sort();
        expected.sort();
        assert!(!expected.is_empty(), "{sql}");
        assert_eq!(found, expected, "{sql}");
    }
    // The keys of the groups are the dimensions of the array.
    let path = folder.path().join("copy.tet");
    let copy = format!(
        "COPY (SELECT th, lat, avg(value) AS x FROM v, (VALUES (1), (2)) AS l(th) WHERE value > th GROUP BY th, lat) TO '{}' STORED AS TET",
        path.display()
    );
    rows(&ctx, &copy).await;
    let counts = format!("SELECT th, count(*) FROM '{}' GROUP BY th", path.display());
    assert_eq!(rows(&ctx, &counts).await, ["1 5", "2 5"]);
}

/// The rows of each list of values are a branch of a union, in which the values are constant.
#[tokio::test]
async fn first_rows_by_the_values() {
    let bytes = cells!((0..24 * 30).map(|n| (n * 13 % 41) as f32));
    let spec = DatasetSpec::new("v", Dtype::F32, &[24, 5, 6], &[7, 5, 4])
        .with_dim_names(["time", "lat", "lon"]);
    let (_folder, _, ctx) = sample(&[(spec, bytes)], ArrayOptions::new()).await;
    for (sql, expected) in [
        (
            "SELECT s || '.', x + 1 FROM (SELECT 'b' AS s, time + 100 AS x FROM v UNION ALL SELECT 'a', time FROM v) \
             ORDER BY s DESC, x DESC LIMIT 2",
            vec!["b. 124", "b. 124"],
        ),
        (
            "SELECT c, lat, max(value) AS m FROM v CROSS JOIN (VALUES (20), (5)) l(c) WHERE value < c AND lat < 2 \
             GROUP BY c, lat ORDER BY c, m DESC, lat LIMIT 3",
            vec!["5 0 4.0", "5 1 4.0", "20 0 19.0"],
        ),
    ] {
        // The branches are read in any order.
        for _ in 0..10 {
            assert_eq!(rows(&ctx, sql).await, expected, "{sql}");
        }
    }
}
