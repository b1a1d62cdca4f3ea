//! Runs work on worker threads while the main thread watches for Ctrl-C.

use crate::failure::Failure;
use crate::messages;
use crate::output::pager;
use crate::signals::{Interrupts, interrupts};
use futures::FutureExt;
use futures::future::{Either, select};
use std::cell::RefCell;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;

/// The time that abandoned work may take to clean up.
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(500);

/// The maximum number of runtimes whose threads may still run, the current one included.
const MAX_RUNTIMES: usize = 4;

/// The stack size of a worker. Planning a statement with thousands of terms needs far more than the
/// default of 2 MiB, and unused stack takes no memory.
const STACK_BYTES: usize = 64 << 20;

/// The worker threads, and a small runtime for signals on the main thread.
///
/// ```text
/// main thread                                worker threads
/// run(work) ───── spawn ───────────────────> work
///   waits for the result or for Ctrl-C <──── result
///   on Ctrl-C: cancels the work, abandons the workers
/// ```
///
/// Decoding blocks a worker inside a poll. If all workers block, a runtime that also handles
/// signals would not notice Ctrl-C, so signals have a runtime of their own.
pub struct WorkerThreads {
    signals: Runtime,
    /// Kept between statements, so that no Ctrl-C is lost in between.
    interrupts: RefCell<Interrupts>,
    workers: RefCell<Option<Runtime>>,
    threads: usize,
    /// A permit per runtime whose threads have not ended.
    permits: Arc<Semaphore>,
}

/// Tells running work that its result is no longer needed. The work stops the next time it checks.
#[derive(Debug, Clone, Default)]
pub struct Cancellation(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_cancelled: AtomicBool,
    /// The progress bar on the screen, which is removed before other text is written.
    bar: Mutex<Option<Box<dyn Debug + Send>>>,
}

impl Cancellation {
    /// Returns `true` if the work was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Relaxed)
    }

    /// Cancels the work and removes the progress bar.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
        self.take_bar();
    }

    /// Shows a progress bar until it is dropped: when it is replaced or taken, or at once if the work was
    /// cancelled.
    pub fn put_bar(&self, bar: impl Debug + Send + 'static) {
        let mut kept = self.0.bar.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = (!self.is_cancelled()).then(|| Box::new(bar) as _);
    }

    /// Removes the progress bar from the screen.
    pub fn take_bar(&self) {
        let mut kept = self.0.bar.lock().unwrap_or_else(PoisonError::into_inner);
        drop(kept.take());
    }
}

impl WorkerThreads {
    /// Creates an engine. The worker threads start with the first work.
    pub fn new(threads: usize) -> Result<Self, Failure> {
        let signals = Builder::new_current_thread().enable_all().build()?;
        let interrupts = signals.block_on(async { interrupts() })?;
        Ok(Self {
            signals,
            interrupts: RefCell::new(interrupts),
            workers: RefCell::new(None),
            threads,
            permits: Arc::new(Semaphore::new(MAX_RUNTIMES)),
        })
    }

    /// Returns the worker threads, and starts them if there are none. Waits if too many abandoned
    /// threads still compute.
    fn workers(&self) -> Result<Handle, Failure> {
        let mut workers = self.workers.borrow_mut();
        if let Some(runtime) = workers.as_ref() {
            return Ok(runtime.handle().clone());
        }
        let permit = match Arc::clone(&self.permits).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.wait_for_permit()?,
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(self.threads)
            .thread_stack_size(STACK_BYTES)
            .thread_name("tet-sql")
            // The runtime and its threads own this closure, and with it the permit.
            .on_thread_stop(move || {
                let _held = &permit;
            })
            .enable_all()
            .build()?;
        Ok(workers.insert(runtime).handle().clone())
    }

