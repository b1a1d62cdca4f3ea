//! The memory of the session that a function is registered in.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::prelude::SessionContext;

/// Reserves memory in the pool that a session has at the time.
///
/// Functions are not told of a query's memory pool: DataFusion accounts for what accumulators say they hold, once they
/// hold it. What a function makes in one go is reserved here before it is allocated.
#[derive(Clone, Default)]
pub struct SessionMemory(Option<Arc<DynamicListTableFactory>>);

impl SessionMemory {
    /// The memory of a session.
    pub fn of(ctx: &SessionContext) -> Self {
        // It makes no tables: it is what DataFusion has to refer weakly to a session.
        let session = DynamicListTableFactory::default();
        session.session_store().with_state(ctx.state_weak_ref());
        Self(Some(Arc::new(session)))
    }

    /// Reserves bytes until what is returned is dropped; nothing if there is no session any more.
    ///
    /// # Errors
    /// If the pool refuses.
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

// A function is the same one in whatever session.
impl PartialEq for SessionMemory {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for SessionMemory {}

impl Hash for SessionMemory {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
