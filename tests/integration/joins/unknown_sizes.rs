//! In joins with tables of unknown size, arrays are the probe side.

use std::path::Path;

use datafusion::prelude::SessionContext;
use tet_sql::format::tet::{DatasetSpec, Dtype};
use tet_sql::{ArrayOptions, ArraySessionExt};

use crate::cells;
use crate::support::sql::{rows, run, session, write};

/// An array of 40 days with 5,000 values each, too many rows for DataFusion to collect by default,
/// and files that name two of the days and one that does not exist.
async fn sample(directory: &Path, partitions: usize) -> SessionContext {
    let path = directory.join("days.tet");
    let spec =
        DatasetSpec::new("v", Dtype::F32, &[40, 5000], &[1, 5000]).with_dim_names(["day", "x"]);
    write(&path, &[(spec, cells!((0..200_000).map(|n| n as f32)))]);
    std::fs::write(
        directory.join("few.csv"),
        "k,name\n3,three\n17,seventeen\n99,none\n",
    )
    .unwrap();
    let lines = "{\"k\": 3}\n{\"k\": 17}\n{\"k\": 99}\n";
    std::fs::write(directory.join("few.json"), lines).unwrap();
    let ctx = session();
    ctx.register_array_file_as("f", &path, ArrayOptions::new())
        .await
        .unwrap();
    for setting in [
        "SET datafusion.catalog.default_schema = 'f'".to_string(),
        format!("SET datafusion.execution.target_partitions = {partitions}"),
    ] {
        rows(&ctx, &setting).await;
    }
    for (name, format) in [("csv", "CSV"), ("json", "JSON")] {
        let location = directory.join(format!("few.{name}"));
        let location = location.display();
        rows(
            &ctx,
            &format!("CREATE EXTERNAL TABLE {name} STORED AS {format} LOCATION '{location}'"),
        )
        .await;
    }
    ctx
}

#[tokio::test]
async fn arrays_are_the_probe_side_and_read_only_joined_chunks() {
    let folder = tempfile::tempdir().unwrap();
    for partitions in [1, 3] {
        let ctx = sample(folder.path(), partitions).await;
        for (from, expected) in [
            ("v JOIN csv ON v.day = csv.k", "10000"),
            ("csv JOIN v ON v.day = csv.k", "10000"),
            ("v JOIN json ON v.day = json.k", "10000"),
            ("csv LEFT JOIN v ON v.day = csv.k", "10001"),
            ("v RIGHT JOIN csv ON v.day = csv.k", "10001"),
            ("v LEFT SEMI JOIN csv ON v.day = csv.k", "10000"),
            (
                "(SELECT * FROM v WHERE x >= 0) v JOIN (SELECT * FROM csv WHERE name <> 'none') c ON v.day = c.k",
                "10000",
            ),
        ] {
            // Aggregates of values need to read chunks.
            let sql = format!("SELECT count(*), sum(value) FROM {from}");
            let ran = run(&ctx, &sql).await;
            let days = [3, 17].map(|day| (day * 5000..(day + 1) * 5000).sum::<i64>() as f64);
            let sum = days.iter().sum::<f64>();
            assert_eq!(ran.rows, [format!("{expected} {sum:.1}")], "{sql}");
            assert_eq!(ran.reads(), 2, "{sql}");
            let plan = rows(&ctx, &format!("EXPLAIN FORMAT INDENT {sql}"))
                .await
                .join("\n");
            assert!(plan.contains("ArrayLookupJoinExec"), "{plan}");
            let file = plan.find("few.").unwrap();
            assert!(file < plan.find("tet=v").unwrap(), "{plan}");
        }
        // Rows without a match come from the array: all of it is read, but not collected.
        let sql = "SELECT count(name), count(*), sum(value) FROM v LEFT JOIN csv ON v.day = csv.k";
        let ran = run(&ctx, sql).await;
        assert_eq!(ran.rows, ["10000 200000 19999900000.0"]);
        // A join with an inequality, and a cross join.
        let sql = "SELECT count(*) FROM v JOIN csv ON v.day > csv.k";
        let plan = rows(&ctx, &format!("EXPLAIN FORMAT INDENT {sql}"))
            .await
            .join("\n");
        assert!(
            plan.find("few.").unwrap() < plan.find("tet=v").unwrap(),
            "{plan}"
        );
        assert_eq!(rows(&ctx, sql).await, [((36 + 22) * 5000).to_string()]);
        assert_eq!(rows(&ctx, "SELECT count(*) FROM v, csv").await, ["600000"]);
    }
}

/// A table that may be larger than the array is not collected. With `join_reordering` off, the
/// sides stay as written.
#[tokio::test]
async fn large_tables_are_not_collected() {
    let folder = tempfile::tempdir().unwrap();
    let ctx = sample(folder.path(), 2).await;
    let sql = "EXPLAIN FORMAT INDENT SELECT count(*) FROM v JOIN csv ON v.day = csv.k";
    let is_probed = |plan: Vec<String>| {
        let plan = plan.join("\n");
        plan.find("few.").unwrap() < plan.find("tet=v").unwrap()
    };
    assert!(is_probed(rows(&ctx, sql).await));
    rows(&ctx, "SET datafusion.optimizer.join_reordering = false").await;
    assert!(!is_probed(rows(&ctx, sql).await));
    rows(&ctx, "SET datafusion.optimizer.join_reordering = true").await;

    let line = "17,seventeen and more\n";
    let path = folder.path().join("few.large.csv");
    std::fs::write(&path, format!("k,name\n{}", line.repeat(50_000))).unwrap();
    let path = path.display();
    let table = format!("CREATE EXTERNAL TABLE large STORED AS CSV LOCATION '{path}'");
    rows(&ctx, &table).await;
    let sql = "EXPLAIN FORMAT INDENT SELECT count(*) FROM v JOIN large ON v.day = large.k";
    assert!(!is_probed(rows(&ctx, sql).await));
    let sql = "SELECT count(*) FROM v JOIN large ON v.day = large.k WHERE x < 2";
    assert_eq!(rows(&ctx, sql).await, ["100000"]);
}
