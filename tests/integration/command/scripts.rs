//! Statements from scripts and standard input, and statements that are run again.

use super::*;

#[test]
fn statements_from_a_file_and_from_standard_input() {
    let script = "-- a comment; with a semicolon\nSELECT 'a;b' AS x;\n\n.mode json\nSELECT 2 AS y";
    let expected = "x\na;b\n[{\"y\":2}]\n";
    let output = run_with_input(&["--format", "csv"], script);
    assert_eq!(text(&output.stdout), expected);
    let output = run_with_input(&["--format", "csv", "-f", "-"], script);
    assert_eq!(text(&output.stdout), expected);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.sql");
    std::fs::write(&file, script).unwrap();
    assert_eq!(
        answer(&["--format", "csv", "-f", file.to_str().unwrap()]),
        expected
    );
}

#[test]
fn the_first_line_may_name_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.sql");
    let start = "#!/usr/bin/env -S tet-sql --format csv -f\nSELECT 1 AS x;\n";
    std::fs::write(&file, start).unwrap();
    let arguments = ["--format", "csv", "-f", file.to_str().unwrap()];
    assert_eq!(answer(&arguments), "x\n1\n");
    std::fs::write(&file, format!("{start}SELECT nonsense;\n")).unwrap();
    let told = complaint(&arguments);
    assert!(told.contains("script.sql:3: "), "{told}");
}

#[test]
fn statements_are_answered_as_they_come() {
    use std::io::{BufRead, BufReader};
    let mut child = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
        .args(["--no-init", "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    for number in ["1", "2"] {
        // Each answer is written before the input ends.
        writeln!(input, "SELECT\n{number} AS x;").unwrap();
        assert_eq!(output.next().unwrap().unwrap(), "x");
        assert_eq!(output.next().unwrap().unwrap(), number);
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_script_may_go_on_after_a_failure() {
    let script = ".bail off\nSELECT 1 AS x;\nSELECT nonsense;\nSELECT 2 AS x;\n";
    let output = run_with_input(&["--format", "csv"], script);
    assert_eq!(text(&output.stdout), "x\n1\nx\n2\n");
    assert!(text(&output.stderr).contains("nonsense"));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn scripts_read_scripts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a b.sql");
    std::fs::write(&file, "SELECT 1 AS x;").unwrap();
    let read = format!(".read '{}'", file.display());
    assert_eq!(answer(&["--format", "csv", "-c", &read]), "x\n1\n");
    std::fs::write(&file, &read).unwrap();
    let endless = complaint(&["-c", &read]);
    assert!(endless.contains("does one run itself?"), "{endless}");
}

#[test]
fn the_last_query_runs_again() {
    let script = "SELECT 1 AS x;\nSET datafusion.execution.batch_size = 100;\n\\watch 0.01 2\n";
    let output = run_with_input(&["--format", "csv"], script);
    assert_eq!(text(&output.stdout), "x\n1\nx\n1\nx\n1\n");
    let explained = answer(&[WEATHER, "-c", ".explain SELECT avg(value) FROM temperature"]);
    assert!(explained.contains("ArrayAggregateExec"), "{explained}");
    let analyzed = answer(&[
        WEATHER,
        "-c",
        ".explain analyze SELECT avg(value) FROM temperature",
    ]);
    assert!(analyzed.contains("chunks_read"), "{analyzed}");
    assert!(complaint(&["-c", "\\watch"]).contains("no query has been run yet"));
}

#[test]
fn the_init_file_runs_first() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("tet-sql");
    std::fs::create_dir(&own).unwrap();
    std::fs::write(
        own.join("init.sql"),
        ".mode csv\nCREATE VIEW v AS SELECT 1 AS x;",
    )
    .unwrap();
    let with_home = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
            .args(arguments)
            .env("XDG_CONFIG_HOME", folder.path())
            .output()
            .unwrap();
        (output.status.code(), text(&output.stdout).to_string())
    };
    let query = ["-c", "SELECT x FROM v"];
    assert_eq!(with_home(&query), (Some(0), "x\n1\n".to_string()));
    let json = ["--format", "json", "-c", "SELECT x FROM v"];
    assert_eq!(with_home(&json).1, "[{\"x\":1}]\n");
    assert_eq!(
        with_home(&["--no-init", "-c", "SELECT x FROM v"]).0,
        Some(1)
    );
    let other = folder.path().join("other.sql");
    std::fs::write(&other, "CREATE VIEW v AS SELECT 2 AS x;").unwrap();
    let init = [
        "--init",
        other.to_str().unwrap(),
        "--format",
        "csv",
        "-c",
        "SELECT x FROM v",
    ];
    assert_eq!(with_home(&init).1, "x\n2\n");
}
