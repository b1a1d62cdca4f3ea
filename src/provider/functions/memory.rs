//! Access to the memory pool of a session from within a function.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::prelude::SessionContext;

/// Reserves memory in the current memory pool of a session.
///
/// DataFusion does not pass a query's memory pool to functions: it accounts for the memory of
/// accumulators only after they have allocated it. A function that makes a large allocation
/// reserves it here first.
#[derive(Clone, Default)]
pub struct SessionMemory(Option<Arc<DynamicListTableFactory>>);

impl SessionMemory {
    /// Returns the memory of a session.
    pub fn of(ctx: &SessionContext) -> Self {
        // Used only for its weak reference to a session. The factory creates no tables here.
        let session = DynamicListTableFactory::default();
        session.session_store().with_state(ctx.state_weak_ref());
        Self(Some(Arc::new(session)))
    }

    /// Reserves memory until the returned reservation is dropped. Returns `None` if the session no
    /// longer exists.
    ///
    /// # Errors
    /// Fails if the memory pool denies the reservation.
    pub fn reserve(&self, consumer: &str, bytes: usize) -> Result<Option<MemoryReservation>> {
        let session = self
            .0
            .as_ref()
            .map(|session| session.session_store().get_session());
        let Some(session) = session.and_then(|session| session.upgrade()) else {
            return Ok(None);
        };
        let pool = Arc::clone(&session.read().runtime_env().memory_pool);
        let reservation = MemoryConsumer::new(consumer).register(&pool);
        reservation.try_grow(bytes)?;
        Ok(Some(reservation))
    }
}

impl std::fmt::Debug for SessionMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionMemory")
    }
}

// All sessions' memories are equal, so that a function equals itself in another session.
impl PartialEq for SessionMemory {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for SessionMemory {}

impl Hash for SessionMemory {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
