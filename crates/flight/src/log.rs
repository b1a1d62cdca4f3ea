//! The log of the server, limited in its rate.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The period over which lines are counted.
const PERIOD: Duration = Duration::from_secs(10);
/// The maximum number of lines per period.
const LINES: u32 = 20;

/// A log that writes at most 20 lines in 10 seconds and counts the rest.
///
/// Clients can cause errors faster than a log file should grow. The number of omitted lines is
/// written when the next period starts.
#[derive(Clone)]
pub struct Log {
    count: Arc<Mutex<Count>>,
    write: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Default for Log {
    /// Writes lines to standard error.
    fn default() -> Self {
        Self::new(|line| eprintln!("{line}"))
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Count {
    since: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl Log {
    /// Writes lines with a function.
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self {
            count: Arc::default(),
            write: Arc::new(write),
        }
    }

    /// Returns a log with the same output and a separate limit.
    pub(crate) fn counted_apart(&self) -> Self {
        Self {
            count: Arc::default(),
            write: Arc::clone(&self.write),
        }
    }

    /// Writes a line, unless the limit is reached.
    pub fn note(&self, line: &str) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let (is_written, left_out) = count.next(Instant::now());
        if left_out > 0 {
            (self.write)(&format!("{left_out} log lines were omitted"));
        }
        if is_written {
            (self.write)(line);
        }
    }
}

impl Count {
    /// Returns whether to write a line at time `now`, and the number of omitted lines to report
    /// before it.
    fn next(&mut self, now: Instant) -> (bool, u64) {
        let is_over = |since: Instant| now.duration_since(since) >= PERIOD;
        let mut left_out = 0;
        if self.since.is_none_or(is_over) {
            left_out = self.left_out;
            *self = Self {
                since: Some(now),
                ..Self::default()
            };
        }
        let is_written = self.written < LINES;
        match is_written {
            true => self.written += 1,
            false => self.left_out += 1,
        }
        (is_written, left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted() {
        let mut count = Count::default();
        let start = Instant::now();
        for _ in 0..LINES {
            assert_eq!(count.next(start), (true, 0));
        }
        for _ in 0..3 {
            assert_eq!(count.next(start), (false, 0));
        }
        assert_eq!(count.next(start + PERIOD), (true, 3));
        assert_eq!(count.next(start + PERIOD), (true, 0));
    }
}
