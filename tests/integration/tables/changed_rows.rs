//! DELETE and UPDATE of tables in memory.

use datafusion::common::Result;
use datafusion::prelude::SessionContext;

use crate::support::sql::{rows, session, texts};

const ALL: &str = "SELECT * FROM o ORDER BY a";
const ROWS: [&str; 3] = ["1 10", "2 20", "3 30"];

/// Runs a statement as the command does.
async fn run(ctx: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let plan = tet_sql::create_logical_plan(&ctx.state(), sql).await?;
    let frame = tet_sql::execute_logical_plan(ctx, plan).await?;
    Ok(texts(&frame.collect().await?))
}

/// Returns a session with the table `o`.
async fn with_rows() -> SessionContext {
    let ctx = session();
    let sql = "CREATE TABLE o AS SELECT * FROM (VALUES (1, 10), (2, 20), (3, 30)) AS v(a, b)";
    run(&ctx, sql).await.unwrap();
    ctx
}

/// Checks that a statement fails without a change, and returns the message.
async fn refused(ctx: &SessionContext, sql: &str) -> String {
    let error = run(ctx, sql).await.expect_err(sql).to_string();
    assert_eq!(rows(ctx, ALL).await, ROWS, "{sql}");
    error
}

/// DataFusion would find no condition in the optimized plan, and change all rows.
#[tokio::test]
async fn conditions_that_are_never_true_change_no_row() {
    let ctx = with_rows().await;
    for condition in [
        "FALSE",
        "NULL",
        "1 = 0",
        "b = NULL",
        "a IN (NULL)",
        "a = 1 AND a = 2",
        "a IS NULL AND a = 1",
        "CAST(b AS VARCHAR) LIKE NULL",
        "now() < '2000-01-01'",
    ] {
        for statement in ["DELETE FROM o", "UPDATE o SET b = 0"] {
            let sql = format!("{statement} WHERE {condition}");
            assert_eq!(run(&ctx, &sql).await.unwrap(), ["0"], "{sql}");
            assert_eq!(rows(&ctx, ALL).await, ROWS, "{sql}");
        }
    }
    run(&ctx, "PREPARE d AS DELETE FROM o WHERE a = $1")
        .await
        .unwrap();
    assert_eq!(run(&ctx, "EXECUTE d(NULL)").await.unwrap(), ["0"]);
    assert_eq!(run(&ctx, "EXECUTE d(2)").await.unwrap(), ["1"]);
    assert_eq!(rows(&ctx, ALL).await, ["1 10", "3 30"]);
    for condition in ["", " WHERE TRUE"] {
        let ctx = with_rows().await;
        let sql = format!("DELETE FROM o{condition}");
        assert_eq!(run(&ctx, &sql).await.unwrap(), ["3"]);
        assert!(rows(&ctx, ALL).await.is_empty());
    }
}

/// The optimizer computes them once, in a column that the table does not have.
#[tokio::test]
async fn repeated_expressions_are_evaluated() {
    let ctx = with_rows().await;
    for (sql, expected) in [
        (
            "UPDATE o SET a = (b + 1) * (b + 1), b = b + 1 WHERE a + 1 > 2 AND a + 1 < 4",
            ["1 10", "3 30", "441 21"],
        ),
        (
            "UPDATE o SET a = b, b = a WHERE a BETWEEN b AND 999",
            ["1 10", "3 30", "21 441"],
        ),
    ] {
        assert_eq!(run(&ctx, sql).await.unwrap(), ["1"], "{sql}");
        let mut found = rows(&ctx, ALL).await;
        found.sort_by_key(|row| (row.len(), row.clone()));
        assert_eq!(found, expected, "{sql}");
    }
    let sql = "DELETE FROM o WHERE b - 5 > 400 OR b - 5 < 6";
    assert_eq!(run(&ctx, sql).await.unwrap(), ["2"]);
    assert_eq!(rows(&ctx, ALL).await, ["3 30"]);
}

