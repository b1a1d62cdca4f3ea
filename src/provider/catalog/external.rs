//! Tables created in SQL: `CREATE EXTERNAL TABLE ... STORED AS TET` and `FROM 'weather.tet'`.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory, UrlTableFactory};
#[cfg(feature = "remote")]
use datafusion::common::internal_datafusion_err;
use datafusion::common::{DataFusionError, Result, plan_datafusion_err, plan_err};
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
#[cfg(feature = "remote")]
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::CreateExternalTable;
use datafusion::prelude::SessionConfig;

use crate::error::{Error, ErrorLocation};
#[cfg(feature = "remote")]
use crate::format::io::remote::is_url;
use crate::format::{foreign, remote_location_advice};
use crate::provider::adapters::registry::{Format, FormatRegistry};
use crate::provider::catalog::location::Location;
use crate::provider::catalog::many_files::FileTable;
use crate::provider::catalog::open::open_table;
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::catalog::table::ArrayTable;
use crate::provider::error::describe;
#[cfg(feature = "remote")]
use crate::provider::remote::{StoreOptions, create_rows, open_rows, register, shown};
use crate::provider::source::BlockSource;

/// The maximum number of files behind URLs that are opened at the same time.
#[cfg(feature = "remote")]
const FILES_AT_A_TIME: usize = 16;
/// The prefix that DataFusion adds to options without one.
const FORMAT_PREFIX: &str = "format.";

/// Opens one table over a location: a file, the files of a directory, or the files that match a
/// pattern. The location may end in `#` and the name of a dataset. `session` has the formats and
/// settings.
///
/// # Errors
/// Returns an error if there is no such file, if a file cannot be opened, or if the files differ in
/// their columns.
pub fn open_location(
    location: &str,
    options: &ArrayOptions,
    session: &SessionConfig,
) -> Result<ArrayTable> {
    open_locations(&[location.to_string()], options, session)
}

fn open_locations(
    locations: &[String],
    options: &ArrayOptions,
    session: &SessionConfig,
) -> Result<ArrayTable> {
    let mut options = options.clone();
    let mut files = Vec::new();
    for text in locations {
        let location = Location::parse(text, session)?;
        let text = shown_text(text);
        files.extend(location.files);
        match (location.dataset, &options.dataset) {
            (Some(here), _) if locations.len() > 1 => {
                return plan_err!(
                    "{text}: cannot name the dataset {here:?} in one of several locations; use OPTIONS \
                     (dataset ...) instead"
                );
            }
            (Some(here), Some(there)) if here != *there => {
                return plan_err!(
                    "{text}: the location names the dataset {here:?}, but the option dataset names {there:?}"
                );
            }
            (Some(here), None) => options.dataset = Some(here),
            _ => {}
        }
    }
    let members = open_all(&files, &options, session)?;
    if options.dataset.is_none() {
        check_names(&files, &members)?;
    }
    if let [only] = members.as_slice() {
        // A collection of files has the column `file` by itself.
        let is_whole = !options.file_column || only.downcast_ref::<FileTable>().is_some();
        if is_whole {
            return Ok(ArrayTable::new(Arc::clone(only), options));
        }
    }
    let shown: Vec<String> = locations.iter().map(|text| shown_text(text)).collect();
    let location = shown.join(", ");
    let source = FileTable::new(&location, &files, members, options.file_column)?;
    Ok(ArrayTable::new(Arc::new(source), options))
}

/// Opens the table of each file. Files behind URLs are opened by several threads, because each
/// waits for requests most of the time.
fn open_all(
    files: &[PathBuf],
    options: &ArrayOptions,
    session: &SessionConfig,
) -> Result<Vec<Arc<dyn BlockSource>>, Error> {
    let open = |path: &PathBuf| open_table(path, options, session);
    #[cfg(feature = "remote")]
    if files.len() > 1 && files.iter().any(|path| is_url(&path.to_string_lossy())) {
        let size = files.len().div_ceil(FILES_AT_A_TIME);
        return std::thread::scope(|scope| {
            let threads = files.chunks(size).map(|part| {
                scope.spawn(move || part.iter().map(open).collect::<Result<Vec<_>, _>>())
            });
            let threads: Vec<_> = threads.collect();
            let mut tables = Vec::with_capacity(files.len());
            for (number, thread) in threads.into_iter().enumerate() {
                let path = &files[number * size];
                let panicked = |_| Error::invalid(path, "cannot be opened: internal error");
                tables.extend(thread.join().map_err(panicked)??);
            }
            Ok(tables)
        });
    }
    files.iter().map(open).collect()
}

