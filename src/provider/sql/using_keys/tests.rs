//! Results of `USING` and `NATURAL` joins.

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::SessionContext;

use super::*;

fn texts(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("-");
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter();
        let columns: Vec<_> = columns
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let row = columns.iter().map(|column| column.value(row).to_string());
            rows.push(row.collect::<Vec<_>>().join(" "));
        }
    }
    rows
}

async fn session() -> SessionContext {
    let ctx = SessionContext::new();
    for sql in [
        "CREATE TABLE a(k INT, x INT) AS VALUES (1, 10), (2, 20), (5, 50)",
        "CREATE TABLE b(k INT, y INT) AS VALUES (2, 200), (3, 300)",
        "CREATE TABLE c(k INT, z INT) AS VALUES (3, 3000), (4, 4000), (5, 5000)",
        "CREATE TABLE two(k INT, x INT, w INT) AS VALUES (1, 10, 7), (2, 21, 8)",
    ] {
        ctx.sql(sql).await.unwrap().collect().await.unwrap();
    }
    ctx
}

async fn run(ctx: &SessionContext, sql: &str) -> Result<(Vec<String>, Vec<String>)> {
    let plan = create_logical_plan(&ctx.state(), sql).await?;
    let names = plan.schema().fields().iter().map(|f| f.name().clone());
    let names = names.collect();
    let batches = ctx.execute_logical_plan(plan).await?.collect().await?;
    Ok((names, texts(&batches)))
}

