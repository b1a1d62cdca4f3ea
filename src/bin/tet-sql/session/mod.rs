//! Opens the files and sets up the session they are queried in.

pub mod catalog;
pub mod leftovers;
pub mod shutdown;
pub mod worker_threads;

use crate::failure::Failure;
use crate::messages;
use crate::session::catalog::Catalog;
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemoryCatalogProviderList, MemorySchemaProvider,
};
use datafusion::common::TableReference;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use sysinfo::System;
use tet_sql::format::remote_location_advice;
use tet_sql::provider::convert::FileKind;
use tet_sql::provider::error::describe;
use tet_sql::{
    Access, ArrayOptions, ArraySchema, ArraySessionExt, ArraySettings, FormatRegistry, Unpack,
    enable_arrays,
};
use url::Url;

/// The lower bound of the memory budget from a file. With less, hardly any query could sort or
/// group.
const MIN_BUDGET: u64 = 256 << 20;

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

/// A command-line argument that names something to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A file or package. Its schema is named after the file's stem.
    File(PathBuf),
    /// A file or package and the name of its schema.
    Named(String, PathBuf),
    /// A directory of files.
    Directory(PathBuf),
    /// A file of rows (CSV, Parquet, JSON, Arrow), and the name of its table.
    Rows(String, PathBuf),
}

impl Input {
    /// Resolves an argument: a path, or `NAME=FILE`. An existing path takes precedence, even if it
    /// contains a `=`.
    pub fn resolve(argument: &Path) -> Result<Self, Failure> {
        let formats = FormatRegistry::default();
        if argument.is_dir() && !formats.is_container_directory(argument) {
            return Ok(Self::Directory(argument.to_owned()));
        }
        if argument.exists() {
            return match has_rows(argument) {
                true => Ok(Self::Rows(stem(argument), argument.to_owned())),
                false => Ok(Self::File(argument.to_owned())),
            };
        }
        let missing = |path: &Path| {
            let advice = remote_location_advice(&path.to_string_lossy());
            let text = advice.unwrap_or_else(|| "no such file or directory".to_owned());
            Failure::message(format!("{}: {text}", path.display()))
        };
        let named = argument.to_str().and_then(|text| text.split_once('='));
        match named {
            Some((name, path)) if !name.is_empty() && !name.contains(std::path::is_separator) => {
                let path = Path::new(path);
                if path.is_dir() && !formats.is_container_directory(path) {
                    Err(Failure::message(format!(
                        "{}: is a directory of several files, which cannot all be named {name}: leave out \
                         {name}=, or give one file",
                        path.display()
                    )))
                } else if has_rows(path) {
                    Ok(Self::Rows(name.to_owned(), path.to_owned()))
                } else if path.exists() {
                    Ok(Self::Named(name.to_owned(), path.to_owned()))
                } else {
                    Err(missing(path))
                }
            }
            _ => Err(missing(argument)),
        }
    }
}

/// Returns `true` if the file name has the extension of a row format, unless the first bytes are
/// those of an array file.
fn has_rows(path: &Path) -> bool {
    let is_named_so = FileKind::of(path).is_ok_and(|kind| !kind.is_array());
    is_named_so && path.is_file() && FormatRegistry::default().recognise(path).is_none()
}

