//! [`OpeningWarnings`]: warnings about files that statements open.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use datafusion::prelude::SessionConfig;

/// The maximum number of different warnings of a session. Further ones are dropped.
const MAX_WARNINGS: usize = 1000;

/// The warnings of files that statements open, such as `FROM 'weather.nc'` and `CREATE EXTERNAL TABLE`. They are
/// collected if this is an extension of the session's configuration, and dropped otherwise. The warnings of registered
/// files are those of their [schemas](crate::ArraySchema::warnings).
#[derive(Debug, Default)]
pub struct OpeningWarnings(Mutex<Warnings>);

#[derive(Debug, Default)]
struct Warnings {
    /// All warnings since the session began.
    known: HashSet<String>,
    /// The warnings that [`OpeningWarnings::take`] has not returned yet.
    new: Vec<String>,
}

impl OpeningWarnings {
    /// Adds warnings to those of a session.
    pub(crate) fn add(session: &SessionConfig, warnings: &[String]) {
        let Some(all) = session.get_extension::<Self>() else {
            return;
        };
        let mut all = all.0.lock().unwrap_or_else(PoisonError::into_inner);
        for warning in warnings {
            if all.known.len() < MAX_WARNINGS && all.known.insert(warning.clone()) {
                all.new.push(warning.clone());
            }
        }
    }

    /// Returns the warnings since the last call. No warning is returned twice.
    pub fn take(&self) -> Vec<String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut all.new)
    }
}
