//! Opens the files and sets up the session they are queried in.

pub mod leftovers;
pub mod shutdown;
pub mod worker_threads;

use crate::failure::Failure;
use crate::messages;
use datafusion::catalog::{CatalogProviderList, MemoryCatalogProviderList};
use datafusion::prelude::{SessionConfig, SessionContext};
use std::path::PathBuf;
use std::sync::Arc;
#[cfg(feature = "cluster")]
use tet_sql::ClusterAccess;
use tet_sql::provider::catalog::files::{FileSession, Input};
use tet_sql::provider::error::describe;
use tet_sql::{Access, ArrayOptions, ArraySettings, OpeningWarnings, Unpack};

/// The schemas that are not files.
pub const OWN_SCHEMAS: [&str; 2] = ["public", "information_schema"];

/// The settings of a new session.
pub struct Settings {
    /// The files and directories to open, in order.
    pub inputs: Vec<Input>,
    /// The options for opening the files.
    pub options: ArrayOptions,
    /// The session's default for reading the files.
    pub access: Access,
    /// The session's default for unpacking values.
    pub unpack: Unpack,
    /// Further settings by name, as in SET.
    pub settings: Vec<(String, String)>,
    /// The credentials for the workers of `tet.cluster`.
    #[cfg(feature = "cluster")]
    pub cluster: ClusterAccess,
    /// The memory for queries in bytes; `None` means the memory budget of the first file.
    pub memory_limit: Option<u64>,
    /// The number of partitions of a query.
    pub threads: usize,
    /// The directory for spill files; `None` means DataFusion's default.
    pub spill_folder: Option<PathBuf>,
    /// `true` if a quoted path in SQL is a table. Clients can then read every file that the process
    /// can read.
    pub quoted_paths: bool,
    /// `true` to suppress warnings.
    pub quiet: bool,
}

/// A session and its files.
pub struct Session {
    /// The context that queries run in.
    pub context: SessionContext,
    /// The paths of the open files.
    pub files: Vec<PathBuf>,
}

/// Writes the warnings of the files that statements have opened, each once.
pub fn write_opening_warnings(context: &SessionContext) {
    let found = context.state_ref().read().config().get_extension();
    let found = found.map_or_else(Vec::new, |found: Arc<OpeningWarnings>| found.take());
    for warning in &found {
        messages::warning(warning);
    }
}

/// Opens the files. The first one becomes the default schema. Its memory budget applies if the
/// settings have no memory limit.
pub async fn open(settings: Settings) -> Result<Session, Failure> {
    let mut defaults = ArraySettings::default();
    defaults.access = settings.access;
    defaults.unpack = settings.unpack;
    let mut config = SessionConfig::new()
        .with_target_partitions(settings.threads)
        .with_information_schema(true)
        .with_option_extension(defaults);
    if !settings.quiet {
        config.set_extension(Arc::new(OpeningWarnings::default()));
    }
    #[cfg(feature = "cluster")]
    config.set_extension(Arc::new(settings.cluster));
    for (name, value) in &settings.settings {
        let set = config.options_mut().set(name, value);
        set.map_err(|error| Failure::message(format!("{name}={value}: {}", describe(&error))))?;
    }
    let default_catalog = config.options().catalog.default_catalog.clone();
    let (options, spill) = (&settings.options, settings.spill_folder);
    let opened = FileSession::open(
        config,
        &settings.inputs,
        options,
        settings.memory_limit,
        spill,
    );
    let FileSession {
        context,
        catalog,
        files,
        warnings,
    } = opened.await?;
    if !settings.quiet {
        for warning in &warnings {
            messages::warning(warning);
        }
    }
    if !settings.quoted_paths {
        // This list replaces the one that treats quoted paths as tables.
        let catalogs = Arc::new(MemoryCatalogProviderList::new());
        catalogs.register_catalog(default_catalog, catalog);
        context.register_catalog_list(catalogs);
    }
    Ok(Session { context, files })
}
