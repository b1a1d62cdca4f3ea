//! Cancellation of a query.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that tells a query to stop at its next check. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Returns `true` once the query is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Cancels the query.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
