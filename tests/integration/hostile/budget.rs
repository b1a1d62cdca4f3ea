//! Statements that exceed the planning budget, and long ones that do not. Expected values come from
//! arithmetic.

use std::time::Instant;

use datafusion::common::Result;
use datafusion::prelude::{SessionConfig, SessionContext};
use tet_sql::{ArrayOptions, create_logical_plan, enable_arrays};

/// Creates a session with the numbers 0 to 99 as the table `t`.
async fn session() -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(2);
    let ctx = enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new());
    let table = "CREATE TABLE t AS SELECT value AS x FROM range(100)";
    ctx.sql(table).await.unwrap().collect().await.unwrap();
    ctx
}

async fn set(ctx: &SessionContext, setting: &str) {
    let frame = ctx.sql(&format!("SET {setting}")).await.unwrap();
    frame.collect().await.unwrap();
}

/// Returns the rows of a statement, planned within the session's budget.
async fn rows(ctx: &SessionContext, sql: &str) -> Result<String> {
    let plan = create_logical_plan(&ctx.state(), sql).await?;
    let frame = ctx.execute_logical_plan(plan).await?;
    let batches = frame.collect().await?;
    let rows = crate::support::sql::texts(&batches);
    Ok(rows.join("\n"))
}

/// Returns the error of a statement, and panics if the statement succeeds.
async fn refusal(ctx: &SessionContext, sql: &str) -> String {
    match rows(ctx, sql).await {
        Ok(rows) => panic!("{}: {rows}", &sql[..sql.len().min(60)]),
        Err(error) => error.to_string(),
    }
}

/// Returns CTEs a0, a1 and so on, each built from the previous one.
fn chain(count: usize, first: &str, next: impl Fn(usize) -> String) -> String {
    let further = (1..count).map(|n| format!(", a{n} AS ({})", next(n - 1)));
    format!("WITH a0 AS ({first}){}", further.collect::<String>())
}

/// Runs on a thread with as much stack as the threads of the command.
#[test]
fn long_or_and_and_chains_are_correct() {
    let answered = std::thread::Builder::new().stack_size(64 << 20).spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(long_chains());
    });
    answered.unwrap().join().unwrap();
}

async fn long_chains() {
    let ctx = session().await;
    let started = Instant::now();
    let values = (0..10_000).map(|n| 3 * n + 1);
    let ors: Vec<String> = values.map(|value| format!("x = {value}")).collect();
    // Matches 1, 4, ..., 97.
    let sql = format!("SELECT count(*), sum(x) FROM t WHERE {}", ors.join(" OR "));
    assert_eq!(rows(&ctx, &sql).await.unwrap(), "33 1617");
    // The terms are neither equalities nor lists of constants, and have nulls in between.
    let terms: Vec<String> = (0..1000)
        .map(|n| format!("(x > {n} AND x < {n} + 2 AND x % 3 = 1) OR x = nullif({n}, {n})"))
        .collect();
    let sql = format!(
        "SELECT count(*), sum(x) FROM t WHERE {}",
        terms.join(" OR ")
    );
    assert_eq!(rows(&ctx, &sql).await.unwrap(), "33 1617");
    let ands: Vec<String> = (50..10_050).map(|n| format!("x <> {n}")).collect();
    let sql = format!(
        "SELECT count(*), max(x) FROM t WHERE {}",
        ands.join(" AND ")
    );
    assert_eq!(rows(&ctx, &sql).await.unwrap(), "50 49");
    // Quadratic planning would take half an hour.
    assert!(started.elapsed().as_secs() < 600);
}

#[tokio::test]
async fn long_sums_in_filters_are_planned_in_quadratic_time() {
    let ctx = session().await;
    let started = Instant::now();
    let sum = vec!["x"; 300].join(" + ");
    let sql = format!("SELECT count(*), min(x) FROM t WHERE {sum} >= 15000");
    let all = rows(&ctx, "SELECT count(*), min(x) FROM t WHERE x >= 50").await;
    assert_eq!(rows(&ctx, &sql).await.unwrap(), all.unwrap());
    // Cubic time would take minutes.
    assert!(started.elapsed().as_secs() < 600);
}

