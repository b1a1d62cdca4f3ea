//! Statements of an attacker, for the command line and for the server.

/// Returns CTEs a0, a1 and so on, each built from the previous one, for which `next` has an `@`.
fn chain(first: &str, next: &str) -> String {
    let further =
        (1..40).map(|n| format!(", a{n} AS ({})", next.replace('@', &format!("a{}", n - 1))));
    format!("WITH a0 AS ({first}){}", further.collect::<String>())
}

/// Returns statements of less than 1 MiB, each with the setting that its error names.
pub fn statements() -> Vec<(String, &'static str)> {
    let operators = "tet.max_expression_operators";
    let nodes = "tet.max_plan_nodes";
    let nesting = "datafusion.sql_parser.recursion_limit";
    let unions = chain("SELECT 1 AS x", "SELECT * FROM @ UNION ALL SELECT * FROM @");
    let sums = chain(
        "SELECT value AS x FROM range(10)",
        "SELECT x + x AS x FROM @",
    );
    vec![
        (format!("SELECT 1{}", "+1".repeat(70_000)), operators),
        (format!("SELECT true{}", " OR x".repeat(80_000)), operators),
        (format!("SELECT 1{}", "::int".repeat(100_000)), operators),
        (
            format!("SELECT 1{}", " + select".repeat(100_000)),
            operators,
        ),
        (
            format!("SELECT CAST(1 AS {}", "ARRAY<".repeat(100_000)),
            operators,
        ),
        (format!("{}SELECT 1", "EXPLAIN ".repeat(100_000)), nesting),
        (
            format!("{sums} SELECT count(*) FROM a39 WHERE x > 0"),
            operators,
        ),
        (format!("{unions} SELECT count(*) FROM a39"), nodes),
        (format!("EXPLAIN {unions} SELECT count(*) FROM a39"), nodes),
        (
            format!("SELECT 1{}", " UNION SELECT 1".repeat(60_000)),
            nodes,
        ),
        (
            format!(
                "{}SELECT 1{}",
                "WITH a AS (".repeat(40),
                ") SELECT * FROM a".repeat(40)
            ),
            nodes,
        ),
        (format!("SELECT {}1", "(".repeat(500_000)), nesting),
        (format!("SELECT {}1", "CASE WHEN ".repeat(60)), nesting),
        (format!("SELECT {}true", "NOT ".repeat(1_000)), nesting),
        (
            "SELECT repeat('x', 2000000000)".to_owned(),
            "tet.max_value_bytes",
        ),
        ("SELECT range(2000000000)".to_owned(), "tet.max_value_bytes"),
        (
            "SELECT count(arrow_cast(NULL, 'FixedSizeBinary(2147483647)')) FROM range(8000)".to_owned(),
            "tet.max_value_bytes",
        ),
        (
            "SELECT CAST(NULL AS BIGINT[2000000000]) FROM range(3)".to_owned(),
            "tet.max_value_bytes",
        ),
        (
            "SELECT regexp_replace(repeat('a', 100000), 'a', repeat('b', 100000), 'g')".to_owned(),
            "tet.max_value_bytes",
        ),
        (
            "SELECT array_to_string(range(200000), repeat('x', 100000))".to_owned(),
            "tet.max_value_bytes",
        ),
        (
            "SELECT approx_percentile_cont(0.5, 1000000000000) WITHIN GROUP (ORDER BY value) FROM range(10)".to_owned(),
            "expected at most 10000",
        ),
    ]
}
