//! Prepared statements that write to tables.

use datafusion::common::Result;
use datafusion::prelude::SessionContext;

use crate::support::sql::{rows, session, texts};

/// Runs a statement as the command does.
async fn run(ctx: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let plan = tet_sql::create_logical_plan(&ctx.state(), sql).await?;
    let frame = tet_sql::execute_logical_plan(ctx, plan).await?;
    Ok(texts(&frame.collect().await?))
}

#[tokio::test]
async fn parameters_get_the_types_of_columns() {
    let ctx = session();
    for sql in [
        "CREATE TABLE q (a INT, b TEXT)",
        "PREPARE i AS INSERT INTO q VALUES ($1, $2)",
        "EXECUTE i(1, 'x')",
        "PREPARE s AS INSERT INTO q SELECT a + $1, b FROM q",
        "EXECUTE s(1.5)",
        "PREPARE o AS INSERT INTO q (b) VALUES ($1), ('n' || $2)",
        "EXECUTE o('m', 'o')",
    ] {
        run(&ctx, sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
    let all = "SELECT * FROM q ORDER BY a, b";
    let expected = ["1 x", "2 x", "NULL m", "NULL no"];
    assert_eq!(rows(&ctx, all).await, expected);
    // A value that does not fit adds no row.
    assert!(run(&ctx, "EXECUTE i(3000000000, 'x')").await.is_err());
    assert_eq!(rows(&ctx, all).await, expected);
    run(&ctx, "PREPARE u AS UPDATE q SET a = $1 WHERE b = $2")
        .await
        .unwrap();
    assert_eq!(run(&ctx, "EXECUTE u(3.0, 'x')").await.unwrap(), ["2"]);
    let expected = ["3 x", "3 x", "NULL m", "NULL no"];
    assert_eq!(rows(&ctx, all).await, expected);
}

#[tokio::test]
async fn prepared_plans_are_explained() {
    let ctx = session();
    for sql in [
        "SET datafusion.explain.format = 'indent'",
        "PREPARE p AS SELECT value * $1 AS v FROM range(9) WHERE value > $2",
    ] {
        run(&ctx, sql).await.unwrap();
    }
    let explained = run(&ctx, "EXPLAIN EXECUTE p(3, 5)").await.unwrap();
    let written = run(
        &ctx,
        "EXPLAIN SELECT value * 3 AS v FROM range(9) WHERE value > 5",
    );
    assert_eq!(explained, written.await.unwrap());
    let analyzed = run(&ctx, "EXPLAIN ANALYZE EXECUTE p(3, 5)").await.unwrap();
    assert!(analyzed[0].contains("output_rows=3"), "{analyzed:?}");
    run(&ctx, "DEALLOCATE ALL").await.unwrap();
    let error = run(&ctx, "EXPLAIN EXECUTE p(3, 5)").await.unwrap_err();
    assert!(error.to_string().contains("'p' does not exist"), "{error}");
}

/// DataFusion would change all rows.
#[tokio::test]
async fn conditions_with_subqueries_change_no_row() {
    let ctx = session();
    run(&ctx, "CREATE TABLE o AS VALUES (1, 10), (2, 20), (3, 30)")
        .await
        .unwrap();
    for condition in [
        "column1 IN (SELECT value FROM range(2))",
        "column2 > (SELECT max(value) FROM range(3))",
        "column1 = 1 AND NOT EXISTS (SELECT 1 FROM range(3) AS r WHERE r.value = column1)",
    ] {
        for statement in ["DELETE FROM o", "UPDATE o SET column2 = 0"] {
            let error = run(&ctx, &format!("{statement} WHERE {condition}"))
                .await
                .unwrap_err();
            assert!(error.to_string().contains("with a subquery"), "{error}");
        }
    }
    let all = rows(&ctx, "SELECT * FROM o ORDER BY 1").await;
    assert_eq!(all, ["1 10", "2 20", "3 30"]);
    let deleted = run(&ctx, "DELETE FROM o WHERE column1 < 3").await;
    assert_eq!(deleted.unwrap(), ["2"]);
}