#[tokio::test]
async fn statements_over_the_budget_are_refused() {
    let ctx = session().await;
    let doubled = |query: &str| {
        let query = query.to_owned();
        move |n: usize| query.replace('@', &format!("a{n}"))
    };
    let union = chain(
        40,
        "SELECT 1 AS x",
        doubled("SELECT * FROM @ UNION ALL SELECT * FROM @"),
    );
    let cross = chain(
        40,
        "SELECT 1 AS x",
        doubled("SELECT b.x FROM @ AS b, @ AS c"),
    );
    let growing = chain(40, "SELECT x FROM t", doubled("SELECT x + x AS x FROM @"));
    let within = format!(
        "{}SELECT 1{}",
        "WITH a AS (".repeat(40),
        ") SELECT * FROM a".repeat(40)
    );
    let operators = "tet.max_expression_operators";
    for (sql, setting) in [
        (format!("SELECT 1{}", "+1".repeat(70_000)), operators),
        (format!("SELECT true{}", " OR x".repeat(80_000)), operators),
        (format!("SELECT true{}", " AND x".repeat(20_000)), operators),
        (format!("SELECT 1{}", " IS NULL".repeat(10_000)), operators),
        (
            format!("{union} SELECT count(*) FROM a39"),
            "tet.max_plan_nodes",
        ),
        (
            format!("EXPLAIN {union} SELECT * FROM a39"),
            "tet.max_plan_nodes",
        ),
        (
            format!("COPY ({union} SELECT * FROM a39) TO 'x.csv'"),
            "tet.max_plan_nodes",
        ),
        (format!("{cross} SELECT x FROM a39"), "tet.max_plan_nodes"),
        (
            format!("SELECT (SELECT 1) {}", "UNION SELECT 1 ".repeat(20_000)),
            "tet.max_plan_nodes",
        ),
        (within, "tet.max_plan_nodes"),
        (
            format!("{growing} SELECT count(*) FROM a39 WHERE x > 0"),
            operators,
        ),
        (
            format!("SELECT {}1{}", "(".repeat(60), ")".repeat(60)),
            "datafusion.sql_parser.recursion_limit",
        ),
        (
            format!("SELECT {}true", "NOT ".repeat(60)),
            "datafusion.sql_parser.recursion_limit",
        ),
    ] {
        let error = refusal(&ctx, &sql).await;
        assert!(error.contains(setting), "{}: {error}", &sql[..60]);
    }
    // A chain that uses each CTE only once stays within the budget.
    let sql = chain(40, "SELECT 1 AS x", doubled("SELECT x + 1 AS x FROM @"));
    assert_eq!(
        rows(&ctx, &format!("{sql} SELECT x FROM a39"))
            .await
            .unwrap(),
        "40"
    );
}

#[tokio::test]
async fn views_count_at_every_use() {
    let ctx = session().await;
    rows(&ctx, "CREATE VIEW v0 AS SELECT x FROM t")
        .await
        .unwrap();
    let mut refused = None;
    for n in 1..40 {
        let sql = format!(
            "CREATE VIEW v{n} AS SELECT * FROM v{0} UNION ALL SELECT * FROM v{0}",
            n - 1
        );
        if let Err(error) = rows(&ctx, &sql).await {
            refused = Some((n, error.to_string()));
            break;
        }
    }
    // Each view has twice the plan nodes of the previous one, and a few more.
    let (step, error) = refused.unwrap();
    assert!((10..15).contains(&step), "{step}");
    assert!(error.contains("tet.max_plan_nodes"), "{error}");
}

