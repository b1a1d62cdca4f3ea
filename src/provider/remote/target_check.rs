//! [`TargetCheck`]: limits the files and URLs that references lead to.

use std::path::Path;

use crate::error::Error;

type Check = dyn Fn(&Path) -> Result<(), Error> + Send + Sync;

/// A check of the files and URLs that references lead to, as an extension of a session that decodes plans from
/// other processes.
pub(in crate::provider) struct TargetCheck {
    check: Box<Check>,
}

impl TargetCheck {
    /// Creates a check that fails for the paths and URLs that must not be read.
    #[cfg(feature = "proto")]
    pub fn new(check: impl Fn(&Path) -> Result<(), Error> + Send + Sync + 'static) -> Self {
        Self {
            check: Box::new(check),
        }
    }

    /// Checks a path or URL.
    ///
    /// # Errors
    /// Fails if it must not be read.
    pub fn check(&self, target: &Path) -> Result<(), Error> {
        (self.check)(target)
    }
}
