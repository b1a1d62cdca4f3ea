//! Limits on time, concurrency, memory and rows, and cancellation.

use super::*;
use arrow::array::{ArrayRef, Int64Array};
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionCancelQueryResult, Any, CommandPreparedStatementQuery,
    ProstMessageExt, TicketStatementQuery,
};
use arrow_flight::{
    Action, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightData,
    FlightDescriptor, Ticket,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::IpcWriteOptions;
use prost::Message;
use std::time::Instant;

#[tokio::test]
async fn a_query_is_stopped_at_the_time_limit() {
    let server = Server::start(&[WEATHER, "--time-limit", "300ms"]);
    let mut client = server.client().await;
    let started = Instant::now();
    let (code, message) = failure(query(&mut client, ENDLESS).await);
    assert_eq!(code, Code::DeadlineExceeded);
    assert_eq!(message, "deadline exceeded: the query took more than 300ms");
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(query(&mut client, "SELECT 1").await.is_ok());
}

#[tokio::test]
async fn planning_is_stopped_at_the_time_limit() {
    let server = Server::start(&["--time-limit", "100ms"]);
    let mut client = server.client().await;
    // DataFusion plans such a sum in quadratic time, a second or more. The query itself reads a row.
    let sum = vec!["value"; 1_200].join(" + ");
    let started = Instant::now();
    let (code, message) = failure(query(&mut client, &format!("SELECT {sum} FROM range(1)")).await);
    assert_eq!(code, Code::DeadlineExceeded, "{message}");
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn stalled_clients_lose_their_query_slot() {
    let server = Server::start(&[
        "--time-limit",
        "1s",
        "--max-queries",
        "1",
        "--wait-limit",
        "30s",
    ]);
    let mut client = server.client().await;
    // More than the network's buffers hold.
    let info = client
        .execute("SELECT * FROM range(1000000000)".to_owned(), None)
        .await
        .unwrap();
    let mut stalled = open(&mut client, &info).await.unwrap();
    assert!(stalled.try_next().await.unwrap().is_some());
    assert!(query(&mut client, "SELECT 1").await.is_ok());
    let end = loop {
        match stalled.try_next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the stream ended silently"),
            Err(error) => break failure::<()>(Err(error)),
        }
    };
    assert_eq!(end.0, Code::DeadlineExceeded);
}

#[tokio::test]
async fn concurrent_queries_are_limited() {
    let server = Server::start(&["--max-queries", "2", "--wait-limit", "500ms"]);
    let mut client = server.client().await;
    let mut running = Vec::new();
    for _ in 0..2 {
        let info = client.execute(ENDLESS.to_owned(), None).await.unwrap();
        running.push(open(&mut client, &info).await.unwrap());
    }
    let (code, message) = failure(query(&mut client, "SELECT 1").await);
    assert_eq!(code, Code::ResourceExhausted);
    assert!(
        message.starts_with("resource exhausted: 2 queries are running"),
        "{message}"
    );
    // A client that disconnects frees its query slot.
    running.pop();
    assert!(query(&mut client, "SELECT 1").await.is_ok());
}

#[tokio::test]
async fn clients_cancel_their_queries() {
    let server = Server::start(&["--max-queries", "1", "--wait-limit", "30s"]);
    let mut client = server.client().await;
    for is_old in [false, true] {
        let info = client.execute(ENDLESS.to_owned(), None).await.unwrap();
        let mut stream = open(&mut client, &info).await.unwrap();
        let action = if is_old {
            let request = ActionCancelQueryRequest {
                info: info.encode_to_vec().into(),
            };
            Action::new("CancelQuery", request.as_any().encode_to_vec())
        } else {
            let request = CancelFlightInfoRequest::new(info.clone());
            Action::new("CancelFlightInfo", request.encode_to_vec())
        };
        let mut results = client.do_action(action).await.unwrap();
        let body = results.message().await.unwrap().unwrap().body;
        let cancelled = if is_old {
            let any = Any::decode(body).unwrap();
            any.unpack::<ActionCancelQueryResult>()
                .unwrap()
                .unwrap()
                .result
        } else {
            CancelFlightInfoResult::decode(body).unwrap().status
        };
        assert_eq!(cancelled, CancelStatus::Cancelled as i32);
        assert_eq!(failure(stream.try_next().await).0, Code::Cancelled);
        // The cancellation is permanent.
        assert_eq!(failure(fetch(&mut client, info).await).0, Code::Cancelled);
        assert!(query(&mut client, "SELECT 1").await.is_ok());
    }
    let wrong = Action::new("CancelFlightInfo", b"\xff".to_vec());
    assert_eq!(
        failure(client.do_action(wrong).await).0,
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn malformed_parameters_are_refused() {
    let server = Server::start(&[]);
    let mut client = server.client().await;
    // The content of a handle, which is also that of a ticket, without parameters.
    let handle = [&[0x0a, 16][..], &[7; 16], &[0x12, 9], b"SELECT $1"].concat();
    let command = CommandPreparedStatementQuery {
        prepared_statement_handle: handle.clone().into(),
    };
    let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    let options = IpcWriteOptions::default();
    let options = options.try_with_compression(Some(CompressionType::LZ4_FRAME));
    let number = Arc::new(Int64Array::from(vec![7])) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("a", number)]).unwrap();
    let data: Vec<FlightData> = FlightDataEncoderBuilder::new()
        .with_options(options.unwrap())
        .with_flight_descriptor(Some(descriptor))
        .build(futures::stream::iter([Ok(batch)]))
        .try_collect()
        .await
        .unwrap();
    let (code, message) = failure(client.do_put(futures::stream::iter(data)).await);
    assert_eq!(code, Code::InvalidArgument);
    assert_eq!(message, "compressed parameters are not supported");
    // A message header with a claimed length of two gigabytes.
    let parameters = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    let ticket = TicketStatementQuery {
        statement_handle: [&handle[..], &[0x1a, 8], &parameters].concat().into(),
    };
    let ticket = Ticket::new(ticket.as_any().encode_to_vec());
    let mut stream = client.do_get(ticket).await.unwrap();
    let (code, message) = failure(stream.try_next().await);
    assert_eq!(code, Code::InvalidArgument);
    assert!(message.contains("exceeds the data"), "{message}");
    let action = Action::new("x".repeat(100_000), Vec::new());
    assert_eq!(
        failure(client.do_action(action).await).0,
        Code::Unimplemented
    );
}

#[tokio::test]
async fn memory_and_rows_are_limited() {
    let server = Server::start(&["--memory-limit", "1M", "--max-rows", "100000"]);
    let mut client = server.client().await;
    let big = "SELECT array_agg(value) FROM range(10000000)";
    let (code, message) = failure(query(&mut client, big).await);
    assert_eq!(code, Code::ResourceExhausted, "{message}");
    let answer = query(&mut client, "SELECT * FROM range(100000)")
        .await
        .unwrap();
    assert_eq!(
        answer.iter().map(RecordBatch::num_rows).sum::<usize>(),
        100_000
    );
    let (code, message) = failure(query(&mut client, "SELECT * FROM range(100001)").await);
    assert_eq!(code, Code::ResourceExhausted);
    assert!(message.contains("more than 100000 rows"), "{message}");
}