#[tokio::test]
async fn limits_are_settings() {
    let ctx = session().await;
    let sum = "SELECT 1+1+1+1";
    assert_eq!(rows(&ctx, sum).await.unwrap(), "4");
    set(&ctx, "tet.max_expression_operators = 2").await;
    assert_eq!(
        refusal(&ctx, sum).await,
        "Error during planning: the statement has an expression of more than 2 operators; shorten it, or raise \
         tet.max_expression_operators"
    );
    set(&ctx, "tet.max_expression_operators = 3").await;
    assert_eq!(rows(&ctx, sum).await.unwrap(), "4");
    set(&ctx, "tet.max_statement_bytes = 13").await;
    assert_eq!(
        refusal(&ctx, sum).await,
        "Error during planning: the statement has 14 bytes, more than 13; shorten it, or raise \
         tet.max_statement_bytes"
    );
    set(&ctx, "tet.max_statement_bytes = 1000").await;
    set(&ctx, "tet.max_expression_operators = 5000").await;
    let unions = "SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3";
    assert_eq!(
        rows(&ctx, &format!("SELECT count(*) FROM ({unions})"))
            .await
            .unwrap(),
        "3"
    );
    set(&ctx, "tet.max_plan_nodes = 4").await;
    assert!(refusal(&ctx, unions).await.contains("more than 4 nodes"));
    for (setting, expected) in [
        (
            "tet.max_plan_nodes = 0",
            "tet.max_plan_nodes: found 0, expected at least 1",
        ),
        (
            "tet.max_expression_operators = 5001",
            "tet.max_expression_operators: found 5001, expected at most 5000",
        ),
    ] {
        let error = ctx.sql(&format!("SET {setting}")).await.err().unwrap();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// Plans on a thread with the usual stack of 2 MiB.
#[test]
fn planning_does_not_overflow_a_small_stack() {
    let planned = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let ctx = session().await;
            for sql in [
                format!("SELECT 1{}", "+1".repeat(1_000)),
                format!("SELECT true{}", " OR true".repeat(20_000)),
                vec!["SELECT 1"; 500].join(" UNION ALL "),
            ] {
                create_logical_plan(&ctx.state(), &sql).await.unwrap();
            }
        });
    });
    planned.join().unwrap();
}

