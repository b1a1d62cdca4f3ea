//! Joins of arrays on expressions over their dimensions (lookup joins): which joins look up their
//! matches by position, what they read, and that the answers equal DataFusion's.

use tet_sql::ArrayOptions;
use tet_sql::format::tet::{DatasetSpec, Dtype};

use crate::cells;
use crate::support::sql::{assert_same_without, error, plan, rows, rows_without, run, sample};

const LATITUDES: [&str; 5] = ["-20", "-10", "0", "10", "20"];

/// `a` and its neighbours over time, lat and lon; `flat` without time; `forecast` over init, lead and
/// lat.
fn datasets() -> Vec<(DatasetSpec, Vec<u8>)> {
    let spec = |name: &str, chunks: &[u64; 3]| {
        DatasetSpec::new(name, Dtype::F32, &[4, 5, 6], chunks)
            .with_dim_names(["time", "lat", "lon"])
    };
    let numbers = || (0..120).map(|n| n as f32);
    vec![
        (
            spec("a", &[3, 2, 4]).with_labels("lat", LATITUDES),
            cells!(numbers().map(|n| if n == 17.0 { f32::NAN } else { n })),
        ),
        (
            spec("shifted", &[2, 5, 3]).with_labels("lat", ["-10", "0", "10", "20", "30"]),
            cells!(numbers().map(|n| -n)),
        ),
        (
            spec("repeated", &[4, 5, 6]).with_labels("lat", ["-20", "-10", "0", "10", "10"]),
            cells!(numbers()),
        ),
        (
            DatasetSpec::new("flat", Dtype::F32, &[5, 6], &[2, 4])
                .with_dim_names(["lat", "lon"])
                .with_labels("lat", LATITUDES),
            cells!((0..30).map(|n| n as f32 / 2.0)),
        ),
        (
            DatasetSpec::new("forecast", Dtype::F32, &[3, 4, 5], &[2, 2, 5])
                .with_dim_names(["init", "lead", "lat"])
                .with_labels("lat", LATITUDES),
            cells!((0..60).map(|n| n as f32)),
        ),
    ]
}

#[tokio::test]
async fn joins_on_dimensions_look_up_their_matches() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    rows(&ctx, "SET tet.zip_joins = false").await;
    const TABLE: &str = "(VALUES (-20, 1, 'x'), (0, 2, 'y'), (0, 3, 'z'), (99, 4, 'w'), (NULL, 5, 'v')) t(lat, k, name)";
    for (from, is_taken) in [
        ("a JOIN flat USING (lat, lon)".to_string(), true),
        ("a JOIN shifted USING (time, lat, lon)".into(), true),
        ("a JOIN shifted s ON a.time = s.time + 1 AND a.lat = s.lat AND a.lon = s.lon".into(), true),
        ("repeated x JOIN repeated y USING (time, lat, lon)".into(), true),
        ("a JOIN a b ON a.lat = b.lat AND a.lon = b.time".into(), true),
        ("a JOIN (SELECT lat, lon, avg(value) m FROM a GROUP BY lat, lon) c USING (lat, lon)".into(), true),
        ("a JOIN (SELECT lat, time % 2 h, avg(value) m FROM a GROUP BY 1, 2) c ON a.lat = c.lat AND a.time % 2 = c.h".into(), true),
        ("forecast f JOIN a ON f.init + f.lead = a.time AND f.lat = a.lat".into(), true),
        ("a JOIN forecast f ON f.init + f.lead = a.time AND f.lat = a.lat".into(), true),
        (format!("a JOIN {TABLE} USING (lat)"), true),
        (format!("a JOIN {TABLE} ON a.lat = t.lat AND a.value > 20 * t.k"), true),
        (format!("a LEFT JOIN {TABLE} ON a.lat = t.lat"), true),
        (format!("a RIGHT JOIN {TABLE} ON a.lat = t.lat"), true),
        (format!("a FULL JOIN {TABLE} ON a.lat = t.lat"), true),
        (format!("a LEFT SEMI JOIN {TABLE} ON a.lat = t.lat"), true),
        (format!("a LEFT ANTI JOIN {TABLE} ON a.lat = t.lat"), true),
        ("(SELECT lat, lon FROM flat) f LEFT SEMI JOIN (SELECT * FROM a WHERE time < 2) a USING (lat, lon)".into(), true),
        ("(SELECT lat, lon FROM flat) f LEFT ANTI JOIN (SELECT * FROM a WHERE lat > 0) a USING (lat, lon)".into(), true),
        ("a RIGHT JOIN shifted s ON a.time = s.time AND a.lat = s.lat AND a.lon = s.lon".into(), true),
        ("a FULL JOIN shifted s ON a.time = s.time AND a.lat = s.lat AND a.lon = s.lon".into(), true),
        ("(SELECT * FROM a WHERE value > 60 AND lon < 3) a JOIN (SELECT * FROM flat WHERE value < 9) flat USING (lat, lon)".into(), true),
        ("(SELECT lat * 2 AS d, lon, value FROM a) a JOIN (SELECT lat * 2 AS d, value AS v FROM flat WHERE lon = 1) f USING (d)".into(), true),
        // The smaller side is the build side, which is an array here.
        (format!("{TABLE} LEFT SEMI JOIN flat f ON f.lat = t.lat"), false),
        // The keys of the array are not NULL.
        (format!("a JOIN {TABLE} ON a.lat IS NOT DISTINCT FROM t.lat"), true),
        (format!("a FULL JOIN {TABLE} ON a.lat IS NOT DISTINCT FROM t.lat"), true),
        (format!("a JOIN {TABLE} ON (a.lat IS NOT DISTINCT FROM t.lat) AND a.lon > t.k"), true),
        // Keys that are values, NULL keys that are equal, and conditions of outer joins.
        ("a JOIN flat ON a.value = flat.value".into(), false),
        (format!("a JOIN {TABLE} ON nullif(a.lat, 0) IS NOT DISTINCT FROM t.lat"), false),
        (format!("a LEFT JOIN {TABLE} ON a.lat = t.lat AND a.value > 20 * t.k"), false),
    ] {
        let sql = format!("SELECT * FROM {from}");
        let plan = plan(&ctx, &sql).await;
        assert_eq!(plan.contains("ArrayLookupJoinExec"), is_taken, "{sql}\n{plan}");
        for sql in [sql, format!("SELECT count(*) FROM {from}")] {
            assert_same_without(&ctx, "tet.lookup_joins", &sql).await;
        }
    }
}

