//! The format `.tatami`: recognises and opens its files and collections.

use std::path::Path;
use std::sync::Arc;

use datafusion::prelude::SessionConfig;

use crate::error::Error;
use crate::format::tatami::{MAGIC, MANIFEST_MAGIC};
use crate::provider::adapters::registry::{Candidate, Format};
use crate::provider::adapters::tatami::container::TatamiContainer;
use crate::provider::adapters::tatami::table::TextOptions;
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::source::container::Container;

/// The format of `.tatami` files, and of the manifests that list them as collections.
#[derive(Debug)]
pub(in crate::provider) struct TatamiFormat;

impl Format for TatamiFormat {
    fn name(&self) -> &'static str {
        "tatami"
    }

    fn keywords(&self) -> &'static [&'static str] {
        &["TATAMI"]
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["tatami", "manifest"]
    }

    fn options(&self) -> &'static [&'static str] {
        &TextOptions::NAMES
    }

    fn recognises(&self, candidate: &Candidate<'_>) -> bool {
        let start = candidate.start();
        start.starts_with(&MAGIC) || start.starts_with(&MANIFEST_MAGIC)
    }

    fn is_found_in_directories(&self, path: &Path) -> bool {
        let extension = path.extension().unwrap_or_default();
        extension.eq_ignore_ascii_case("tatami") && path.is_file()
    }

    fn open(
        &self,
        path: &Path,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let container = TatamiContainer::open(path, options, session)?;
        Ok(Arc::new(container))
    }
}