/// The expected rows are those of PostgreSQL.
#[tokio::test]
async fn keys_are_one_column() {
    let ctx = session().await;
    for (sql, expected) in [
        (
            "SELECT k FROM a FULL JOIN b USING (k) ORDER BY k",
            "1,2,3,5",
        ),
        ("SELECT k FROM a RIGHT JOIN b USING (k) ORDER BY k", "2,3"),
        ("SELECT k FROM a NATURAL FULL JOIN b ORDER BY 1", "1,2,3,5"),
        (
            "SELECT * FROM a FULL JOIN b USING (k) ORDER BY k",
            "1 10 -,2 20 200,3 - 300,5 50 -",
        ),
        (
            "SELECT * FROM a AS z LEFT JOIN b USING (k) ORDER BY k",
            "1 10 -,2 20 200,5 50 -",
        ),
        (
            "SELECT * FROM a RIGHT JOIN b USING (k) ORDER BY k",
            "2 20 200,3 - 300",
        ),
        (
            "SELECT * EXCLUDE (x) FROM a NATURAL FULL JOIN b ORDER BY k",
            "1 -,2 200,3 300,5 -",
        ),
        (
            "SELECT * REPLACE (coalesce(x, 0) AS x) FROM a RIGHT JOIN b USING (k) ORDER BY k",
            "2 20 200,3 0 300",
        ),
        (
            "SELECT a.*, b.* FROM a FULL JOIN b USING (k) ORDER BY k",
            "1 10 - -,2 20 2 200,- - 3 300,5 50 - -",
        ),
        (
            "SELECT a.k, b.k, k FROM a FULL JOIN b USING (k) ORDER BY 3",
            "1 - 1,2 2 2,- 3 3,5 - 5",
        ),
        (
            "SELECT * FROM a FULL JOIN b USING (k) JOIN two ON two.x = a.x ORDER BY w",
            "1 10 - 1 10 7",
        ),
        ("SELECT x FROM a JOIN b USING (k) WHERE k = 2", "20"),
        (
            "SELECT k, y FROM a FULL JOIN b USING (k) WHERE k > 2 ORDER BY k + 0",
            "3 300,5 -",
        ),
        (
            "SELECT y FROM a FULL JOIN b USING (k) WHERE a.k IS NULL",
            "300",
        ),
        (
            "SELECT k % 2 AS odd, count(*) FROM a FULL JOIN b USING (k) GROUP BY k % 2 ORDER BY 1",
            "0 1,1 3",
        ),
        (
            "SELECT k, sum(x) FROM a FULL JOIN b USING (k) GROUP BY k HAVING k <> 2 ORDER BY k",
            "1 10,3 -,5 50",
        ),
        (
            "SELECT DISTINCT k FROM a FULL JOIN b USING (k) ORDER BY k DESC",
            "5,3,2,1",
        ),
        (
            "SELECT k AS key, row_number() OVER (ORDER BY k) FROM a FULL JOIN b USING (k) ORDER BY key",
            "1 1,2 2,3 3,5 4",
        ),
        (
            "SELECT x AS k FROM a FULL JOIN b USING (k) WHERE x IS NOT NULL ORDER BY k DESC",
            "50,20,10",
        ),
        (
            "SELECT * FROM a FULL JOIN b USING (k) FULL JOIN c USING (k) ORDER BY k",
            "1 10 - -,2 20 200 -,3 - 300 3000,4 - - 4000,5 50 - 5000",
        ),
        (
            "SELECT k, z FROM a RIGHT JOIN b USING (k) LEFT JOIN c USING (k) ORDER BY k",
            "2 -,3 3000",
        ),
        (
            "SELECT * FROM a FULL JOIN (b FULL JOIN c USING (k)) USING (k) ORDER BY k",
            "1 10 - -,2 20 200 -,3 - 300 3000,4 - - 4000,5 50 - 5000",
        ),
        (
            "SELECT k, z FROM a FULL JOIN b USING (k) JOIN (SELECT k AS j, z FROM c) c ON j = k + 1 ORDER BY k",
            "2 3000,3 4000",
        ),
        (
            "SELECT * FROM a NATURAL FULL JOIN two ORDER BY k, x",
            "1 10 7,2 20 -,2 21 8,5 50 -",
        ),
        ("SELECT * FROM two JOIN a USING (x, k)", "1 10 7"),
        ("SELECT k FROM a LEFT SEMI JOIN b USING (k)", "2"),
        (
            "WITH w AS (SELECT k, y FROM a FULL JOIN b USING (k)) SELECT * FROM w FULL JOIN c USING (k) ORDER BY k",
            "1 - -,2 200 -,3 300 3000,4 - 4000,5 - 5000",
        ),
        (
            "SELECT (SELECT max(k) FROM a FULL JOIN c USING (k)) AS m, k FROM b ORDER BY k",
            "5 2,5 3",
        ),
        (
            "SELECT k FROM c WHERE k IN (SELECT k FROM a FULL JOIN b USING (k)) ORDER BY k",
            "3,5",
        ),
        (
            "SELECT k FROM a FULL JOIN b USING (k) UNION ALL SELECT 9 ORDER BY k",
            "1,2,3,5,9",
        ),
        (
            "SELECT K FROM a FULL JOIN b USING (K) ORDER BY \"k\"",
            "1,2,3,5",
        ),
        (
            "SELECT k FROM (VALUES (1)) v(k) FULL JOIN (SELECT 2 AS k) w USING (k) ORDER BY k",
            "1,2",
        ),
    ] {
        let (_, rows) = run(&ctx, sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(rows.join(","), expected, "{sql}");
    }
}

/// The expected rows are those of PostgreSQL.
#[tokio::test]
async fn keys_are_one_column_beside_lateral_subqueries() {
    let ctx = session().await;
    let of_b = "LATERAL (SELECT z FROM c WHERE c.k = b.k) AS l";
    for (sql, expected) in [
        (
            format!("SELECT k, y, z FROM a RIGHT JOIN b USING (k) LEFT JOIN {of_b} ON true ORDER BY k"),
            "2 200 -,3 300 3000",
        ),
        (
            format!("SELECT k, z FROM a FULL JOIN b USING (k) LEFT JOIN {of_b} ON true ORDER BY k"),
            "1 -,2 -,3 3000,5 -",
        ),
        (
            format!("SELECT * FROM a NATURAL RIGHT JOIN b JOIN {of_b} ON true"),
            "3 - 300 3000",
        ),
        (
            format!("SELECT k, z FROM a RIGHT JOIN b USING (k) CROSS JOIN {of_b} WHERE k = 3"),
            "3 3000",
        ),
        (
            format!("SELECT k, count(*) FROM a RIGHT JOIN b USING (k), {of_b} GROUP BY k"),
            "3 1",
        ),
        (
            "SELECT k, z FROM a RIGHT JOIN b USING (k) JOIN LATERAL (SELECT z FROM (SELECT k AS j, z FROM c) c WHERE j = k) l ON true"
                .into(),
            "3 3000",
        ),
        (
            "SELECT z FROM a RIGHT JOIN b USING (k) JOIN LATERAL (SELECT z FROM c WHERE k = 4) l ON true WHERE y = 300".into(),
            "4000",
        ),
    ] {
        let (_, rows) = run(&ctx, &sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(rows.join(","), expected, "{sql}");
    }
}

/// The expected rows are those of PostgreSQL.
#[tokio::test]
async fn subqueries_refer_to_keys() {
    let ctx = session().await;
    ctx.sql("CREATE TABLE m(j INT) AS VALUES (3), (5)")
        .await
        .unwrap();
    for (sql, expected) in [
        (
            "SELECT y FROM a RIGHT JOIN b USING (k) WHERE EXISTS (SELECT 1 FROM m WHERE j = k)",
            "300",
        ),
        (
            "SELECT y FROM a RIGHT JOIN b USING (k) WHERE NOT EXISTS (SELECT * FROM m AS n WHERE n.j = k)",
            "200",
        ),
        (
            "SELECT y, (SELECT max(j) FROM m WHERE j = k) AS j FROM a RIGHT JOIN b USING (k) ORDER BY y",
            "200 -,300 3",
        ),
        (
            "SELECT k FROM a LEFT JOIN b USING (k) WHERE EXISTS (SELECT 1 FROM (SELECT j FROM m) AS n WHERE n.j = k)",
            "5",
        ),
        // A column of the subquery takes precedence.
        (
            "SELECT k FROM a JOIN b USING (k) WHERE EXISTS (SELECT 1 FROM c WHERE k = 4)",
            "2",
        ),
        (
            "SELECT k FROM a JOIN b USING (k) WHERE EXISTS (SELECT 1 FROM m JOIN c ON c.k = m.j WHERE k = 4)",
            "",
        ),
        (
            "SELECT k FROM a JOIN b USING (k) WHERE EXISTS (SELECT 1 FROM a JOIN c USING (k) WHERE k = 5)",
            "2",
        ),
    ] {
        let (_, rows) = run(&ctx, sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(rows.join(","), expected, "{sql}");
    }
}

#[tokio::test]
async fn columns_keep_their_names() {
    let ctx = session().await;
    for (sql, expected) in [
        ("SELECT * FROM a FULL JOIN b USING (k)", "k x y"),
        ("SELECT k, y FROM a RIGHT JOIN b USING (k)", "k y"),
        ("SELECT * FROM two JOIN b USING (k)", "k x w y"),
    ] {
        assert_eq!(run(&ctx, sql).await.unwrap().0.join(" "), expected, "{sql}");
    }
    let sql = "CREATE VIEW v AS SELECT * FROM a FULL JOIN b USING (k)";
    run(&ctx, sql).await.unwrap();
    let (names, rows) = run(&ctx, "SELECT * FROM v WHERE k = 3").await.unwrap();
    assert_eq!(
        (names.join(" "), rows.join(",")),
        ("k x y".into(), "3 - 300".into())
    );
}

/// DataFusion reports names that cannot be resolved.
#[tokio::test]
async fn errors_are_datafusions() {
    let ctx = session().await;
    for (sql, expected) in [
        ("SELECT * FROM a FULL JOIN b USING (nothing)", "nothing"),
        ("SELECT * FROM a FULL JOIN nowhere USING (k)", "nowhere"),
        (
            "SELECT * EXCLUDE (nothing) FROM a FULL JOIN b USING (k)",
            "nothing",
        ),
    ] {
        let error = run(&ctx, sql).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{sql}: {error}");
    }
}
