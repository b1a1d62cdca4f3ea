//! Aggregates with `FILTER` clauses and value predicates that run on chunks instead of row by row.
//! Each answer is compared with the same cells stored as rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float32Array, Int16Array};
use datafusion::prelude::SessionContext;
use tempfile::TempDir;
use tet_sql::ArrayOptions;
use tet_sql::format::tet::{DatasetSpec, Dtype};
use tetration::catalog::embed_indexes_in_tet;

use crate::cells;
use crate::support::sql::{open, register_rows, rows, rows_without, run, write};

const SHAPE: [u64; 3] = [6, 5, 4];
const AXES: [(&str, usize); 3] = [("day", 6), ("lat", 5), ("lon", 4)];

/// A file with three arrays, and the tables `rows_v`, `rows_w` and `rows_u` with the same cells as
/// rows.
///
/// - `v`: floats in one chunk per day. Every seventh cell and all of day 4 are missing.
/// - `w`: integers in smaller chunks. Every fifth cell is missing.
/// - `u`: the integers of `w` in one chunk per day and without a fill value, so no cell is missing.
async fn sample() -> (TempDir, SessionContext) {
    let missing = |n: usize| n % 7 == 3 || n / 20 == 4;
    let floats = || (0..120).map(move |n| (!missing(n)).then_some((n * 13 % 40) as f32 - 9.0));
    let integers = || (0..120).map(|n| (n % 5 != 2).then_some((n * 7 % 23) as i16 - 3));
    let spec = |name: &str, dtype, chunks: &[u64]| {
        DatasetSpec::new(name, dtype, &SHAPE, chunks).with_dim_names(["day", "lat", "lon"])
    };
    let marked = || integers().map(|value| value.unwrap_or(-999));
    let w = spec("w", Dtype::I16, &[4, 2, 3]).with_attribute("_FillValue", "-999");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    write(
        &path,
        &[
            (
                spec("v", Dtype::F32, &[1, 5, 4]),
                cells!(floats().map(|value| value.unwrap_or(f32::NAN))),
            ),
            (w, cells!(marked())),
            (spec("u", Dtype::I16, &[1, 5, 4]), cells!(marked())),
        ],
    );
    embed_indexes_in_tet(&path, 0).unwrap();
    let ctx = open(&path, ArrayOptions::new()).await;
    let arrays: [(&str, ArrayRef); 3] = [
        ("v", Arc::new(floats().collect::<Float32Array>())),
        ("w", Arc::new(integers().collect::<Int16Array>())),
        ("u", Arc::new(Int16Array::from_iter_values(marked()))),
    ];
    for (name, values) in arrays {
        register_rows(&ctx, &format!("rows_{name}"), &AXES, values);
    }
    (folder, ctx)
}

/// The EXPLAIN line of the `ArrayAggregateExec` in a query's plan.
async fn operator(ctx: &SessionContext, sql: &str) -> String {
    let plan = rows(ctx, &format!("EXPLAIN FORMAT INDENT {sql}")).await;
    let lines = plan.iter().flat_map(|row| row.lines());
    let mut lines = lines.filter(|line| line.contains("ArrayAggregateExec"));
    let line = lines.next().unwrap_or_else(|| panic!("{sql}\n{plan:?}"));
    line.trim().trim_start_matches("physical_plan ").to_string()
}

/// Checks that a query on `{t}` aggregates without going row by row and returns what the same rows
/// in memory return. Returns the number of chunks read.
async fn checked_chunks_read(ctx: &SessionContext, table: &str, sql: &str) -> usize {
    let ours = sql.replace("{t}", table);
    let operator = operator(ctx, &ours).await;
    assert!(!operator.contains("by_row"), "{ours}\n{operator}");
    let ran = run(ctx, &ours).await;
    let theirs = rows(ctx, &sql.replace("{t}", &format!("rows_{table}"))).await;
    let sorted = |mut rows: Vec<String>| {
        rows.sort();
        rows
    };
    let reads = ran.reads();
    let theirs = sorted(theirs);
    assert_eq!(sorted(ran.rows), theirs, "{ours}");
    // Without zone maps no chunk is skipped; the result must be the same.
    let unknown = rows_without(ctx, "tet.zone_maps", &ours).await;
    assert_eq!(sorted(unknown), theirs, "{ours}, without zone maps");
    reads
}

