//! Windows that are whole partitions of an array: the joins that replace them, and that the answers equal DataFusion's.

use tet_sql::ArrayOptions;
use tet_sql::format::tet::{DatasetSpec, Dtype};

use super::generated::is_same;
use crate::cells;
use crate::support::sql::{plan, rows, rows_without, run, sample};

/// `a` over time, lat and lon, with a missing cell.
fn datasets() -> Vec<(DatasetSpec, Vec<u8>)> {
    let a = DatasetSpec::new("a", Dtype::F32, &[12, 5, 6], &[5, 2, 4])
        .with_dim_names(["time", "lat", "lon"])
        .with_labels("lat", ["20", "10", "0", "-10", "-20"]);
    let numbers = (0..360).map(|n| (n * 7 % 31) as f32);
    let cells = cells!(numbers.map(|n| if n == 17.0 { f32::NAN } else { n }));
    vec![(a, cells)]
}

/// The windows of a statement, and the numbers of lookup joins and of DataFusion's window operators in its plan.
type Case<'a> = (&'a str, usize, usize);

const CASES: [Case; 19] = [
    ("value - avg(value) OVER (PARTITION BY time) FROM a", 1, 0),
    (
        "count(value) OVER (PARTITION BY lat, time % 4), max(lon) OVER (PARTITION BY lat, time % 4) FROM a",
        1,
        0,
    ),
    (
        "stddev(value) OVER (PARTITION BY lat), median(value) OVER (PARTITION BY lat) FROM a",
        1,
        0,
    ),
    ("count(DISTINCT value) OVER (PARTITION BY lon) FROM a", 1, 0),
    (
        "sum(value * lat) OVER (PARTITION BY lat + lon) FROM a WHERE time < 7",
        1,
        0,
    ),
    (
        "avg(value) FILTER (WHERE time < 6) OVER (PARTITION BY lat, lon, time % 3) FROM a",
        1,
        0,
    ),
    (
        "count(*) FILTER (WHERE value > 9) OVER (PARTITION BY time) FROM a",
        1,
        0,
    ),
    (
        "min(value) OVER (PARTITION BY lat) FROM a WHERE value > 12",
        1,
        0,
    ),
    // The order of the rows of a whole partition does not matter.
    (
        "sum(value) OVER (PARTITION BY time ORDER BY value ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM a",
        1,
        0,
    ),
    // Several partitions, all rows among them; DataFusion puts projections in between.
    (
        "value - avg(value) OVER (PARTITION BY time) - avg(value) OVER (PARTITION BY lat, lon) + avg(value) OVER () FROM a",
        2,
        0,
    ),
    ("max(value) OVER (), min(value) OVER () FROM a", 0, 0),
    ("avg(value) OVER (PARTITION BY 1 + 1) FROM a", 0, 0),
    // Beside windows along an axis, and others.
    (
        "lag(value) OVER (PARTITION BY lat, lon ORDER BY time), sum(value) OVER (PARTITION BY time) FROM a",
        0,
        0,
    ),
    (
        "rank() OVER (ORDER BY value), sum(value) OVER (PARTITION BY time) FROM a",
        0,
        1,
    ),
    // Partitions that depend on cells or are NULL, functions that heed the order, too many partitions.
    ("count(*) OVER (PARTITION BY value) FROM a", 0, 1),
    ("count(*) OVER (PARTITION BY nullif(lat, 0)) FROM a", 0, 0),
    (
        "array_length(array_agg(value) OVER (PARTITION BY time)) FROM a",
        0,
        1,
    ),
    (
        "sum(value) OVER (PARTITION BY time ORDER BY lat) FROM a",
        0,
        1,
    ),
    // A window over the result of another.
    (
        "sum(m) OVER (PARTITION BY lat) FROM (SELECT *, max(value) OVER (PARTITION BY lat, time % 2) AS m FROM a)",
        1,
        1,
    ),
];

