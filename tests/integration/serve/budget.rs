//! Statements that exceed a limit of the server.

use super::*;
use crate::hostile::statements::statements;
use std::time::{Duration, Instant};

#[tokio::test]
async fn hostile_statements_are_refused_and_others_are_answered() {
    let server = Server::start(&[WEATHER]);
    let mut client = server.client().await;
    let started = Instant::now();
    for (sql, setting) in statements() {
        let (code, message) = failure(query(&mut client, &sql).await);
        let start = &sql[..40.min(sql.len())];
        assert_eq!(code, Code::InvalidArgument, "{start}: {message}");
        assert!(message.contains(setting), "{start}: {message}");
        if let Err(error) = client.prepare(sql, None).await {
            assert!(error.to_string().contains(setting), "{error}");
        }
        assert!(query(&mut client, "SELECT 1").await.is_ok());
    }
    // The statements are refused before they are planned.
    assert!(started.elapsed() < Duration::from_secs(120));
}

#[tokio::test]
async fn statements_are_limited_to_a_mebibyte_by_default() {
    let blanks = format!("SELECT{}1", " ".repeat(1_200_000));
    let server = Server::start(&[WEATHER]);
    let mut client = server.client().await;
    let refused = failure(query(&mut client, &blanks).await);
    assert_eq!(refused.0, Code::InvalidArgument);
    assert_eq!(
        refused.1,
        "the statement has 1200007 bytes, more than 1048576; shorten it, or raise tet.max_statement_bytes"
    );
    let prepared = client.prepare(blanks.clone(), None).await;
    assert!(prepared.is_err_and(|error| error.to_string().contains("tet.max_statement_bytes")));
    let server = Server::start(&[WEATHER, "--set", "tet.max_statement_bytes=4194304"]);
    let mut client = server.client().await;
    assert!(query(&mut client, &blanks).await.is_ok());
}
