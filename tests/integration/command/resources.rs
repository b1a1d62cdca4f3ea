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

/// Runs a statement, and returns its output and the maximum of the process's anonymous memory in bytes,
/// which is read every millisecond.
#[cfg(target_os = "linux")]
fn peak_of(limit: &str, sql: &str) -> (String, usize) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
        .args([
            "--memory-limit",
            limit,
            "--threads",
            "2",
            "--format",
            "csv",
            "-c",
            sql,
        ])
        // One arena, so that the allocator keeps little of what other threads have freed.
        .env("MALLOC_ARENA_MAX", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        peak = kilobytes
            .map_or(0, |text| text.parse::<usize>().unwrap())
            .max(peak);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{sql}: {}", text(&output.stderr));
    (text(&output.stdout).to_string(), peak << 10)
}

/// The rows of a key and a value take 32 MB. Few groups have many values, and many groups a few. Batches
/// and buffers that nothing reserves take up to 15 MB, whatever the number of rows.
#[cfg(target_os = "linux")]
#[test]
fn grouped_aggregates_of_all_values_stay_near_the_memory_limit() {
    const ROWS: u64 = 2_000_000;
    let rows = |groups: u64| {
        format!("(SELECT value % {groups} AS k, value AS v FROM range({ROWS}) WHERE value >= 0)")
    };
    let (_, idle) = peak_of("16M", &format!("SELECT max(k) FROM {}", rows(7)));
    // The values of group k are k, k + groups, ..., k + ROWS - groups.
    let medians = |groups: u64| groups * (groups - 1) / 2 + groups * ((ROWS - groups) / 2);
    for (aggregate, groups, sum) in [
        ("median(v)", 100, medians(100)),
        ("median(v)", 100_000, medians(100_000)),
        ("quantile(CAST(v AS DOUBLE), 0.5)", 1000, medians(1000)),
        ("array_length(array_agg(v))", 1000, ROWS),
    ] {
        let sql = format!(
            "SELECT count(*) AS n, CAST(sum(m) AS BIGINT) AS s FROM \
             (SELECT k, {aggregate} AS m FROM {} GROUP BY k)",
            rows(groups)
        );
        let (output, peak) = peak_of("16M", &sql);
        assert_eq!(output, format!("n,s\n{groups},{sum}\n"), "{aggregate}");
        let taken = peak.saturating_sub(idle) >> 20;
        assert!(taken <= 40, "{aggregate} of {groups} groups: {taken} MiB");
    }
}
