//! The format TileDB: recognises and opens arrays and groups.

use std::path::Path;
use std::sync::Arc;

use datafusion::prelude::SessionConfig;

use crate::error::Error;
use crate::format::tiledb::{TileDbArray, TileDbGroup};
#[cfg(feature = "remote")]
use crate::provider::adapters::registry::RemoteFile;
use crate::provider::adapters::registry::{Candidate, Format};
use crate::provider::adapters::tiledb::container::TileDbContainer;
use crate::provider::adapters::tiledb::options;
use crate::provider::adapters::tiledb::stored::FORMAT;
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::source::container::Container;

/// The format of TileDB arrays and groups, which are directories.
#[derive(Debug)]
pub(in crate::provider) struct TileDbFormat;

impl Format for TileDbFormat {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn keywords(&self) -> &'static [&'static str] {
        &["TILEDB"]
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["tiledb", "tdb"]
    }

    fn options(&self) -> &'static [&'static str] {
        &options::NAMES
    }

    fn is_directory(&self) -> bool {
        true
    }

    fn recognises(&self, candidate: &Candidate<'_>) -> bool {
        #[cfg(feature = "remote")]
        if candidate.is_remote() {
            return candidate.has_directory("__schema") || candidate.has_directory("__group");
        }
        let path = candidate.path();
        candidate.is_directory() && (TileDbArray::recognises(path) || TileDbGroup::recognises(path))
    }

    fn open(
        &self,
        path: &Path,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let container = TileDbContainer::open(path, options, session)?;
        Ok(Arc::new(container))
    }

    #[cfg(feature = "remote")]
    fn open_remote(
        &self,
        file: RemoteFile,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        self.open(file.path(), options, session)
    }
}
