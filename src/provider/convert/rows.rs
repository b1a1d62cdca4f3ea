//! From or to rows: a query, and a `COPY` of its answer.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use tokio::task::AbortHandle;
use url::Url;

use crate::error::{Error, describe};
use crate::format::array::Compression;
use crate::format::target::{self, TemporaryFolder};
use crate::provider::convert::{ConvertOptions, ConvertProgress, Converted};
use crate::provider::file_kind::FileKind;
use crate::provider::session::enable_tet;

/// The file of rows under construction.
const ROWS: &str = "rows.tmp";
/// How often somebody may look at the progress.
const TICK: Duration = Duration::from_millis(100);

/// Copies the rows of a file.
pub(super) async fn convert(
    input: &Path,
    source: FileKind,
    target: FileKind,
    output: &Path,
    options: &ConvertOptions,
    progress: &ConvertProgress,
) -> Result<Converted> {
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(options.memory)))
        .build_arc()?;
    let config = SessionConfig::new().with_target_partitions(options.threads);
    let ctx = SessionContext::new_with_config_rt(config, runtime);
    let mut read_options = options.read_options();
    if source.is_array() {
        read_options.dataset.clone_from(&options.dataset);
    }
    let ctx = enable_tet(ctx, read_options);
    // Arrays are written beside their place by themselves. For rows, the engine gets a folder of its own, with which goes
    // whatever it leaves behind.
    let folder = match target.is_array() {
        true => None,
        false => Some(target::create_folder_beside(output)?),
    };
    let written = match &folder {
        None => output.to_path_buf(),
        Some(folder) => folder.path().join(ROWS),
    };
    let sql = format!(
        "COPY (SELECT * FROM {}) TO {} STORED AS {}{}",
        match source.is_array() {
            true => quoted(input)?,
            false => url(input)?,
        },
        match target.is_array() {
            true => quoted(&written)?,
            false => url(&written)?,
        },
        target.stored_as(),
        copy_options(source, target, options)
    );
    let copied = copy(&ctx, &sql, progress).await;
    let copied = copied.map_err(|error| named(error, output));
    let put = match (&folder, &copied) {
        (Some(_), Ok(_)) => put(&written, output),
        _ => Ok(()),
    };
    if let Some(folder) = folder
        && copied.is_err()
    {
        remove(folder).await;
    }
    put?;
    Ok(Converted {
        arrays: 0,
        cells: copied?,
        warnings: Vec::new(),
    })
}

/// Runs a `COPY`; gives the number of rows.
async fn copy(ctx: &SessionContext, sql: &str, progress: &ConvertProgress) -> Result<u64> {
    let plan = ctx.sql(sql).await?.create_physical_plan().await?;
    let sources = leaves(&plan);
    progress.all.store(rows_of(&sources), Ordering::Relaxed);
    let mut running = tokio::spawn(collect(plan, ctx.task_ctx()));
    // Nobody may wait for this function's end.
    let _guard = AbortOnDrop(running.abort_handle());
    loop {
        tokio::select! {
            finished = &mut running => {
                let finished =
                    finished.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)));
                return Ok(count(&finished??));
            }
            () = tokio::time::sleep(TICK) => {
                let done = sources.iter().filter_map(|source| source.metrics()?.output_rows());
                progress.done.store(done.sum::<usize>() as u64, Ordering::Relaxed);
                if let Err(cancelled) = progress.check() {
                    // What it was at is over before its folder is removed.
                    running.abort();
                    let _ = running.await;
                    return Err(cancelled);
                }
            }
        }
    }
}

