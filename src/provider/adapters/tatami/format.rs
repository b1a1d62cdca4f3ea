//! The formats of `.tatami` files and of collections: recognise and open them.

use std::path::Path;
use std::sync::Arc;

use datafusion::prelude::SessionConfig;

use crate::error::Error;
#[cfg(feature = "remote")]
use crate::format::io::storage::Access;
#[cfg(feature = "remote")]
use crate::format::tatami::TatamiFile;
use crate::format::tatami::{MANIFEST_MAGIC, is_tatami};
use crate::provider::adapters::registry::{Candidate, Format};
#[cfg(feature = "remote")]
use crate::provider::adapters::registry::{RemoteFile, place_of};
use crate::provider::adapters::tatami::container::TatamiContainer;
use crate::provider::adapters::tatami::table::TextOptions;
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::source::container::Container;

/// The name of the format of manifests.
pub(in crate::provider) const COLLECTION_FORMAT: &str = "tatami.manifest";

/// The format of `.tatami` files.
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
        &["tatami"]
    }

    fn options(&self) -> &'static [&'static str] {
        &TextOptions::NAMES
    }

    fn recognises(&self, candidate: &Candidate<'_>) -> bool {
        is_tatami(candidate.start())
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
        let access = options.open_options(session.options()).access;
        Ok(Arc::new(TatamiContainer::open(path, access, options)?))
    }

    #[cfg(feature = "remote")]
    fn open_remote(
        &self,
        file: RemoteFile,
        options: &ArrayOptions,
        _session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let file = TatamiFile::open_remote(file.into_object()?)?;
        Ok(Arc::new(TatamiContainer::of(file, options)?))
    }
}

/// The format of manifests, which list `.tatami` files as collections.
#[derive(Debug)]
pub(in crate::provider) struct CollectionFormat;

impl Format for CollectionFormat {
    fn name(&self) -> &'static str {
        COLLECTION_FORMAT
    }

    fn keywords(&self) -> &'static [&'static str] {
        TatamiFormat.keywords()
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["manifest"]
    }

    fn options(&self) -> &'static [&'static str] {
        &TextOptions::NAMES
    }

    fn recognises(&self, candidate: &Candidate<'_>) -> bool {
        candidate.start().starts_with(&MANIFEST_MAGIC)
    }

    fn open(
        &self,
        path: &Path,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let access = options.open_options(session.options()).access;
        let container = TatamiContainer::open_collection(&path.into(), access, options, session)?;
        Ok(Arc::new(container))
    }

    #[cfg(feature = "remote")]
    fn open_remote(
        &self,
        file: RemoteFile,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let place = place_of(file.path(), session)?;
        let container = TatamiContainer::open_collection(&place, Access::Pread, options, session)?;
        Ok(Arc::new(container))
    }
}