#[tokio::test]
async fn whole_partitions_are_joined() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    for (windows, joins, others) in CASES {
        let sql = format!("SELECT time, lat, lon, {windows} ORDER BY 1, 2, 3");
        let plan = plan(&ctx, &sql).await;
        assert_eq!(
            plan.matches("ArrayLookupJoinExec").count(),
            joins,
            "{sql}\n{plan}"
        );
        let windows = plan.matches("WindowAggExec").count();
        assert_eq!(windows, others, "{sql}\n{plan}");
        let answer = rows(&ctx, &sql).await;
        let expected = rows_without(&ctx, "tet.axis_windows", &sql).await;
        let mut pairs = answer.iter().zip(&expected);
        assert!(
            !answer.is_empty()
                && answer.len() == expected.len()
                && pairs.all(|(one, other)| is_same(one, other)),
            "{sql}\n{answer:?}\n{expected:?}"
        );
    }
}

#[tokio::test]
async fn only_the_chunks_of_a_filter_are_aggregated() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    let sql = "SELECT count(m), max(m) FROM \
        (SELECT value - avg(value) FILTER (WHERE time < 5) OVER (PARTITION BY lat) AS m FROM a WHERE lon < 4)";
    let run = run(&ctx, sql).await;
    // 3 of 9 chunks with these longitudes for the means, and all of them for the rows.
    assert_eq!(run.reads(), 3 + 9);
    assert_eq!(run.rows, rows_without(&ctx, "tet.axis_windows", sql).await);
}

/// Rows that cannot have one of the first ranks are not sorted.
#[tokio::test]
async fn only_candidates_for_the_first_ranks_are_sorted() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    for (rank, from, is_taken) in [
        (
            "row_number() OVER (PARTITION BY time ORDER BY value DESC, lat, lon) = 1",
            "a",
            true,
        ),
        (
            "rank() OVER (PARTITION BY lat ORDER BY value) <= 1",
            "a WHERE value > 3",
            true,
        ),
        (
            "dense_rank() OVER (PARTITION BY lat, time % 5 ORDER BY -value DESC NULLS LAST) < 2",
            "a",
            true,
        ),
        (
            "row_number() OVER (PARTITION BY lat ORDER BY value DESC, lon) = 1",
            "a WHERE time = 3",
            true,
        ),
        (
            "2 > rank() OVER (PARTITION BY time ORDER BY value DESC NULLS FIRST) AND lat > 0",
            "a",
            true,
        ),
        (
            "rank() OVER (PARTITION BY time ORDER BY value) <= 2",
            "a",
            true,
        ),
        (
            "row_number() OVER (PARTITION BY lat ORDER BY value DESC NULLS LAST, lon, time) BETWEEN 3 AND 7 AND lon > 0",
            "a",
            true,
        ),
        (
            "row_number() OVER (PARTITION BY lat ORDER BY abs(value) NULLS FIRST, time, lon) < 6",
            "a WHERE value < 90",
            true,
        ),
        // Partitions with few rows, distinct ranks, an order by text, partitions by cells, another window that needs all rows, and windows along an axis.
        (
            "row_number() OVER (PARTITION BY time ORDER BY value, lat, lon) <= 4",
            "a",
            false,
        ),
        (
            "dense_rank() OVER (PARTITION BY time ORDER BY value) <= 2",
            "a",
            false,
        ),
        (
            "rank() OVER (PARTITION BY time ORDER BY CAST(value AS VARCHAR)) = 1",
            "a",
            false,
        ),
        (
            "rank() OVER (PARTITION BY value ORDER BY time) = 1",
            "a",
            false,
        ),
        (
            "rank() OVER (PARTITION BY time ORDER BY value) = 1 AND lag(value) OVER (PARTITION BY time ORDER BY value) IS NULL",
            "a",
            false,
        ),
        (
            "rank() OVER (PARTITION BY lat, lon ORDER BY time DESC) = 1",
            "a",
            false,
        ),
    ] {
        let sql =
            format!("SELECT time, lat, lon, value FROM {from} QUALIFY {rank} ORDER BY 1, 2, 3");
        let plan = plan(&ctx, &sql).await;
        assert_eq!(
            plan.contains("ArrayLookupJoinExec"),
            is_taken,
            "{sql}\n{plan}"
        );
        let answer = rows(&ctx, &sql).await;
        assert!(!answer.is_empty(), "{sql}");
        assert_eq!(
            answer,
            rows_without(&ctx, "tet.axis_windows", &sql).await,
            "{sql}"
        );
    }
}