/// Checks that all files hold the same variable, by name. Formats that name an array after its path are not checked.
fn check_names(files: &[PathBuf], members: &[Arc<dyn BlockSource>]) -> Result<(), Error> {
    let is_stored = |path: &Path, member: &dyn BlockSource| match member.format() {
        "hdf5" | "netcdf" | "tet" => true,
        // A hierarchy that is an array is named after its directory.
        "zarr" => path.file_stem().is_none_or(|stem| stem != member.name()),
        _ => false,
    };
    let named = files.iter().zip(members);
    let mut named = named.filter(|(path, member)| is_stored(path, member.as_ref()));
    let Some((first_path, first)) = named.next() else {
        return Ok(());
    };
    match named.find(|(_, member)| member.name() != first.name()) {
        None => Ok(()),
        Some((path, member)) => Err(Error::malformed(
            ErrorLocation::file(path),
            "dataset",
            format!("{:?}", member.name()),
            format!("{:?} as in {}", first.name(), first_path.display()),
        )),
    }
}

/// Returns a location as messages show it: a URL without its secrets.
fn shown_text(location: &str) -> String {
    #[cfg(feature = "remote")]
    if is_url(location) {
        return shown(Path::new(location)).to_string_lossy().into_owned();
    }
    location.to_string()
}

/// Creates the tables of `CREATE EXTERNAL TABLE ... STORED AS TET`. Content decides the format of
/// the files, so the keyword only decides which options are allowed.
#[derive(Debug, Clone)]
pub struct ArrayTableFactory {
    format: Arc<dyn Format>,
    defaults: ArrayOptions,
}

impl ArrayTableFactory {
    /// Creates the factory of a format, whose defaults are overridden by `OPTIONS (...)`.
    pub fn new(format: Arc<dyn Format>, defaults: ArrayOptions) -> Self {
        Self { format, defaults }
    }
}

#[async_trait]
impl TableProviderFactory for ArrayTableFactory {
    async fn create(
        &self,
        state: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        let name = &command.name;
        if !command.schema.fields().is_empty() {
            return plan_err!(
                "{name}: a table over arrays takes its columns from the files; omit the column list"
            );
        }
        for (is_given, clause) in [
            (!command.table_partition_cols.is_empty(), "PARTITIONED BY"),
            (!command.order_exprs.is_empty(), "WITH ORDER"),
            (command.unbounded, "UNBOUNDED"),
        ] {
            if is_given {
                return plan_err!("{name}: {clause} is not supported for arrays; omit the clause");
            }
        }
        let mut options = self.defaults.clone();
        #[cfg(feature = "remote")]
        let command = &registered(state, command)?;
        let mut given: Vec<_> = command.options.iter().collect();
        given.sort();
        for (key, value) in given {
            let key = key.strip_prefix(FORMAT_PREFIX).unwrap_or(key);
            options.set_with(self.format.options(), key, value)?;
        }
        let table = open_locations(&command.locations, &options, state.config())?;
        Ok(Arc::new(table))
    }
}

/// Creates tables from quoted paths, as in `FROM 'weather.tet#temperature'`. Paths that are not
/// array files are left to the next factory.
#[derive(Debug)]
pub(crate) struct ArrayUrlFactory {
    defaults: ArrayOptions,
    /// The factory for other paths, which also holds the session.
    next: Arc<DynamicListTableFactory>,
}

impl ArrayUrlFactory {
    pub fn new(defaults: ArrayOptions, next: Arc<DynamicListTableFactory>) -> Self {
        Self { defaults, next }
    }

    /// Returns the current configuration of the session.
    fn config(&self) -> SessionConfig {
        let session = self.next.session_store().get_session().upgrade();
        session.map_or_else(SessionConfig::new, |session| {
            session.read().config().clone()
        })
    }

