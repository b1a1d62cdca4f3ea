//! Chunks that are pruned by zone maps, by value postings and by dynamic filters.

use std::path::Path;

use datafusion::prelude::SessionContext;
use tet_sql::format::tet::{DatasetSpec, Dtype};
use tet_sql::{Access, ArrayOptions};
use tetration::catalog::embed_indexes_in_tet;

use crate::cells;
use crate::support::cells::data;
use crate::support::sql::{open, rows, run, write};

/// Writes days 0 to 9 with one chunk of ten cells each: day d holds 10 d to 10 d + 9. All of day 4
/// and half of day 5 are missing.
fn days(path: &Path, fill: Option<&str>) {
    let missing = |n: i32| n / 10 == 4 || (n / 10 == 5 && n % 2 == 0);
    let numbers = (0..100).map(|n| if missing(n) { -999.0 } else { n as f32 });
    let mut spec =
        DatasetSpec::new("v", Dtype::F32, &[10, 10], &[1, 10]).with_dim_names(["day", "x"]);
    if let Some(fill) = fill {
        spec = spec.with_attribute("_FillValue", fill);
    }
    let days = DatasetSpec::new("day", Dtype::F64, &[10], &[4]).with_dim_names(["day"]);
    write(
        path,
        &[
            (spec, cells!(numbers)),
            (days, cells!((0..10).map(f64::from))),
        ],
    );
    embed_indexes_in_tet(path, 0).unwrap();
}

/// Returns the rows of a query, which must be the same without zone maps, and the number of chunks
/// read with and without them.
async fn chunks_read_with_and_without_zone_maps(
    with: &SessionContext,
    without: &SessionContext,
    sql: &str,
) -> (Vec<String>, [usize; 2]) {
    let (with, without) = (run(with, sql).await, run(without, sql).await);
    assert_eq!(with.rows, without.rows, "{sql}");
    let pruned = with.metric("chunks_pruned_by_zone_map");
    assert_eq!(without.metric("chunks_pruned_by_zone_map"), 0);
    let read = with.reads();
    if pruned > 0 {
        let known = with.metric("chunks_known_by_zone_map");
        assert_eq!(
            pruned + with.metric("chunks_pruned_by_slice") + known + read,
            10,
            "{sql}"
        );
    }
    (with.rows, [read, without.metric("chunks_read")])
}

#[tokio::test]
async fn zone_maps_drop_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("days.tet");
    days(&path, Some("-999"));
    for access in [Access::Mmap, Access::Pread] {
        let options = ArrayOptions::new().with_access(access);
        let with = open(&path, options.clone()).await;
        let without = open(&path, options.with_zone_maps(false)).await;
        for (condition, count, chunks) in [
            ("value = 33", 1, 1),
            ("value = 33.5", 0, 1),
            ("value > 85", 14, 2),
            ("value >= 85", 15, 2),
            ("value < 5", 5, 1),
            ("value <= 10", 11, 2),
            ("value BETWEEN 18 AND 21", 4, 2),
            ("value IN (3, 77, 500)", 2, 2),
            ("value IS NULL", 15, 2),
            ("value IS NOT NULL", 85, 9),
            ("value <> 33", 84, 9),
            ("CAST(value AS BIGINT) > 95", 4, 1),
            ("CAST(value AS DOUBLE) < 2", 2, 1),
            ("value > 1000", 0, 0),
            ("value > 90 OR value < 3", 12, 2),
            ("value > 90 OR day = 2", 19, 2),
            ("NOT (value < 90)", 10, 1),
            ("value > 60 AND day < 7", 9, 1),
            // Zone maps cannot prune for these predicates.
            ("sqrt(value) > 9.9", 1, 10),
            ("value > x * 100", 0, 10),
        ] {
            let sql = format!("SELECT value FROM v WHERE {condition}");
            let (found, [read, _]) =
                chunks_read_with_and_without_zone_maps(&with, &without, &sql).await;
            if condition != "value > x * 100" {
                assert_eq!(found.len(), count, "{sql}");
            }
            assert_eq!(read, chunks, "{sql}");
        }
        let plan = rows(
            &with,
            "EXPLAIN FORMAT INDENT SELECT * FROM v WHERE value > 85",
        )
        .await
        .join("\n");
        assert!(
            plan.contains("chunks=2 of 10, pruned_by_zone_map=8"),
            "{plan}"
        );
    }
}

