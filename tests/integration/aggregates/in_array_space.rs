//! Aggregates in array space: which plans are replaced, what they read, and difficult inputs.

use datafusion::prelude::SessionContext;
use tet_sql::ArrayOptions;
use tet_sql::format::tet::{Compression, DatasetSpec, Dtype};
use tetration::catalog::embed_indexes_in_tet;

use crate::cells;
use crate::support::sql::{error, open, plan, rows, rows_without, run, sample, session, write};

/// Cells 0 to 119 of 4 times, 5 latitudes and 6 longitudes, in chunks that divide no axis evenly.
fn weather() -> (DatasetSpec, Vec<u8>) {
    let spec = DatasetSpec::new("v", Dtype::F32, &[4, 5, 6], &[3, 2, 4])
        .with_dim_names(["time", "lat", "lon"])
        .with_labels("lat", ["-20", "-10", "0", "10", "20"]);
    (spec, cells!((0..120).map(|n| n as f32)))
}

/// The answer of DataFusion's own aggregate in the same session.
async fn datafusion_answer(ctx: &SessionContext, sql: &str) -> Vec<String> {
    rows_without(ctx, "tet.array_aggregates", sql).await
}

#[tokio::test]
async fn supported_plans_are_replaced_and_others_kept() {
    let (_folder, _, ctx) = sample(&[weather()], ArrayOptions::new()).await;
    for (sql, is_taken, by_row) in [
        ("SELECT avg(value) FROM v", true, ""),
        (
            "SELECT count(*), sum(value), min(value), max(value), round(stddev(value), 6), round(var_pop(value), 6) FROM v WHERE lat > 0",
            true,
            "",
        ),
        (
            "SELECT lon, lat, avg(value) FROM v GROUP BY lon, lat",
            true,
            "",
        ),
        (
            "SELECT floor(lat / 20), lon % 2, max(value) FROM v GROUP BY 1, 2",
            true,
            "",
        ),
        (
            "SELECT CASE WHEN lat < 0 THEN 'south' ELSE 'north' END, avg(value) FROM v GROUP BY 1 HAVING count(*) > 1",
            true,
            "",
        ),
        (
            "SELECT avg(value) FROM v WHERE value BETWEEN 10 AND 20.5",
            true,
            "",
        ),
        (
            "SELECT lat, sum(value) FILTER (WHERE value > 100) FROM v GROUP BY lat",
            true,
            "",
        ),
        ("SELECT DISTINCT lat, lon FROM v", true, ""),
        ("SELECT count(DISTINCT lat) FROM v", true, ""),
        (
            "SELECT lat, sum(value * cos(radians(lat))) AS s FROM v GROUP BY lat",
            true,
            "by_row=[sum(",
        ),
        (
            "SELECT lat, median(value) FROM v GROUP BY lat",
            true,
            "by_row=[median(",
        ),
        (
            "SELECT bool_or(value > 7) FROM v WHERE value <> 3",
            true,
            "by_row=[bool_or(",
        ),
        (
            "SELECT avg(value) FROM (SELECT * FROM v UNION ALL SELECT * FROM v)",
            true,
            "",
        ),
        (
            "SELECT 100 / lon, count(*) FROM v WHERE lon > 0 GROUP BY 1",
            true,
            "",
        ),
        // An expression that fails only on a coordinate without remaining rows does not fail the
        // query.
        (
            "SELECT 100 / lon, count(*) FROM v WHERE lon <> 0 AND value > 5 GROUP BY 1",
            true,
            "",
        ),
        (
            "SELECT 100 / lon, count(*) FROM v WHERE value % 6 <> 0 GROUP BY 1",
            false,
            "",
        ),
        (
            "SELECT 100 / lon, count(*) FROM v WHERE lon * 100 > lat + 20 GROUP BY 1",
            false,
            "",
        ),
        (
            "SELECT lat + lon, count(*) FROM v GROUP BY lat + lon",
            true,
            "",
        ),
        // Left to DataFusion: grouping by values or by expressions of more than two dimensions, ordered
        // aggregates, volatile functions.
        ("SELECT value, count(*) FROM v GROUP BY value", false, ""),
        (
            "SELECT time + lat + lon, count(*) FROM v GROUP BY time + lat + lon",
            false,
            "",
        ),
        ("SELECT first_value(value ORDER BY lat) FROM v", false, ""),
        ("SELECT array_agg(value) FROM v", false, ""),
        ("SELECT sum(value * random()) FROM v", false, ""),
        (
            "SELECT lat, sum(value) FROM v GROUP BY ROLLUP (lat)",
            true,
            "",
        ),
        (
            "SELECT sum(value) FROM (SELECT value FROM v LIMIT 10)",
            false,
            "",
        ),
    ] {
        let plan = plan(&ctx, sql).await;
        assert_eq!(
            plan.contains("ArrayAggregateExec"),
            is_taken,
            "{sql}\n{plan}"
        );
        assert_eq!(plan.contains("by_row"), !by_row.is_empty(), "{sql}\n{plan}");
        assert!(plan.contains(by_row), "{sql}\n{plan}");
        if is_taken {
            let sorted = |mut rows: Vec<String>| {
                rows.sort();
                rows
            };
            assert_eq!(
                sorted(rows(&ctx, sql).await),
                sorted(datafusion_answer(&ctx, sql).await),
                "{sql}"
            );
        }
    }
    // Sessions without the rule keep DataFusion's aggregate.
    let plain = SessionContext::new();
    let path = _folder.path().join("sample.tet");
    tet_sql::ArraySessionExt::register_array(&plain, "v".into(), &path, ArrayOptions::new())
        .await
        .unwrap();
    let found = plan(&plain, "SELECT avg(value) FROM v").await;
    assert!(!found.contains("ArrayAggregateExec"), "{found}");
}

