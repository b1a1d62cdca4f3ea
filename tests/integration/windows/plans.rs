//! Tests of windows along an axis: the plans that use the operator, the chunks they read, and NaN and huge
//! values in sliding frames.

use std::sync::Arc;

use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use tet_sql::format::tet::{DatasetSpec, Dtype};
use tet_sql::{ArrayOptions, ArraySessionExt, enable_arrays};

use crate::cells;
use crate::support::sql::{assert_same_without, plan, rows, rows_without, run, sample, write};

/// `a` over time, lat and lon, and `b` over the same axes with other chunks; `series` over time.
fn datasets() -> Vec<(DatasetSpec, Vec<u8>)> {
    let spec = |name: &str, chunks: &[u64; 3]| {
        DatasetSpec::new(name, Dtype::F32, &[12, 5, 6], chunks)
            .with_dim_names(["time", "lat", "lon"])
            .with_labels("lat", ["20", "10", "0", "-10", "-20"])
    };
    let numbers = || (0..360).map(|n| (n * 7 % 31) as f32);
    vec![
        (
            spec("a", &[5, 2, 4]),
            cells!(numbers().map(|n| if n == 17.0 { f32::NAN } else { n })),
        ),
        (spec("b", &[1, 5, 6]), cells!(numbers().map(|n| -n))),
        (
            DatasetSpec::new("series", Dtype::I16, &[12], &[4]).with_dim_names(["time"]),
            cells!((0..12i16).map(|n| n * n)),
        ),
    ]
}