#[tokio::test]
async fn tables_have_aliases() {
    let ctx = with_rows().await;
    let sql = "UPDATE o AS x SET b = x.a + x.b WHERE X.a = 1";
    assert_eq!(run(&ctx, sql).await.unwrap(), ["1"]);
    let sql = "DELETE FROM public.o AS x WHERE x.a = 2 OR a = 3 AND x.b > 30";
    assert_eq!(run(&ctx, sql).await.unwrap(), ["1"]);
    assert_eq!(rows(&ctx, ALL).await, ["1 11", "3 30"]);
}

#[tokio::test]
async fn unsupported_clauses_change_no_row() {
    let ctx = with_rows().await;
    run(&ctx, "CREATE TABLE p AS VALUES (1)").await.unwrap();
    run(&ctx, "CREATE VIEW w AS SELECT * FROM o").await.unwrap();
    for (sql, expected) in [
        ("DELETE FROM o WHERE a > 0 LIMIT 1", "DELETE with LIMIT"),
        ("DELETE FROM o LIMIT 0", "DELETE with LIMIT"),
        ("DELETE FROM w", "DELETE changes the rows of one table"),
        (
            "UPDATE o JOIN p ON o.a = p.column1 SET b = 0",
            "UPDATE changes the rows of one table",
        ),
        (
            "UPDATE o SET b = (SELECT max(column1) FROM p)",
            "UPDATE with a subquery in SET",
        ),
        (
            "UPDATE o SET b = (SELECT max(column1) FROM p WHERE column1 = a)",
            "UPDATE with a subquery in SET",
        ),
        (
            "UPDATE o SET b = max(b)",
            "UPDATE with an aggregate or a window function in SET",
        ),
        (
            "UPDATE o SET b = row_number() OVER ()",
            "UPDATE with an aggregate or a window function in SET",
        ),
        (
            "UPDATE o SET b = 1, b = 2",
            "SET has more than one value for the column \"b\"",
        ),
    ] {
        let error = refused(&ctx, sql).await;
        assert!(error.contains(expected), "{sql}: {error}");
    }
}

/// An error in a later batch leaves the earlier ones as they were.
#[tokio::test]
async fn failed_and_explained_statements_change_no_row() {
    let ctx = with_rows().await;
    run(&ctx, "INSERT INTO o VALUES (4, 0)").await.unwrap();
    let expected = ["1 10", "2 20", "3 30", "4 0"];
    for sql in ["UPDATE o SET a = 1 / b", "DELETE FROM o WHERE 1 / b < 9"] {
        assert!(run(&ctx, sql).await.is_err(), "{sql}");
        assert_eq!(rows(&ctx, ALL).await, expected, "{sql}");
    }
    for sql in ["EXPLAIN DELETE FROM o", "EXPLAIN UPDATE o SET b = 0"] {
        run(&ctx, sql).await.unwrap();
        assert_eq!(rows(&ctx, ALL).await, expected, "{sql}");
    }
    let sql = "UPDATE o SET a = 100 / b WHERE b <> 0";
    assert_eq!(run(&ctx, sql).await.unwrap(), ["3"]);
    assert_eq!(rows(&ctx, ALL).await, ["3 30", "4 0", "5 20", "10 10"]);
}

/// DataFusion would group by such a column alone, although its values may repeat.
#[tokio::test]
async fn columns_cannot_be_declared_unique() {
    let ctx = session();
    for (columns, expected) in [
        ("a INT, c VARCHAR PRIMARY KEY", "PRIMARY KEY"),
        ("a INT UNIQUE", "UNIQUE"),
        ("a INT, c INT, PRIMARY KEY (a, c)", "PRIMARY KEY"),
    ] {
        let sql = format!("CREATE TABLE w ({columns})");
        let error = run(&ctx, &sql).await.expect_err(&sql).to_string();
        let expected = format!("table 'w': {expected} is not supported");
        assert!(error.contains(&expected), "{error}");
    }
    run(&ctx, "CREATE TABLE w (a INT NOT NULL)").await.unwrap();
}
