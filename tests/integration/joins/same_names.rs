//! Filters above a join apply to the column they name, even if the other table has a column of the
//! same name.

use std::path::Path;
use std::process::Command;

use datafusion::prelude::{SessionConfig, SessionContext};
use tet_sql::format::tet::{DatasetSpec, Dtype};
use tet_sql::{ArrayOptions, ArraySessionExt, enable_arrays};

use crate::cells;
use crate::support::sql::{rows, run as run_in, write};

/// Runs the command in a directory and returns the rows of its answer, without the header.
fn run(directory: &Path, arguments: &[&str]) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
        .args(["--format", "csv", "--no-init"])
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().skip(1).map(str::to_string).collect()
}

fn demo(sql: &str) -> Vec<String> {
    run(Path::new("."), &["--demo", "-c", sql])
}

/// The demonstration's arrays have 48 times, 19 latitudes and 36 longitudes.
#[test]
fn in_subquery_above_a_join_filters_the_named_table() {
    let sql = "SELECT count(x.lat) FROM temperature x JOIN humidity y ON x.time=y.time AND x.lon=y.lon \
               WHERE y.lat IN (SELECT l FROM (VALUES (50),(60)) z(l)) AND x.time='2024-01-01' AND x.lon=0";
    // Each of the 19 latitudes of one array joins two of the other.
    assert_eq!(demo(sql), ["38"]);
}

#[test]
fn null_accepting_predicates_above_outer_joins() {
    let on = "ON x.time=y.time AND x.lat=y.lat AND x.lon=y.lon";
    let joined = |kind: &str| format!("temperature x {kind} JOIN humidity y {on}");
    // The cells where `temperature` is missing and `humidity` is above 50.
    for (kind, predicate) in [
        ("RIGHT", "x.value IS NULL AND y.value>50"),
        ("FULL", "x.value IS NULL AND y.value>50"),
        (
            "RIGHT",
            "(x.value IS NOT DISTINCT FROM NULL) AND y.value>50",
        ),
        ("FULL", "coalesce(x.value, -1000) = -1000 AND y.value>50"),
    ] {
        let sql = format!(
            "SELECT x.lon, y.value FROM {} WHERE {predicate}",
            joined(kind)
        );
        assert_eq!(demo(&sql).len(), 16, "{sql}");
    }
    // Compared with the same cells under unique names.
    let renamed = |array: &str, alias: &str| {
        format!(
            "(SELECT time AS {alias}t, lat AS {alias}a, lon AS {alias}o, value AS {alias}v FROM {array}) {alias}"
        )
    };
    let (x, y) = (renamed("temperature", "x"), renamed("humidity", "y"));
    for (kind, predicate) in [
        ("RIGHT", "coalesce(x.value,0) < y.value AND y.value > 60"),
        ("FULL", "coalesce(x.value,0) < y.value AND y.value > 60"),
        (
            "RIGHT",
            "(x.value IS DISTINCT FROM y.value) AND y.value > 90",
        ),
        (
            "FULL",
            "(x.value IS DISTINCT FROM y.value) AND y.value > 90",
        ),
    ] {
        let sql = format!(
            "SELECT x.lat, y.lat FROM {} WHERE {predicate}",
            joined(kind)
        );
        let predicate = predicate.replace("x.value", "xv").replace("y.value", "yv");
        let truth = format!(
            "SELECT xa, ya FROM {x} {kind} JOIN {y} ON xt=yt AND xa=ya AND xo=yo WHERE {predicate}"
        );
        let expected = demo(&truth).len();
        assert!(expected > 0, "{truth}");
        assert_eq!(demo(&sql).len(), expected, "{sql}");
    }
}

#[test]
fn keys_of_a_third_table_rule_out_chunks_of_the_right_array() {
    let folder = tempfile::tempdir().unwrap();
    let copy =
        "COPY time_lat_lon TO 'wz.tet' STORED AS TET OPTIONS (zone_maps true, chunk '12,10,12')";
    run(folder.path(), &["--demo", "-c", copy]);
    let sql = "SELECT t.value, h.value FROM temperature t JOIN humidity h USING(time,lat,lon) \
               JOIN (VALUES(-24.0)) q(m) ON t.value=q.m";
    let count = "SELECT count(*) FROM temperature WHERE value = -24";
    assert_eq!(run(folder.path(), &["wz.tet", "-c", count]), ["1770"]);
    assert_eq!(run(folder.path(), &["wz.tet", "-c", sql]).len(), 1770);
}

