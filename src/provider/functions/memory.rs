//! Access to the memory pool of a session from within a function.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::prelude::SessionContext;

use crate::provider::catalog::settings::config::ArraySettings;
use crate::provider::sql::budget::Limits;

/// The memory pool of a session, and its limit for the size of a value.
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

    /// Returns the maximum size of a value in bytes.
    pub fn value_limit(&self) -> usize {
        let limit = self
            .with_session(|session| ArraySettings::limits_of(session.config_options()).value_bytes);
        limit.unwrap_or_else(|| Limits::default().value_bytes)
    }

    /// Reserves memory until the returned reservation is dropped. Returns `None` if the session no
    /// longer exists.
    ///
    /// # Errors
    /// Fails if the memory pool denies the reservation.
    pub fn reserve(&self, consumer: &str, bytes: usize) -> Result<Option<MemoryReservation>> {
        let pool = self.with_session(|session| Arc::clone(&session.runtime_env().memory_pool));
        let reserved = pool.map(|pool| {
            let reservation = MemoryConsumer::new(consumer).register(&pool);
            reservation.try_grow(bytes)?;
            Ok(reservation)
        });
        reserved.transpose()
    }

    /// Calls a function with the session, unless it no longer exists.
    fn with_session<T>(&self, function: impl FnOnce(&dyn Session) -> T) -> Option<T> {
        let session = self.0.as_ref()?.session_store().get_session().upgrade()?;
        let state = session.read();
        Some(function(&*state))
    }
}

impl std::fmt::Debug for SessionMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionMemory")
    }
}

// Always equal, so that a function equals the same function of another session.
impl PartialEq for SessionMemory {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for SessionMemory {}

impl Hash for SessionMemory {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
