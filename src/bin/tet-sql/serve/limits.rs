//! What a query may take.

use crate::serve::arguments::ServeArguments;
use crate::serve::runtimes::{Place, Runtimes};
use crate::serve::status::status;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tonic::{Code, Status};

/// Further away than any limit that matters; the clock cannot count to all of them.
const FAR: Duration = Duration::from_secs(30 * 365 * 86400);

/// What queries may take, each and together.
#[derive(Debug)]
pub struct Limits {
    time: Duration,
    wait: Duration,
    rows: Option<u64>,
    queries: u16,
}

impl Limits {
    /// As the arguments say.
    pub fn of_arguments(arguments: &ServeArguments) -> Self {
        Self {
            time: arguments.time_limit.min(FAR),
            wait: arguments.wait_limit.min(FAR),
            rows: arguments.max_rows,
            queries: arguments.max_queries,
        }
    }

    /// How long a query may take.
    pub fn time(&self) -> Duration {
        self.time
    }

    /// When a query that starts now must have ended.
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.time
    }

    /// What a query is told that did not end in time.
    pub fn too_late(&self) -> Status {
        let message = format!(
            "deadline exceeded: the query took more than {:?}",
            self.time
        );
        status(Code::DeadlineExceeded, &message)
    }

    /// Waits for one of the runtimes, but at most as long as `--wait-limit` says.
    pub async fn place(&self, runtimes: &Runtimes) -> Result<Place, Status> {
        match timeout(self.wait, runtimes.place()).await {
            Ok(place) => place,
            Err(_) => {
                let message = format!(
                    "resource exhausted: {} queries are running, and none has ended within {:?}",
                    self.queries, self.wait
                );
                Err(status(Code::ResourceExhausted, &message))
            }
        }
    }

    /// Whether a result may have so many rows.
    pub fn check_rows(&self, rows: u64) -> Result<(), Status> {
        match self.rows {
            Some(limit) if rows > limit => {
                let message = format!(
                    "resource exhausted: the result has more than {limit} rows, which is the server's limit"
                );
                Err(status(Code::ResourceExhausted, &message))
            }
            _ => Ok(()),
        }
    }
}
