//! The limits of queries.

use crate::execution::runtimes::{RuntimePermit, Runtimes};
use crate::options::Options;
use crate::status::status;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tonic::{Code, Status};

/// Caps time limits, because `Instant` cannot represent all sums. Longer limits make no difference.
const FAR: Duration = Duration::from_secs(30 * 365 * 86400);

/// The limits of each query and of all queries together.
#[derive(Debug)]
pub struct Limits {
    time: Duration,
    wait: Duration,
    rows: Option<u64>,
    queries: u16,
}

impl Limits {
    /// Takes the limits from the options.
    pub fn new(options: &Options) -> Self {
        Self {
            time: options.time_limit.min(FAR),
            wait: options.wait_limit.min(FAR),
            rows: options.max_rows,
            queries: options.max_queries,
        }
    }

    /// Returns the maximum duration of a query.
    pub fn time(&self) -> Duration {
        self.time
    }

    /// Returns the time at which a query that starts now must have ended.
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.time
    }

    /// Returns the error for a query that exceeds the time limit.
    pub fn too_late(&self) -> Status {
        let message = format!(
            "deadline exceeded: the query took more than {:?}",
            self.time
        );
        status(Code::DeadlineExceeded, &message)
    }

    /// Waits for a runtime for at most [`Options::wait_limit`].
    pub async fn place(&self, runtimes: &Runtimes) -> Result<RuntimePermit, Status> {
        match timeout(self.wait, runtimes.place()).await {
            Ok(permit) => permit,
            Err(_) => {
                let message = format!(
                    "resource exhausted: {} queries are running, and none has ended within {:?}",
                    self.queries, self.wait
                );
                Err(status(Code::ResourceExhausted, &message))
            }
        }
    }

    /// Fails if a result with this many rows exceeds the limit.
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