#[tokio::test]
async fn windows_along_an_axis_are_not_sorted() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    const SERIES: &str = "PARTITION BY lat, lon ORDER BY time";
    for (windows, is_taken) in [
        (
            format!("avg(value) OVER ({SERIES} ROWS 3 PRECEDING) FROM a"),
            true,
        ),
        (
            format!("sum(value) OVER ({SERIES} ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING) FROM b"),
            true,
        ),
        (
            format!(
                "count(value) OVER ({SERIES} RANGE BETWEEN 2 PRECEDING AND CURRENT ROW) FROM a"
            ),
            true,
        ),
        (
            format!(
                "min(value) OVER ({SERIES} GROUPS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM a"
            ),
            true,
        ),
        (
            format!(
                "max(value) OVER ({SERIES} DESC ROWS BETWEEN 4 PRECEDING AND 3 PRECEDING) FROM a"
            ),
            true,
        ),
        (
            format!(
                "stddev(value) OVER ({SERIES} ROWS 3 PRECEDING), lag(value, 2) OVER ({SERIES}) FROM b"
            ),
            true,
        ),
        (
            format!("lead(value, 2, -1) OVER ({SERIES}), last_value(value) OVER ({SERIES}) FROM b"),
            true,
        ),
        (
            format!("value - avg(value) OVER ({SERIES} ROWS 1 PRECEDING) FROM b WHERE lat > 0"),
            true,
        ),
        (
            format!(
                "rank() OVER ({SERIES}), ntile(3) OVER ({SERIES}), sum(time) OVER ({SERIES}) FROM a"
            ),
            true,
        ),
        (
            "value - avg(value) OVER (PARTITION BY lat, lon) FROM b".into(),
            true,
        ),
        (
            "sum(value) OVER (ORDER BY time ROWS 2 PRECEDING) FROM series".into(),
            true,
        ),
        (
            "sum(value) OVER (PARTITION BY time / 3 ORDER BY time) FROM series".into(),
            true,
        ),
        (
            "lag(value) OVER (ORDER BY 2 * time) FROM series".into(),
            true,
        ),
        (
            "lag(value) OVER (PARTITION BY time, lon ORDER BY lat) FROM a".into(),
            true,
        ),
        (
            "lag(value) OVER (PARTITION BY time ORDER BY lat, lon) FROM a WHERE lon = 2".into(),
            true,
        ),
        (
            format!("lag(value) OVER ({SERIES}), lag(value) OVER ({SERIES} DESC) FROM a"),
            true,
        ),
        (
            "avg(a.value + b.value) OVER (PARTITION BY a.lat, a.lon ORDER BY a.time) FROM a JOIN b USING (time, lat, lon)".into(),
            true,
        ),
        // A distance along another axis than the partition's.
        (
            "sum(value) OVER (PARTITION BY lat, lon ORDER BY lat RANGE BETWEEN 1 FOLLOWING AND 2 FOLLOWING) FROM b".into(),
            false,
        ),
        // Partitions with several rows per time, rows without cells, order by cells.
        (
            "avg(value) OVER (PARTITION BY lat ORDER BY time ROWS 3 PRECEDING) FROM b".into(),
            false,
        ),
        (
            format!("avg(value) OVER ({SERIES} ROWS 3 PRECEDING) FROM a WHERE value > 3"),
            false,
        ),
        (
            "row_number() OVER (PARTITION BY lat, lon ORDER BY value, time) FROM a".into(),
            true,
        ),
        (
            format!("first_value(value) IGNORE NULLS OVER ({SERIES}) FROM a"),
            false,
        ),
        (
            format!("sum(value) FILTER (WHERE value > 5) OVER ({SERIES}) FROM a"),
            true,
        ),
        (
            format!("count(DISTINCT value) OVER ({SERIES}) FROM a"),
            false,
        ),
        (
            "sum(value) OVER (PARTITION BY time % 3 ORDER BY time) FROM series".into(),
            false,
        ),
        // Ranks of cells by their values.
        (
            "rank() OVER (PARTITION BY lat, lon ORDER BY value DESC), ntile(3) OVER (PARTITION BY lat, lon ORDER BY value, time) FROM a".into(),
            true,
        ),
        (
            "percent_rank() OVER (PARTITION BY lat, lon, time % 3 ORDER BY value * 2), cume_dist() OVER (PARTITION BY lat, lon ORDER BY value NULLS FIRST) FROM a".into(),
            true,
        ),
        (
            "row_number() OVER (PARTITION BY time, lon ORDER BY lon, abs(value), lat DESC) FROM b".into(),
            true,
        ),
        ("dense_rank() OVER (ORDER BY value) FROM series".into(), true),
        (
            "rank() OVER (PARTITION BY lat ORDER BY value) FROM a".into(),
            false,
        ),
        (
            "rank() OVER (PARTITION BY lat, lon ORDER BY value, abs(value)) FROM a".into(),
            false,
        ),
    ] {
        let from = windows.split(" FROM ").last().unwrap();
        let keys = if from.starts_with("series") {
            "time"
        } else {
            "time, lat, lon"
        };
        let keys = if from.contains("JOIN") {
            "a.time, a.lat, a.lon"
        } else {
            keys
        };
        let sql = format!("SELECT {keys}, {windows} ORDER BY 1, 2, 3");
        let sql = if from.starts_with("series") {
            sql.replace("1, 2, 3", "1, 2")
        } else {
            sql
        };
        let plan = plan(&ctx, &sql).await;
        assert_eq!(plan.contains("ArrayWindowExec"), is_taken, "{sql}\n{plan}");
        let answer = rows(&ctx, &sql).await;
        let expected = rows_without(&ctx, "tet.axis_windows", &sql).await;
        assert!(!answer.is_empty(), "{sql}");
        let same = answer
            .iter()
            .zip(&expected)
            .all(|(one, other)| super::generated::is_same(one, other));
        assert!(
            same && answer.len() == expected.len(),
            "{sql}\n{answer:?}\n{expected:?}"
        );
    }
}

