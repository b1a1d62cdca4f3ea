//! Dimension labels as columns.

use super::arrays::LATE;
use super::sql_tables::create;
use super::{arrays, refusals};
use crate::support::sql::{error, rows, session};

#[tokio::test]
async fn labels_are_columns() {
    let (ctx, folder) = (session(), tempfile::tempdir().unwrap());
    let path = arrays().join("dimension_labels");
    create(&ctx, &path, &format!("timestamp '{LATE}'")).await;
    let columns = rows(
        &ctx,
        "SELECT column_name FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position",
    )
    .await;
    assert_eq!(columns[..3], ["x", "y", "a"]);
    let mut labels = columns[3..].to_vec();
    labels.sort();
    assert_eq!(labels, ["lat", "name", "when"]);
    // lat is linspace(-1, 1, 10), name l00 to l09, and when 9, 5, 3, 1.
    let sql = "SELECT count(*) FROM t WHERE abs(lat - (-1 + 2 * x / 9.0)) < 1e-9 AND name = 'l0' || x AND \
               \"when\" = CASE y WHEN 1 THEN 9 WHEN 2 THEN 5 WHEN 3 THEN 3 ELSE 1 END";
    assert_eq!(rows(&ctx, sql).await, ["40"]);
    let sql = "SELECT name, \"when\", a FROM t WHERE name = 'l03' AND \"when\" < 4 ORDER BY y";
    let direct =
        "SELECT 'l03', CASE y WHEN 3 THEN 3 ELSE 1 END, a FROM t WHERE x = 3 AND y >= 3 ORDER BY y";
    let found = rows(&ctx, sql).await;
    assert_eq!(found, rows(&ctx, direct).await);
    assert_eq!(found.len(), 2);
    let sql = "SELECT name, sum(a) FROM t GROUP BY name ORDER BY name";
    let direct = "SELECT 'l0' || x, sum(a) FROM t GROUP BY x ORDER BY x";
    assert_eq!(rows(&ctx, sql).await, rows(&ctx, direct).await);

    // Tiles have 5 x 2 cells, and the filter leaves the tiles with x below 5.
    let plan = rows(&ctx, "EXPLAIN SELECT a FROM t WHERE lat < -0.9")
        .await
        .join("\n");
    assert!(plan.contains("chunks=2 of 4"), "{plan}");

    // Rows are inserted without labels.
    let copy = folder.path().join("copy");
    refusals::copy(&path, &copy);
    create(&ctx, &copy, "extent 'domain'").await;
    rows(&ctx, "INSERT INTO t (x, y, a) VALUES (0, 1, -5)").await;
    let found = rows(&ctx, "SELECT name, \"when\", a FROM t WHERE a = -5").await;
    assert_eq!(found, ["l00 9 -5"]);
    rows(&ctx, "INSERT INTO t SELECT * FROM t").await;

    // Without the array of a label, the other columns can be read.
    std::fs::remove_dir_all(copy.join("__labels")).unwrap();
    create(&ctx, &copy, "extent 'domain'").await;
    assert_eq!(rows(&ctx, "SELECT count(a) FROM t").await, ["40"]);
    let text = error(&ctx, "SELECT name FROM t").await;
    assert!(text.contains("__labels"), "{text}");
}