#[tokio::test]
async fn zone_maps_answer_minimum_maximum_and_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("days.tet");
    days(&path, Some("-999"));
    let with = open(&path, ArrayOptions::new()).await;
    let without = open(&path, ArrayOptions::new().with_zone_maps(false)).await;
    const EXTREMES: &str = "min(value), max(value), count(value), count(*)";
    for (condition, expected, chunks) in [
        ("true", "0.0 99.0 85 100", 0),
        ("day BETWEEN 3 AND 5", "30.0 59.0 15 30", 0),
        ("day IN (4, 8)", "80.0 89.0 10 20", 0),
        ("day = 4", "NULL NULL 0 10", 0),
        // The statistics of a chunk are not exact for a part of its cells.
        ("x < 5 AND day > 7", "80.0 94.0 10 10", 2),
        ("value > 50 AND day = 6", "60.0 69.0 10 10", 0),
        ("value > 65 AND day > 4", "66.0 99.0 34 34", 1),
    ] {
        let sql = format!("SELECT {EXTREMES} FROM v WHERE {condition}");
        let (found, [read, _]) =
            chunks_read_with_and_without_zone_maps(&with, &without, &sql).await;
        assert_eq!((found, read), (vec![expected.to_string()], chunks), "{sql}");
    }
}

/// The bounds in a zone map exclude missing cells. Where missing cells are read as values, the zone
/// map cannot prune their chunks.
#[tokio::test]
async fn missing_cells_read_as_values_disable_pruning() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("days.tet");
    days(&path, Some("-999"));
    let options = ArrayOptions::new().with_fill_as_null(false);
    let with = open(&path, options.clone()).await;
    let without = open(&path, options.with_zone_maps(false)).await;
    for (condition, count, chunks) in [
        ("value = -999", 15, 2),
        ("value < 5", 20, 3),
        ("value IS NULL", 0, 2),
        ("value > 85", 14, 4),
    ] {
        let sql = format!("SELECT value FROM v WHERE {condition}");
        let (found, [read, _]) =
            chunks_read_with_and_without_zone_maps(&with, &without, &sql).await;
        assert_eq!((found.len(), read), (count, chunks), "{sql}");
    }
    let (found, _) = chunks_read_with_and_without_zone_maps(
        &with,
        &without,
        "SELECT min(value), max(value), count(value) FROM v",
    )
    .await;
    assert_eq!(found, ["-999.0 99.0 100"]);

    // NaN as a value is the maximum in DataFusion's order.
    let path = folder.path().join("nan.tet");
    let spec = DatasetSpec::new("v", Dtype::F64, &[4], &[2]);
    write(&path, &[(spec, cells!([1.0, f64::NAN, 2.0, 3.0]))]);
    embed_indexes_in_tet(&path, 0).unwrap();
    let ctx = open(&path, ArrayOptions::new().with_nan_as_null(false)).await;
    assert_eq!(
        rows(&ctx, "SELECT value FROM v WHERE value > 2").await,
        ["NaN", "3.0"]
    );
    assert_eq!(
        rows(&ctx, "SELECT value FROM v WHERE value IS NULL").await,
        [] as [&str; 0]
    );
    let ctx = open(&path, ArrayOptions::new()).await;
    assert_eq!(
        rows(&ctx, "SELECT value FROM v WHERE value > 2").await,
        ["3.0"]
    );
}

/// The reference implementation compares an f32 fill value of 1e20 as a double and so finds no
/// missing cell, unless the file has zone maps (tetration 0.8.3). The cells are the same either
/// way, and so must our answers be.
#[tokio::test]
async fn answers_do_not_depend_on_indexes() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "fill_1e20.tet",
        "specials_f64.tet",
        "big_i64.tet",
        "weather_small.tet",
    ] {
        let indexed = folder.path().join(name);
        std::fs::copy(data(name), &indexed).unwrap();
        embed_indexes_in_tet(&indexed, 0).unwrap();
        let with = open(&indexed, ArrayOptions::new()).await;
        let without = open(&indexed, ArrayOptions::new().with_zone_maps(false)).await;
        let tables = rows(
            &with,
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'f'",
        );
        for table in tables.await {
            for condition in [
                "value > 3",
                "value = 0",
                "value = -0.0",
                "value <> 0",
                "value IN (0, 1, 9007199254740993)",
                "value >= 9007199254740993",
                "value IS NULL",
                "value IS NOT NULL",
                "value < -1e300",
                "value > 1e19",
            ] {
                if table == "time_lat_lon" {
                    continue;
                }
                let sql = format!(
                    "SELECT count(*), count(value), min(value), max(value) FROM \"{table}\" WHERE {condition}"
                );
                let answers = (rows(&with, &sql).await, rows(&without, &sql).await);
                assert_eq!(answers.0, answers.1, "{name}: {sql}");
            }
            if table != "time_lat_lon" {
                let sql = format!("SELECT count(value), min(value), max(value) FROM \"{table}\"");
                assert_eq!(
                    rows(&with, &sql).await,
                    rows(&without, &sql).await,
                    "{name}"
                );
            }
        }
    }
}

