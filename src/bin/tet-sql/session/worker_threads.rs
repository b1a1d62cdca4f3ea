//! Runs work on worker threads while the main thread watches for Ctrl-C.

use crate::failure::Failure;
use crate::output::pager;
use crate::output::progress::Bar;
use futures::FutureExt;
use futures::future::{Either, select};
use std::cell::RefCell;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinError;

/// How long work that was given up may take to clean up.
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(500);

/// Planning a statement of thousands of terms needs far more than the usual two megabytes. Only what is used of it takes
/// memory.
const STACK_BYTES: usize = 64 << 20;

/// The worker threads, and a small runtime of the main thread's own.
///
/// Decoding blocks a worker inside a poll. If all workers do so, a runtime that also looks after signals would not
/// notice one, so the signals have a runtime that nothing else runs on.
pub struct Engine {
    signals: Runtime,
    /// Kept from one statement to the next, so that what comes between two is not lost.
    interrupts: RefCell<Interrupts>,
    workers: RefCell<Option<Runtime>>,
    threads: usize,
}

#[cfg(unix)]
type Interrupts = tokio::signal::unix::Signal;
#[cfg(windows)]
type Interrupts = tokio::signal::windows::CtrlC;

/// Every Ctrl-C from now on.
fn interrupts() -> std::io::Result<Interrupts> {
    #[cfg(unix)]
    return tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt());
    #[cfg(windows)]
    return tokio::signal::windows::ctrl_c();
}

/// Tells work that is still on its way to its next pause that nobody waits for it any more.
#[derive(Debug, Clone, Default)]
pub struct Cancellation(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_cancelled: AtomicBool,
    /// The bar on the screen, which leaves it before anything else is written.
    bar: Mutex<Option<Bar>>,
}

impl Cancellation {
    /// Whether Ctrl-C was pressed.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Relaxed)
    }

    /// Tells that nobody waits any more, and takes the bar off the screen.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
        self.take_bar();
    }

    /// Notes a bar, in place of one from before.
    pub fn put_bar(&self, bar: Bar) {
        let mut kept = self.0.bar.lock().unwrap_or_else(PoisonError::into_inner);
        // Dropping a bar takes it off the screen.
        *kept = (!self.is_cancelled()).then_some(bar);
    }

    /// Takes the bar off the screen.
    pub fn take_bar(&self) {
        let mut kept = self.0.bar.lock().unwrap_or_else(PoisonError::into_inner);
        drop(kept.take());
    }
}

impl Engine {
    /// Starts the worker threads.
    pub fn new(threads: usize) -> Result<Self, Failure> {
        let signals = Builder::new_current_thread().enable_all().build()?;
        let interrupts = signals.block_on(async { interrupts() })?;
        Ok(Self {
            signals,
            interrupts: RefCell::new(interrupts),
            workers: RefCell::new(None),
            threads,
        })
    }

    /// The worker threads; new ones, if there are none.
    fn workers(&self) -> Result<Handle, Failure> {
        let mut workers = self.workers.borrow_mut();
        if let Some(runtime) = workers.as_ref() {
            return Ok(runtime.handle().clone());
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(self.threads)
            .thread_stack_size(STACK_BYTES)
            .thread_name("tet-sql")
            .enable_all()
            .build()?;
        Ok(workers.insert(runtime).handle().clone())
    }

    /// Gives the worker threads up without waiting for what they are at. Some of the engine's operators, such as a
    /// nested-loop join, compute for long without a pause at which they could be stopped; the statements that follow
    /// must not wait for that. But COPY, which notices soon, is given the time to take its unfinished file away.
    fn give_up_workers(&self) {
        if let Some(workers) = self.workers.borrow_mut().take() {
            workers.shutdown_timeout(PATIENCE);
        }
    }

    /// Forgets a Ctrl-C that came while nothing ran.
    pub fn forget_interrupts(&self) {
        let mut interrupts = self.interrupts.borrow_mut();
        self.signals.block_on(async {
            // Signals of before are noticed by the runtime first.
            tokio::task::yield_now().await;
            while interrupts.recv().now_or_never().is_some() {}
        });
    }

    /// Runs work to its end or to Ctrl-C, whichever comes first.
    pub fn run<T, F>(&self, work: impl FnOnce(Cancellation) -> F) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let cancellation = Cancellation::default();
        let mut task = self.workers()?.spawn(work(cancellation.clone()));
        let mut interrupts = self.interrupts.borrow_mut();
        let result = self.signals.block_on(async {
            loop {
                let interrupt = pin!(interrupts.recv());
                match select(&mut task, interrupt).await {
                    Either::Left((result, _)) => {
                        return result.unwrap_or_else(|error| Err(broken(&error)));
                    }
                    // It was for the pager, which heard it as well. Who leaves that ends the statement.
                    Either::Right(_) if pager::is_running() => {}
                    Either::Right(_) => {
                        cancellation.cancel();
                        task.abort();
                        return Err(Failure::Interrupted);
                    }
                }
            }
        });
        if matches!(result, Err(Failure::Interrupted)) {
            self.give_up_workers();
        }
        result
    }
}

impl Drop for Engine {
    /// Does not wait for a worker inside a long poll.
    fn drop(&mut self) {
        self.give_up_workers();
    }
}

/// A panic has already been told by the panic hook; its message is not ours to repeat.
fn broken(error: &JoinError) -> Failure {
    Failure::message(if error.is_panic() {
        "internal error: the statement was given up"
    } else {
        "the statement was given up"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_returns_its_value() {
        let engine = Engine::new(1).unwrap();
        assert_eq!(engine.run(|_| async { Ok(7) }).unwrap(), 7);
    }

    #[test]
    fn a_panic_becomes_a_failure() {
        let engine = Engine::new(1).unwrap();
        let result: Result<(), Failure> = engine.run(|_| async { panic!("on purpose") });
        assert!(matches!(result, Err(Failure::Message(text)) if text.starts_with("internal")));
    }
}