#[tokio::test]
async fn value_sizes_are_limited() {
    let ctx = session().await;
    set(&ctx, "tet.max_value_bytes = 1000").await;
    for (fits, bytes) in [
        ("octet_length(repeat('ab', 500))", "1000"),
        ("octet_length(lpad('ab', 1000))", "1000"),
        ("octet_length(rpad('ab', 250, 'é'))", "498"),
        ("octet_length(replace(repeat('a', 500), 'a', 'bc'))", "1000"),
        ("array_length(array_repeat(1, 125))", "125"),
        ("array_length(array_resize([1], 125, 0))", "125"),
        ("array_length(range(125))", "125"),
        ("array_length(generate_series(0, 248, 2))", "125"),
        (
            "array_length(range(DATE '2024-01-01', DATE '2024-05-01', INTERVAL '1' DAY))",
            "121",
        ),
        ("octet_length(repeat('ab', x))", "0"),
        (
            "octet_length(concat(repeat('ab', 250), repeat('ab', 250)))",
            "1000",
        ),
        (
            "octet_length(concat_ws('--', repeat('a', 499), repeat('a', 499)))",
            "1000",
        ),
        (
            "octet_length(regexp_replace(repeat('ab', 250), 'b', 'bc', 'g'))",
            "750",
        ),
        ("octet_length(array_to_string(range(20), '-'))", "49"),
        (
            "array_length(regexp_match(repeat('a', 900), '(a)(b)?(a)?'))",
            "2",
        ),
        (
            "array_length(regexp_match(repeat('a', 900) || 'B', '(a)(b)', 'i'))",
            "2",
        ),
        ("array_length(string_to_array(repeat('a', 900), 'b'))", "1"),
        ("array_length(string_to_array(repeat('a,', 50), ','))", "51"),
        (
            "to_char(DATE '2024-01-02', repeat('%d', 20))",
            "0202020202020202020202020202020202020202",
        ),
        ("octet_length(repeat('a', 500) || repeat('b', 500))", "1000"),
        ("octet_length('a' || repeat('é', 499) || x)", "1000"),
        (
            "octet_length(encode(repeat('a', 499)::bytea || x'00', 'hex'))",
            "1000",
        ),
        (
            "encode(arrow_cast(x'61', 'FixedSizeBinary(1)') || arrow_cast(x'6263', 'FixedSizeBinary(2)'), 'hex')",
            "616263",
        ),
        (
            "octet_length(overlay(repeat('a', 500) PLACING repeat('b', 500) FROM 501))",
            "1000",
        ),
        (
            "octet_length(array_to_string([repeat('a', 400), repeat('b', 400)], ''))",
            "800",
        ),
        ("array_length(range(60) || range(60))", "120"),
        ("array_length(range(120) || x)", "121"),
        ("array_length(x || range(120))", "121"),
        ("array_length(array_replace_all(range(120), x, 1))", "120"),
        ("array_length(array_concat(range(60), range(60)))", "120"),
    ] {
        let sql = format!("SELECT {fits} FROM t WHERE x = 0");
        assert_eq!(rows(&ctx, &sql).await.unwrap(), bytes, "{fits}");
    }
    for large in [
        "repeat('ab', 501)",
        "repeat('ab', 10 * x)",
        "lpad('ab', 1001)",
        "lpad(x::text, 1001)",
        "rpad('ab', 251, 'é')",
        "replace(repeat('a', 1000), 'a', 'bcd')",
        "concat(repeat('ab', 250), x::text, repeat('ab', 250), '.')",
        "concat_ws('---', repeat('a', 499), repeat('a', 499))",
        "repeat('ab', 250) || x || repeat('ab', 250)",
        "x'00' || (repeat('a', 500) || x::text)::bytea || repeat('a', 500)::bytea",
        "regexp_replace(repeat('a', 900), 'a', repeat('b', 900), 'g')",
        "regexp_replace(repeat('ab', 400), '(a)', '\\1\\1\\1', 'g')",
        "array_to_string(range(30), repeat('-', 40))",
        "regexp_match(repeat('a', 900), '((a+))')",
        "string_to_array(repeat('a', 900), 'a')",
        "string_to_array(repeat('é', 400), NULL)",
        "to_char(DATE '2024-01-02', repeat('%c', 40))",
        "list_to_string(range(x + 30), repeat('-', 40))",
        "array_concat(range(60), range(60), range(60))",
        "range(60) || range(60) || range(60)",
        "range(125) || x",
        "x || range(125)",
        "list_append(range(125), x)",
        "array_union(range(70), range(70, 140))",
        "[repeat('a', 400), repeat('b', 400), repeat('c', 400)]",
        "make_array(range(60), range(60), range(60))",
        "array_replace_all(array_repeat('a', 10), 'a', repeat('b', 200))",
        "overlay(repeat('a', 600) PLACING repeat('b', 600) FROM 601)",
        "encode(repeat('a', 501)::bytea, 'hex')",
        "list_cat(range(100), range(100))",
        "array_to_string([range(30), range(30)], '-')",
        "array_to_string([repeat('é', 400), repeat('x', 400)], '')",
        "regexp_replace(repeat('a', 900), 'zzz', repeat('b', 900), 'gs)|(?:')",
        "arrow_cast(NULL, 'FixedSizeBinary(33)')",
        "arrow_cast(make_array(NULL), 'List(FixedSizeBinary(33))')",
        "arrow_cast(NULL, 'FixedSizeList(2000000000, Int64)')",
        "CAST(NULL AS BIGINT[1000])",
        "array_repeat(1, 126)",
        "array_repeat([1, 2], 126)",
        "array_repeat('x', 9223372036854775807)",
        "list_repeat(x, 126)",
        "array_resize([1], 126, 0)",
        "range(126)",
        "generate_series(0, 9223372036854775807)",
        "generate_series(x, -1000, -1)",
        "range(DATE '2024-01-01', DATE '2029-05-01', INTERVAL '1' DAY)",
        "generate_series(TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-02', INTERVAL '1' SECOND)",
    ] {
        let error = refusal(&ctx, &format!("SELECT {large} FROM t")).await;
        assert!(error.contains("tet.max_value_bytes"), "{large}: {error}");
    }
    for (call, expected) in [
        (
            "(0.5, 1000000000000) WITHIN GROUP (ORDER BY x)",
            "expected at most 10000",
        ),
        (
            "(0.5, 1e12) WITHIN GROUP (ORDER BY x)",
            "expected at most 10000",
        ),
        (
            "(0.5, 1000 * 100) WITHIN GROUP (ORDER BY x)",
            "expected a literal number",
        ),
        ("(x, 0.5, 1000000000000) OVER ()", "expected at most 10000"),
    ] {
        let sql = format!("SELECT approx_percentile_cont{call} FROM t");
        let error = refusal(&ctx, &sql).await;
        assert!(error.contains(expected), "{call}: {error}");
    }
    let sql = "SELECT approx_percentile_cont(0.5, 200) WITHIN GROUP (ORDER BY x) FROM t";
    rows(&ctx, sql).await.unwrap();
    // A value counts alone, not with the rows around it.
    let many = "SELECT count(array_to_string(string_to_array(CAST(value AS VARCHAR) || ' and so on', ' '), '-')) FROM range(5000)";
    assert_eq!(rows(&ctx, many).await.unwrap(), "5000");
}