#[tokio::test]
async fn only_selected_chunks_are_read() {
    let (_folder, _, ctx) = sample(&[weather()], ArrayOptions::new()).await;
    for (sql, chunks, expected) in [
        ("SELECT avg(value) FROM v", 12, "59.5"),
        (
            "SELECT avg(value) FROM v WHERE time = 3 AND lon < 3",
            3,
            "103.0",
        ),
        (
            "SELECT avg(value) FROM v WHERE time = (SELECT max(time) FROM v) AND lat = 20",
            2,
            "116.5",
        ),
        ("SELECT count(DISTINCT lat) FROM v", 0, "5"),
        (
            "SELECT count(*) FROM (SELECT DISTINCT time, lon FROM v WHERE lat > 0)",
            0,
            "24",
        ),
        (
            "SELECT sum(c) FROM (SELECT lat, count(*) c FROM v GROUP BY lat)",
            0,
            "120",
        ),
    ] {
        let ran = run(&ctx, sql).await;
        assert_eq!(
            (ran.reads(), ran.rows),
            (chunks, vec![expected.to_string()]),
            "{sql}"
        );
    }
}

#[tokio::test]
async fn zone_maps_replace_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    // Day 0 is constant, day 1 is missing, days 2 and 3 hold 20 to 29 and 30 to 39.
    let numbers = (0..40).map(|n| match n / 10 {
        0 => 7.0,
        1 => f32::NAN,
        _ => n as f32,
    });
    let spec = DatasetSpec::new("v", Dtype::F32, &[4, 10], &[1, 10])
        .with_dim_names(["day", "x"])
        .with_compression(Compression::Zstd { level: 3 });
    write(&path, &[(spec, cells!(numbers))]);
    embed_indexes_in_tet(&path, 0).unwrap();
    let with = open(&path, ArrayOptions::new()).await;
    let without = open(&path, ArrayOptions::new().with_zone_maps(false)).await;
    for (sql, chunks) in [
        (
            "SELECT day, min(value), max(value), count(value), count(*) FROM v GROUP BY day ORDER BY day",
            0,
        ),
        ("SELECT day, sum(value) FROM v GROUP BY day ORDER BY day", 2),
        (
            "SELECT x, avg(value), max(value) FROM v WHERE day = 0 AND x > 3 GROUP BY x ORDER BY x",
            0,
        ),
        (
            "SELECT x, max(value) FROM v WHERE day > 1 GROUP BY x ORDER BY x",
            2,
        ),
        ("SELECT min(value), count(value) FROM v WHERE x > 3", 2),
        // Chunks without a value are skipped, and their groups do not appear.
        (
            "SELECT count(*), count(value), avg(value) FROM v WHERE value IS NOT NULL",
            2,
        ),
        (
            "SELECT day, count(*), max(value) FROM v WHERE value IS NOT NULL GROUP BY day ORDER BY day",
            0,
        ),
        (
            "SELECT count(value) FILTER (WHERE value IS NOT NULL), avg(value) FILTER (WHERE value IS NOT NULL) FROM v",
            2,
        ),
        // Day 0 is constant and day 1 is missing: both need no read. Day 2 passes in part and is
        // read. Day 3 lies above the bound.
        ("SELECT count(value), max(value) FROM v WHERE value < 25", 1),
    ] {
        let (known, read) = (run(&with, sql).await, run(&without, sql).await);
        assert_eq!(known.rows, read.rows, "{sql}");
        assert_eq!(known.reads(), chunks, "{sql}");
    }
}

