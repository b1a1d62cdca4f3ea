//! Silent connections, and limits on the number of connections.

use super::*;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

/// The start of an HTTP/2 connection: the preface and an empty SETTINGS frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Fails the test if the server never closes a connection.
const GUARD: Duration = Duration::from_secs(60);

/// Connects and sends only the given bytes.
pub fn connect(server: &Server, bytes: &[u8]) -> TcpStream {
    let (_, address) = server.address.split_once("://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(GUARD)).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

/// Waits until the server closes a connection.
pub fn closed(stream: &mut TcpStream) {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}

#[tokio::test]
async fn connections_without_a_request_are_closed() {
    let server = Server::start(&["--connect-limit", "1s", "--token-env", "TET_SQL_TEST_TOKEN"]);
    let mut client = server.client().await;
    client.set_token("a-word".to_owned());
    query(&mut client, "SELECT 1").await.unwrap();
    for said in [&b""[..], b"P", b"GET / HTTP/1.1\r\n", PREFACE] {
        closed(&mut connect(&server, said));
    }
    server
        .logged("connection closed: no request was admitted in time")
        .await;
    // A connection whose requests are refused is closed too.
    let mut stranger = server.client().await;
    stranger.set_token("another".to_owned());
    let (code, _) = failure(query(&mut stranger, "SELECT 1").await);
    assert_eq!(code, Code::Unauthenticated);
    server.logged("request refused: wrong token").await;
    let log = server.log();
    let line = log.lines().find(|line| line.contains("wrong token"));
    assert!(line.unwrap().starts_with("127.0.0.1:"), "{log}");
    assert!(!log.contains("another"), "{log}");
    query(&mut client, "SELECT 1").await.unwrap();
}

#[tokio::test]
async fn max_connections_makes_others_wait() {
    let server = Server::start(&["--max-connections", "1", "--connect-limit", "1s"]);
    let _silent = connect(&server, b"");
    let mut client = server.client().await;
    query(&mut client, "SELECT 1").await.unwrap();
    let mut waiting = connect(&server, PREFACE);
    drop(client);
    closed(&mut waiting);
}

#[tokio::test]
async fn connections_per_address_are_limited() {
    let server = Server::start(&["--max-per-address", "2"]);
    let mut client = server.client().await;
    query(&mut client, "SELECT 1").await.unwrap();
    let second = connect(&server, b"");
    closed(&mut connect(&server, b""));
    server.logged("the address has 2 connections").await;
    drop(second);
    // The server notices the closed connection a moment later.
    let mut attempts = 0..100;
    while attempts.next().is_some() {
        if let Ok(channel) = server.endpoint().connect().await
            && query(&mut Client::new(channel), "SELECT 1").await.is_ok()
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("a connection that was closed is counted still");
}