#[tokio::test]
async fn chunks_are_read_once() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    let mean = "avg(value) OVER (PARTITION BY lat, lon ORDER BY time ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING)";
    for (table, from, chunks) in [
        ("a", "a", 18),
        ("a", "a WHERE lat = 0", 6),
        ("b", "b WHERE time BETWEEN 3 AND 7", 5),
    ] {
        let sql = format!("SELECT max(m) FROM (SELECT {mean} AS m FROM {from})");
        let ran = run(&ctx, &sql).await;
        assert_eq!(ran.reads(), chunks, "{table}: {sql}");
    }
    // The rank depends on the axis alone.
    let sql =
        "SELECT max(r) FROM (SELECT rank() OVER (PARTITION BY lat, lon ORDER BY time) AS r FROM a)";
    let ran = run(&ctx, sql).await;
    assert_eq!((ran.reads(), ran.rows), (0, vec!["12".to_string()]));
}

/// A filter on a rank makes the window output only the first ranks of each series.
#[tokio::test]
async fn only_the_first_ranks_are_output() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    for (rank, predicate, most) in [
        (
            "row_number() OVER (PARTITION BY lat, lon ORDER BY value DESC, time)",
            "r <= 3",
            "3",
        ),
        (
            "rank() OVER (PARTITION BY lat, lon ORDER BY value)",
            "4 > r AND time > 2",
            "3",
        ),
        (
            "rank() OVER (PARTITION BY lat, lon, time % 3 ORDER BY abs(value) NULLS FIRST)",
            "r = 2",
            "2",
        ),
        (
            "row_number() OVER (PARTITION BY lat, lon ORDER BY value DESC NULLS LAST, time DESC)",
            "r BETWEEN 2 AND 3",
            "3",
        ),
        (
            "row_number() OVER (PARTITION BY time, lon ORDER BY value, lat)",
            "r < 100",
            "99",
        ),
        // No bound is used for dense ranks, lower bounds, disjunctions and columns that are computed from a rank.
        (
            "dense_rank() OVER (PARTITION BY lat, lon ORDER BY value)",
            "r <= 3",
            "",
        ),
        (
            "rank() OVER (PARTITION BY lat, lon ORDER BY value)",
            "r >= 3",
            "",
        ),
        (
            "rank() OVER (PARTITION BY lat, lon ORDER BY value)",
            "r <= 3 OR time = 0",
            "",
        ),
        (
            "1 - row_number() OVER (PARTITION BY lat, lon ORDER BY value, time)",
            "r <= -9",
            "",
        ),
    ] {
        for table in ["a", "b"] {
            let sql = format!(
                "SELECT time, lat, lon, value, r FROM (SELECT *, {rank} AS r FROM {table}) WHERE {predicate} ORDER BY 1, 2, 3"
            );
            let plan = plan(&ctx, &sql).await;
            assert!(plan.contains("ArrayWindowExec"), "{sql}\n{plan}");
            let expected = format!("first_ranks={most},");
            assert_eq!(
                plan.contains("first_ranks="),
                !most.is_empty(),
                "{sql}\n{plan}"
            );
            assert!(most.is_empty() || plan.contains(&expected), "{sql}\n{plan}");
            let answer = rows(&ctx, &sql).await;
            assert!(!answer.is_empty(), "{sql}");
            assert_eq!(
                answer,
                rows_without(&ctx, "tet.axis_windows", &sql).await,
                "{sql}"
            );
        }
    }
}

/// Several ranks are bounded, by one filter or by two.
#[tokio::test]
async fn first_ranks_of_several_windows() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    const RANKS: &str = "SELECT *, rank() OVER (PARTITION BY lat, lon ORDER BY value) AS r, \
        row_number() OVER (PARTITION BY lat, lon ORDER BY abs(value - 5), time) AS n FROM a";
    for sql in [
        format!(
            "SELECT time, lat, lon, r, n FROM ({RANKS}) WHERE r <= 6 AND n <= 5 ORDER BY 1, 2, 3"
        ),
        format!(
            "SELECT time, lat, lon, r FROM (SELECT * FROM ({RANKS}) WHERE r <= 6) WHERE n < 7 ORDER BY 1, 2, 3"
        ),
    ] {
        let plan = plan(&ctx, &sql).await;
        assert!(plan.contains("first_ranks="), "{plan}");
        let answer = rows(&ctx, &sql).await;
        assert!(!answer.is_empty(), "{sql}");
        assert_eq!(
            answer,
            rows_without(&ctx, "tet.axis_windows", &sql).await,
            "{sql}"
        );
    }
}

