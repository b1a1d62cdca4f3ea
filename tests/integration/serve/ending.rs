//! Shutdown of the server.

#![cfg(unix)]

use super::*;

/// More than the network's buffers hold, so the query is still running when the first rows arrive.
const LONG: &str = "SELECT value FROM range(20000000)";

/// Signals that end a server, with its exit status. SIGHUP is left out if the test process ignores
/// it, since the server inherits that.
fn endings() -> Vec<(&'static str, i32)> {
    let mut endings = vec![("-TERM", 143), ("-INT", 130)];
    if !tet_sql::format::ignores_sighup() {
        endings.push(("-HUP", 129));
    }
    endings
}

#[tokio::test]
async fn shutdown_waits_for_running_queries() {
    for (signal, code) in endings() {
        let server = Server::start(&[WEATHER]);
        let mut client = server.client().await;
        let info = client.execute(LONG.to_owned(), None).await.unwrap();
        let mut stream = open(&mut client, &info).await.unwrap();
        let mut rows = stream.try_next().await.unwrap().unwrap().num_rows();
        server.signal(signal);
        while let Some(batch) = stream.try_next().await.unwrap() {
            rows += batch.num_rows();
        }
        assert_eq!(rows, 20_000_000);
        drop((stream, client));
        assert_eq!(server.wait().code(), Some(code));
    }
}

#[tokio::test]
async fn queries_beyond_the_grace_period_are_stopped() {
    let server = Server::start(&["--grace", "100ms"]);
    let mut client = server.client().await;
    let info = client.execute(ENDLESS.to_owned(), None).await.unwrap();
    let mut stream = open(&mut client, &info).await.unwrap();
    server.signal("-TERM");
    let (code, message) = failure(stream.try_next().await);
    assert_eq!(
        (code, message.as_str()),
        (Code::Unavailable, "the server is shutting down")
    );
    assert_eq!(server.wait().code(), Some(143));
}

#[test]
fn shutdown_deletes_temporary_files() {
    let folder = tempfile::tempdir().unwrap();
    for (signal, code) in endings() {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
            .args(["serve", "--demo", "--listen", "127.0.0.1:0"])
            .env("TMPDIR", folder.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(
            lines
                .next()
                .unwrap()
                .unwrap()
                .starts_with("listening on grpc://127.0.0.1:")
        );
        assert!(folder.path().read_dir().unwrap().next().is_some());
        let id = child.id().to_string();
        Command::new("kill").args([signal, &id]).status().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}

#[test]
fn files_of_a_killed_server_are_deleted_later() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("TMPDIR", folder.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(lines.next().unwrap().unwrap().starts_with("listening on "));
        child
    };
    let folders = || -> Vec<_> {
        let entries = folder.path().read_dir().unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let mut killed = start();
    let left = folders();
    assert_eq!(left.len(), 1);
    std::fs::write(left[0].join("spilled"), "rows").unwrap();
    let mut other = start();
    assert!(left[0].exists(), "it is in use");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let mut next = start();
    let mut attempts = 0..600;
    while left[0].exists() && attempts.next().is_some() {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(!left[0].exists());
    assert_eq!(folders().len(), 2, "one of each running server");
    for server in [&mut other, &mut next] {
        server.kill().unwrap();
        server.wait().unwrap();
    }
}