#[tokio::test]
async fn rows_are_counted_by_their_values() {
    let (_folder, ctx) = sample().await;
    for (table, sql, expected) in [
        ("v", "SELECT count(*) FILTER (WHERE value > 3) FROM {t}", 5),
        (
            "v",
            "SELECT lat, count(*), count(*) FILTER (WHERE value > 3), count(*) FILTER (WHERE value > 10), avg(value) FROM {t} GROUP BY lat",
            5,
        ),
        (
            "w",
            "SELECT day, lon, count(*) FILTER (WHERE value BETWEEN 2 AND 7) FROM {t} WHERE value < 6 GROUP BY day, lon",
            12,
        ),
        // The zone maps prove that every value passes, so the counts need no read.
        (
            "u",
            "SELECT day, count(lat) FILTER (WHERE value > -1000) FROM {t} GROUP BY day",
            0,
        ),
        (
            "u",
            "SELECT count(*) FILTER (WHERE value > 1000) FROM {t}",
            0,
        ),
    ] {
        assert_eq!(
            checked_chunks_read(&ctx, table, sql).await,
            expected,
            "{sql}"
        );
    }
    let sql = "SELECT lat, count(*) FILTER (WHERE value > 3) AS high FROM v GROUP BY lat";
    insta::assert_snapshot!(
        operator(&ctx, sql).await,
        @"ArrayAggregateExec: mode=Single, gby=[lat@1], aggr=[count(Int64(1)) FILTER (WHERE v.value > Int64(3))], tet=v, slice=[day: all, lat: all, lon: all], chunks=6 of 6"
    );
}

#[tokio::test]
async fn filters_over_dimensions_restrict_cells() {
    let (_folder, ctx) = sample().await;
    for (table, sql, expected) in [
        // Chunks that no aggregate needs are not read, and row counts need no chunk at all.
        ("v", "SELECT avg(value) FILTER (WHERE day >= 5) FROM {t}", 1),
        (
            "v",
            "SELECT count(*) FILTER (WHERE day < 3 AND lat <> 2) FROM {t}",
            0,
        ),
        (
            "v",
            "SELECT lat, count(*) FILTER (WHERE day = 2), count(*), sum(value) FILTER (WHERE day = 0), max(value) FILTER (WHERE day = 1 AND lon > 1) FROM {t} GROUP BY lat",
            2,
        ),
        (
            "v",
            "SELECT day, count(value) FILTER (WHERE lat = 1), sum(value) FILTER (WHERE lat > 3), avg(value) FROM {t} GROUP BY day",
            5,
        ),
        (
            "v",
            "SELECT lon, lat, min(value) FILTER (WHERE lat % 2 = 0), count(value) FILTER (WHERE lat <> 3) FROM {t} WHERE lon < 3 GROUP BY lon, lat",
            5,
        ),
        // Combined with value predicates, and with a `WHERE` clause that removes groups.
        (
            "v",
            "SELECT lat, count(*) FILTER (WHERE value > 3 AND day > 2), sum(value) FILTER (WHERE day < 2 AND value < 20) FROM {t} WHERE value > 0 GROUP BY lat",
            5,
        ),
        (
            "w",
            "SELECT day % 2, sum(value) FILTER (WHERE lat < 2), count(value) FILTER (WHERE lat < 2), avg(value) FILTER (WHERE lat < 2 AND value IS NOT NULL), stddev_pop(value) FILTER (WHERE lat = 9), count(*) FILTER (WHERE lat < 2) FROM {t} GROUP BY day % 2",
            4,
        ),
        (
            "w",
            "SELECT sum(value) FILTER (WHERE lon > lon - 1 AND day > 3) FROM {t}",
            6,
        ),
    ] {
        assert_eq!(
            checked_chunks_read(&ctx, table, sql).await,
            expected,
            "{sql}"
        );
    }
    let sql = "SELECT avg(value) FILTER (WHERE day >= 4) AS late, avg(value) FROM v";
    insta::assert_snapshot!(
        operator(&ctx, sql).await,
        @"ArrayAggregateExec: mode=Single, gby=[], aggr=[avg(v.value) FILTER (WHERE v.day >= Int64(4)), avg(v.value)], tet=v, slice=[day: all, lat: all, lon: all], chunks=6 of 6"
    );
    // Predicates that may fail on some coordinate, or that use several dimensions, are evaluated
    // row by row.
    for sql in [
        "SELECT sum(value) FILTER (WHERE lat < lon * day) FROM {t}",
        "SELECT sum(value) FILTER (WHERE 6 / lat > 2) FROM {t} WHERE lat * lon > 0",
    ] {
        let [ours, theirs] = ["v", "rows_v"].map(|table| sql.replace("{t}", table));
        assert_eq!(rows(&ctx, &ours).await, rows(&ctx, &theirs).await, "{sql}");
    }
    let over_three = "SELECT sum(value) FILTER (WHERE lat < lon * day) FROM v";
    assert!(operator(&ctx, over_three).await.contains("by_row=[sum("));
}