#[tokio::test]
async fn postings_prune_values_between_the_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("codes.tet");
    // Every chunk holds 0 and 9, and one value between.
    let spec = DatasetSpec::new("v", Dtype::U8, &[8, 3], &[1, 3]).with_dim_names(["day", "x"]);
    let codes = (0..8u8).flat_map(|day| [0, day + 1, 9]).collect();
    write(&path, &[(spec, codes)]);
    embed_indexes_in_tet(&path, 0).unwrap();
    let ctx = open(&path, ArrayOptions::new()).await;
    for (condition, count, chunks) in [
        ("value = 4", 1, 1),
        ("value IN (4, 5)", 2, 2),
        ("value = 9", 8, 8),
        ("value = 40", 0, 0),
        ("value <> 4", 23, 8),
        ("value = 4 OR value = 6", 2, 2),
    ] {
        let ran = run(&ctx, &format!("SELECT value FROM v WHERE {condition}")).await;
        assert_eq!(
            (ran.rows.len(), ran.reads()),
            (count, chunks),
            "{condition}"
        );
    }
}

#[tokio::test]
async fn corrupt_indexes_are_ignored_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("days.tet");
    days(&path, Some("-999"));
    let intact = std::fs::read(&path).unwrap();
    let text = String::from_utf8_lossy(&intact).into_owned();
    // Corrupt the zone map in place: a wrong element count, a wrong null count, and invalid JSON.
    for (found, broken) in [
        ("\"element_count\": 10", "\"element_count\": 11"),
        ("\"null_count\": 10", "\"null_count\": 11"),
        ("\"chunks\": [", "\"chunks\": {"),
    ] {
        let at = text.find(found).unwrap();
        // The index in the lossy text is too high if invalid UTF-8 comes earlier, so search the
        // bytes.
        let at = intact
            .windows(found.len())
            .position(|window| window == found.as_bytes())
            .unwrap_or(at);
        let mut bytes = intact.clone();
        bytes[at..at + broken.len()].copy_from_slice(broken.as_bytes());
        std::fs::write(&path, bytes).unwrap();
        let ctx = open(&path, ArrayOptions::new()).await;
        let ran = run(&ctx, "SELECT value FROM v WHERE value > 85").await;
        assert_eq!((ran.rows.len(), ran.reads()), (14, 10), "{broken}");
        let plan = rows(
            &ctx,
            "EXPLAIN FORMAT INDENT SELECT * FROM v WHERE value > 85",
        )
        .await
        .join("\n");
        assert!(plan.contains("unusable_zone_maps="), "{plan}");
        assert_eq!(rows(&ctx, "SELECT max(value) FROM v").await, ["99.0"]);
    }
}

