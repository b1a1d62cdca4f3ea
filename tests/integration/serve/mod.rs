//! `tet-sql serve` as its clients see it: the command in a process of its own, and arrow-flight's
//! Flight SQL client.

mod answers;
mod budget;
mod connections;
mod ending;
mod hostile;
mod limits;
mod security;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use arrow_flight::FlightInfo;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

const WEATHER: &str = "tests/data/weather_small.tet";
/// A query that takes hours and yields regularly.
const ENDLESS: &str = "SELECT sum(value % 7) FROM range(1000000000000)";

type Client = FlightSqlServiceClient<Channel>;

/// A running server.
struct Server {
    child: Child,
    /// `grpc://127.0.0.1:PORT`, or with TLS `grpc+tls://...`.
    address: String,
    /// The lines on standard error after the first one.
    log: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
            .args(["serve", "--listen", "127.0.0.1:0", "--threads", "2", "-q"])
            .args(arguments)
            .env("TET_SQL_TEST_TOKEN", "a-word")
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let address = first
            .strip_prefix("listening on ")
            .expect(&first)
            .to_owned();
        let log = Arc::<Mutex<Vec<String>>>::default();
        let written = Arc::clone(&log);
        // A full pipe would block the server.
        std::thread::spawn(move || {
            lines.for_each(|line| written.lock().unwrap().push(line.unwrap()));
        });
        Self {
            child,
            address,
            log,
        }
    }

    fn log(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    /// Waits until the log contains a text.
    async fn logged(&self, text: &str) {
        for _ in 0..600 {
            if self.log().contains(text) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("not in the log: {text}\n{}", self.log());
    }

    fn endpoint(&self) -> Endpoint {
        let (_, rest) = self.address.split_once("://").unwrap();
        Endpoint::new(format!("http://{rest}")).unwrap()
    }

    async fn client(&self) -> Client {
        FlightSqlServiceClient::new(self.endpoint().connect().await.unwrap())
    }

    #[cfg(unix)]
    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([name, &id]).status().unwrap();
        assert!(status.success());
    }

    fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opens the only stream of an answer.
async fn open(
    client: &mut Client,
    info: &FlightInfo,
) -> Result<FlightRecordBatchStream, FlightError> {
    let [endpoint] = &info.endpoint[..] else {
        panic!("{info}");
    };
    client.do_get(endpoint.ticket.clone().unwrap()).await
}

/// Fetches an answer and checks that it has the announced schema.
async fn fetch(client: &mut Client, info: FlightInfo) -> Result<Vec<RecordBatch>, FlightError> {
    let mut stream = open(client, &info).await?;
    let mut batches: Vec<RecordBatch> = Vec::new();
    while let Some(batch) = stream.try_next().await? {
        batches.push(batch);
    }
    let announced = info.try_decode_schema()?;
    assert_eq!(
        stream.schema().map(|schema| schema.as_ref()),
        Some(&announced)
    );
    Ok(batches)
}

async fn query(client: &mut Client, sql: &str) -> Result<Vec<RecordBatch>, FlightError> {
    let info = client.execute(sql.to_owned(), None).await?;
    fetch(client, info).await
}

fn text(batches: &[RecordBatch]) -> String {
    pretty_format_batches(batches).unwrap().to_string()
}

/// Returns the code and the message of a result that must be an error.
fn failure<T>(result: Result<T, FlightError>) -> (Code, String) {
    match result {
        Ok(_) => panic!("an answer where an error was expected"),
        Err(FlightError::Tonic(status)) => (status.code(), status.message().to_owned()),
        Err(error) => panic!("{error}"),
    }
}
