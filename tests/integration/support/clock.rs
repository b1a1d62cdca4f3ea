//! Virtual time for fetches.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures::future::BoxFuture;

/// Time that passes only when all tasks wait for it.
#[derive(Debug, Default)]
pub struct Clock {
    now: AtomicU64,
    sleepers: Mutex<BTreeMap<(u64, u64), Waker>>,
    started: AtomicU64,
}

struct Sleep {
    clock: Arc<Clock>,
    until: u64,
    number: u64,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.clock.now() >= self.until {
            return Poll::Ready(());
        }
        let mut sleepers = self.clock.sleepers.lock().unwrap();
        sleepers.insert((self.until, self.number), context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let key = (self.until, self.number);
        self.clock.sleepers.lock().unwrap().remove(&key);
    }
}

impl Clock {
    /// Returns the time that has passed.
    pub fn now(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    /// Returns the number of fetches so far.
    pub fn started(&self) -> u64 {
        self.started.load(Ordering::SeqCst)
    }

    /// Returns the number of fetches that have started and not ended.
    pub fn waiting(&self) -> usize {
        self.sleepers.lock().unwrap().len()
    }

    /// Returns a fetch that takes this time.
    pub fn fetch(self: &Arc<Self>, latency: u64) -> BoxFuture<'static, ()> {
        Box::pin(Sleep {
            until: self.now() + latency,
            number: self.started.fetch_add(1, Ordering::SeqCst),
            clock: Arc::clone(self),
        })
    }

    /// Runs a future on a runtime with one thread. Time passes when no task can go on.
    pub async fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            for _ in 0..100 {
                if let Poll::Ready(done) = futures::poll!(&mut future) {
                    return done;
                }
                tokio::task::yield_now().await;
            }
            let first = self.sleepers.lock().unwrap().pop_first();
            let Some(((until, _), waker)) = first else {
                panic!("nothing to wait for");
            };
            self.now.fetch_max(until, Ordering::SeqCst);
            waker.wake();
        }
    }
}