/// Sums of 16-bit integers are accumulated in 32 bits in short runs. These chunks are large enough
/// to overflow 32 bits if a run is too long.
#[tokio::test]
async fn sums_of_16_bit_integers_do_not_overflow() {
    for (dtype, shape, chunk) in [
        (Dtype::I16, [400_000, 1], [400_000, 1]),
        (Dtype::I16, [1, 400_000], [1, 400_000]),
        (Dtype::I16, [100_000, 4], [100_000, 4]),
        (Dtype::U16, [50_000, 40], [50_000, 40]),
        (Dtype::U16, [40, 50_000], [1, 50_000]),
    ] {
        let cells: u64 = shape.iter().product();
        let value: i64 = if dtype == Dtype::I16 { -32_768 } else { 65_535 };
        let bytes = (value as u16).to_le_bytes().repeat(cells as usize);
        let spec = DatasetSpec::new("v", dtype, &shape, &chunk).with_dim_names(["a", "b"]);
        let (_folder, _, ctx) = sample(&[(spec, bytes)], ArrayOptions::new()).await;
        let sum = value * cells as i64;
        let whole = rows(&ctx, "SELECT sum(value), min(value), avg(value) FROM v").await;
        assert_eq!(whole, [format!("{sum} {value} {value}.0")]);
        for (key, count) in [("a", shape[1]), ("b", shape[0])] {
            let sql = format!(
                "SELECT DISTINCT s, c FROM (SELECT {key}, sum(value) s, count(value) c FROM v GROUP BY {key})"
            );
            let sum = value * count as i64;
            assert_eq!(rows(&ctx, &sql).await, [format!("{sum} {count}")], "{sql}");
        }
    }
}

/// Variances of values far from zero and close to each other keep their precision.
#[tokio::test]
async fn variance_is_precise_far_from_zero() {
    let spec = DatasetSpec::new("v", Dtype::F64, &[1000, 10], &[30, 10]).with_dim_names(["a", "b"]);
    let numbers = (0..10_000).map(|n| 1e9 + f64::from(n / 10 % 2));
    let (_folder, _, ctx) = sample(&[(spec, cells!(numbers))], ArrayOptions::new()).await;
    let whole = rows(&ctx, "SELECT var_pop(value), stddev_pop(value) FROM v").await;
    assert_eq!(whole, ["0.25 0.5"]);
    let by_b = "SELECT DISTINCT d FROM (SELECT b, stddev_pop(value) d FROM v GROUP BY b)";
    assert_eq!(rows(&ctx, by_b).await, ["0.5"]);
}