/// Returns the name of a file without its extension.
fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// Registers a file of rows as a table of the default schema.
pub async fn register_rows(
    context: &SessionContext,
    name: &str,
    path: &Path,
) -> Result<(), Failure> {
    let named = |text: &str| Failure::message(format!("{}: {text}", path.display()));
    let table = TableReference::bare(name.to_owned());
    if context.table_exist(table.clone())? {
        return Err(named(&format!(
            "a table named \"{name}\" already exists; choose another name: NAME=FILE"
        )));
    }
    // DataFusion expands patterns such as `*` in paths, but not in URLs.
    let absolute = std::path::absolute(path)?;
    let url = Url::from_file_path(absolute).map_err(|()| named("not a valid file path"))?;
    let rows = context.table_provider(TableReference::bare(url.as_str()));
    let rows = rows.await.map_err(|error| named(&describe(&error)))?;
    context.register_table(table, rows)?;
    Ok(())
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
    for (name, value) in &settings.settings {
        let set = config.options_mut().set(name, value);
        set.map_err(|error| Failure::message(format!("{name}={value}: {}", describe(&error))))?;
    }
    // Error messages show the location of the error in the statement.
    config.options_mut().sql_parser.collect_spans = true;
    let context = SessionContext::new_with_config(config);
    let names = context.copied_config().options().catalog.clone();
    let catalog = Arc::new(Catalog::default());
    catalog.register_schema(&names.default_schema, Arc::new(MemorySchemaProvider::new()))?;
    context.register_catalog(&names.default_catalog, Arc::<Catalog>::clone(&catalog));
    let context = enable_arrays(context, settings.options.clone());
    let mut schemas: Vec<Arc<ArraySchema>> = Vec::new();
    let mut rows = Vec::new();
    for input in &settings.inputs {
        match input {
            Input::Rows(name, path) => rows.push((name, path)),
            _ => schemas.extend(register(&context, input, &settings).await?),
        }
    }
    if !settings.quiet {
        for schema in &schemas {
            for warning in schema.warnings() {
                messages::warning(warning);
            }
        }
    }
    let memory = match settings.memory_limit {
        Some(bytes) => bytes,
        None => file_budget(schemas.first().map(Arc::as_ref)),
    };
    limit_memory(&context, memory, settings.spill_folder)?;
    if let Some(first) = schemas.first() {
        let state = context.state_ref();
        let mut state = state.write();
        let options = state.config_mut().options_mut();
        options.catalog.default_schema = first.name().to_owned();
    }
    for (name, path) in &rows {
        register_rows(&context, name, path).await?;
    }
    if !settings.quoted_paths {
        // This list replaces the one that treats quoted paths as tables.
        let catalogs = Arc::new(MemoryCatalogProviderList::new());
        catalogs.register_catalog(names.default_catalog, catalog);
        context.register_catalog_list(catalogs);
    }
    let files = schemas.iter().map(|schema| schema.path().to_owned());
    let files = files.chain(rows.into_iter().map(|(_, path)| path.clone()));
    Ok(Session {
        files: files.collect(),
        context,
    })
}

async fn register(
    context: &SessionContext,
    input: &Input,
    settings: &Settings,
) -> Result<Vec<Arc<ArraySchema>>, Failure> {
    let options = settings.options.clone();
    Ok(match input {
        Input::File(path) => vec![context.register_array_file(path, options).await?],
        Input::Named(name, path) => {
            vec![context.register_array_file_as(name, path, options).await?]
        }
        Input::Directory(path) => {
            let folder = context.register_array_directory(path, options).await?;
            if !settings.quiet {
                if folder.schemas.is_empty() && folder.refused.is_empty() {
                    messages::warning(&format!("{}: no .tet files in it", path.display()));
                }
                for error in &folder.refused {
                    messages::warning(&format!("{error}; the file is left out"));
                }
            }
            folder.schemas
        }
        // `open` registers files of rows once the default schema is known.
        Input::Rows(..) => Vec::new(),
    })
}

/// Returns the memory budget that a file asks for, clamped to sensible bounds: the file may come
/// from anyone.
fn file_budget(file: Option<&ArraySchema>) -> u64 {
    let memory = physical_memory();
    let wanted = match file {
        Some(file) => file.memory_budget().resolve(memory),
        None => memory / 4,
    };
    wanted.min(memory).max(MIN_BUDGET)
}

/// Returns the memory of the machine, or of the container if that is less. Returns zero if unknown.
fn physical_memory() -> u64 {
    let Ok(mut system) = System::new() else {
        return 0;
    };
    system.refresh_memory();
    let total = system.total_memory();
    match system.cgroup_limits() {
        Some(limits) if limits.total_memory > 0 => total.min(limits.total_memory),
        _ => total,
    }
}