/// Times, dates and durations of cells, in frames that grow, slide and are the whole axis.
#[tokio::test]
async fn extremes_of_times() {
    let hours = (0..12).map(|hour| format!("2024-01-01T{:02}:00:00", hour * 2));
    let spec = DatasetSpec::new("t", Dtype::F32, &[12, 5, 6], &[5, 2, 4])
        .with_dim_names(["time", "lat", "lon"])
        .with_labels("time", hours);
    let numbers = (0..360).map(|n| (n * 7 % 31) as f32);
    let cells = cells!(numbers.map(|n| if n == 17.0 { f32::NAN } else { n }));
    let (_folder, _, ctx) = sample(&[(spec, cells)], ArrayOptions::new()).await;
    // Times that differ by nanoseconds, which doubles cannot tell apart.
    let of_value = "CAST(value AS BIGINT) + 1704067200000000000";
    for argument in [
        "CASE WHEN value >= 9 THEN time END".to_string(),
        "CASE WHEN value >= 9 THEN arrow_cast(time, 'Timestamp(Second, Some(\"Europe/Berlin\"))') END".into(),
        "CASE WHEN value >= 29 THEN CAST(time + INTERVAL '15 hours' AS DATE) END".into(),
        "CASE WHEN value < 2 THEN arrow_cast(time, 'Date64') END".into(),
        "CASE WHEN value < 9 THEN CAST(time AS TIME) END".into(),
        "CASE WHEN value < 9 THEN time - TIMESTAMP '2024-01-01T06:00:00' END".into(),
        format!("arrow_cast({of_value}, 'Timestamp(Nanosecond, None)')"),
        format!("arrow_cast({of_value}, 'Duration(Nanosecond)')"),
    ] {
        for frame in [
            "ORDER BY time",
            "ORDER BY time DESC ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
            "ORDER BY time ROWS BETWEEN 4 PRECEDING AND 2 PRECEDING",
            "",
        ] {
            let window = format!("OVER (PARTITION BY lat, lon {frame})");
            let sql = format!(
                "SELECT time, lat, lon, min({argument}) {window} AS one, max({argument}) {window} AS other FROM t"
            );
            let plan = plan(&ctx, &sql).await;
            assert!(plan.contains("ArrayWindowExec"), "{sql}\n{plan}");
            assert_same_without(&ctx, "tet.axis_windows", &sql).await;
        }
    }
}

/// NaN and huge values affect only the frames that they are in.
#[tokio::test]
async fn frames_forget_cells_that_leave() {
    let values = [
        1.0,
        2.0,
        f64::NAN,
        4.0,
        5.0,
        6.0,
        1e300,
        f64::INFINITY,
        9.0,
        10.0,
        0.25,
    ];
    let spec = DatasetSpec::new("t", Dtype::F64, &[11], &[3]).with_dim_names(["x"]);
    let options = ArrayOptions::new();
    let (_folder, _, ctx) = sample(&[(spec, cells!(values))], options).await;
    rows(&ctx, "SET tet.nan_as_null = false").await;
    let sql = "SELECT sum(value) OVER w, avg(value) OVER w, max(value) OVER w FROM t \
               WINDOW w AS (ORDER BY x ROWS 1 PRECEDING) ORDER BY x";
    assert!(plan(&ctx, sql).await.contains("ArrayWindowExec"));
    let expected = [
        "1.0 1.0 1.0",
        "3.0 1.5 2.0",
        "NaN NaN NaN",
        "NaN NaN NaN",
        "9.0 4.5 5.0",
        "11.0 5.5 6.0",
        "1e300 5e299 1e300",
        "inf inf inf",
        "inf inf inf",
        "19.0 9.5 10.0",
        "10.25 5.125 10.0",
    ];
    assert_eq!(rows(&ctx, sql).await, expected);
}