#[tokio::test]
async fn texts_of_string_agg_are_limited() {
    let ctx = session().await;
    set(&ctx, "tet.max_value_bytes = 1000").await;
    let few = "(SELECT x, x % 2 AS k, CASE WHEN x <> 7 THEN x::text END AS s FROM t WHERE x < 10)";
    for (sql, expected) in [
        (
            "SELECT string_agg(s, ', ' ORDER BY x) FROM @",
            "0, 1, 2, 3, 4, 5, 6, 8, 9",
        ),
        ("SELECT length(string_agg(s, ', ')) FROM @", "25"),
        (
            "SELECT length(string_agg(DISTINCT k::text, ', ')) FROM @",
            "4",
        ),
        (
            "SELECT string_agg(s, NULL ORDER BY x DESC) FROM @",
            "986543210",
        ),
        ("SELECT string_agg(s, ',') FROM @ WHERE x = 7", ""),
        (
            "SELECT k, length(string_agg(s, ', ')), count(string_agg(s, '-')) OVER () FROM @ GROUP BY k ORDER BY k",
            "0 13 2\n1 10 2",
        ),
        (
            "SELECT x, string_agg(s, '') OVER (ORDER BY x) FROM @ WHERE x > 6 ORDER BY x",
            "7 \n8 8\n9 89",
        ),
        ("SELECT string_agg(s, '') FILTER (WHERE x = 3) FROM @", "3"),
    ] {
        let rows = rows(&ctx, &sql.replace('@', few)).await.unwrap();
        assert_eq!(rows.replace("NULL", ""), expected, "{sql}");
    }
    for call in [
        "string_agg(repeat('a', 100), ',')",
        "string_agg(DISTINCT x::text, ', and the next number is ')",
        "string_agg(x::text, ', and the next number is ' ORDER BY x)",
    ] {
        for groups in ["", " GROUP BY x % 2"] {
            let error = refusal(&ctx, &format!("SELECT {call} FROM t{groups}")).await;
            assert!(error.contains("tet.max_value_bytes"), "{call}: {error}");
        }
    }
}