/// Gives the session a memory pool once its files are known, as `SET
/// datafusion.runtime.memory_limit` does.
///
/// The pool is a fair one. The partitions of a query sort and group side by side, and with a greedy
/// pool the first one could take the memory that the others then fail to get. With fair shares, all
/// partitions spill to disk instead.
fn limit_memory(
    context: &SessionContext,
    bytes: u64,
    spill_folder: Option<PathBuf>,
) -> Result<(), Failure> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let state = context.state_ref();
    let mut state = state.write();
    // Each partition of a sort reserves this much memory for merging. At most a quarter of the pool
    // may be reserved.
    let partitions = state.config().target_partitions();
    let execution = &mut state.config_mut().options_mut().execution;
    execution.sort_spill_reservation_bytes = execution
        .sort_spill_reservation_bytes
        .min(bytes / (4 * partitions.max(1)));
    let mut runtime = RuntimeEnvBuilder::from_runtime_env(state.runtime_env())
        .with_memory_pool(Arc::new(FairSpillPool::new(bytes)));
    if let Some(folder) = spill_folder {
        runtime = runtime.with_temp_file_path(folder);
    }
    let runtime = runtime.build_arc()?;
    *state = SessionStateBuilder::from(state.clone())
        .with_runtime_env(runtime)
        .build();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::execution::memory_pool::MemoryLimit;

    #[test]
    fn an_argument_that_exists_wins_over_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("b.tet");
        std::fs::write(&plain, "").unwrap();
        let rows = folder.path().join("b.CSV");
        std::fs::write(&rows, "").unwrap();
        let named_rows = PathBuf::from(format!("c={}", rows.display()));
        assert_eq!(
            Input::resolve(&rows).unwrap(),
            Input::Rows("b".to_owned(), rows.clone())
        );
        assert_eq!(
            Input::resolve(&named_rows).unwrap(),
            Input::Rows("c".to_owned(), rows)
        );
        let odd = folder.path().join("a=b.tet");
        std::fs::write(&odd, "").unwrap();
        let named = PathBuf::from(format!("a={}", plain.display()));
        assert_eq!(Input::resolve(&plain).unwrap(), Input::File(plain.clone()));
        assert_eq!(Input::resolve(&odd).unwrap(), Input::File(odd));
        assert_eq!(
            Input::resolve(&named).unwrap(),
            Input::Named("a".to_owned(), plain)
        );
        let itself = folder.path().to_owned();
        assert_eq!(
            Input::resolve(&itself).unwrap(),
            Input::Directory(itself.clone())
        );
        let named_folder = PathBuf::from(format!("a={}", itself.display()));
        for wrong in [
            named_folder,
            itself.join("c.tet"),
            itself.join("x=y.tet"),
            PathBuf::from("=x.tet"),
        ] {
            assert!(Input::resolve(&wrong).is_err(), "{wrong:?}");
        }
        // This file makes the directory a package, which is opened like a file.
        std::fs::write(itself.join("PROTOCOL"), "").unwrap();
        assert_eq!(Input::resolve(&itself).unwrap(), Input::File(itself));
    }

    #[tokio::test]
    async fn the_memory_limit_reaches_the_pool() {
        let settings = Settings {
            inputs: Vec::new(),
            options: ArrayOptions::new(),
            access: Access::Mmap,
            unpack: Unpack::Auto,
            settings: Vec::new(),
            memory_limit: Some(12345),
            threads: 3,
            spill_folder: None,
            quoted_paths: true,
            quiet: true,
        };
        let session = open(settings).await.unwrap();
        let pool = &session.context.runtime_env().memory_pool;
        assert!(matches!(pool.memory_limit(), MemoryLimit::Finite(12345)));
        let rows = session.context.sql("SELECT 1").await.unwrap();
        assert_eq!(rows.count().await.unwrap(), 1);
    }
}
