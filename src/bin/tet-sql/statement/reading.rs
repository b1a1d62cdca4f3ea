//! The amount of data that a plan has read, from the metrics of its scans.

use crate::size::human_size;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{MetricValue, MetricsSet};
use std::time::Duration;

/// The chunks and bytes that the scans of a plan have read so far.
///
/// Each number of chunks includes the next one:
///
/// ```text
/// total    all chunks of the tables
///   minus  chunks ruled out by the selection, statistics or indexes before the scan
/// wanted
///   minus  chunks that have not been processed yet
/// done
///   minus  chunks answered by zone maps, or ruled out by dynamic filters during the scan
/// read
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// The chunks of all tables.
    pub total: usize,
    /// The chunks that selections, statistics and indexes left to be read when the scans began.
    pub wanted: usize,
    /// The wanted chunks that were read or turned out not to be needed.
    pub done: usize,
    /// The chunks that were read.
    pub read: usize,
    /// The bytes that were read.
    pub bytes: usize,
    /// The requests to object stores.
    pub requests: usize,
    /// The bytes that the requests fetched.
    pub fetched_bytes: usize,
}

impl Reading {
    /// Sums up the metrics of all scans in a plan. All numbers are zero for a plan without arrays.
    pub fn of(plan: &dyn ExecutionPlan) -> Self {
        let mut reading = Self::default();
        reading.add(plan);
        reading
    }

    fn add(&mut self, plan: &dyn ExecutionPlan) {
        if let Some(metrics) = plan.metrics() {
            let count = |name: &str| {
                metrics
                    .sum_by_name(name)
                    .map_or(0, |value| value.as_usize())
            };
            let total = count("chunks_total");
            let read = count("chunks_read");
            let pruned_late = count("chunks_pruned_by_dynamic_filter");
            let unwanted = count_of(&metrics, "chunks_pruned_by_").saturating_sub(pruned_late);
            let spared = count("chunks_known_by_zone_map") + pruned_late;
            self.total = self.total.saturating_add(total);
            self.wanted = self.wanted.saturating_add(total.saturating_sub(unwanted));
            self.done = self.done.saturating_add(read + spared);
            self.read += read;
            self.bytes += count("bytes_read");
            self.requests += count("requests");
            self.fetched_bytes += count("bytes_fetched");
        }
        for child in plan.children() {
            self.add(child.as_ref());
        }
    }

    /// Returns a line that tells the chunks, bytes and rate for this duration, or `None` if the
    /// plan has no chunks.
    pub fn line(&self, seconds: f64) -> Option<String> {
        if self.total == 0 {
            return None;
        }
        let (read, total) = (grouped(self.read), grouped(self.total));
        let mut line = format!("{read} of {total} chunks read");
        if self.bytes > 0 {
            line += &format!(", {}", human_size(self.bytes as u64));
            if seconds > 0.0 {
                line += &format!(", {}/s", human_size((self.bytes as f64 / seconds) as u64));
            }
        }
        line += &self.fetched();
        Some(line)
    }

    /// Returns the end of a line that tells the requests and the fetched bytes, if there are any.
    pub fn fetched(&self) -> String {
        match self.requests {
            0 => String::new(),
            requests => format!(
                ", {} in {} requests",
                human_size(self.fetched_bytes as u64),
                grouped(requests)
            ),
        }
    }

    /// Estimates the remaining time from the time per chunk so far. Returns `None` before the first
    /// chunk is done.
    pub fn time_left(&self, elapsed: Duration) -> Option<Duration> {
        let done = self.done.min(self.wanted);
        if done == 0 {
            return None;
        }
        let left = (self.wanted - done) as f64 / done as f64;
        Duration::try_from_secs_f64(elapsed.as_secs_f64() * left).ok()
    }
}

/// Returns the sum of all metrics whose names begin with `prefix`.
fn count_of(metrics: &MetricsSet, prefix: &str) -> usize {
    let values = metrics.iter().map(|metric| metric.value());
    let matching = values.filter(|value| value.name().starts_with(prefix));
    let counts = matching.map(MetricValue::as_usize);
    counts.fold(0, usize::saturating_add)
}

/// Formats a number with commas between thousands.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_048_576_000), "1,048,576,000");
    }

    #[test]
    fn a_line_tells_what_was_read() {
        let mut reading = Reading::default();
        assert_eq!(reading.line(1.0), None);
        reading.total = 1024;
        assert_eq!(reading.line(1.0).unwrap(), "0 of 1,024 chunks read");
        reading.read = 3;
        reading.bytes = 3 << 20;
        assert_eq!(
            reading.line(0.5).unwrap(),
            "3 of 1,024 chunks read, 3.0 MiB, 6.0 MiB/s"
        );
        (reading.requests, reading.fetched_bytes) = (1500, 2 << 20);
        assert_eq!(
            reading.line(0.5).unwrap(),
            "3 of 1,024 chunks read, 3.0 MiB, 6.0 MiB/s, 2.0 MiB in 1,500 requests"
        );
    }

    #[test]
    fn the_rest_takes_as_long_as_what_was() {
        let reading = Reading {
            wanted: 40,
            done: 10,
            ..Reading::default()
        };
        let second = Duration::from_secs(1);
        assert_eq!(reading.time_left(second), Some(3 * second));
        assert_eq!(Reading::default().time_left(second), None);
    }
}
