//! Sessions over files, as the command opens them: the first file is the default schema.

mod catalog;
mod input;

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::catalog::{CatalogProvider, MemorySchemaProvider};
use datafusion::common::Result;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use sysinfo::System;

use crate::error::Error;
use crate::provider::catalog::files::catalog::Catalog;
pub use crate::provider::catalog::files::input::{Input, register_rows};
use crate::provider::catalog::groups::GroupCatalog;
use crate::provider::catalog::schema::ArraySchema;
use crate::provider::catalog::session::{ArraySessionExt, enable_arrays};
use crate::provider::catalog::settings::options::ArrayOptions;
#[cfg(feature = "remote")]
use crate::provider::remote::{LazyStores, shown};

/// The lower bound of the memory budget from a file. With less, hardly any query could sort or
/// group.
const MIN_BUDGET: u64 = 256 << 20;

/// A session and the files that were opened in it.
pub struct FileSession {
    /// The context that queries run in.
    pub context: SessionContext,
    /// The default catalog, with a schema for each file, and for each group of a file.
    pub catalog: Arc<dyn CatalogProvider>,
    /// The paths of the open files.
    pub files: Vec<PathBuf>,
    /// Problems that do not prevent reading.
    pub warnings: Vec<String>,
}

impl FileSession {
    /// Opens files in a new session. The first one becomes the default schema. Its memory budget
    /// applies if there is no memory limit, in bytes. `spill_folder` is the directory for spill
    /// files; `None` means DataFusion's default.
    ///
    /// # Errors
    /// Returns an error if a file cannot be opened, or two have the same name.
    pub async fn open(
        config: SessionConfig,
        inputs: &[Input],
        options: &ArrayOptions,
        memory_limit: Option<u64>,
        spill_folder: Option<PathBuf>,
    ) -> Result<Self> {
        let mut config = config;
        // Error messages show the location of the error in the statement.
        config.options_mut().sql_parser.collect_spans = true;
        #[cfg(feature = "remote")]
        let context = SessionContext::new_with_config_rt(config, LazyStores::runtime()?);
        #[cfg(not(feature = "remote"))]
        let context = SessionContext::new_with_config(config);
        let names = context.copied_config().options().catalog.clone();
        let catalog = Arc::new(Catalog::default());
        catalog.register_schema(&names.default_schema, Arc::new(MemorySchemaProvider::new()))?;
        context.register_catalog(&names.default_catalog, Arc::<Catalog>::clone(&catalog));
        let context = enable_arrays(context, options.clone());
        let mut schemas: Vec<Arc<ArraySchema>> = Vec::new();
        let mut rows = Vec::new();
        let mut warnings = Vec::new();
        for input in inputs {
            match input {
                Input::Rows(name, path) => rows.push((name, path)),
                _ => schemas.extend(register(&context, input, options, &mut warnings).await?),
            }
        }
        let of_schemas = schemas.iter().flat_map(|schema| schema.warnings());
        warnings.extend(of_schemas.cloned());
        let memory = match memory_limit {
            Some(bytes) => bytes,
            None => file_budget(schemas.first().map(Arc::as_ref)),
        };
        limit_memory(&context, memory, spill_folder)?;
        if let Some(first) = schemas.first() {
            let state = context.state_ref();
            let mut state = state.write();
            let options = state.config_mut().options_mut();
            options.catalog.default_schema = first.name().to_owned();
        }
        for (name, path) in &rows {
            register_rows(&context, name, path).await?;
        }
        let files = schemas.iter().map(|schema| schema.path().to_owned());
        let files = files.chain(rows.into_iter().map(|(_, path)| shown(path)));
        Ok(Self {
            files: files.collect(),
            context,
            catalog: GroupCatalog::over(catalog),
            warnings,
        })
    }
}

/// Returns a path as it is, in builds without object stores.
#[cfg(not(feature = "remote"))]
fn shown(path: &std::path::Path) -> PathBuf {
    path.to_path_buf()
}

async fn register(
    context: &SessionContext,
    input: &Input,
    options: &ArrayOptions,
    warnings: &mut Vec<String>,
) -> Result<Vec<Arc<ArraySchema>>> {
    let options = options.clone();
    Ok(match input {
        Input::File(path) => vec![context.register_array_file(path, options).await?],
        Input::Named(name, path) => {
            vec![context.register_array_file_as(name, path, options).await?]
        }
        Input::Directory(path) => {
            let folder = context.register_array_directory(path, options).await?;
            if folder.schemas.is_empty() && folder.refused.is_empty() {
                warnings.push(Error::invalid(path, "no .tet files in it").to_string());
            }
            let refused = folder.refused.iter();
            warnings.extend(refused.map(|error| format!("{error}; the file is left out")));
            folder.schemas
        }
        // Files of rows are registered once the default schema is known.
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
/// datafusion.runtime.memory_limit` does. Also keeps DataFusion from caching lists of files, in which files that
/// appear later are missing.
///
/// The pool is a fair one. The partitions of a query sort and group side by side, and with a greedy
/// pool the first one could take the memory that the others then fail to get. With fair shares, all
/// partitions spill to disk instead.
fn limit_memory(context: &SessionContext, bytes: u64, spill_folder: Option<PathBuf>) -> Result<()> {
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
        .with_memory_pool(Arc::new(FairSpillPool::new(bytes)))
        .with_object_list_cache_limit(0);
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
    use datafusion::execution::memory_pool::MemoryLimit;

    use super::*;

    #[tokio::test]
    async fn the_memory_limit_reaches_the_pool() {
        let config = SessionConfig::new().with_target_partitions(3);
        let options = ArrayOptions::new();
        let session = FileSession::open(config, &[], &options, Some(12345), None);
        let session = session.await.unwrap();
        let pool = &session.context.runtime_env().memory_pool;
        assert!(matches!(pool.memory_limit(), MemoryLimit::Finite(12345)));
        let rows = session.context.sql("SELECT 1").await.unwrap();
        assert_eq!(rows.count().await.unwrap(), 1);
    }

    #[tokio::test]
    async fn new_files_of_a_pattern_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let options = ArrayOptions::new();
        let config = SessionConfig::new();
        let session = FileSession::open(config, &[], &options, Some(1 << 30), None);
        let context = session.await.unwrap().context;
        let sql = format!("SELECT * FROM '{}/*.csv'", folder.path().display());
        for (count, name) in [(1, "a.csv"), (2, "b.csv")] {
            std::fs::write(folder.path().join(name), "a\n7\n").unwrap();
            assert_eq!(
                context.sql(&sql).await.unwrap().count().await.unwrap(),
                count
            );
        }
    }
}
