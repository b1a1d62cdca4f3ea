//! Memory limits, temporary files and signals.

use super::*;

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
    // Wait until the sort spills.
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
fn an_interrupted_copy_deletes_its_file() {
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

/// A hang-up ends the command, unless it was started with SIGHUP ignored, as `nohup` does.
#[cfg(target_os = "linux")]
#[test]
fn sighup_ends_the_command_unless_ignored() {
    use std::io::{BufRead, BufReader, Write};

    for (trap, code) in [("trap '' HUP", 0), (":", 129)] {
        if code == 129 && tet_sql::format::ignores_sighup() {
            // The test process itself ignores SIGHUP, and no shell can undo that for its children.
            continue;
        }
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(format!("{trap}; exec \"$0\" --format csv"))
            .arg(env!("CARGO_BIN_EXE_tet-sql"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        input.write_all(b"SELECT 1 AS a;\n").unwrap();
        let first: Vec<String> = lines.by_ref().take(2).map(Result::unwrap).collect();
        assert_eq!(first, ["a", "1"]);
        let id = child.id().to_string();
        Command::new("kill").args(["-HUP", &id]).status().unwrap();
        if code == 0 {
            input.write_all(b"SELECT 2 AS b;\n").unwrap();
            drop(input);
            let rest: Vec<String> = lines.map(Result::unwrap).collect();
            assert_eq!(rest, ["b", "2"]);
        }
        assert_eq!(child.wait().unwrap().code(), Some(code));
    }
}

#[test]
fn a_small_memory_limit_still_sorts() {
    let sort = "SELECT max(n) AS n FROM (SELECT row_number() OVER (ORDER BY value % 1000003) AS n \
                FROM range(1000000))";
    let arguments = ["--memory-limit", "10M", "--format", "csv", "-c", sort];
    assert_eq!(answer(&arguments), "n\n1000000\n");
}

#[test]
fn memory_is_limited() {
    // Sorting four million rows exceeds both the memory limit and the disk limit for spilling.
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

/// DataFusion keeps the input of such windows, without a reservation of its own.
#[test]
fn rows_that_windows_keep_are_limited() {
    let windows = |rows: usize| {
        format!(
            "SELECT max(mean) AS mean FROM (SELECT value, avg(value) OVER () AS mean FROM range({rows}))"
        )
    };
    let (many, few) = (windows(4_000_000), windows(100_001));
    let output = run(&["--memory-limit", "16M", "-c", &many]);
    assert_eq!(output.status.code(), Some(1));
    let expected = "error: out of memory: a window needs all rows of its input at once";
    let message = text(&output.stderr);
    assert!(message.starts_with(expected), "{message}");
    let arguments = ["--memory-limit", "16M", "--format", "csv", "-c", &few];
    assert_eq!(answer(&arguments), "mean\n50000.0\n");
}

#[test]
fn rows_of_tables_in_memory_are_limited() {
    // Eight bytes a row, and a limit of two million rows.
    let script = ".bail off\n\
                  CREATE TABLE a AS SELECT value FROM range(4000000);\n\
                  CREATE TABLE a AS SELECT value FROM range(1000000);\n\
                  INSERT INTO a SELECT value FROM range(1200000);\n\
                  CREATE OR REPLACE TABLE a AS SELECT value FROM range(1200000);\n\
                  CREATE TABLE IF NOT EXISTS a AS SELECT 1 AS value;\n\
                  SELECT count(*) AS n FROM a;\n\
                  DELETE FROM a WHERE value > 99999;\n\
                  INSERT INTO a SELECT value FROM range(1200000);\n\
                  SELECT count(*) AS n FROM a;\n\
                  DROP TABLE a;\n\
                  CREATE TABLE a AS SELECT value FROM range(1500000);\n\
                  SELECT count(*) AS n FROM a;\n";
    let output = run_with_input(&["--memory-limit", "16M", "--format", "csv"], script);
    let (found, errors) = (text(&output.stdout), text(&output.stderr));
    let expected = "error: out of memory: the rows of a table are kept in memory";
    assert_eq!(errors.matches(expected).count(), 3, "{errors}");
    assert_eq!(errors.matches("error: ").count(), 3, "{errors}");
    let limit =
        "do not fit in the memory limit of 16777216 bytes, of which tables and queries hold ";
    assert_eq!(errors.matches(limit).count(), 3, "{errors}");
    let counts = "n\n1000000\ncount\n900000\ncount\n1200000\nn\n1300000\nn\n1500000\n";
    assert_eq!(found, counts, "{errors}");
}
