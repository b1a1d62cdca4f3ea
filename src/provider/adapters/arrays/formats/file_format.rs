//! Formats whose files are single files of arrays.

use std::path::Path;
use std::sync::Arc;

use datafusion::prelude::SessionConfig;

use crate::error::Error;
use crate::format::array::ArrayFile;
use crate::format::tet::OpenOptions;
use crate::provider::adapters::arrays::container::ArrayContainer;
use crate::provider::adapters::create::CreateArrays;
#[cfg(feature = "remote")]
use crate::provider::adapters::registry::RemoteFile;
use crate::provider::adapters::registry::{Candidate, Format};
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::source::container::Container;

/// An opened file, or the error that says why it cannot be opened.
pub(super) type Opened = Result<Arc<dyn ArrayFile>, Error>;

/// A format of single files, described by values and functions. The fields are those that [`Format`] names.
#[derive(Debug)]
pub(super) struct FileFormat {
    pub name: &'static str,
    pub keywords: &'static [&'static str],
    pub extensions: &'static [&'static str],
    pub options: &'static [&'static str],
    pub recognises: fn(&Candidate<'_>) -> bool,
    pub is_found_in_directories: fn(&Path) -> bool,
    pub open: fn(&Path, OpenOptions, &SessionConfig) -> Opened,
    #[cfg(feature = "remote")]
    pub open_remote: fn(RemoteFile, OpenOptions, &SessionConfig) -> Opened,
    /// Changes the file as the options of this format say.
    pub with_options: fn(Arc<dyn ArrayFile>, &ArrayOptions) -> Opened,
    /// Returns what creates files of this format, if anything does.
    pub creator: fn() -> Option<Arc<dyn CreateArrays>>,
}

impl FileFormat {
    fn container(
        &self,
        file: Arc<dyn ArrayFile>,
        options: &ArrayOptions,
    ) -> Result<Arc<dyn Container>, Error> {
        let file = (self.with_options)(file, options)?;
        Ok(ArrayContainer::shared(file, options))
    }
}

impl Format for FileFormat {
    fn name(&self) -> &'static str {
        self.name
    }

    fn keywords(&self) -> &'static [&'static str] {
        self.keywords
    }

    fn extensions(&self) -> &'static [&'static str] {
        self.extensions
    }

    fn options(&self) -> &'static [&'static str] {
        self.options
    }

    fn recognises(&self, candidate: &Candidate<'_>) -> bool {
        (self.recognises)(candidate)
    }

    fn is_found_in_directories(&self, path: &Path) -> bool {
        (self.is_found_in_directories)(path)
    }

    fn open(
        &self,
        path: &Path,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let file = (self.open)(path, options.open_options(session.options()), session)?;
        self.container(file, options)
    }

    fn creator(&self) -> Option<Arc<dyn CreateArrays>> {
        (self.creator)()
    }

    #[cfg(feature = "remote")]
    fn open_remote(
        &self,
        file: RemoteFile,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let open_options = options.open_options(session.options());
        let file = (self.open_remote)(file, open_options, session)?;
        self.container(file, options)
    }
}
