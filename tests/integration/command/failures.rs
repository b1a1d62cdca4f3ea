//! What is said of what is wrong, and the status then.

use super::*;

#[test]
fn a_failed_statement_stops_with_status_1() {
    let output = run(&[
        "--format",
        "csv",
        "-c",
        "SELECT 1; SELECT nonsense; SELECT 3",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "Int64(1)\n1\n");
    assert!(text(&output.stderr).starts_with("error: "));
    assert!(text(&output.stderr).contains("nonsense"));
    for wrong in [
        &["absent.tet", "-c", "SELECT 1"][..],
        &["tests/data/edge/bad_magic.tet", "-c", "SELECT 1"],
        &["-c", "SELECT 'unterminated"],
        &["-c", ".nonsense"],
        &["-f", "absent.sql"],
    ] {
        let output = run(wrong);
        assert_eq!(output.status.code(), Some(1), "{wrong:?}");
        assert_eq!(text(&output.stdout), "", "{wrong:?}");
        assert!(text(&output.stderr).starts_with("error: "), "{wrong:?}");
    }
}

#[test]
fn wrong_usage_has_status_2() {
    for wrong in [
        &["--nonsense"][..],
        &["--threads", "none", "-c", "SELECT 1"],
        &["--format", "papyrus"],
        &["--access", "telepathy"],
        &["--memory-limit", "lots"],
    ] {
        let output = run(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert_eq!(text(&output.stdout), "", "{wrong:?}");
    }
}

#[test]
fn errors_show_the_place_and_what_may_have_been_meant() {
    assert_eq!(
        complaint(&[WEATHER, "-c", "SELECT lon,\n  latt FROM temperature"]),
        "error: No field named latt. Did you mean 'temperature.lat'?\nLINE 2:   latt FROM temperature\n          ^^^^\n"
    );
    assert_eq!(
        complaint(&[WEATHER, "-c", "SELECT * FROM temprature"]),
        "error: table 'datafusion.weather_small.temprature' not found; did you mean 'temperature'?\n\
         LINE 1: SELECT * FROM temprature\n                      ^^^^^^^^^^\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.sql");
    std::fs::write(&file, "SELECT 1;\n\nSELECT 2 +;\n").unwrap();
    let path = file.to_str().unwrap();
    assert_eq!(
        complaint(&["--format", "csv", "-f", path]),
        format!(
            "error: {path}:3: syntax error: Expected: an expression, found: EOF\nLINE 1: SELECT 2 +\n                  ^\n"
        )
    );
}

#[test]
fn labels_that_are_not_there_are_hinted_at() {
    let query = "SELECT count(*) AS n FROM pressure WHERE station = 'KSEE'";
    let output = run(&[WEATHER, "--format", "csv", "-c", query]);
    assert_eq!(text(&output.stdout), "n\n0\n");
    assert_eq!(
        text(&output.stderr),
        "hint: no label 'KSEE' on station; did you mean 'KSEA'?\n"
    );
    let output = run(&[WEATHER, "-q", "--format", "csv", "-c", query]);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
        .args([
            WEATHER,
            "--format",
            "csv",
            "-c",
            "SELECT * FROM temperature",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stderr), "");
}