/// Filters on dimensions of a table of several files, each with its own axis.
/// `avg(CASE WHEN p THEN x END)` is `avg(x) FILTER (WHERE p)`.
#[tokio::test]
async fn conditional_values_are_filtered() {
    let (_folder, ctx) = sample().await;
    for (table, sql, expected) in [
        (
            "v",
            "SELECT avg(CASE WHEN day >= 5 THEN value END) FROM {t}",
            1,
        ),
        (
            "v",
            "SELECT lat, sum(CASE WHEN day = 1 THEN value END), min(CASE WHEN day = 2 THEN value ELSE NULL END) FROM {t} GROUP BY lat",
            2,
        ),
        (
            "v",
            "SELECT lon, count(CASE WHEN value > 3 THEN 1 END), round(stddev(CASE WHEN day < 3 THEN value END), 9) FROM {t} GROUP BY lon",
            5,
        ),
        (
            "u",
            "SELECT count(CASE WHEN value > 1000 THEN day END) FROM {t}",
            0,
        ),
    ] {
        assert_eq!(
            checked_chunks_read(&ctx, table, sql).await,
            expected,
            "{sql}"
        );
    }
    // Values that may fail where the condition does not hold are not evaluated there, and other branches stay.
    for sql in [
        "SELECT sum(CASE WHEN value <> 0 THEN 100 / value END) FROM {t}",
        "SELECT max(CASE WHEN day > 9 THEN CAST('x' || CAST(value AS VARCHAR) AS DOUBLE) END) FROM {t}",
        "SELECT sum(CASE WHEN value > 3 THEN 1 ELSE 0 END), count(CASE WHEN day = 1 THEN 1 WHEN day = 2 THEN 2 END) FROM {t}",
        "SELECT sum(CASE lat WHEN 1 THEN value END) FROM {t}",
        "SELECT max(CASE WHEN day IN (0, 3) THEN sqrt(value * value) END) FROM {t}",
        "SELECT array_agg(CASE WHEN lat = 1 THEN day END ORDER BY day, lat, lon) FROM {t}",
    ] {
        let found = rows(&ctx, &sql.replace("{t}", "w")).await;
        let expected = rows(&ctx, &sql.replace("{t}", "rows_w")).await;
        assert_eq!(found, expected, "{sql}");
    }
}