/// Frames over the whole axis, and a pool that holds little more than a chunk.
#[tokio::test]
async fn little_memory_makes_small_tiles() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.tet");
    let spec = DatasetSpec::new("t", Dtype::F32, &[200, 32, 32], &[10, 32, 32])
        .with_dim_names(["time", "lat", "lon"]);
    write(
        &path,
        &[(spec, cells!((0..200 * 1024).map(|n| (n % 1000) as f32)))],
    );
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(400 << 10)))
        .build_arc()
        .unwrap();
    let config = SessionConfig::new().with_target_partitions(1);
    let ctx = SessionContext::new_with_config_rt(config, runtime);
    let ctx = enable_arrays(ctx, ArrayOptions::new());
    ctx.register_array_file_as("f", &path, ArrayOptions::new())
        .await
        .unwrap();
    let unlimited = enable_arrays(SessionContext::new(), ArrayOptions::new());
    unlimited
        .register_array_file_as("f", &path, ArrayOptions::new())
        .await
        .unwrap();
    rows(&unlimited, "SET tet.axis_windows = false").await;
    for window in [
        "ORDER BY time ROWS BETWEEN 30 PRECEDING AND UNBOUNDED FOLLOWING",
        "",
    ] {
        let sql = format!(
            "SELECT sum(m), count(*), max(m) FROM \
             (SELECT value - avg(value) OVER (PARTITION BY lat, lon {window}) AS m FROM f.t)"
        );
        let (answer, expected) = (rows(&ctx, &sql).await, rows(&unlimited, &sql).await);
        assert!(
            super::generated::is_same(&answer[0], &expected[0]),
            "{answer:?} {expected:?}"
        );
    }
}

#[tokio::test]
async fn windows_along_an_axis_beside_others() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    const SERIES: &str = "PARTITION BY lat, lon ORDER BY time";
    for (windows, count) in [
        // The median does not lie along an axis.
        (
            format!(
                "avg(value) OVER ({SERIES} ROWS 3 PRECEDING), median(value) OVER ({SERIES} ROWS 3 PRECEDING)"
            ),
            1,
        ),
        (
            format!(
                "ntile(3) OVER ({SERIES}), lag(value) OVER ({SERIES}), rank() OVER (ORDER BY value), max(value) OVER ({SERIES})"
            ),
            1,
        ),
        (
            format!(
                "rank() OVER (ORDER BY value), row_number() OVER ({SERIES}), median(value) OVER ({SERIES})"
            ),
            2,
        ),
    ] {
        let sql = format!("SELECT time, lat, lon, {windows} FROM b");
        let plan = plan(&ctx, &sql).await;
        assert!(plan.contains("ArrayWindowExec"), "{plan}");
        assert_eq!(plan.matches("WindowAggExec").count(), count, "{plan}");
        assert_same_without(&ctx, "tet.axis_windows", &sql).await;
    }
    // A window that uses another one.
    let inner = format!(
        "SELECT *, max(value) OVER (ORDER BY value) AS m, avg(value) OVER ({SERIES} ROWS 1 PRECEDING) AS a FROM b"
    );
    let outer = format!(
        "SELECT *, sum(m) OVER (ORDER BY value, time, lat, lon ROWS 1 PRECEDING), min(m) OVER ({SERIES}) FROM ({inner})"
    );
    assert_same_without(&ctx, "tet.axis_windows", &outer).await;
    // DataFusion subtracts values that leave the frame, so that a variance may fall below zero.
    let frame = format!("OVER ({SERIES} ROWS 1 PRECEDING)");
    let alone = format!("SELECT stddev(value) {frame} FROM a ORDER BY time, lat, lon");
    let beside = alone.replace(" FROM", &format!(", median(value) {frame} FROM"));
    let beside = rows(&ctx, &beside).await;
    let beside = beside.iter().map(|row| row.split(' ').next().unwrap());
    assert!(beside.eq(rows(&ctx, &alone).await));
}