#[tokio::test]
async fn joins_top_k_and_subqueries_prune_during_execution() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("days.tet");
    days(&path, Some("-999"));
    let ctx = open(&path, ArrayOptions::new()).await;
    let dynamic = "chunks_pruned_by_dynamic_filter";

    // The join keys 2 and 7 prune exactly, not just by their min and max.
    let sql = "SELECT k.day, max(v.value) FROM (VALUES (2.0), (7.0)) AS k(day) JOIN v ON v.day = k.day GROUP BY 1 ORDER BY 1";
    let ran = run(&ctx, sql).await;
    assert_eq!(ran.rows, ["2.0 29.0", "7.0 79.0"]);
    assert_eq!((ran.reads(), ran.metric(dynamic)), (0, 8));
    assert_eq!(ran.metric("chunks_known_by_zone_map"), 2);
    let sql = "SELECT k.day, v.value FROM (VALUES (2.0), (7.0)) AS k(day) JOIN v ON v.day = k.day";
    let ran = run(&ctx, sql).await;
    assert_eq!(
        (ran.rows.len(), ran.reads(), ran.metric(dynamic)),
        (20, 2, 8)
    );

    // Join keys on values prune as well.
    let sql =
        "SELECT v.day FROM (VALUES (CAST(33 AS FLOAT))) AS k(value) JOIN v ON v.value = k.value";
    let ran = run(&ctx, sql).await;
    assert_eq!((ran.reads(), ran.rows), (1, vec!["3.0".to_string()]));

    ctx.sql("SET datafusion.execution.batch_size = 10")
        .await
        .unwrap();
    // Top-k by value in batches no larger than a chunk: once the first rows are found, chunks with
    // only larger values are skipped.
    let ran = run(
        &ctx,
        "SELECT value FROM v WHERE value IS NOT NULL ORDER BY value LIMIT 3",
    )
    .await;
    assert_eq!(ran.rows, ["0.0", "1.0", "2.0"]);
    assert!(ran.reads() <= 2, "{}", ran.reads());
    let ran = run(&ctx, "SELECT max(value) FROM v WHERE x < 9").await;
    assert_eq!(ran.rows, ["98.0"]);

    // Chunks are read in the requested order. A FilterExec in between would not pass the order on.
    for (order, first) in [
        ("day DESC", "9.0"),
        ("day DESC, x", "9.0"),
        ("value DESC NULLS LAST", "9.0"),
        ("value NULLS LAST", "0.0"),
        ("day", "0.0"),
    ] {
        let sql = format!("SELECT day, value FROM v ORDER BY {order} LIMIT 2");
        let ran = run(&ctx, &sql).await;
        assert!(ran.rows[0].starts_with(first), "{sql}: {:?}", ran.rows);
        assert!(ran.reads() <= 2, "{sql}: {}", ran.reads());
    }

    // The result of a scalar subquery is known when the scan starts.
    let sql = "SELECT count(*), min(value) FROM v WHERE day = (SELECT max(day) FROM v)";
    let ran = run(&ctx, sql).await;
    assert_eq!(ran.rows, ["10 90.0"]);
    assert_eq!((ran.reads(), ran.metric(dynamic)), (0, 9));
    assert_eq!(ran.metric("chunks_known_by_zone_map"), 1);
    let sql = "SELECT sum(value) FROM v WHERE day = (SELECT max(day) FROM v)";
    let ran = run(&ctx, sql).await;
    assert_eq!(ran.rows, ["945.0"]);
    assert_eq!((ran.reads(), ran.metric(dynamic)), (1, 9));
    let sql = "SELECT count(*) FROM v WHERE value > (SELECT max(value) - 5 FROM v)";
    let ran = run(&ctx, sql).await;
    assert_eq!(ran.rows, ["5"]);
    assert_eq!(ran.reads(), 1);

    // The values of parameters are known when a statement is executed.
    ctx.sql("PREPARE one(DOUBLE, FLOAT) AS SELECT value FROM v WHERE day = $1 AND value > $2")
        .await
        .unwrap();
    let ran = run(&ctx, "EXECUTE one(3.0, 36.5)").await;
    assert_eq!(ran.rows, ["37.0", "38.0", "39.0"]);
    assert_eq!((ran.reads(), ran.metric("chunks_pruned_by_slice")), (1, 9));
    // The plan can be executed again with other parameter values.
    let ran = run(&ctx, "EXECUTE one(9.0, 98.0)").await;
    assert_eq!(ran.rows, ["99.0"]);
}

/// A dynamic filter from above a limit must not change the rows that the limit selects.
#[tokio::test]
async fn dynamic_filters_do_not_pass_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.tet");
    let spec = DatasetSpec::new("v", Dtype::I32, &[30], &[10]).with_dim_names(["i"]);
    let numbers = (50i32..60).chain(0..10).chain(90..100);
    write(&path, &[(spec, cells!(numbers))]);
    embed_indexes_in_tet(&path, 0).unwrap();
    for declared in [false, true] {
        let options = ArrayOptions::new().with_declare_ordering(declared);
        let ctx = open(&path, options).await;
        ctx.sql("SET datafusion.execution.batch_size = 10")
            .await
            .unwrap();
        let sql =
            "SELECT value FROM (SELECT * FROM v ORDER BY i LIMIT 20) ORDER BY value DESC LIMIT 2";
        assert_eq!(rows(&ctx, sql).await, ["59", "58"], "{declared}");
    }
}

/// Some of DataFusion's comparisons treat zeros of both signs as equal, others as distinct.
#[tokio::test]
async fn lists_with_zeros_do_not_drop_chunks_of_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.tet");
    let spec = DatasetSpec::new("v", Dtype::F32, &[8], &[2]);
    let numbers = [-0f32, -0.0, 0.0, 0.0, 1.0, 2.0, -0.0, 0.0];
    write(&path, &[(spec, cells!(numbers))]);
    embed_indexes_in_tet(&path, 0).unwrap();
    let with = open(&path, ArrayOptions::new()).await;
    let without = open(&path, ArrayOptions::new().with_zone_maps(false)).await;
    for condition in [
        "value IN (0.0, 5.0)",
        "value NOT IN (0.0, 1.0)",
        "value NOT IN (0.0, 1.0, 5.0, 6.0, 7.0, 8.0, 9.0)",
        "value = 0.0",
        "value <> -0.0",
    ] {
        let sql = format!("SELECT dim_0, value FROM v WHERE {condition}");
        assert_eq!(rows(&with, &sql).await, rows(&without, &sql).await, "{sql}");
    }
}