/// The first rows in a random order are any rows.
#[tokio::test]
async fn the_first_ranks_of_a_random_order() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    for most in [1, 2] {
        let sql = format!(
            "SELECT count(*), count(DISTINCT time) FROM (SELECT * FROM (SELECT *, avg(value) OVER (PARTITION BY lon) AS m FROM a) \
             QUALIFY row_number() OVER (PARTITION BY time ORDER BY random()) <= {most})"
        );
        assert_eq!(rows(&ctx, &sql).await, [format!("{} 12", 12 * most)]);
    }
}

/// A key of -0.0 is in the partition of 0.0.
#[tokio::test]
async fn negative_zeros_are_zeros() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    let sql = "SELECT time, lat, lon, avg(value) OVER (PARTITION BY round(lat / 60.0)) AS m, \
        rank() OVER (PARTITION BY time ORDER BY value) AS r FROM a ORDER BY time, lat, lon";
    let answer = rows(&ctx, sql).await;
    assert_eq!(answer.len(), 360);
    assert_eq!(answer, rows_without(&ctx, "tet.axis_windows", sql).await);
    let joined = "SELECT p.x FROM (VALUES (1, 0.0), (2, -0.0), (3, 1.0)) p(x, y) \
        JOIN (VALUES (0.0, 1), (5.0, 2)) q(k, s) ON p.y = q.k ORDER BY p.x";
    assert_eq!(rows(&ctx, joined).await, ["1", "2"]);
    let beside = "SELECT * FROM (SELECT sum(i) FILTER (WHERE b) OVER () AS p, sum(CASE WHEN b THEN i END) OVER () AS q \
        FROM (VALUES (1, true), (2, false)) AS t(i, b)) WHERE p > 0";
    assert_eq!(rows(&ctx, beside).await, ["1 1", "1 1"]);
    let conditional =
        "SELECT max(CASE WHEN value >= 0 THEN sqrt(value - 1) END) FROM a WHERE value >= 1";
    assert_eq!(
        rows(&ctx, conditional).await,
        rows_without(&ctx, "tet.array_aggregates", conditional).await
    );
}

/// DataFusion sorts by expressions that compare the result of a function, and then does not find the order.
#[tokio::test]
async fn keys_may_be_expressions() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    const ALL: &str = "value, time, lat, lon";
    for windows in [
        "count(*) OVER (PARTITION BY abs(value) < 12) FROM a",
        "count(*) OVER (PARTITION BY lat % 20 < 5, abs(value) < 12) FROM a WHERE value % 2 = 1",
        "sum(value) OVER (PARTITION BY lat % 20 < 5, time) FROM a",
        "row_number() OVER (PARTITION BY CASE WHEN time % 4 < 2 THEN 1 ELSE 2 END ORDER BY {all}) FROM a",
        "row_number() OVER (PARTITION BY lat ORDER BY abs(value) < 12, {all}), count(*) OVER (PARTITION BY time % 3 < 1) FROM a",
        "0 FROM a QUALIFY row_number() OVER (PARTITION BY time % 4 < 2 ORDER BY value DESC NULLS LAST, {all}) = 1",
    ] {
        let windows = windows.replace("{all}", ALL);
        let sql = format!("SELECT time, lat, lon, {windows} ORDER BY 1, 2, 3");
        let answer = rows(&ctx, &sql).await;
        assert!(!answer.is_empty(), "{sql}");
        let expected = rows_without(&ctx, "tet.axis_windows", &sql).await;
        assert_eq!(answer, expected, "{sql}");
    }
    // Windows along an axis are computed together.
    let sql = "SELECT lag(value) OVER (PARTITION BY lat + 1, lon ORDER BY time),
         avg(value) OVER (PARTITION BY lat, lon, time / 4 ORDER BY time ROWS 1 PRECEDING) FROM a";
    let plan = plan(&ctx, sql).await;
    assert_eq!(plan.matches("ArrayWindowExec").count(), 1, "{plan}");
    assert!(!plan.contains("WindowAggExec"), "{plan}");
}
