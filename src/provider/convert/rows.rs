//! Converts files from or to rows, by a `COPY` of a query.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use datafusion::common::{
    DataFusionError, Result, TableReference, exec_datafusion_err, exec_err, plan_err,
};
use datafusion::datasource::file_format::{FileFormatFactory, format_as_file_type};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use tokio::task::AbortHandle;
use url::Url;

use crate::error::Error;
use crate::format::array::Compression;
use crate::provider::adapters::file_kind::FileKind;
use crate::provider::adapters::registry::FormatRegistry;
use crate::provider::catalog::session::enable_arrays;
use crate::provider::convert::{ConvertOptions, ConvertProgress, Converted, split_dataset};
use crate::provider::copy::{ArrayFormatFactory, CopyOptions};
use crate::provider::error::describe;

/// The interval at which progress is updated and cancellation is checked.
const TICK: Duration = Duration::from_millis(100);

/// Copies the rows of a file. `is_array` is `true` if the input holds arrays.
pub(super) async fn convert(
    input: &Path,
    is_array: bool,
    target: FileKind,
    output: &Path,
    options: &ConvertOptions,
    progress: &ConvertProgress,
) -> Result<Converted> {
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(options.memory)))
        .build_arc()?;
    let config = SessionConfig::new().with_target_partitions(options.threads);
    let mut read_options = options.read_options();
    // Documents and TileDB arrays are converted as rows, but opened by a format of this crate.
    let path = split_dataset(input).0;
    let format = FormatRegistry::default().recognise(&path).cloned();
    let opened = match format.as_ref().filter(|_| !is_array) {
        Some(format) => Some(format.open(&path, &read_options, &config)?),
        None => None,
    };
    // `dataset` names an array of a group; otherwise it names the array that is written.
    let is_group = opened
        .as_ref()
        .is_some_and(|opened| opened.tables().len() > 1);
    if is_array || is_group {
        read_options.dataset.clone_from(&options.dataset);
    }
    let mut warnings = Vec::new();
    if options.dataset.is_some() && !is_array && !is_group && !target.is_array() {
        warnings.push("--dataset has no effect for these formats".to_string());
    }
    if let Some(opened) = &opened {
        let keys = opened.attributes().into_iter().map(|(key, _)| key);
        let keys: Vec<String> = keys.collect();
        if !keys.is_empty() {
            let keys = keys.join(", ");
            warnings.push(format!(
                "{}: metadata is not converted: {keys}",
                path.display()
            ));
        }
    }
    let is_ours = is_array || format.is_some();
    if !is_ours && !options.format_options.is_empty() {
        warnings.push("--read-option has no effect for this input".to_string());
    }
    let ctx = SessionContext::new_with_config_rt(config, runtime);
    let ctx = enable_arrays(ctx, read_options);
    let table = match is_ours {
        // DataFusion would look up a name without a directory as a table.
        true => {
            let absolute = std::path::absolute(input).map_err(Error::io(input, "find"))?;
            text(&absolute)?.to_string()
        }
        false => url(input)?,
    };
    let rows = ctx.table(TableReference::bare(table)).await?;
    if let Some(dims) = options.dims.as_ref().filter(|_| is_array) {
        let columns = rows.schema().fields();
        let is_column = |name: &String| columns.iter().any(|column| column.name() == name);
        if !dims.iter().all(is_column) {
            let warning = "--dims has no effect: the array names its dimensions, or has another number of them";
            warnings.push(warning.to_string());
        }
    }
    let (factory, given, location) = match array_format(is_array || is_group, target, options) {
        Some(format) => (
            Arc::new(format) as Arc<dyn FileFormatFactory>,
            HashMap::new(),
            text(output)?.to_string(),
        ),
        None => {
            let (factory, given) = row_format(&ctx, target, options)?;
            // DataFusion would interpret a plain path as a glob pattern, so pass a URL.
            (factory, given, url(output)?)
        }
    };
    let file_type = format_as_file_type(factory);
    let builder = LogicalPlanBuilder::copy_to(
        rows.into_unoptimized_plan(),
        location,
        file_type,
        given,
        Vec::new(),
    )?;
    let cells = copy(&ctx, builder.build()?, progress).await;
    Ok(Converted {
        arrays: 0,
        cells: cells.map_err(|error| named(error, output))?,
        warnings,
        is_damaged: false,
    })
}

