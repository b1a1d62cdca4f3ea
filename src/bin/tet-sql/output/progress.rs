//! The progress bar of statements that take long.

use crate::session::worker_threads::Cancellation;
use crate::size::human_size;
use crate::statement::reading::{Reading, grouped};
use crate::terminal;
use datafusion::physical_plan::ExecutionPlan;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tet_sql::provider::plans::planned_reads::planned_reads;

/// The time after which the bar appears.
const PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

/// Shows a progress bar on standard error after one second, if standard error is a terminal.
/// Dropping this value removes the bar.
pub struct Progress(Option<Cancellation>);

impl Progress {
    /// Starts to observe a plan that is being executed.
    pub fn of(plan: &Arc<dyn ExecutionPlan>, wanted: bool, cancellation: &Cancellation) -> Self {
        if !wanted || !terminal::is_error() {
            return Self(None);
        }
        cancellation.put_bar(Bar::of(Arc::clone(plan)));
        Self(Some(cancellation.clone()))
    }

    /// Removes the bar before other text is written.
    pub fn end(&mut self) {
        if let Some(cancellation) = self.0.take() {
            cancellation.take_bar();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

/// The progress bar. It has a thread of its own because decoding keeps all workers busy.
#[derive(Debug)]
struct Bar {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Bar {
    fn of(plan: Arc<dyn ExecutionPlan>) -> Self {
        let (end, ended) = channel();
        let thread = std::thread::spawn(move || {
            let started = Instant::now();
            let mut bar = None;
            let mut pause = PATIENCE;
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = TICK;
                // Scans that have not started, such as the probe side of a join, have no metrics
                // yet, so their chunks are taken from the plan.
                let (bar, planned, _) = bar.get_or_insert_with(|| {
                    (
                        new_bar(),
                        planned(plan.as_ref()),
                        terminal::EchoGuard::begin(),
                    )
                });
                let mut reading = Reading::of(plan.as_ref());
                reading.wanted = reading.wanted.max(*planned);
                show(bar, reading, started.elapsed());
            }
            if let Some((bar, ..)) = &bar {
                bar.finish_and_clear();
            }
        });
        Self {
            end: Some(end),
            thread: Some(thread),
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns the number of chunks that all scans of a plan are going to read.
fn planned(plan: &dyn ExecutionPlan) -> usize {
    let reads = planned_reads(plan);
    let chunks = reads.iter().filter_map(|read| read.chunks);
    let chunks = chunks.fold(0, u64::saturating_add);
    usize::try_from(chunks).unwrap_or(usize::MAX)
}

fn new_bar() -> ProgressBar {
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
}

fn show(bar: &ProgressBar, reading: Reading, elapsed: Duration) {
    let template = match reading.wanted {
        0 => "{spinner} {msg}",
        _ => "{wide_bar} {msg}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("━━ "));
    }
    bar.set_length(reading.wanted as u64);
    bar.set_position(reading.done.min(reading.wanted) as u64);
    bar.set_message(message(reading, elapsed));
    bar.tick();
}

fn message(reading: Reading, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    if reading.wanted == 0 {
        return format!("{seconds:.0} s");
    }
    let done = grouped(reading.done);
    let wanted = grouped(reading.wanted);
    if reading.done >= reading.wanted {
        // The rows are still being joined, sorted or grouped.
        return format!("all {wanted} chunks read, {seconds:.0} s");
    }
    let rate = human_size((reading.bytes as f64 / seconds.max(1e-9)) as u64);
    let mut text = format!("{done} of {wanted} chunks, {rate}/s{}", reading.fetched());
    if let Some(left) = reading.time_left(elapsed) {
        text += &format!(", {} s left", left.as_secs_f64().ceil());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_tells_rate_and_time_left() {
        let mut reading = Reading {
            total: 5000,
            wanted: 4000,
            done: 1000,
            read: 1000,
            bytes: 20 << 20,
            ..Reading::default()
        };
        let elapsed = Duration::from_secs(2);
        assert_eq!(
            message(reading, elapsed),
            "1,000 of 4,000 chunks, 10.0 MiB/s, 6 s left"
        );
        reading.done = 4000;
        assert_eq!(message(reading, elapsed), "all 4,000 chunks read, 2 s");
        reading.wanted = 0;
        assert_eq!(message(reading, elapsed), "2 s");
    }
}