/// What the engine says of files does not name them.
fn named(error: DataFusionError, output: &Path) -> DataFusionError {
    let is_named = match error.find_root() {
        DataFusionError::External(error) => error.is::<Error>(),
        DataFusionError::Plan(_)
        | DataFusionError::Execution(_)
        | DataFusionError::NotImplemented(_)
        | DataFusionError::ResourcesExhausted(_) => true,
        _ => false,
    };
    match is_named {
        true => error,
        false => exec_datafusion_err!("{}: {}", output.display(), describe(&error)),
    }
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Gives the finished rows their place.
fn put(written: &Path, output: &Path) -> Result<()> {
    // Without rows some formats write nothing.
    let file = OpenOptions::new().append(true).create(true).open(written);
    file.and_then(|file| file.sync_all())
        .and_then(|()| std::fs::rename(written, output))
        .map_err(Error::io(output, "rename the finished file to"))?;
    target::sync_name(output);
    Ok(())
}

/// Removes a folder for which something that was cancelled may still make files for a moment, and the folder with them.
async fn remove(folder: TemporaryFolder) {
    for _ in 0..20 {
        // What cannot be removed now may be the next time.
        let _ = std::fs::remove_dir_all(folder.path());
        tokio::time::sleep(TICK).await;
        if !folder.path().exists() {
            break;
        }
    }
}

/// The rows that operators have to read; zero if that is not known.
fn rows_of(sources: &[Arc<dyn ExecutionPlan>]) -> u64 {
    let statistics = StatisticsContext::new();
    let rows = sources.iter().map(|source| {
        let found = statistics.compute(source.as_ref(), &StatisticsArgs::new());
        found.ok()?.num_rows.get_value().copied()
    });
    let all: Option<usize> = rows.sum();
    all.unwrap_or(0) as u64
}

/// The rows that a `COPY` says it has written.
fn count(batches: &[arrow::array::RecordBatch]) -> u64 {
    use arrow::array::AsArray;
    use arrow::datatypes::UInt64Type;
    let counts = batches.iter().filter_map(|batch| {
        let count = batch.columns().first()?.as_primitive_opt::<UInt64Type>()?;
        count.values().first().copied()
    });
    counts.sum()
}

/// The operators at the bottom, which read.
fn leaves(plan: &Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn ExecutionPlan>> {
    let children = plan.children();
    if children.is_empty() {
        return vec![Arc::clone(plan)];
    }
    children.into_iter().flat_map(leaves).collect()
}

/// A path in SQL: as a text if that is wanted, which is also what a table may be called.
fn quoted(path: &Path) -> Result<String> {
    match path.to_str() {
        Some(text) => Ok(format!("'{}'", text.replace('\'', "''"))),
        None => exec_err!("{}: the name is not UTF-8", path.display()),
    }
}

/// The same as a URL, in which no character means a pattern.
fn url(path: &Path) -> Result<String> {
    let absolute = std::path::absolute(path).map_err(Error::io(path, "find"))?;
    match Url::from_file_path(&absolute) {
        Ok(url) => Ok(format!("'{}'", url.as_str().replace('\'', "%27"))),
        Err(()) => exec_err!("{}: the name is none of a file", path.display()),
    }
}

fn copy_options(source: FileKind, target: FileKind, options: &ConvertOptions) -> String {
    let mut given = Vec::new();
    if target.is_array() {
        if let Some(dims) = &options.dims {
            given.push(format!("dims '{}'", dims.join(",").replace('\'', "''")));
        }
        if let Some(chunk) = &options.chunk {
            let chunk: Vec<_> = chunk.iter().map(u64::to_string).collect();
            given.push(format!("chunk '{}'", chunk.join(",")));
        }
        match options.compression {
            Some(Compression::Zstd { level }) => given.push(format!("codec 'zstd', level {level}")),
            Some(Compression::Raw) => given.push("codec 'raw'".to_string()),
            None => {}
        }
        if let Some(dataset) = options.dataset.as_ref().filter(|_| !source.is_array()) {
            given.push(format!("dataset '{}'", dataset.replace('\'', "''")));
        }
        if options.zone_maps {
            given.push("zone_maps true".to_string());
        }
    }
    if target == FileKind::Csv {
        given.push("'format.has_header' 'true'".to_string());
    }
    match given.is_empty() {
        true => String::new(),
        false => format!(" OPTIONS ({})", given.join(", ")),
    }
}