/// A few NaN and infinite cells among many ordinary ones.
#[tokio::test]
async fn nan_and_infinities_among_many_cells() {
    let numbers = |n: u32| match n {
        77 | 5000 => f32::NAN,
        9000 => f32::INFINITY,
        9001 => f32::NEG_INFINITY,
        _ => 1.0,
    };
    let spec =
        DatasetSpec::new("v", Dtype::F32, &[100, 200], &[50, 200]).with_dim_names(["a", "b"]);
    let bytes = cells!((0..20_000).map(numbers));
    let (_folder, _, ctx) = sample(&[(spec, bytes)], ArrayOptions::new()).await;
    for sql in [
        "SELECT count(value), min(value), max(value), sum(value) FROM v WHERE a < 45",
        "SELECT count(value), sum(value) FROM v",
        "SELECT a, count(value), sum(value), max(value) FROM v GROUP BY a ORDER BY a",
        "SELECT b, count(value), sum(value), min(value) FROM v WHERE a <> 45 GROUP BY b ORDER BY b",
        "SELECT b % 7, count(value), sum(value) FROM v GROUP BY 1 ORDER BY 1",
        "SELECT count(value), sum(value) FROM v WHERE value < 2",
    ] {
        assert_eq!(
            rows(&ctx, sql).await,
            datafusion_answer(&ctx, sql).await,
            "{sql}"
        );
    }
    // Groups that hold only infinities, for which DataFusion's own min and max are finite.
    let sql =
        "SELECT min(value), max(value) FROM v WHERE a = 45 AND b IN (0, 1) GROUP BY b ORDER BY b";
    assert_eq!(rows(&ctx, sql).await, ["inf inf", "-inf -inf"]);
}

/// When NaN counts as a value, comparisons follow DataFusion, row by row.
#[tokio::test]
async fn nan_as_a_value_is_compared_row_by_row() {
    let spec = DatasetSpec::new("v", Dtype::F32, &[2, 2], &[1, 2]).with_dim_names(["a", "b"]);
    let bytes = cells!([1.0, f32::NAN, 3.0, 4.0]);
    let options = ArrayOptions::new().with_nan_as_null(false);
    let (_folder, _, ctx) = sample(&[(spec, bytes)], options).await;
    let sql = "SELECT max(value), count(value), sum(value) FROM v WHERE value > 2";
    assert!(plan(&ctx, sql).await.contains("by_row"));
    assert_eq!(rows(&ctx, sql).await, ["NaN 3 NaN"]);
}

#[tokio::test]
async fn wide_tables_and_many_files() {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..3 {
        let days: Vec<String> = (0..4).map(|day| (file * 4 + day).to_string()).collect();
        let spec = |name: &str, chunk: &[u64]| {
            DatasetSpec::new(name, Dtype::F32, &[4, 6], chunk)
                .with_dim_names(["day", "x"])
                .with_labels("day", days.clone())
        };
        let numbers = |factor: i32| cells!((0..24).map(|n| ((file * 24 + n) * factor) as f32));
        write(
            &folder.path().join(format!("{file}.tet")),
            &[
                (spec("a", &[3, 4]), numbers(1)),
                (spec("b", &[1, 6]), numbers(2)),
            ],
        );
    }
    let ctx = session();
    let create = format!(
        "CREATE EXTERNAL TABLE t STORED AS TET LOCATION '{}/*.tet#day_x' OPTIONS ('file_column' 'true')",
        folder.path().display()
    );
    rows(&ctx, &create).await;
    for sql in [
        "SELECT avg(a), sum(b), min(a), max(b), count(*) FROM t",
        "SELECT day, sum(a), sum(b) FROM t WHERE x > 2 GROUP BY day ORDER BY day",
        "SELECT x, sum(a) FILTER (WHERE a > 30), max(b) FROM t GROUP BY x ORDER BY x",
        "SELECT file, day % 2, sum(a) FROM t WHERE day BETWEEN 2 AND 9 GROUP BY 1, 2 ORDER BY 1, 2",
        "SELECT count(*), sum(b) FROM t WHERE a > 30 AND a < 50",
        "SELECT sum(a) FROM t WHERE b > 100",
    ] {
        let found = plan(&ctx, sql).await;
        assert!(found.contains("ArrayAggregateExec"), "{found}");
        assert_eq!(
            rows(&ctx, sql).await,
            datafusion_answer(&ctx, sql).await,
            "{sql}"
        );
    }
}

