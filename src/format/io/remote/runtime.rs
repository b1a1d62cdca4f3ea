//! The thread that runs all requests of the process.
//!
//! Requests have a runtime of their own, so that a thread can wait for a request wherever it is
//! itself: in a program without a runtime, or on a worker of a runtime with a single thread.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{LazyLock, mpsc};
use std::task::{Context, Poll};

use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;

/// The handle of the runtime; an error message if it could not be started.
static RUNTIME: LazyLock<Result<Handle, String>> =
    LazyLock::new(|| start().map_err(|error| error.to_string()));

fn start() -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("tet-sql-requests".to_string())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
    Ok(handle)
}

fn handle() -> io::Result<&'static Handle> {
    RUNTIME
        .as_ref()
        .map_err(|message| io::Error::other(message.clone()))
}

/// A running request. Dropping the value aborts the request.
pub(crate) struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<T> Future for Task<T> {
    type Output = io::Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let joined = Pin::new(&mut self.0).poll(context);
        joined.map(|joined| joined.map_err(io::Error::other))
    }
}

/// Starts a future on the thread of requests.
pub(crate) fn spawn<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> io::Result<Task<T>> {
    Ok(Task(handle()?.spawn(future)))
}

/// Runs a function that may [`wait`] for requests, on a thread that may block.
pub(crate) fn spawn_blocking<T: Send + 'static>(
    function: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Task<T>> {
    Ok(Task(handle()?.spawn_blocking(function)))
}

/// Runs a future on the thread of requests, and blocks the calling thread until it is complete.
pub(crate) fn wait<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> io::Result<T> {
    let (send, receive) = mpsc::sync_channel(1);
    let task = spawn(async move {
        // The receiver waits for the value, so it is still there.
        let _ = send.send(future.await);
    })?;
    let received = receive.recv();
    drop(task);
    received.map_err(|_| io::Error::other("the task of a request failed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_wait_inside_and_outside_of_runtimes() {
        assert_eq!(wait(async { 1 }).unwrap(), 1);
        let single = Builder::new_current_thread().build().unwrap();
        let sum = single.block_on(async { wait(async { 2 }).unwrap() + 3 });
        assert_eq!(sum, 5);
        let blocking = spawn_blocking(|| wait(async { 7 }).unwrap()).unwrap();
        assert_eq!(single.block_on(blocking).unwrap(), 7);
    }

    #[test]
    fn a_panic_is_an_error() {
        let error = wait(async { panic!("on purpose") }).unwrap_err();
        assert!(error.to_string().contains("failed"), "{error}");
    }
}
