//! The `tet-sql` command as a user runs it: arguments, formats, streams and exit statuses.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const WEATHER: &str = "tests/data/weather_small.tet";

fn run(arguments: &[&str]) -> Output {
    run_with_input(arguments, "")
}

fn run_with_input(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        // The tests are nobody's sessions.
        .env("XDG_CONFIG_HOME", "/nowhere")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command may end without reading it all.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Standard output of a run that must succeed and say nothing else.
fn answer(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(text(&output.stderr), "", "{arguments:?}");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    text(&output.stdout).to_string()
}

#[test]
fn the_query_of_the_first_page() {
    let query = "SELECT time, avg(value) FROM temperature \
                 WHERE lat BETWEEN -20 AND 20 GROUP BY time ORDER BY time";
    let output = answer(&[WEATHER, "--format", "csv", "-c", query]);
    let mut lines = output.lines();
    assert_eq!(lines.next(), Some("time,avg(temperature.value)"));
    assert_eq!(lines.next(), Some("2024-01-01T00:00:00,11.0"));
    assert_eq!(lines.count(), 47);
}

#[test]
fn formats() {
    let query = "SELECT station, nullif(value, 10132) AS v FROM pressure \
                 WHERE time = '2024-01-01T00:00:00' AND station IN ('KSEA', 'KPDX')";
    for (format, expected) in [
        ("csv", "station,v\nKSEA,\nKPDX,10166\n"),
        ("tsv", "station\tv\nKSEA\t\nKPDX\t10166\n"),
        (
            "json",
            "[{\"station\":\"KSEA\",\"v\":null},{\"station\":\"KPDX\",\"v\":10166}]\n",
        ),
        (
            "ndjson",
            "{\"station\":\"KSEA\",\"v\":null}\n{\"station\":\"KPDX\",\"v\":10166}\n",
        ),
        (
            "markdown",
            "| station | v |\n| --- | ---: |\n| KSEA | NULL |\n| KPDX | 10166 |\n",
        ),
        (
            "table",
            "+---------+-------+\n| station | v     |\n+---------+-------+\n\
             | KSEA    | NULL  |\n| KPDX    | 10166 |\n+---------+-------+\n",
        ),
    ] {
        assert_eq!(
            answer(&[WEATHER, "--format", format, "-c", query]),
            expected
        );
        let mode = format!(".mode {format}");
        assert_eq!(answer(&[WEATHER, "-c", &mode, "-c", query]), expected);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.csv");
    let path = file.to_str().unwrap();
    assert_eq!(
        answer(&[WEATHER, "--format", "csv", "-o", path, "-c", query]),
        ""
    );
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "station,v\nKSEA,\nKPDX,10166\n"
    );
}

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

/// Standard error of a run that must fail with status 1.
fn complaint(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    text(&output.stderr).to_string()
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
fn a_script_may_go_on_after_a_failure() {
    let script = ".bail off\nSELECT 1 AS x;\nSELECT nonsense;\nSELECT 2 AS x;\n";
    let output = run_with_input(&["--format", "csv"], script);
    assert_eq!(text(&output.stdout), "x\n1\nx\n2\n");
    assert!(text(&output.stderr).contains("nonsense"));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn results_become_files_by_their_ending() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let query = "SELECT lat, lon, value FROM temperature WHERE time = '2024-01-01T00:00:00'";
    for name in ["a.parquet", "a.arrow", "a.tet", "a.zarr"] {
        let file = path(name);
        assert_eq!(answer(&[WEATHER, "-o", &file, "-c", query]), "", "{name}");
        let sum = format!("SELECT count(*) AS n, round(sum(value)) AS s FROM '{file}'");
        let expected = format!("SELECT count(*) AS n, round(sum(value)) AS s FROM ({query})");
        assert_eq!(
            answer(&[WEATHER, "--format", "csv", "-c", &sum]),
            answer(&[WEATHER, "--format", "csv", "-c", &expected]),
            "{name}"
        );
        let left: Vec<_> = folder.path().read_dir().unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        if name == "a.zarr" {
            std::fs::remove_dir_all(left[0].path()).unwrap();
        } else {
            assert!(left[0].path().is_file(), "{name}");
            std::fs::remove_file(left[0].path()).unwrap();
        }
    }
    // Those of rows replace what is there, also by nothing.
    for name in ["b.parquet", "b.arrow"] {
        let file = path(name);
        for (condition, expected) in [("true", "n\n1\n"), ("false", "n\n0\n")] {
            let query = format!("SELECT 1 AS x WHERE {condition}");
            answer(&["-o", &file, "-c", &query]);
            let count = format!("SELECT count(*) AS n FROM '{file}'");
            assert_eq!(
                answer(&["--format", "csv", "-c", &count]),
                expected,
                "{name}"
            );
        }
    }
    answer(&["-o", &path("a.csv"), "-c", "SELECT 1 AS x"]);
    assert_eq!(std::fs::read_to_string(path("a.csv")).unwrap(), "x\n1\n");
    answer(&[
        "-o",
        &path("b.csv"),
        "--format",
        "json",
        "-c",
        "SELECT 1 AS x",
    ]);
    assert_eq!(
        std::fs::read_to_string(path("b.csv")).unwrap(),
        "[{\"x\":1}]\n"
    );
    // One file of rows holds one result.
    let twice = complaint(&[
        "-o",
        &path("c.parquet"),
        "-c",
        "SELECT 1 AS x; SELECT 2 AS x",
    ]);
    assert!(twice.contains("has a result already"), "{twice}");
    let once = format!(".once '{}'", path("d.csv"));
    let commands = [
        WEATHER,
        "--format",
        "csv",
        "-c",
        &once,
        "-c",
        "SELECT 1 AS x",
        "-c",
        "SELECT 2 AS x",
    ];
    assert_eq!(answer(&commands), "x\n2\n");
    assert_eq!(std::fs::read_to_string(path("d.csv")).unwrap(), "x\n1\n");
}

#[test]
fn a_result_that_breaks_off_is_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keep.csv");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "precious").unwrap();
    let broken = "SELECT value, 1 / (value - 90000) AS x FROM range(100000)";
    let fails = |arguments: &[&str]| {
        let complaint = complaint(arguments);
        assert!(complaint.contains("Divide by zero"), "{complaint}");
    };
    fails(&["-o", path, "-c", broken]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    fails(&["-o", path, "-c", "SELECT 1 AS x", "-c", broken]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x\n1\n");
    // A result may take the place of what it is made of.
    let table = format!(
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{path}' OPTIONS (format.has_header true)"
    );
    answer(&["-o", path, "-c", &table, "-c", "SELECT x + 1 AS x FROM t"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x\n2\n");
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}

#[test]
fn json_has_each_name_once() {
    let twice = "SELECT a.x, b.x FROM (SELECT 1 AS x) a, (SELECT 2 AS x) b";
    assert_eq!(
        answer(&["--format", "json", "-c", twice]),
        "[{\"x\":1,\"x_1\":2}]\n"
    );
}

#[test]
fn nothing_is_written_in_a_read_only_session() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    let path = path.to_str().unwrap();
    for statement in [
        format!("COPY (SELECT 1 AS x) TO '{path}'"),
        format!("EXPLAIN ANALYZE COPY (SELECT 1 AS x) TO '{path}'"),
        format!(".output {path}"),
        format!(".once {path}"),
        format!("\\! touch {path}"),
        format!(".edit {path}"),
    ] {
        let complaint = complaint(&["--read-only", "-c", &statement]);
        assert!(complaint.contains("--read-only"), "{complaint}");
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    assert_eq!(
        answer(&[
            "--read-only",
            "--format",
            "csv",
            "-c",
            "CREATE VIEW v AS SELECT 1 AS x; SELECT x FROM v"
        ]),
        "x\n1\n"
    );
}

#[test]
fn settings_change_how_results_look() {
    let look = |settings: &str| {
        let sql = format!("{settings}\nSELECT 1 AS x, NULL AS y;");
        let output = run_with_input(&[], &sql);
        assert_eq!(output.status.code(), Some(0), "{settings}");
        text(&output.stdout).to_string()
    };
    assert_eq!(look(".mode csv\n.headers off\n.nullvalue -"), "1,-\n");
    assert_eq!(look("\\pset format csv\n\\pset tuples_only on"), "1,\n");
    assert_eq!(look("\\x on"), "-[ RECORD 1 ]\nx = 1\ny = NULL\n");
    assert_eq!(look(".mode line"), "x = 1\ny = NULL\n");
    assert_eq!(
        look(".mode box"),
        "┌───┬──────┐\n│ x │ y    │\n├───┼──────┤\n│ 1 │ NULL │\n└───┴──────┘\n"
    );
}

#[test]
fn files_are_opened_and_closed() {
    let script =
        format!(".open {WEATHER} AS w\nSELECT count(*) AS n FROM w.pressure;\n.close w\n.tables\n");
    let output = run_with_input(&["--format", "csv"], &script);
    assert_eq!(text(&output.stdout), "n\n240\nschema,table\n");
    assert!(complaint(&["-c", ".close nothing"]).contains("no file is open as nothing"));
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
        // The answer is there before the input has an end.
        writeln!(input, "SELECT\n{number} AS x;").unwrap();
        assert_eq!(output.next().unwrap().unwrap(), "x");
        assert_eq!(output.next().unwrap().unwrap(), number);
    }
    drop(input);
    assert!(child.wait().unwrap().success());
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
    assert!(endless.contains("does one read itself?"), "{endless}");
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
    assert!(complaint(&["-c", "\\watch"]).contains("no query yet"));
}

#[test]
fn the_first_statements_are_those_of_a_file() {
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
fn several_files_are_schemas() {
    let other = "v1=tests/data/weather_small_v1footer.tet";
    let query = "SELECT count(*) AS n FROM temperature t \
                 JOIN v1.temperature u USING (time, lat, lon) WHERE t.value = u.value";
    assert_eq!(
        answer(&[WEATHER, other, "--format", "csv", "-c", query]),
        "n\n9598\n"
    );
    let output = run(&[WEATHER, WEATHER, "-c", "SELECT 1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("choose another name"),
        "{}",
        text(&output.stderr)
    );
    let tables = answer(&[WEATHER, other, "--format", "csv", "-c", ".tables"]);
    assert!(tables.contains("v1,pressure\n") && tables.contains("weather_small,pressure\n"));
}

#[test]
fn schemas_are_found_whatever_their_case() {
    let named = format!("My={WEATHER}");
    let query = "SELECT count(*) AS n FROM My.temperature; SELECT count(*) AS n FROM \"My\".PRESSURE; \
                 CREATE VIEW v AS SELECT 1 AS x; SELECT x FROM my.v";
    assert_eq!(
        answer(&[&named, "--format", "csv", "-c", query]),
        "n\n9600\nn\n240\nx\n1\n"
    );
}

#[test]
fn a_folder_is_all_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for (from, to) in [
        ("weather_small.tet", "b.tet"),
        ("weather_small_v1footer.tet", "a.TET"),
        ("edge/bad_magic.tet", "c.tet"),
    ] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data")
            .join(from);
        std::fs::copy(from, folder.path().join(to)).unwrap();
    }
    let query = "SELECT count(*) AS n FROM temperature t JOIN b.temperature USING (time, lat, lon)";
    let output = run(&[path, "--format", "csv", "-c", query]);
    assert_eq!(text(&output.stdout), "n\n9600\n");
    assert!(
        text(&output.stderr).contains("c.tet: superblock magic"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_failed_statement_leaves_the_output_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keep.csv");
    std::fs::write(&file, "precious").unwrap();
    let path = file.to_str().unwrap();
    assert_eq!(
        run(&["-o", path, "-c", "SELECT nonsense"]).status.code(),
        Some(1)
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    assert_eq!(
        answer(&[
            "-o",
            path,
            "--format",
            "csv",
            "-c",
            "SELECT 1 AS x; SELECT 2 AS x"
        ]),
        ""
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x\n1\nx\n2\n");
}

#[test]
fn an_empty_result_is_a_result() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("old.ndjson");
    std::fs::write(&file, "{\"old\":1}\n").unwrap();
    let path = file.to_str().unwrap();
    let query = "SELECT * FROM temperature WHERE lat > 500";
    assert_eq!(
        answer(&[WEATHER, "--format", "ndjson", "-o", path, "-c", query]),
        ""
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "");
}

#[test]
fn array_files_are_not_overwritten_by_results() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.tet");
    std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(WEATHER), &file).unwrap();
    let other_name = folder.path().join("other");
    std::fs::hard_link(&file, &other_name).unwrap();
    for path in [&file, &other_name] {
        let output = run(&["-o", path.to_str().unwrap(), "-c", "SELECT 1"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            text(&output.stderr).contains("is an array file"),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn neither_are_arrays_of_other_formats() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = vec![
        ("a.npy", "a.npy", &b"\x93NUMPY\x01\x00"[..]),
        ("a.npz", "a.npz", &b"PK\x03\x04 a member"[..]),
        ("a.csv", "a.csv", &b"PK\x05\x06 no member"[..]),
    ];
    if cfg!(feature = "zarr") {
        kept.push(("a.zarr", "a.zarr/zarr.json", b"{}"));
    }
    std::fs::create_dir(folder.path().join("a.zarr")).unwrap();
    for (name, file, bytes) in kept {
        let file = folder.path().join(file);
        std::fs::write(&file, bytes).unwrap();
        let path = folder.path().join(name);
        let output = run(&["-o", path.to_str().unwrap(), "-c", "SELECT 1"]);
        assert_eq!(output.status.code(), Some(1));
        let told = text(&output.stderr);
        assert!(told.contains("is an array file"), "{told}");
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_statement_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let sort = "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY value % 1000003) AS n \
                FROM range(400000000))";
    let child = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
        .args(["--memory-limit", "32M", "-c", sort])
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Until it spills.
    let spills = || {
        let entries = folder.path().read_dir().unwrap();
        entries.flatten().any(|entry| {
            entry
                .path()
                .read_dir()
                .is_ok_and(|mut e| e.next().is_some())
        })
    };
    while !spills() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(text(&output.stderr), "cancelled\n");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn an_interrupted_copy_takes_its_file_away() {
    let folder = tempfile::tempdir().unwrap();
    let copy = format!(
        "COPY (SELECT value % 3000 AS a, value / 3000 AS b, 0.5 AS v FROM range(6000000)) TO '{}' OPTIONS (dims 'a,b', codec \
         'zstd', level 19)",
        folder.path().join("a.tet").display()
    );
    let child = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
        .args(["-c", &copy])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while folder.path().read_dir().unwrap().next().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let id = child.id().to_string();
    Command::new("kill").args(["-INT", &id]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_small_memory_limit_still_sorts() {
    let sort = "SELECT max(n) AS n FROM (SELECT row_number() OVER (ORDER BY value % 1000003) AS n \
                FROM range(1000000))";
    let arguments = ["--memory-limit", "10M", "--format", "csv", "-c", sort];
    assert_eq!(answer(&arguments), "n\n1000000\n");
}

#[test]
fn schema_tells_where_coordinates_come_from() {
    let schema = answer(&[WEATHER, "-c", ".schema pressure"]);
    for expected in [
        "time     48      Timestamp(µs)  2024-01-01T00:00:00 .. 2024-01-02T23:00:00  labels",
        "station  5       Utf8           EGLL .. YSSY",
        "value  i16     Int16  -32768",
        "codec        zstd",
    ] {
        assert!(schema.contains(expected), "{expected} in\n{schema}");
    }
    assert_eq!(schema, answer(&[WEATHER, "-c", "\\d pressure"]));
    let index = answer(&[
        "tests/data/weather_small_nofooter.tet",
        "-c",
        ".schema pressure",
    ]);
    assert!(
        index.contains("dim_0  48      Int64  0 .. 47  index"),
        "{index}"
    );
}

#[test]
fn options_of_opening_and_reading() {
    let types = "SELECT arrow_typeof(lat) AS t FROM temperature LIMIT 1";
    assert_eq!(
        answer(&[WEATHER, "--format", "csv", "-c", types]),
        "t\nInt64\n"
    );
    assert_eq!(
        answer(&[WEATHER, "--text-labels", "--format", "csv", "-c", types]),
        "t\nUtf8\n"
    );
    let count = "SELECT count(value) AS n FROM temperature";
    for (set, expected) in [("true", "n\n9598\n"), ("false", "n\n9600\n")] {
        let set = format!("SET tet.nan_as_null = {set}");
        for access in ["mmap", "pread"] {
            let arguments = [
                WEATHER, "--access", access, "--format", "csv", "-c", &set, "-c", count,
            ];
            assert_eq!(answer(&arguments), expected);
        }
    }
    // A file whose footer alone is broken.
    let broken = "tests/data/edge/footer_bad_json.tet";
    let output = run(&[broken, "-c", "SELECT 1"]);
    assert!(
        text(&output.stderr).contains("ignore_footer"),
        "{}",
        text(&output.stderr)
    );
    let sum = "SELECT sum(value) AS s FROM a";
    let arguments = [broken, "--ignore-footer", "--format", "csv", "-c", sum];
    assert_eq!(answer(&arguments), "s\n3.0\n");
}

#[test]
fn memory_is_limited() {
    // Four million rows to be sorted fit neither into the limit nor onto the disk that they may use.
    let sort = "SET datafusion.runtime.max_temp_directory_size = '1M'; \
                SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY value % 1000003) AS n \
                FROM range(4000000))";
    let output = run(&["--memory-limit", "16M", "-c", sort]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).starts_with("error: "),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn the_demo_needs_no_file_and_leaves_none() {
    let output = answer(&["--demo", "-c", ".schema temperature"]);
    let file = output
        .lines()
        .find_map(|line| line.trim().strip_prefix("file "))
        .and_then(|line| line.trim().strip_suffix(" (tet)"))
        .unwrap();
    assert!(file.ends_with("demo.tet"));
    assert!(!Path::new(file).exists(), "{file} is left behind");
    let rows = "SELECT count(*) AS n FROM temperature t JOIN humidity h USING (time, lat, lon)";
    assert_eq!(
        answer(&["--demo", "--format", "csv", "-c", rows]),
        "n\n32832\n"
    );
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
