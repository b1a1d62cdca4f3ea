//! Joins of arrays on all dimensions (zip joins): which become a single scan of both arrays, what
//! the scan reads, and that the answers equal DataFusion's.

use datafusion::prelude::SessionContext;
use tet_sql::ArrayOptions;
use tet_sql::format::tet::{DatasetSpec, Dtype};
use tetration::catalog::embed_indexes_in_tet;

use crate::cells;
use crate::support::sql::{open, rows, run, sample};

const LATITUDES: [&str; 5] = ["-20", "-10", "0", "10", "20"];

/// Arrays over time, lat and lon in chunks of different shapes. `c` has a missing cell, `shifted`
/// has other latitudes, `repeated` has a duplicate latitude, and `flat` has no time axis.
fn datasets() -> Vec<(DatasetSpec, Vec<u8>)> {
    let dimensions = ["time", "lat", "lon"];
    let spec = |name: &str, dtype, chunks: &[u64; 3]| {
        DatasetSpec::new(name, dtype, &[4, 5, 6], chunks)
            .with_dim_names(dimensions)
            .with_labels("lat", LATITUDES)
    };
    let numbers = || (0..120).map(|n| n as f32);
    vec![
        (spec("a", Dtype::F32, &[3, 2, 4]), cells!(numbers())),
        (
            spec("b", Dtype::I16, &[2, 5, 3]),
            cells!((0..120i16).map(|n| n * 7 % 31)),
        ),
        (
            spec("c", Dtype::F32, &[3, 2, 4]),
            cells!(numbers().map(|n| if n == 17.0 { f32::NAN } else { -n })),
        ),
        (
            DatasetSpec::new("shifted", Dtype::F32, &[4, 5, 6], &[3, 2, 4])
                .with_dim_names(dimensions)
                .with_labels("lat", ["-25", "-15", "-5", "5", "15"]),
            cells!(numbers()),
        ),
        (
            DatasetSpec::new("repeated", Dtype::F32, &[4, 5, 6], &[3, 2, 4])
                .with_dim_names(dimensions)
                .with_labels("lat", ["-20", "-10", "0", "10", "10"]),
            cells!(numbers()),
        ),
        (
            DatasetSpec::new("flat", Dtype::F32, &[5, 6], &[2, 4])
                .with_dim_names(["lat", "lon"])
                .with_labels("lat", LATITUDES),
            cells!((0..30).map(|n| n as f32)),
        ),
    ]
}

/// Returns `true` if the plan zips the arrays and contains no join.
async fn is_zipped(ctx: &SessionContext, sql: &str) -> bool {
    let plan = rows(ctx, &format!("EXPLAIN FORMAT INDENT {sql}")).await;
    let plan = plan.iter().find(|row| row.starts_with("physical_plan"));
    let plan = plan.unwrap();
    assert_ne!(plan.contains("JoinExec"), plan.contains("zip("), "{plan}");
    plan.contains("zip(")
}

/// DataFusion's own answer, sorted.
async fn datafusion_answer(ctx: &SessionContext, sql: &str) -> Vec<String> {
    for setting in ["zip_joins", "lookup_joins"] {
        rows(ctx, &format!("SET tet.{setting} = false")).await;
    }
    let mut answer = rows(ctx, sql).await;
    for setting in ["zip_joins", "lookup_joins"] {
        rows(ctx, &format!("SET tet.{setting} = true")).await;
    }
    answer.sort();
    answer
}