    /// Waits until the threads of an abandoned runtime have ended, or Ctrl-C is pressed.
    fn wait_for_permit(&self) -> Result<OwnedSemaphorePermit, Failure> {
        messages::note("waiting for a cancelled statement that is still computing");
        let mut interrupts = self.interrupts.borrow_mut();
        self.signals.block_on(async {
            let permit = pin!(Arc::clone(&self.permits).acquire_owned());
            let interrupt = pin!(interrupts.recv());
            match select(permit, interrupt).await {
                Either::Left((permit, _)) => {
                    permit.map_err(|_| Failure::message("the statement was aborted"))
                }
                Either::Right(_) => Err(Failure::Interrupted),
            }
        })
    }

    /// Abandons the worker threads without waiting for their work. Some operators of DataFusion,
    /// such as a nested-loop join, compute for long without yielding, and the next statement must
    /// not wait for them. COPY notices the cancellation soon, so it gets the time to delete its
    /// unfinished file.
    fn abandon_workers(&self) {
        if let Some(workers) = self.workers.borrow_mut().take() {
            workers.shutdown_timeout(PATIENCE);
        }
    }

    /// Forgets a Ctrl-C that came while no work was running.
    pub fn forget_interrupts(&self) {
        let mut interrupts = self.interrupts.borrow_mut();
        self.signals.block_on(async {
            // Yielding lets the runtime process signals that have already arrived.
            tokio::task::yield_now().await;
            while interrupts.recv().now_or_never().is_some() {}
        });
    }

    /// Runs work until it ends or Ctrl-C is pressed, whichever comes first.
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
                    // The Ctrl-C was meant for the pager, which received it as well. Quitting the
                    // pager ends the statement.
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
            self.abandon_workers();
        }
        result
    }
}

impl Drop for WorkerThreads {
    /// Abandons the workers, because one of them may be inside a long poll.
    fn drop(&mut self) {
        self.abandon_workers();
    }
}

/// Returns the failure for a task that panicked or was aborted. The panic hook has already printed
/// the panic's message.
fn broken(error: &JoinError) -> Failure {
    Failure::message(if error.is_panic() {
        "internal error: the statement was aborted"
    } else {
        "the statement was aborted"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_returns_its_value() {
        let engine = WorkerThreads::new(1).unwrap();
        assert_eq!(engine.run(|_| async { Ok(7) }).unwrap(), 7);
    }

    #[test]
    fn abandoned_runtimes_are_bounded() {
        let guard = std::time::Duration::from_secs(60);
        let engine = WorkerThreads::new(2).unwrap();
        let mut busy = Vec::new();
        for _ in 0..MAX_RUNTIMES {
            let (end, ends) = std::sync::mpsc::channel::<()>();
            let (start, starts) = std::sync::mpsc::channel();
            engine.workers().unwrap().spawn(async move {
                start.send(()).unwrap();
                // Blocks inside one poll until the sender is dropped.
                let _ = ends.recv();
            });
            starts.recv_timeout(guard).unwrap();
            engine.abandon_workers();
            busy.push(end);
        }
        assert_eq!(engine.permits.available_permits(), 0);
        let ending = std::thread::spawn(move || {
            std::thread::sleep(PATIENCE);
            drop(busy);
        });
        assert_eq!(engine.run(|_| async { Ok(7) }).unwrap(), 7);
        ending.join().unwrap();
        // All other runtimes end, and the current one goes on.
        let others = u32::try_from(MAX_RUNTIMES - 1).unwrap();
        let released = Arc::clone(&engine.permits).acquire_many_owned(others);
        let released = engine
            .signals
            .block_on(async { tokio::time::timeout(guard, released).await });
        assert!(released.is_ok());
        assert_eq!(engine.run(|_| async { Ok(8) }).unwrap(), 8);
    }

    #[test]
    fn a_panic_becomes_a_failure() {
        let engine = WorkerThreads::new(1).unwrap();
        let result: Result<(), Failure> = engine.run(|_| async { panic!("on purpose") });
        assert!(matches!(result, Err(Failure::Message(text)) if text.starts_with("internal")));
    }
}