#[tokio::test]
async fn matches_that_exceed_a_batch() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    rows(&ctx, "SET datafusion.execution.batch_size = 7").await;
    for kind in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
        let sql = format!(
            "SELECT a.time, a.lat, a.lon, k FROM a {kind} (SELECT lat, time * 10 + lon AS k FROM a WHERE lat <> 0) b \
             ON a.lat = b.lat ORDER BY 1, 2, 3, 4"
        );
        let answer = rows(&ctx, &sql).await;
        assert_eq!(
            answer,
            rows_without(&ctx, "tet.lookup_joins", &sql).await,
            "{sql}"
        );
        assert!(answer.len() >= 4 * 24 * 24, "{kind}: {} rows", answer.len());
    }
}

#[tokio::test]
async fn a_build_side_prunes_chunks() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    // One of three chunks along lat, of two along time and two along lon.
    let sql =
        "SELECT sum(a.value * w) FROM a JOIN (VALUES (20, 0.5), (20, 1.5)) t(lat, w) USING (lat)";
    let ran = run(&ctx, sql).await;
    assert_eq!(ran.reads(), 4);
    assert_eq!(ran.metric("build_rows"), 2);
    assert_eq!(ran.metric("chunks_pruned_by_dynamic_filter"), 8);
    // Another array is known when the query is planned.
    let sql =
        "SELECT count(a.value) FROM a JOIN (SELECT * FROM flat WHERE lat = 20) f USING (lat, lon)";
    let ran = run(&ctx, sql).await;
    assert_eq!((ran.reads(), ran.rows), (4, vec!["24".to_string()]));
    // Cells without a match are part of the answer.
    let sql =
        "SELECT count(a.value), count(w) FROM a LEFT JOIN (VALUES (20, 0.5)) t(lat, w) USING (lat)";
    let ran = run(&ctx, sql).await;
    assert_eq!((ran.reads(), ran.rows), (12, vec!["119 24".to_string()]));
}

#[tokio::test]
async fn the_build_side_is_accounted_for() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    rows(&ctx, "SET datafusion.runtime.memory_limit = '1M'").await;
    rows(&ctx, "SET datafusion.optimizer.join_reordering = false").await;
    let sql = "SELECT count(name) FROM (SELECT value % 5 * 10 - 20 AS lat, repeat('x', 100) || value AS name \
               FROM generate_series(1, 100000) g(value)) t JOIN a USING (lat)";
    assert!(plan(&ctx, sql).await.contains("ArrayLookupJoinExec"));
    let message = error(&ctx, sql).await;
    assert!(message.contains("ArrayLookupJoin"), "{message}");
}
