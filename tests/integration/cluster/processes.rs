//! Two workers as processes of their own, and the command as the coordinator.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use tet_sql::format::tet::{DatasetSpec, Dtype};

use crate::cells;
use crate::support::sql::write;

/// A running `tet-sql worker`.
pub(crate) struct Worker {
    child: Child,
    pub url: String,
}

impl Worker {
    /// Starts a worker of one thread for files under these roots.
    pub fn start(roots: &[&Path], arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
            .args(["worker", "--listen", "127.0.0.1:0", "--threads", "1"])
            .args(roots.iter().flat_map(|root| [Path::new("--root"), root]))
            .args(arguments)
            .env("TET_SQL_TEST_TOKEN", "a-word")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let url = first
            .strip_prefix("listening on ")
            .expect(&first)
            .to_owned();
        // A full pipe would block the worker.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes the array `a` of 1,000 x 1,000 values, 0 to 12 in turn, in 100 chunks.
fn million(directory: &Path) -> std::path::PathBuf {
    let path = directory.join("million.tet");
    let spec = DatasetSpec::new("a", Dtype::F32, &[1000, 1000], &[100, 100]);
    let spec = spec.with_dim_names(["y", "x"]);
    write(
        &path,
        &[(
            spec,
            cells!((0..1_000_000u32).map(|cell| (cell % 13) as f32)),
        )],
    );
    path
}

fn coordinator(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tet-sql"))
        .args([
            "--no-init",
            "-q",
            "--format",
            "csv",
            "--set",
            "tet.cluster_task_size=1",
        ])
        .args(arguments)
        .env("TET_SQL_TEST_TOKEN", "a-word")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn two_workers_answer_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let path = million(folder.path());
    let token = ["--token-env", "TET_SQL_TEST_TOKEN"];
    let workers = [0, 1].map(|_| Worker::start(&[folder.path()], &token));
    let urls = format!("{},{}", workers[0].url, workers[1].url);
    let sql = "SELECT count(*), sum(value) FROM a WHERE x >= 500";
    let own = coordinator(&[path.to_str().unwrap(), "-c", sql]);
    let on_workers = |extra: &[&str]| {
        let line = [path.to_str().unwrap(), "--cluster", &urls, "-c", sql];
        coordinator(&[&line[..], extra].concat())
    };
    let found = on_workers(&["--cluster-token-env", "TET_SQL_TEST_TOKEN"]);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(
        text(&found.stdout),
        text(&own.stdout),
        "{}",
        text(&found.stderr)
    );
    assert!(text(&own.stdout).contains("500000"));
    let refused = on_workers(&[]);
    assert!(!refused.status.success());
    assert!(
        text(&refused.stderr).contains("refuses the coordinator"),
        "{}",
        text(&refused.stderr)
    );
}

/// A worker that is killed before the first rows arrive is left out; the others answer.
#[test]
fn a_killed_worker_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = million(folder.path());
    let [mut first, second] = [0, 1].map(|_| Worker::start(&[folder.path()], &[]));
    let urls = format!("{},{}", first.url, second.url);
    let mut shell = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
        .args([
            "--no-init",
            "-q",
            "--format",
            "csv",
            "--set",
            "tet.cluster_task_size=1",
        ])
        .arg(&path)
        .args(["--cluster", &urls])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = shell.stdin.take().unwrap();
    let mut output = BufReader::new(shell.stdout.take().unwrap()).lines();
    let mut ask = |sql: &str| {
        writeln!(input, "{sql}").unwrap();
        input.flush().unwrap();
        let _header = output.next().unwrap().unwrap();
        output.next().unwrap().unwrap()
    };
    let sql = "SELECT count(value) AS cells FROM a;";
    assert_eq!(ask(sql), "1000000");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    assert_eq!(ask(sql), "1000000");
    drop(input);
    shell.wait().unwrap();
}

#[test]
fn wrong_usage_is_refused() {
    let run = |arguments: &[&str]| {
        let run = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
            .args(arguments)
            .output();
        let run = run.unwrap();
        (
            run.status.code(),
            String::from_utf8_lossy(&run.stderr).into_owned(),
        )
    };
    for (arguments, code, message) in [
        (&["worker"][..], Some(2), "--root"),
        (
            &["worker", "--root", "/no/such/directory"],
            Some(1),
            "/no/such/directory",
        ),
        (
            &["worker", "--root", ".", "--listen", "0.0.0.0:0"],
            Some(2),
            "needs a token",
        ),
        (
            &["--demo", "--cluster", "localhost"],
            Some(1),
            "is not a URL like http://host:50052",
        ),
    ] {
        let (found, text) = run(arguments);
        assert_eq!(found, code, "{arguments:?}: {text}");
        assert!(text.contains(message), "{arguments:?}: {text}");
    }
}
