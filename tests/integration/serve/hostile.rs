//! Hostile statements: they fail, and the server keeps answering other clients before, during and
//! after them.

use super::*;
use arrow::array::{ArrayRef, Int64Array, ListArray, StringArray};
use arrow::datatypes::Int64Type;
use arrow_flight::Ticket;
use arrow_flight::sql::{ProstMessageExt, TicketStatementQuery};
use arrow_ipc::writer::StreamWriter;
use futures::FutureExt;
use prost::Message;

/// Joins that read little but compare for hours without producing a row.
const JOINS: [(&str, &str); 4] = [
    (
        "a nested-loop join",
        "SELECT count(*) FROM temperature a JOIN temperature b ON a.value > b.value CROSS JOIN range(1000000)",
    ),
    (
        "a nested-loop join without matches",
        "SELECT count(*) FROM range(1000000) a JOIN range(1000000) b ON a.value > b.value + 2000000",
    ),
    (
        "two cross joins",
        "SELECT count(*) FROM range(100000) a, range(100000) b, range(100000) c",
    ),
    (
        "a hash join with one key",
        "SELECT max(a.value + b.value) FROM (SELECT value, value % 1 AS k FROM range(200000)) a \
         JOIN (SELECT value, value % 1 AS k FROM range(200000)) b USING (k)",
    ),
];

/// A single function call on values of a megabyte, which computes for hours.
const CALL: &str = "SELECT levenshtein(repeat('a', 1000000), repeat('b', 1000000))";

#[tokio::test]
async fn others_are_served_while_a_statement_computes() {
    let server = Server::start(&[WEATHER, "--max-queries", "2", "--time-limit", "1h"]);
    let mut client = server.client().await;
    for (what, sql) in JOINS.into_iter().chain([("a call", CALL)]) {
        let info = client.execute(sql.to_owned(), None).await.unwrap();
        let mut stream = open(&mut client, &info).await.unwrap();
        assert!(query(&mut client, "SELECT 1").await.is_ok(), "{what}");
        assert!(client.get_catalogs().await.is_ok(), "{what}");
        assert!(stream.try_next().now_or_never().is_none(), "{what} ended");
    }
}

#[tokio::test]
async fn joins_free_their_threads() {
    let server = Server::start(&[
        WEATHER,
        "--max-queries",
        "1",
        "--wait-limit",
        "30s",
        "--time-limit",
        "1s",
    ]);
    let mut client = server.client().await;
    for (what, sql) in JOINS {
        let (code, message) = failure(query(&mut client, sql).await);
        assert_eq!(code, Code::DeadlineExceeded, "{what}: {message}");
        // One runtime is in use, and at most one more may be abandoned. If joins
        // did not free their threads, the later ones could not run.
        let (code, message) = failure(query(&mut client, sql).await);
        assert_eq!(code, Code::DeadlineExceeded, "{what}: {message}");
    }
}

#[tokio::test]
async fn threads_that_cannot_be_freed_are_replaced() {
    let server = Server::start(&[
        "--max-queries",
        "2",
        "--wait-limit",
        "1s",
        "--time-limit",
        "1s",
    ]);
    let mut client = server.client().await;
    for _ in 0..2 {
        let (code, message) = failure(query(&mut client, CALL).await);
        assert_eq!(code, Code::DeadlineExceeded, "{message}");
        server.logged("its threads were replaced").await;
        assert!(query(&mut client, "SELECT 1").await.is_ok());
    }
    // At most two runtimes are abandoned, and at most two more run queries.
    for _ in 0..2 {
        let (code, message) = failure(query(&mut client, CALL).await);
        assert_eq!(code, Code::DeadlineExceeded, "{message}");
    }
    let (code, message) = failure(query(&mut client, "SELECT 1").await);
    assert_eq!(code, Code::ResourceExhausted, "{message}");
    // Requests that run no query are still answered.
    assert!(client.get_catalogs().await.is_ok());
    let info = client.execute("SELECT 1".to_owned(), None).await;
    assert!(info.is_ok());
}

/// Encodes a column of parameters as the stream that a ticket contains.
fn stream(column: ArrayRef) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
    let mut writer = StreamWriter::try_new(Vec::new(), batch.schema_ref()).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

#[tokio::test]
async fn broken_parameters_are_answered_and_not_logged() {
    let server = Server::start(&[]);
    let mut client = server.client().await;
    let columns: [ArrayRef; 3] = [
        Arc::new(StringArray::from(vec!["one", "two"])),
        Arc::new(Int64Array::from(vec![Some(1), None])),
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([Some([
            Some(1),
        ])])),
    ];
    let mut refused = 0;
    for column in columns {
        let stream = stream(column);
        for place in (0..stream.len()).step_by(3) {
            let mut forged = stream.clone();
            forged[place] ^= 0x84;
            // The fields of an execution: its number, its statement, and its rows of parameters.
            let mut ticket =
                [&[0x0a, 16][..], &[7; 16], &[0x12, 9], b"SELECT $1", &[0x1a]].concat();
            prost::encoding::encode_varint(forged.len() as u64, &mut ticket);
            ticket.extend(forged);
            let ticket = TicketStatementQuery {
                statement_handle: ticket.into(),
            };
            let ticket = Ticket::new(ticket.as_any().encode_to_vec());
            let answer = client.do_get(ticket).await.unwrap();
            match answer.try_collect::<Vec<_>>().await {
                Ok(_) => {}
                Err(FlightError::Tonic(status)) => {
                    let known = [
                        Code::InvalidArgument,
                        Code::ResourceExhausted,
                        Code::Unimplemented,
                    ];
                    assert!(known.contains(&status.code()), "{place}: {status}");
                    refused += 1;
                }
                Err(error) => panic!("{place}: {error}"),
            }
        }
    }
    assert!(refused > 100, "{refused}");
    assert!(query(&mut client, "SELECT 1").await.is_ok());
    assert_eq!(server.log(), "");
}

#[tokio::test]
async fn errors_show_the_line_and_suggestions() {
    let server = Server::start(&[WEATHER]);
    let mut client = server.client().await;
    for (sql, expected) in [
        (
            "SELECT latt\nFROM temperature",
            "No field named latt. Did you mean 'temperature.lat'?\nLINE 1: SELECT latt\n               ^^^^",
        ),
        (
            "SELECT *\nFORM temperature",
            "syntax error: Expected: end of statement, found: FORM\nLINE 2: FORM temperature\n        ^^^^",
        ),
        (
            "SELECT * FROM temprature",
            "table 'datafusion.weather_small.temprature' not found; did you mean 'temperature'?\n\
             LINE 1: SELECT * FROM temprature\n                      ^^^^^^^^^^",
        ),
    ] {
        let (code, message) = failure(query(&mut client, sql).await);
        assert_eq!((code, message.as_str()), (Code::InvalidArgument, expected));
        let prepared = client.prepare(sql.to_owned(), None).await;
        let message = prepared.map(drop).unwrap_err().to_string();
        assert!(message.contains("LINE "), "{message}");
    }
}
