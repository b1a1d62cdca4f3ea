//! The command with URLs as files.

use std::process::{Command, Output};

use tet_sql::format::tet::Compression;

use crate::remote::write_grid;
use crate::support::http::HttpServer;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tet-sql"))
        .args(arguments)
        .env("XDG_CONFIG_HOME", "/nowhere")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn urls_are_files() {
    let folder = tempfile::tempdir().unwrap();
    write_grid(&folder.path().join("a.tet"), 2, Compression::Raw);
    let server = HttpServer::of(folder.path());
    server.put("r.csv", "k\n1\n2\n");
    let named = format!("w={}", server.url("a.tet"));
    let rows = format!("rows={}", server.url("r.csv"));
    let query = "SELECT (SELECT count(value) FROM t), (SELECT count(value) FROM w.t), (SELECT sum(k) FROM rows)";
    let arguments = [
        &server.url("a.tet"),
        &named,
        &rows,
        "--format",
        "csv",
        "-c",
        query,
    ];
    let output = run(&arguments);
    assert_eq!(text(&output.stderr), "");
    assert_eq!(text(&output.stdout).lines().last(), Some("8192,8192,3"));
    let output = run(&[
        "-c",
        &format!(".open {}", server.url("a.tet")),
        "-c",
        "SELECT count(*) FROM a.t",
    ]);
    assert!(text(&output.stdout).contains("8192"), "{output:?}");
}

#[test]
fn plans_show_no_passwords() {
    let folder = tempfile::tempdir().unwrap();
    write_grid(&folder.path().join("a.tet"), 2, Compression::Raw);
    let server = HttpServer::of(folder.path());
    let url = format!(
        "http://me:hunter2@{}/a.tet?sig=topsecret#t",
        server.address()
    );
    let output = run(&[
        "-c",
        &format!("EXPLAIN VERBOSE SELECT sum(value) FROM '{url}'"),
    ]);
    let shown = text(&output.stdout);
    assert!(shown.contains("/a.tet"), "{output:?}");
    assert!(
        !shown.contains("hunter2") && !shown.contains("topsecret"),
        "{shown}"
    );
}

#[test]
fn errors_show_no_passwords() {
    let server = HttpServer::start();
    let url = format!(
        "http://me:hunter2@{}/none.tet?sig=topsecret",
        server.address()
    );
    for arguments in [
        vec![url.as_str()],
        vec!["-c", &format!("SELECT * FROM '{url}'")],
        vec!["-c", &format!(".open {url}")],
    ] {
        let output = run(&arguments);
        let message = text(&output.stderr);
        assert!(message.contains("none.tet"), "{message}");
        assert!(
            !message.contains("hunter2") && !message.contains("topsecret"),
            "{message}"
        );
    }
}

/// Ctrl-C does not wait for the answer of a server.
#[cfg(unix)]
#[test]
fn opening_a_url_can_be_cancelled() {
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    let server = HttpServer::start();
    server.set_delay(Duration::from_secs(300));
    let url = server.url("a.tet");
    let query = format!("SELECT * FROM '{url}'");
    for arguments in [vec![url.as_str()], vec!["-c", &query]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
            .arg("--no-init")
            .args(&arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while server.take_log().is_empty() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let start = Instant::now();
        let mut kill = Command::new("kill");
        let killed = kill.args(["-INT", &child.id().to_string()]).status();
        assert!(killed.unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(130), "{arguments:?}");
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}