/// When the rule runs last, it must preserve the hash partitioning and the order that operators
/// above rely on.
#[tokio::test]
async fn rule_order_last_keeps_partitioning_and_order() {
    use std::sync::Arc;

    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::SessionConfig;
    use tet_sql::provider::aggregate::ArrayAggregates;

    let (folder, path, _) = sample(&[weather()], ArrayOptions::new()).await;
    let config = SessionConfig::new()
        .with_target_partitions(3)
        .set_usize("datafusion.optimizer.repartition_file_min_size", 1)
        .set_usize(
            "datafusion.optimizer.hash_join_single_partition_threshold",
            0,
        )
        .set_usize(
            "datafusion.optimizer.hash_join_single_partition_threshold_rows",
            0,
        );
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_physical_optimizer_rule(Arc::new(ArrayAggregates::new()))
        .build();
    let ctx = SessionContext::new_with_state(state);
    tet_sql::ArraySessionExt::register_array(&ctx, "v".into(), &path, ArrayOptions::new())
        .await
        .unwrap();
    for sql in [
        "SELECT p.lat, a, b FROM (SELECT lat, sum(value) a FROM v GROUP BY lat) p JOIN (SELECT lat, max(value) b FROM v GROUP BY lat) q ON p.lat = q.lat ORDER BY p.lat",
        "SELECT lat, lon, sum(value) FROM v GROUP BY lat, lon ORDER BY lat, lon",
    ] {
        let found = plan(&ctx, sql).await;
        assert!(found.contains("ArrayAggregateExec"), "{found}");
        assert_eq!(
            rows(&ctx, sql).await,
            datafusion_answer(&ctx, sql).await,
            "{sql}"
        );
    }
    drop(folder);
}

/// Functions that DataFusion does not have, checked against arithmetic by hand.
#[tokio::test]
async fn array_functions_match_arithmetic() {
    let spec = DatasetSpec::new("v", Dtype::F64, &[2, 3], &[1, 2])
        .with_dim_names(["day", "place"])
        .with_labels("place", ["oslo", "lima", "cairo"]);
    let numbers = [3.0, -1.0, 4.0, f64::NAN, -5.0, -5.0];
    let (_folder, _, ctx) = sample(&[(spec, cells!(numbers))], ArrayOptions::new()).await;
    for (sql, expected) in [
        (
            "SELECT arg_min(place, value), arg_max(place, value) FROM v",
            vec!["cairo cairo"],
        ),
        (
            "SELECT day, arg_min(place, value), arg_max(place, value) FROM v GROUP BY day ORDER BY day",
            vec!["0 lima cairo", "1 cairo cairo"],
        ),
        ("SELECT arg_max(day, place) FROM v", vec!["0"]),
        (
            "SELECT place, arg_max(day, value) FROM v WHERE day > 0 GROUP BY place ORDER BY place",
            vec!["cairo 1", "lima 1", "oslo NULL"],
        ),
        (
            "SELECT product(value), norm_l1(value), norm_l2(value) FROM v",
            vec!["-300.0 18.0 8.717797887081348"],
        ),
        (
            "SELECT day, product(value), norm_l1(value), round(norm_l2(value), 4) FROM v GROUP BY day ORDER BY day",
            vec!["0 -12.0 8.0 5.099", "1 25.0 10.0 7.0711"],
        ),
        (
            "SELECT product(value), norm_l2(value) FROM v WHERE place = 'oslo' AND day = 1",
            vec!["NULL NULL"],
        ),
        (
            "SELECT histogram(value, -5, 5, 5) FROM v",
            vec!["[2, 0, 1, 0, 2]"],
        ),
        (
            "SELECT day, histogram(value, 0, 4, 2) FROM v GROUP BY day ORDER BY day",
            vec!["0 [0, 2]", "1 [0, 0]"],
        ),
        (
            "SELECT quantile(value, 0.5), quantile(value, 1) FROM v",
            vec!["-1.0 4.0"],
        ),
        ("SELECT norm_l1(day * 10) FROM v", vec!["30.0"]),
    ] {
        assert_eq!(rows(&ctx, sql).await, expected, "{sql}");
        assert_eq!(datafusion_answer(&ctx, sql).await, expected, "{sql}");
    }
    for (sql, expected) in [
        (
            "SELECT histogram(value, 1, 1, 5) FROM v",
            "expected low below high",
        ),
        ("SELECT histogram(value, 0, 1, 0) FROM v", "found 0 bins"),
        (
            "SELECT histogram(value, 0, day, 2) FROM v",
            "must be constants",
        ),
        ("SELECT arg_max(value) FROM v", "arg_max"),
    ] {
        let message = error(&ctx, sql).await;
        assert!(message.contains(expected), "{sql}: {message}");
    }
}