#[tokio::test]
async fn filters_over_dimensions_of_many_files() {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..3 {
        let days: Vec<String> = (0..4).map(|day| (file * 4 + day).to_string()).collect();
        let spec = DatasetSpec::new("a", Dtype::F32, &[4, 6], &[2, 6])
            .with_dim_names(["day", "x"])
            .with_labels("day", days);
        let numbers = cells!((0..24).map(|n| (file * 24 + n) as f32));
        write(
            &folder.path().join(format!("{file}.tet")),
            &[(spec, numbers)],
        );
    }
    let ctx = crate::support::sql::session();
    let create = format!(
        "CREATE EXTERNAL TABLE v STORED AS TET LOCATION '{}/*.tet#a' OPTIONS ('file_column' 'true')",
        folder.path().display()
    );
    rows(&ctx, &create).await;
    let values = Float32Array::from_iter_values((0..72).map(|n| n as f32));
    register_rows(&ctx, "rows_v", &[("day", 12), ("x", 6)], Arc::new(values));
    for (sql, expected) in [
        (
            "SELECT sum(value) FILTER (WHERE day BETWEEN 3 AND 5) FROM {t}",
            2,
        ),
        (
            "SELECT day % 3, count(*) FILTER (WHERE day > 6), sum(value) FILTER (WHERE x = 1) FROM {t} GROUP BY day % 3",
            6,
        ),
        (
            "SELECT x, max(value) FILTER (WHERE day < 4) FROM {t} GROUP BY x",
            2,
        ),
    ] {
        assert_eq!(checked_chunks_read(&ctx, "v", sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn value_lists_and_ranges_are_evaluated_on_chunks() {
    let (_folder, ctx) = sample().await;
    let lists = [
        "value IS NOT NULL",
        "value IS NULL",
        "value <> 4",
        "value <> 4 AND value < 9",
        "value IN (4, 17, -6)",
        "value IN (-3, -2, -1, 1, 2, 19)",
        "value NOT IN (4, 5, 17, 8, 9)",
        "value < -2 OR value > 15",
        "value < -2 OR value IS NULL OR value = 7",
        "NOT (value BETWEEN 1 AND 11)",
        "value > 100 OR value IS NULL",
        "value NOT IN (4, 5) AND value IS NOT NULL AND day <> 1",
    ];
    for predicate in lists {
        for table in ["v", "w", "u"] {
            for sql in [
                "SELECT count(*), count(value), sum(value), avg(value), min(value), max(value), round(stddev_pop(value), 9) FROM {t} WHERE ({p})",
                "SELECT lat, count(*), avg(value) FROM {t} WHERE ({p}) GROUP BY lat",
                "SELECT day, lon, count(*), max(value) FROM {t} WHERE ({p}) AND lat > 0 GROUP BY day, lon",
                "SELECT lon, count(*) FILTER (WHERE ({p})), sum(value) FILTER (WHERE ({p})) FROM {t} GROUP BY lon",
                "SELECT lon, count(*) FILTER (WHERE ({p}) AND lat > 2), avg(value) FROM {t} WHERE value <> 8 OR value IS NULL GROUP BY lon",
                "SELECT DISTINCT day, lat FROM {t} WHERE ({p})",
            ] {
                checked_chunks_read(&ctx, table, &sql.replace("{p}", predicate)).await;
            }
        }
    }
    // Chunks whose statistics decide the predicate are not read: day 4 is entirely missing, and
    // every other chunk has known bounds and a known count of missing cells.
    for (sql, expected) in [
        (
            "SELECT count(*) FROM {t} WHERE value IS NULL AND day = 4",
            0,
        ),
        (
            "SELECT day, count(*) FROM {t} WHERE value IS NULL GROUP BY day",
            0,
        ),
        (
            "SELECT day, count(*) FROM {t} WHERE value <> 1000 OR value IS NULL GROUP BY day",
            0,
        ),
        ("SELECT count(*) FILTER (WHERE value IS NULL) FROM {t}", 0),
        (
            "SELECT lat, count(*) FILTER (WHERE value IS NULL) FROM {t} GROUP BY lat",
            5,
        ),
    ] {
        assert_eq!(checked_chunks_read(&ctx, "v", sql).await, expected, "{sql}");
    }
    let sql = "SELECT avg(value) FROM v WHERE value <> -9";
    insta::assert_snapshot!(
        operator(&ctx, sql).await,
        @"ArrayAggregateExec: mode=Single, gby=[], aggr=[avg(v.value)], predicate=value@3 != -9, tet=v, slice=[day: all, lat: all, lon: all], chunks=5 of 6, pruned_by_zone_map=1"
    );
    // A long list of separate values is looked up row by row instead.
    let many: Vec<String> = (0..20).map(|n| (n * 2).to_string()).collect();
    let sql = format!(
        "SELECT sum(value) FROM v WHERE value IN ({})",
        many.join(", ")
    );
    assert!(operator(&ctx, &sql).await.contains("by_row=[sum("));
    let theirs = rows(&ctx, &sql.replace("FROM v", "FROM rows_v")).await;
    assert_eq!(rows(&ctx, &sql).await, theirs);
}

/// The way an aggregate is computed is decided when a query is planned, before scalar subqueries
/// have values. EXPLAIN shows the plan that runs.
#[tokio::test]
async fn predicates_with_subqueries_are_evaluated_on_chunks() {
    let (_folder, ctx) = sample().await;
    for (sql, left) in [
        (
            "SELECT count(*), avg(value) FROM {t} WHERE day = (SELECT max(day) - 2 FROM {t})",
            0,
        ),
        (
            "SELECT lat, max(lon), sum(value) FROM {t} WHERE day > (SELECT min(day) FROM {t}) GROUP BY lat",
            0,
        ),
        (
            "SELECT count(*), sum(value) FROM {t} WHERE value > (SELECT avg(value) FROM {t})",
            0,
        ),
        (
            "SELECT lon, count(*) FROM {t} WHERE value <> (SELECT max(value) FROM {t}) OR value IS NULL GROUP BY lon",
            0,
        ),
        (
            "SELECT count(*) FILTER (WHERE value < (SELECT avg(value) FROM {t})), sum(value) FILTER (WHERE lat = (SELECT max(lat) FROM {t})) FROM {t}",
            0,
        ),
        // The value is null, so there are no bounds.
        (
            "SELECT count(*), sum(value) FROM {t} WHERE value > (SELECT max(value) FROM {t} WHERE value > 99)",
            1,
        ),
        // The predicate fails on some coordinate, but on no row that is left.
        (
            "SELECT sum(value) FILTER (WHERE 6 / (lat - (SELECT min(lat) FROM {t})) > 2) FROM {t} WHERE lat * lon > 0",
            1,
        ),
    ] {
        let ours = sql.replace("{t}", "w");
        let ran = run(&ctx, &ours).await;
        assert_eq!(ran.metric("left_to_engine"), left, "{sql}");
        let mut found = ran.rows;
        let mut expected = rows(&ctx, &sql.replace("{t}", "rows_w")).await;
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{sql}");
    }
    for sql in [
        "SELECT avg(value) FROM v WHERE value > (SELECT avg(value) FROM v)",
        "SELECT avg(value) FROM v WHERE day < (SELECT max(day) FROM v)",
    ] {
        assert!(!operator(&ctx, sql).await.contains("by_row"), "{sql}");
    }
}

/// Rows that the filter rejects are not passed to arguments that fail on them.
#[tokio::test]
async fn filters_protect_arguments() {
    let (_folder, ctx) = sample().await;
    for (aggregate, filter) in [
        ("max(sqrt(value))", "value >= 0"),
        ("sum(100 / value)", "value <> 0"),
        ("sum(100 / (lat - 2) * value)", "lat <> 2"),
    ] {
        let where_it_holds = format!("FROM rows_w WHERE {filter}");
        let filtered = format!("{aggregate} FILTER (WHERE {filter}), count(*) FROM w");
        let sum = rows(&ctx, &format!("SELECT {aggregate} {where_it_holds}")).await;
        let found = rows(&ctx, &format!("SELECT {filtered}")).await;
        assert_eq!(found, [format!("{} 120", sum[0])]);
        let by_day = |select: &str| format!("SELECT day, {select} GROUP BY day ORDER BY day");
        let sums = rows(&ctx, &by_day(&format!("{aggregate}, 20 {where_it_holds}"))).await;
        assert_eq!(rows(&ctx, &by_day(&filtered)).await, sums);
    }
}