/// Returns the array format of the output with the options of the conversion, or `None` if the
/// output has rows. `is_input_named` is `true` if the option `dataset` names an array of the input.
fn array_format(
    is_input_named: bool,
    target: FileKind,
    options: &ConvertOptions,
) -> Option<ArrayFormatFactory> {
    let mut copied = CopyOptions {
        are_flags: true,
        dims: options.dims.clone(),
        chunk: options.chunk.clone(),
        format_options: options.created_with(),
        ..CopyOptions::default()
    };
    copied.compression = options.compression.unwrap_or(copied.compression);
    if !is_input_named {
        copied.dataset.clone_from(&options.dataset);
    }
    ArrayFormatFactory::with_options(target, copied)
}

/// Returns a DataFusion row format and its options.
fn row_format(
    ctx: &SessionContext,
    target: FileKind,
    options: &ConvertOptions,
) -> Result<(Arc<dyn FileFormatFactory>, HashMap<String, String>)> {
    let extension = target.stored_as().to_lowercase();
    let state = ctx.state();
    let Some(factory) = state.get_file_format_factory(&extension) else {
        return plan_err!("there is no format {extension}");
    };
    let mut given = HashMap::new();
    if matches!(target, FileKind::Csv | FileKind::Tsv) {
        given.insert("format.has_header".to_string(), "true".to_string());
    }
    if let (true, Some(compression)) = (target.is_documents(), options.compression) {
        let (codec, level) = match compression {
            Compression::Raw => ("none", None),
            Compression::Zstd { level } => ("zstd", Some(level)),
        };
        given.insert("format.compression".to_string(), codec.to_string());
        given.extend(level.map(|level| ("format.level".to_string(), level.to_string())));
    }
    for (name, value) in &options.output_options {
        let name = match name.contains('.') {
            true => name.clone(),
            false => format!("format.{name}"),
        };
        given.insert(name, value.clone());
    }
    Ok((factory, given))
}

/// Runs a `COPY` and returns the number of rows written.
async fn copy(ctx: &SessionContext, plan: LogicalPlan, progress: &ConvertProgress) -> Result<u64> {
    let plan = ctx.state().create_physical_plan(&plan).await?;
    let sources = leaves(&plan);
    progress.all.store(rows_of(&sources), Ordering::Relaxed);
    let mut running = tokio::spawn(collect(plan, ctx.task_ctx()));
    // Abort the task if the future of this function is dropped.
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
                    // Wait until the aborted task has ended, before its temporary directory is
                    // deleted.
                    running.abort();
                    let _ = running.await;
                    return Err(cancelled);
                }
            }
        }
    }
}

/// Adds the path of the output to errors from DataFusion, which do not name the file.
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

/// Returns the number of rows that these operators will read, or zero if it is unknown.
fn rows_of(sources: &[Arc<dyn ExecutionPlan>]) -> u64 {
    let statistics = StatisticsContext::new();
    let rows = sources.iter().map(|source| {
        let found = statistics.compute(source.as_ref(), &StatisticsArgs::new());
        found.ok()?.num_rows.get_value().copied()
    });
    let all: Option<usize> = rows.sum();
    all.unwrap_or(0) as u64
}

/// Returns the number of rows in the result of a `COPY`.
fn count(batches: &[arrow::array::RecordBatch]) -> u64 {
    use arrow::array::AsArray;
    use arrow::datatypes::UInt64Type;
    let counts = batches.iter().filter_map(|batch| {
        let count = batch.columns().first()?.as_primitive_opt::<UInt64Type>()?;
        count.values().first().copied()
    });
    counts.sum()
}

/// Returns the leaf operators of a plan, which read the input.
fn leaves(plan: &Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn ExecutionPlan>> {
    let children = plan.children();
    if children.is_empty() {
        return vec![Arc::clone(plan)];
    }
    children.into_iter().flat_map(leaves).collect()
}

/// Returns a path as UTF-8 text.
fn text(path: &Path) -> Result<&str> {
    match path.to_str() {
        Some(text) => Ok(text),
        None => exec_err!("{}: the name is not UTF-8", path.display()),
    }
}

/// Returns a path as a URL, in which no character is taken for a glob pattern.
fn url(path: &Path) -> Result<String> {
    let absolute = std::path::absolute(path).map_err(Error::io(path, "find"))?;
    match Url::from_file_path(&absolute) {
        Ok(url) => Ok(url.to_string()),
        Err(()) => exec_err!("{}: not a valid file path", path.display()),
    }
}