#[test]
fn a_disjunction_over_both_sides_stays_above_the_join() {
    let sql = "SELECT x.lat, y.lat FROM temperature x RIGHT JOIN humidity y ON x.time=y.time AND x.lon=y.lon \
               WHERE (x.value > 25 OR y.value > 98) AND y.value > 20";
    let truth = "SELECT xa, ya FROM (SELECT time AS xt, lat AS xa, lon AS xo, value AS xv FROM temperature) x \
                 RIGHT JOIN (SELECT time AS yt, lat AS ya, lon AS yo, value AS yv FROM humidity) y ON xt=yt AND xo=yo \
                 WHERE (xv > 25 OR yv > 98) AND yv > 20";
    let expected = demo(truth).len();
    assert!(expected > 0);
    assert_eq!(demo(sql).len(), expected);
    let plan = demo(&format!("EXPLAIN FORMAT INDENT {sql}")).join("\n");
    assert!(
        plan.contains("FilterExec: value@1 > 25 OR value@3 > 98"),
        "{plan}"
    );
}

#[test]
fn lists_are_not_compared_with_columns_of_other_types() {
    let folder = tempfile::tempdir().unwrap();
    let array = |name: &str, divisor: u8, data_type: &str| {
        format!(
            "COPY (SELECT i, CAST(i % {divisor} AS {data_type}) AS value FROM generate_series(0, 999) g(i)) \
             TO '{name}.tet' STORED AS TET OPTIONS (dims 'i', chunk '50')"
        )
    };
    let (small, large) = (array("s", 7, "SMALLINT UNSIGNED"), array("l", 5, "BIGINT"));
    run(folder.path(), &["-c", &small, "-c", &large]);
    let sql = "SELECT x.value, y.value FROM 's.tet' x RIGHT JOIN 'l.tet' y ON x.i=y.i \
               WHERE (x.value IN (1,2,3,4,5)) IS NOT TRUE AND y.value > 3";
    // Remainders 0 or 6 of 7, and 4 of 5.
    let expected = (0..1000).filter(|i| matches!(i % 7, 0 | 6) && i % 5 == 4);
    assert_eq!(run(folder.path(), &["-c", sql]).len(), expected.count());
}

/// Sessions prepared by [`enable_arrays`] answer correctly over any tables; plain DataFusion sessions
/// do not.
#[tokio::test]
async fn memory_tables_are_correct_with_our_rules() {
    let tables = [
        "CREATE TABLE a AS SELECT i AS k, CASE WHEN i % 3 = 0 THEN NULL ELSE i END AS v FROM generate_series(1, 12) g(i)",
        "CREATE TABLE b AS SELECT i AS k, i AS v FROM generate_series(1, 12) g(i)",
    ];
    let sql =
        "SELECT a.k, b.v FROM a RIGHT JOIN b ON a.k = b.k WHERE a.v IS NULL AND b.v > 5 ORDER BY 1";
    let right = ["6 6", "9 9", "12 12"];
    let config = SessionConfig::new().with_target_partitions(2);
    let theirs = SessionContext::new_with_config(config);
    let ours = enable_arrays(
        SessionContext::new_with_config(theirs.copied_config()),
        ArrayOptions::new(),
    );
    for ctx in [&theirs, &ours] {
        for table in tables {
            rows(ctx, table).await;
        }
    }
    assert_eq!(rows(&ours, sql).await, right);
    // When this fails, DataFusion has the fix, and `FilterPushdown` can go.
    assert_ne!(rows(&theirs, sql).await, right);
}

/// With DataFusion's own rules, a dynamic filter may refer to a same-named column of another table.
/// Scans refuse dynamic filters in such sessions and read every chunk.
#[tokio::test]
async fn plain_datafusion_sessions_refuse_dynamic_filters() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("arrays.tet");
    let spec = |name| {
        let spec = DatasetSpec::new(name, Dtype::I16, &[20, 30], &[1, 30]);
        spec.with_dim_names(["lat", "lon"])
    };
    let cells = || cells!((0..600i16));
    write(&path, &[(spec("a"), cells()), (spec("b"), cells())]);
    let config = SessionConfig::new()
        .with_target_partitions(3)
        .set_usize("datafusion.optimizer.repartition_file_min_size", 1);
    let theirs = SessionContext::new_with_config(config.clone());
    let ours = enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new());
    let sql = "SELECT count(x.lat) FROM f.a x JOIN f.b y ON x.lon = y.lon \
               WHERE y.lat IN (SELECT l FROM (VALUES (5), (6)) z(l))";
    for (ctx, reads) in [(&theirs, 20), (&ours, 2)] {
        ctx.register_array_file_as("f", &path, ArrayOptions::new())
            .await
            .unwrap();
        assert_eq!(rows(ctx, sql).await, ["1200"]);
        let sql = "SELECT sum(y.value) FROM (VALUES (5), (6)) z(l) JOIN f.b y ON y.lat = z.l";
        let ran = run_in(ctx, sql).await;
        assert_eq!(ran.rows, [(150..210).sum::<i32>().to_string()]);
        assert_eq!(ran.reads(), reads);
    }
}
