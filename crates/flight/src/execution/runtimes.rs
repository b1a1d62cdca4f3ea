//! Runtimes that run one statement at a time.
//!
//! Some operators and functions of DataFusion compute for seconds or hours inside a single poll. On
//! shared worker threads, such a statement would block every other statement. Therefore each
//! statement borrows a runtime from a bounded set.
//!
//! A runtime that is still busy soon after its statement was cancelled is abandoned: its threads
//! run until the poll returns, and a new runtime replaces it. The number of abandoned runtimes is
//! also bounded.

use crate::log::Log;
use crate::status::status;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

/// The stack size of a thread. Planning a statement with thousands of terms needs far more than the
/// usual two megabytes. Only used pages take memory.
const STACK_BYTES: usize = 64 << 20;
/// The time that a runtime gets to become idle after its statement has ended.
const PATIENCE: Duration = Duration::from_millis(500);
/// The longest pause between two checks of a busy runtime.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// A bounded set of runtimes.
#[derive(Clone)]
pub struct Runtimes(Arc<Inner>);

struct Inner {
    /// The name of the threads.
    name: &'static str,
    /// The number of threads of each runtime.
    threads: usize,
    places: Arc<Semaphore>,
    /// The idle runtimes.
    idle: Mutex<Vec<PooledRuntime>>,
    /// Permits for abandoned runtimes.
    abandoned: Arc<Semaphore>,
    /// The runtime that watches busy runtimes.
    network: Handle,
    log: Log,
}

impl Runtimes {
    /// Creates a set of at most `most` runtimes in use, and as many abandoned ones. The current
    /// Tokio runtime watches them.
    pub fn new(name: &'static str, threads: usize, most: usize, log: Log) -> Self {
        Self(Arc::new(Inner {
            name,
            threads,
            places: Arc::new(Semaphore::new(most)),
            idle: Mutex::default(),
            abandoned: Arc::new(Semaphore::new(most)),
            network: Handle::current(),
            log,
        }))
    }

    /// Waits for permission to use a runtime.
    pub async fn place(&self) -> Result<RuntimePermit, Status> {
        let permit = Arc::clone(&self.0.places).acquire_owned().await;
        let permit =
            permit.map_err(|_| status(Code::Unavailable, "the server is shutting down"))?;
        Ok(RuntimePermit {
            runtimes: Arc::clone(&self.0),
            permit,
        })
    }
}

impl Inner {
    fn idle(&self) -> MutexGuard<'_, Vec<PooledRuntime>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Permission to use one runtime.
pub struct RuntimePermit {
    runtimes: Arc<Inner>,
    permit: OwnedSemaphorePermit,
}

impl RuntimePermit {
    /// Runs a future, and whatever it spawns, on a runtime that nothing else uses.
    pub fn spawn<T: Send + 'static>(
        self,
        work: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> Result<Task<T>, Status> {
        let idle = self.runtimes.idle().pop();
        let crew = match idle {
            Some(crew) => crew,
            None => {
                PooledRuntime::new(self.runtimes.name, self.runtimes.threads).map_err(|error| {
                    let message = format!("the threads of a query cannot be started: {error}");
                    status(Code::ResourceExhausted, &message)
                })?
            }
        };
        let work = crew.handle().spawn(work);
        Ok(Task {
            work,
            _lease: Lease {
                runtimes: self.runtimes,
                borrowed: Some((crew, self.permit)),
            },
        })
    }
}

/// A future that runs on its own runtime. Dropping the task cancels the future.
pub struct Task<T> {
    work: JoinHandle<Result<T, Status>>,
    _lease: Lease,
}

impl<T> Future for Task<T> {
    type Output = Result<T, Status>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // The panic hook has already logged the details.
        let broken = |_| {
            Err(status(
                Code::Internal,
                "internal error: the task of the query failed",
            ))
        };
        let result = std::task::ready!(Pin::new(&mut self.work).poll(context));
        Poll::Ready(result.unwrap_or_else(broken))
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.work.abort();
    }
}

/// A borrowed runtime. Dropping the lease returns the runtime to the set once it is idle.
struct Lease {
    runtimes: Arc<Inner>,
    borrowed: Option<(PooledRuntime, OwnedSemaphorePermit)>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some((crew, permit)) = self.borrowed.take() else {
            return;
        };
        if crew.is_idle() {
            self.runtimes.idle().push(crew);
        } else {
            let runtimes = Arc::clone(&self.runtimes);
            let _watch = self.runtimes.network.spawn(reclaim(runtimes, crew, permit));
        }
    }
}

