//! Runs writers outside of the threads that run queries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};

/// Runs work that takes long outside of the threads that run the query.
pub async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = SpawnedTask::spawn_blocking(work).await;
    done.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
}

/// Cancels the writing thread when the statement's future is dropped. A blocking thread cannot be
/// aborted from outside.
pub struct CancelOnDrop(pub Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
