//! The server's log: lines on standard error, of which a flood is cut.

use crate::messages;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time over which lines are counted.
const PERIOD: Duration = Duration::from_secs(10);
/// The lines that are written within a period.
const LINES: u32 = 20;

/// Writes lines on standard error, at most [`LINES`] in a [`PERIOD`].
#[derive(Debug, Clone, Default)]
pub struct Log(Arc<Mutex<Count>>);

#[derive(Debug, Default)]
struct Count {
    since: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl Log {
    /// Writes a line, unless there have been too many.
    pub fn note(&self, line: &str) {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (is_written, left_out) = count.next(Instant::now());
        if left_out > 0 {
            messages::note(&format!("{left_out} lines were left out"));
        }
        if is_written {
            messages::note(line);
        }
    }
}

impl Count {
    /// Returns whether a line of now is written, and how many were left out if that is to be told before it.
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
