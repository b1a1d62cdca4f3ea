//! The running queries, and their cancellation.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use tonic::{Code, Status};
use uuid::Uuid;

/// The maximum number of remembered cancellations of queries that have not started.
const REMEMBERED: usize = 1024;

/// The queries that wait or run.
#[derive(Debug, Clone, Default)]
pub struct Running(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// The sender that stops each query, by query id and a counter. The counter allows several
    /// executions of one ticket.
    queries: BTreeMap<(Uuid, u64), oneshot::Sender<Status>>,
    next: u64,
    /// The ids cancelled so far, latest last.
    cancelled: VecDeque<Uuid>,
}

/// A registered query. Dropping this removes the query.
#[derive(Debug)]
pub struct Registration {
    running: Running,
    key: (Uuid, u64),
}

impl Running {
    /// Registers a query. The receiver yields the reason if the query must stop.
    pub fn enter(&self, id: Uuid) -> Result<(Registration, oneshot::Receiver<Status>), Status> {
        let mut inner = self.lock();
        if inner.cancelled.contains(&id) {
            return Err(cancelled());
        }
        let key = (id, inner.next);
        inner.next += 1;
        let (sender, receiver) = oneshot::channel();
        inner.queries.insert(key, sender);
        let running = self.clone();
        Ok((Registration { running, key }, receiver))
    }

    /// Stops all executions of a query, and prevents later ones.
    pub fn cancel(&self, id: Uuid) {
        let mut inner = self.lock();
        let keys: Vec<_> = inner
            .queries
            .range((id, 0)..=(id, u64::MAX))
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            if let Some(query) = inner.queries.remove(&key) {
                // A query that is ending no longer listens.
                let _ = query.send(cancelled());
            }
        }
        if inner.cancelled.len() == REMEMBERED {
            inner.cancelled.pop_front();
        }
        inner.cancelled.push_back(id);
    }

    /// Stops all queries because the server is shutting down.
    pub fn stop(&self) {
        for query in std::mem::take(&mut self.lock().queries).into_values() {
            let _ = query.send(Status::new(
                Code::Unavailable,
                "the server is shutting down",
            ));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.running.lock().queries.remove(&self.key);
    }
}

fn cancelled() -> Status {
    Status::new(Code::Cancelled, "the query was cancelled")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_executions_of_a_ticket_are_cancelled_and_no_others() {
        let running = Running::default();
        let (ours, other) = (Uuid::from_u128(7), Uuid::from_u128(8));
        let (_first, mut one) = running.enter(ours).unwrap();
        let (_second, mut two) = running.enter(ours).unwrap();
        let (third, mut three) = running.enter(other).unwrap();
        running.cancel(ours);
        assert_eq!(one.try_recv().unwrap().code(), Code::Cancelled);
        assert_eq!(two.try_recv().unwrap().code(), Code::Cancelled);
        assert!(three.try_recv().is_err());
        assert!(running.enter(ours).is_err(), "cancelled for good");
        drop(third);
        assert!(running.lock().queries.is_empty());
    }

    #[test]
    fn only_so_many_cancellations_are_remembered() {
        let running = Running::default();
        for id in 0..=REMEMBERED as u128 {
            running.cancel(Uuid::from_u128(id));
        }
        assert_eq!(running.lock().cancelled.len(), REMEMBERED);
        assert!(running.enter(Uuid::from_u128(0)).is_ok());
    }
}
