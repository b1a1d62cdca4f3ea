//! The tokio runtime of the process, and waiting for it without blocking Python.

use std::future::Future;
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use datafusion::common::{Result, internal_err};
use datafusion::error::DataFusionError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;

use crate::errors::{Error, ForkError, exception};

/// The interval at which a waiting thread checks for signals such as Ctrl-C.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// The stack size of a worker. Planning a statement with thousands of terms needs far more than the
/// default of 2 MiB, and unused stack takes no memory.
const STACK_BYTES: usize = 64 << 20;

/// The workers for new queries; `None` before the first query, and after an interrupt.
static CURRENT: Mutex<Option<Workers>> = Mutex::new(None);

/// The number of threads that wait for work.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// The thread that ends the process, once it does.
static EXITING: OnceLock<ThreadId> = OnceLock::new();

/// Stops all other threads that wait for work, since this thread ends the process. Python would end a daemon
/// thread that needs the interpreter then, which is undefined behaviour within Rust.
pub fn exit(py: Python<'_>) {
    let _ = EXITING.set(thread::current().id());
    if WAITING.load(Ordering::Relaxed) > 0 {
        py.detach(|| thread::sleep(2 * SIGNAL_INTERVAL));
    }
}

/// Counts a thread that waits for work.
struct Waiting;

impl Waiting {
    fn new() -> Self {
        WAITING.fetch_add(1, Ordering::Relaxed);
        Self
    }

    /// Never returns if another thread ends the process.
    fn stop_at_exit(&self) {
        let this = thread::current().id();
        while EXITING.get().is_some_and(|ending| *ending != this) {
            thread::park();
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The worker threads of the process, which all sessions share.
///
/// Some operators of DataFusion, such as a nested-loop join, compute for long without yielding, and a
/// cancelled query occupies its worker until then. New queries therefore get new workers after an
/// interrupt. The old ones end with the last query that uses them.
#[derive(Clone)]
pub struct Workers(Arc<Started>);

struct Started {
    /// The process that started the threads.
    process: u32,
    runtime: Option<Runtime>,
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            if self.process == process::id() {
                // Does not wait for a query that does not yield.
                runtime.shutdown_background();
            } else {
                // The threads are in another process.
                std::mem::forget(runtime);
            }
        }
    }
}

impl Workers {
    /// Returns the workers for a new query, and starts them if there are none.
    ///
    /// # Errors
    /// Returns an error in a process that was forked after the workers had started: threads do not
    /// survive a fork.
    pub fn current() -> PyResult<Self> {
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(workers) = current.as_ref() {
            workers.check_process()?;
            return Ok(workers.clone());
        }
        let runtime = Builder::new_multi_thread()
            .thread_name("tet-sql")
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()
            .map_err(|error| Error::new_err(format!("cannot start threads: {error}")))?;
        let workers = Self(Arc::new(Started {
            process: process::id(),
            runtime: Some(runtime),
        }));
        Ok(current.insert(workers).clone())
    }

    fn check_process(&self) -> PyResult<()> {
        let (owner, process) = (self.0.process, process::id());
        if owner == process {
            return Ok(());
        }
        Err(ForkError::new_err(format!(
            "process {process} was forked from process {owner} after tet_sql had started its threads, which a fork \
             does not copy; start processes with multiprocessing.get_context(\"spawn\"), or use tet_sql only after the \
             fork"
        )))
    }

    /// Starts new workers for the next query, if these are the current ones.
    fn abandon(&self) {
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        current.take_if(|workers| Arc::ptr_eq(&workers.0, &self.0));
    }

    /// Returns the handle for starting work on the threads.
    pub fn handle(&self) -> Result<Handle> {
        match &self.0.runtime {
            Some(runtime) => Ok(runtime.handle().clone()),
            None => internal_err!("the worker threads have ended"),
        }
    }

    /// Runs work for a thread that is not one of the workers. Dropping the future cancels the work.
    ///
    /// # Errors
    /// Returns the error of the work, or an error if the work panics.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let mut tasks = JoinSet::new();
        tasks.spawn_on(work, &self.handle()?);
        match tasks.join_next().await {
            Some(Ok(result)) => result,
            Some(Err(_)) | None => Err(aborted()),
        }
    }

    /// Runs work and waits for its result. Other Python threads run in the meantime.
    ///
    /// # Errors
    /// Returns the error of the work, or the exception that a signal handler raises, such as
    /// `KeyboardInterrupt`. The work is then cancelled.
    pub fn wait<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> PyResult<T> {
        self.wait_with(py, work, |_| Ok(()))
    }

    /// Runs work like [`wait`](Self::wait), and calls `tick` every 100 ms. An exception of `tick` cancels
    /// the work.
    pub fn wait_with<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl Future<Output = Result<T>> + Send + 'static,
        mut tick: impl FnMut(Python<'_>) -> PyResult<()>,
    ) -> PyResult<T> {
        self.check_process()?;
        let handle = self.handle().map_err(|error| exception(&error))?;
        let (sender, receiver) = sync_channel(1);
        let task = handle.spawn(async move {
            // The receiver is gone if the wait was interrupted.
            let _ = sender.send(work.await);
        });
        let receiver = Mutex::new(receiver);
        let waiting = Waiting::new();
        loop {
            let received = py.detach(|| {
                let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
                let received = receiver.recv_timeout(SIGNAL_INTERVAL);
                waiting.stop_at_exit();
                received
            });
            match received {
                Ok(result) => return result.map_err(|error| exception(&error)),
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(interrupt) = py.check_signals().and_then(|()| tick(py)) {
                        task.abort();
                        self.abandon();
                        return Err(interrupt);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(exception(&aborted())),
            }
        }
    }
}

/// Returns the error of work that panicked.
fn aborted() -> DataFusionError {
    DataFusionError::Internal("the query was aborted by a panic".to_owned())
}

/// Runs work on the current workers and waits for its result.
///
/// # Errors
/// Returns the errors of [`Workers::current`] and [`Workers::wait`].
pub fn wait<T: Send + 'static>(
    py: Python<'_>,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> PyResult<T> {
    Workers::current()?.wait(py, work)
}
