//! Statements that exceed a limit on the command line.

use super::*;
use crate::hostile::statements::statements;

/// All hostile statements run in one process, which keeps its session state.
#[test]
fn hostile_statements_are_refused_in_one_process() {
    let statements = statements();
    let mut script = ".bail off\nCREATE TABLE kept AS SELECT 7 AS x;\n".to_owned();
    for (sql, _) in &statements {
        script += &format!("{sql};\n");
    }
    script += "SELECT x FROM kept;\n";
    let output = run_with_input(&["--format", "csv"], &script);
    let errors = text(&output.stderr);
    assert_eq!(text(&output.stdout), "x\n7\n", "{errors}");
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let found: Vec<&str> = errors
        .lines()
        .filter(|line| line.starts_with("error: "))
        .collect();
    assert_eq!(found.len(), statements.len(), "{errors}");
    for ((sql, setting), error) in statements.iter().zip(found) {
        assert!(
            error.contains(setting),
            "{}: {error}",
            &sql[..40.min(sql.len())]
        );
    }
}

#[test]
fn a_long_flat_statement_is_answered() {
    let ors: Vec<String> = (0..10_000).map(|n| format!("value = {n}")).collect();
    let sql = format!(
        "SELECT count(*) AS n FROM range(20000) WHERE {}",
        ors.join(" OR ")
    );
    let others = sql.replace(" = ", " <> ").replace(" OR ", " AND ");
    let blanks = " ".repeat(15_000_000);
    let script = format!("{sql};\n{others};\nSELECT{blanks}1 AS one;\n");
    let output = run_with_input(&["--format", "csv", "-f", "-"], &script);
    assert_eq!(text(&output.stderr), "");
    assert_eq!(text(&output.stdout), "n\n10000\nn\n10000\none\n1\n");
}

#[test]
fn settings_are_given_on_the_command_line() {
    let set = ["--set", "tet.max_expression_operators=2", "--format", "csv"];
    let sum = [&set[..], &["-c", "SELECT 1+1+1+1"]].concat();
    assert_eq!(
        complaint(&sum),
        "error: the statement has an expression of more than 2 operators; shorten it, or raise \
         tet.max_expression_operators\n"
    );
    let sum = [&set[..], &["-c", "SELECT 1+1+1 AS n"]].concat();
    assert_eq!(answer(&sum), "n\n3\n");
    assert_eq!(
        complaint(&["--set", "tet.max_plan_nodes=0", "-c", "SELECT 1"]),
        "error: tet.max_plan_nodes=0: tet.max_plan_nodes: found 0, expected at least 1\n"
    );
}

#[test]
fn script_statements_have_a_byte_limit() {
    let set = ["--set", "tet.max_statement_bytes=100", "--format", "csv"];
    let short = run_with_input(&set, "SELECT 1 AS a;\nSELECT\n2 AS b;\n");
    assert_eq!(text(&short.stdout), "a\n1\nb\n2\n");
    let line = run_with_input(&set, &format!("SELECT {}1;\n", " ".repeat(100)));
    assert_eq!(
        text(&line.stderr),
        "error: standard input: line 1 has more than 100 bytes, the limit of a statement: tet.max_statement_bytes\n"
    );
    let lines = run_with_input(&set, &format!("SELECT 1{};\n", "\n+ 1".repeat(50)));
    assert!(
        text(&lines.stderr).contains("more than 100; shorten it, or raise tet.max_statement_bytes")
    );
}