    /// Returns the current state of the session.
    #[cfg(feature = "remote")]
    fn state(&self) -> Result<SessionState> {
        let session = self.next.session_store().get_session().upgrade();
        let state = session.and_then(|session| {
            let session = session.read();
            session.as_any().downcast_ref::<SessionState>().cloned()
        });
        state.ok_or_else(|| internal_datafusion_err!("the session has ended"))
    }
}

/// Creates the tables of row formats, but refuses pipes and devices.
#[derive(Debug)]
pub(crate) struct RegularFilesFactory(pub Arc<dyn TableProviderFactory>);

#[async_trait]
impl TableProviderFactory for RegularFilesFactory {
    async fn create(
        &self,
        state: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        for location in &command.locations {
            refuse_special(location)?;
        }
        #[cfg(feature = "remote")]
        let command = &registered(state, command)?;
        #[cfg(feature = "remote")]
        if command.locations.iter().any(|location| is_url(location)) {
            return create_rows(state, command, self.0.as_ref()).await;
        }
        let table = self.0.create(state, command).await;
        match command.locations.as_slice() {
            [location] => table.map_err(|error| explained(location, error)),
            _ => table,
        }
    }
}

/// Registers the store that the options of a statement describe, and returns the statement without
/// them.
#[cfg(feature = "remote")]
fn registered(state: &dyn Session, command: &CreateExternalTable) -> Result<CreateExternalTable> {
    let mut command = command.clone();
    let options = StoreOptions::take(&mut command.options);
    for location in &command.locations {
        register(state, location, &options)?;
    }
    Ok(command)
}

/// Refuses a path to anything but a file or a directory: DataFusion would wait for the other end of
/// a pipe.
fn refuse_special(location: &str) -> Result<()> {
    let is_special = |metadata: Metadata| !(metadata.is_file() || metadata.is_dir());
    match local_path(location).metadata().is_ok_and(is_special) {
        true => plan_err!("{location}: not a regular file or directory"),
        false => Ok(()),
    }
}

fn is_word(name: &str) -> bool {
    name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Returns advice on a location that DataFusion could not turn into a table.
fn advice(url: &str, other: &Result<Option<Arc<dyn TableProvider>>>) -> Option<String> {
    let elsewhere = remote_location_advice(url).filter(|_| match other {
        Err(error) => error.to_string().contains("No suitable object store"),
        Ok(_) => true,
    });
    let path = local_path(url);
    // The reader of the format knows what is wrong with a file of rows.
    let extension = path.extension().and_then(|extension| extension.to_str());
    let is_of_rows = matches!(extension, Some("parquet" | "arrow" | "feather"));
    elsewhere.or_else(|| foreign(path).filter(|_| other.is_ok() || !is_of_rows))
}

/// Returns the error of opening a location, with the location if it is an empty file.
fn explained(location: &str, error: DataFusionError) -> DataFusionError {
    match local_path(location).metadata() {
        Ok(metadata) if metadata.is_file() && metadata.len() == 0 => {
            plan_datafusion_err!("{}: {}", local_path(location).display(), describe(&error))
        }
        _ => error,
    }
}

fn local_path(location: &str) -> &Path {
    Path::new(location.strip_prefix("file://").unwrap_or(location))
}

#[async_trait]
impl UrlTableFactory for ArrayUrlFactory {
    async fn try_new(&self, url: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if !is_word(url) {
            refuse_special(url)?;
        }
        let config = self.config();
        if !Location::is_array_location(url, &FormatRegistry::of(&config)) {
            #[cfg(feature = "remote")]
            if is_url(url) {
                return open_rows(url, &self.state()?).await.map(Some);
            }
            return match self.next.try_new(url).await {
                // A single word more likely names a table that does not exist, or is about to be
                // created, than a directory of that name.
                Err(_) if is_word(url) => Ok(None),
                Ok(Some(table)) => Ok(Some(table)),
                other => match advice(url, &other) {
                    Some(advice) => plan_err!("{}: {advice}", shown_text(url)),
                    None => other.map_err(|error| explained(url, error)),
                },
            };
        }
        let table = open_location(url, &self.defaults, &config)?;
        Ok(Some(Arc::new(table)))
    }
}