/// Waits until a runtime is idle, or abandons it. Holds the permit of the runtime until then.
async fn reclaim(runtimes: Arc<Inner>, crew: PooledRuntime, _permit: OwnedSemaphorePermit) {
    let deadline = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(1);
    while !crew.is_idle() {
        if Instant::now() >= deadline
            && let Ok(permit) = Arc::clone(&runtimes.abandoned).try_acquire_owned()
        {
            let left = permit.semaphore().available_permits();
            crew.abandon(permit);
            runtimes.log.note(&format!(
                "a cancelled statement is still computing; its threads were replaced, which is possible {left} \
                 more times until such a statement ends"
            ));
            return;
        }
        sleep(pause).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
    runtimes.idle().push(crew);
}

/// A runtime and its threads.
struct PooledRuntime {
    /// `None` only while this is dropped.
    runtime: Option<Runtime>,
    threads: Arc<Threads>,
}

/// The running threads of a runtime.
#[derive(Default)]
struct Threads {
    alive: AtomicUsize,
    /// The permit of an abandoned runtime, released by its last thread.
    abandoned: Mutex<Option<OwnedSemaphorePermit>>,
}

impl PooledRuntime {
    fn new(name: &str, threads: usize) -> std::io::Result<Self> {
        let counted = Arc::new(Threads::default());
        let (starting, stopping) = (Arc::clone(&counted), Arc::clone(&counted));
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_stack_size(STACK_BYTES)
            .thread_name(name)
            .on_thread_start(move || {
                starting.alive.fetch_add(1, Ordering::Relaxed);
            })
            .on_thread_stop(move || {
                if stopping.alive.fetch_sub(1, Ordering::Relaxed) == 1 {
                    stopping.abandoned().take();
                }
            })
            .enable_all()
            .build()?;
        Ok(Self {
            runtime: Some(runtime),
            threads: counted,
        })
    }

    fn handle(&self) -> &Handle {
        match &self.runtime {
            Some(runtime) => runtime.handle(),
            None => unreachable!("a runtime is only taken by Drop"),
        }
    }

    fn is_idle(&self) -> bool {
        self.handle().metrics().num_alive_tasks() == 0
    }

    /// Lets the threads end when they can. The last one releases the permit.
    fn abandon(self, permit: OwnedSemaphorePermit) {
        *self.threads.abandoned() = Some(permit);
    }
}

impl Threads {
    fn abandoned(&self) -> MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.abandoned
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PooledRuntime {
    /// Does not wait for the threads, which may be inside a long poll.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use tokio::time::timeout;

    const GUARD: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn an_idle_runtime_is_used_again() {
        let runtimes = Runtimes::new("test", 1, 1, Log::default());
        for _ in 0..3 {
            let permit = timeout(GUARD, runtimes.place()).await.unwrap().unwrap();
            let task = permit.spawn(async { Ok(std::thread::current().id()) });
            let first = task.unwrap().await.unwrap();
            let permit = timeout(GUARD, runtimes.place()).await.unwrap().unwrap();
            let task = permit.spawn(async { Ok(std::thread::current().id()) });
            assert_eq!(task.unwrap().await.unwrap(), first);
        }
    }

    #[tokio::test]
    async fn threads_that_compute_on_are_replaced_and_counted() {
        let runtimes = Runtimes::new("test", 1, 1, Log::default());
        let mut busy = Vec::new();
        let (started, starts) = channel();
        for _ in 0..2 {
            let (end, ends) = channel::<()>();
            let started = started.clone();
            let permit = timeout(GUARD, runtimes.place()).await.unwrap().unwrap();
            let task = permit.spawn(async move {
                started.send(()).unwrap();
                // Blocks inside one poll until the sender is dropped.
                let _ = ends.recv();
                Ok(())
            });
            let task = task.unwrap();
            starts.recv_timeout(GUARD).unwrap();
            drop(task);
            busy.push(end);
        }
        // The first runtime is abandoned. The second still holds the only permit.
        let refused = timeout(PATIENCE * 3, runtimes.place()).await;
        assert!(refused.is_err());
        busy.clear();
        let permit = timeout(GUARD, runtimes.place()).await.unwrap().unwrap();
        assert_eq!(permit.spawn(async { Ok(7) }).unwrap().await.unwrap(), 7);
        let abandoned = Arc::clone(&runtimes.0.abandoned);
        assert!(timeout(GUARD, abandoned.acquire()).await.is_ok());
    }
}