#[tokio::test]
async fn joins_on_all_dimensions_become_one_scan() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    const ON: &str = "ON a.time = b.time AND a.lat = b.lat AND a.lon = b.lon";
    for (sql, is_taken) in [
        ("SELECT * FROM a JOIN b USING (time, lat, lon)".to_string(), true),
        ("SELECT * FROM a NATURAL JOIN (SELECT time, lat, lon, value AS other FROM b)".into(), true),
        ("SELECT a.lat, a.value - b.value FROM a JOIN b USING (lon, time, lat) WHERE a.lat > 0".into(), true),
        (format!("SELECT a.*, b.value FROM a JOIN b {ON} AND a.value > b.value"), true),
        (format!("SELECT a.value FROM a, b WHERE {}", &ON[3..]), true),
        ("SELECT a.value + b.value + c.value FROM a JOIN b USING (time, lat, lon) JOIN c USING (time, lat, lon)".into(), true),
        ("SELECT x.value - y.value FROM a x JOIN a y USING (time, lat, lon)".into(), true),
        (format!("SELECT * FROM a LEFT JOIN b {ON}"), true),
        (format!("SELECT * FROM a LEFT JOIN b {ON} WHERE a.value > 50 AND a.lon = 2"), true),
        (format!("SELECT b.*, a.value FROM a RIGHT JOIN b {ON} WHERE b.value > 20"), true),
        (format!("SELECT * FROM a FULL JOIN b {ON}"), true),
        ("SELECT * FROM c LEFT JOIN a USING (time, lat, lon) WHERE c.value IS NULL".into(), true),
        (format!("SELECT * FROM (SELECT * FROM a WHERE lat > 0) a JOIN (SELECT * FROM b WHERE lon < 4) b {ON}"), true),
        (format!("SELECT * FROM (SELECT * FROM a WHERE lat > 0) a LEFT JOIN b {ON}"), true),
        (format!("SELECT count(*) FROM a JOIN b {ON}"), true),
        (format!("SELECT a.lat, avg(a.value - b.value), count(*) FROM a JOIN b {ON} WHERE b.value > 9 GROUP BY a.lat"), true),
        // Outer joins in which some cells of an array have no match.
        (format!("SELECT * FROM a LEFT JOIN (SELECT * FROM b WHERE lat >= 0) b {ON}"), true),
        (format!("SELECT * FROM a LEFT JOIN (SELECT * FROM b WHERE value > 3) b {ON}"), true),
        (format!("SELECT a.*, b.* FROM a LEFT JOIN b {ON} AND a.value > b.value WHERE a.lon > 2"), true),
        ("SELECT * FROM c RIGHT JOIN (SELECT *, lon % 2 = 0 AS is_even, 7 AS n FROM a WHERE value > 9) a
                  ON a.time = c.time AND a.lat = c.lat AND a.lon = c.lon AND c.value < -15 AND is_even".into(), true),
        (format!("SELECT b.lat, count(*), count(a.value), sum(a.value) FROM b LEFT JOIN a {ON} AND a.lat > -20 AND a.value > 40
                  GROUP BY b.lat"), true),
        (format!("SELECT * FROM a FULL JOIN (SELECT * FROM b WHERE value > 3) b {ON}"), false),
        (format!("SELECT * FROM a FULL JOIN b {ON} AND a.value > b.value"), false),
        // The cells of the other array are few.
        (format!("SELECT * FROM a LEFT JOIN (SELECT * FROM b WHERE lat > 10) b {ON}"), false),
        // Rows of one array, by their matches.
        ("SELECT time, lat, lon, value FROM a WHERE EXISTS (SELECT 1 FROM c WHERE c.time = a.time AND c.lat = a.lat
          AND c.lon = a.lon AND c.value = -a.value)".into(), true),
        ("SELECT * FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.time = a.time AND b.lat = a.lat AND b.lon = a.lon
          AND b.value > 9 AND a.value < 70) AND a.lon < 4".into(), true),
        ("SELECT * FROM a LEFT SEMI JOIN (SELECT * FROM c WHERE value < -20 AND lat >= 0) c USING (time, lat, lon)".into(), true),
        ("SELECT * FROM a WHERE value < 50 OR EXISTS (SELECT 1 FROM b WHERE b.time = a.time AND b.lat = a.lat AND b.lon = a.lon
          AND b.value > a.value)".into(), true),
        ("SELECT * FROM a EXCEPT SELECT time, lat, lon, -value FROM c".into(), true),
        ("SELECT * FROM a INTERSECT SELECT time, lat, lon, abs(value) FROM c".into(), true),
        ("SELECT * FROM c EXCEPT SELECT * FROM c WHERE lat > -20".into(), true),
        ("SELECT * FROM c INTERSECT SELECT * FROM c WHERE lat > -20".into(), true),
        ("SELECT a.lat, b.value FROM a JOIN b USING (time, lat, lon, value)".into(), true),
        // Values that are missing on both sides are equal in set operations only.
        ("SELECT x.time, x.lon FROM c x JOIN c y USING (time, lat, lon, value)".into(), true),
        ("SELECT * FROM c INTERSECT SELECT * FROM c WHERE value IS NULL OR lon = 1".into(), true),
        ("SELECT * FROM c WHERE NOT EXISTS (SELECT 1 FROM c AS y WHERE y.time = c.time AND y.lat = c.lat AND y.lon = c.lon
          AND y.value = c.value)".into(), true),
        ("SELECT count(*) FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.time = a.time AND b.lat = a.lat AND b.lon = a.lon)"
            .into(), true),
        // Joins that leave out a dimension, have different or duplicate coordinates, or limit the rows of an
        // input; and joins on other dimensions, which read one array on the axes of the other.
        ("SELECT a.value, b.value FROM a JOIN b USING (time, lat)".into(), false),
        ("SELECT a.value, b.value FROM a JOIN b ON a.time = b.lon AND a.lat = b.lat AND a.lon = b.time".into(), true),
        ("SELECT a.value, b.value FROM a JOIN b ON a.time = b.time + 1 AND a.lat = b.lat AND a.lon = b.lon".into(), true),
        ("SELECT * FROM a JOIN shifted USING (time, lat, lon)".into(), false),
        ("SELECT * FROM repeated x JOIN repeated y USING (time, lat, lon)".into(), false),
        ("SELECT a.value - flat.value FROM a JOIN flat USING (lat, lon)".into(), false),
        ("SELECT * FROM (SELECT * FROM a LIMIT 7) a JOIN b USING (time, lat, lon)".into(), false),
    ] {
        assert_eq!(is_zipped(&ctx, &sql).await, is_taken, "{sql}");
        let mut answer = rows(&ctx, &sql).await;
        answer.sort();
        assert!(!answer.is_empty() || sql.contains("shifted"), "{sql}");
        assert_eq!(answer, datafusion_answer(&ctx, &sql).await, "{sql}");
    }
}

#[tokio::test]
async fn a_zip_reads_every_chunk_once() {
    let (_folder, path, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    // Each array has twelve chunks.
    let ran = run(
        &ctx,
        "SELECT a.value, c.value FROM a JOIN c USING (time, lat, lon)",
    )
    .await;
    assert_eq!((ran.rows.len(), ran.reads()), (120, 24));
    assert_eq!(ran.metric("chunks_total"), 12);
    let ran = run(&ctx, "SELECT count(*) FROM a JOIN b USING (time, lat, lon)").await;
    assert_eq!((ran.reads(), ran.rows), (0, vec!["120".to_string()]));
    // A slice of one array applies to both.
    let sql = "SELECT a.value, c.value FROM a JOIN c USING (time, lat, lon) WHERE a.lat = 20";
    let ran = run(&ctx, sql).await;
    assert_eq!((ran.rows.len(), ran.reads()), (24, 8));
    let sql = "SELECT a.lat, avg(a.value + c.value) FROM a JOIN c USING (time, lat, lon) WHERE a.lat = 20 GROUP BY a.lat";
    let ran = run(&ctx, sql).await;
    assert_eq!((ran.reads(), ran.rows), (8, vec!["20 0.0".to_string()]));
    // The zone maps of either array rule out chunks of both. The 30 cells above 89 belong to the
    // last time.
    embed_indexes_in_tet(&path, 1).unwrap();
    let ctx = open(&path, ArrayOptions::new()).await;
    let sql = "SELECT c.value FROM a JOIN c USING (time, lat, lon) WHERE a.value > 89";
    let ran = run(&ctx, sql).await;
    assert_eq!((ran.rows.len(), ran.reads()), (30, 12));
    assert_eq!(ran.metric("chunks_pruned_by_zone_map"), 6);
}

#[tokio::test]
async fn costly_or_failing_joins_are_not_zipped() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    // A join filter must not be evaluated on rows that a filter of one input removes: it would
    // divide by zero.
    let sql = "SELECT a.value FROM a JOIN (SELECT * FROM b WHERE value <> 0) b ON a.time = b.time AND a.lat = b.lat \
               AND a.lon = b.lon AND CAST(a.value AS INT) / b.value > 2";
    assert!(!is_zipped(&ctx, sql).await);
    assert!(!rows(&ctx, sql).await.is_empty());
    // Nor on cells whose other keys differ.
    let sql = "SELECT a.value FROM a JOIN (SELECT *, value <> 0 AS is_positive FROM b) b ON a.time = b.time AND a.lat = b.lat \
               AND a.lon = b.lon AND (a.value >= 0) = b.is_positive AND CAST(a.value AS INT) / b.value > 2";
    assert!(!is_zipped(&ctx, sql).await);
    assert!(!rows(&ctx, sql).await.is_empty());
    // Sums of times are checked for overflow.
    let times = "SELECT *, arrow_cast(CAST(value AS BIGINT) * 900000000000000000, 'Timestamp(Nanosecond, None)') AS t \
                 FROM b WHERE value < 10";
    let sql = format!(
        "SELECT a.value, b.t FROM a LEFT JOIN ({times}) b ON a.time = b.time AND a.lat = b.lat AND a.lon = b.lon \
         AND (b.t + INTERVAL '1 year' > TIMESTAMP '2000-01-01') = (a.value > 3)"
    );
    assert!(!is_zipped(&ctx, &sql).await);
    assert!(!rows(&ctx, &sql).await.is_empty());
    // Zipping would decode every chunk of one array for every chunk of the other.
    let array = |name: &str, chunks: &[u64; 2]| {
        let spec = DatasetSpec::new(name, Dtype::F64, &[2048, 2048], chunks);
        (spec.with_dim_names(["y", "x"]), vec![0; 2048 * 2048 * 8])
    };
    let datasets = [array("maps", &[1, 2048]), array("series", &[2048, 1])];
    let (_folder, _, ctx) = sample(&datasets, ArrayOptions::new()).await;
    let sql = "SELECT maps.value FROM maps JOIN series USING (y, x)";
    assert!(!is_zipped(&ctx, sql).await);
}

#[tokio::test]
async fn nested_projections_are_planned_in_linear_time() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    let mut with = "WITH c0 AS (SELECT value AS x FROM a)".to_string();
    for number in 0..30 {
        with.push_str(&format!(
            ", c{} AS (SELECT x + x * 0.5 AS x FROM c{number})",
            number + 1
        ));
    }
    // Planning must finish within the available memory.
    rows(&ctx, &format!("EXPLAIN {with} SELECT x FROM c30")).await;
    rows(&ctx, &format!("EXPLAIN {with} SELECT avg(x) FROM c30")).await;
}
