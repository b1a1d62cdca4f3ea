//! Short helpers to write small files and to query them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::datasource::MemTable;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use tet_sql::format::tet::{DatasetSpec, TetWriter};
use tet_sql::provider::aggregate::{ArrayAggregateExec, ArrayJoinAggregateExec};
use tet_sql::provider::join::lookup::ArrayLookupJoinExec;
use tet_sql::provider::window::ArrayWindowExec;
use tet_sql::{ArrayOptions, ArraySessionExt, enable_arrays};

/// Writes a file of datasets, each with its cells in row-major order.
pub fn write(path: &Path, datasets: &[(DatasetSpec, Vec<u8>)]) {
    let specs = datasets.iter().map(|(spec, _)| spec.clone()).collect();
    let mut writer = TetWriter::create(path, specs).unwrap();
    for (number, (_, cells)) in datasets.iter().enumerate() {
        writer.write_dataset(number, cells).unwrap();
    }
    writer.finish().unwrap();
}

/// Returns the little-endian bytes of numbers: `cells!([1f32, 2.5])`.
#[macro_export]
macro_rules! cells {
    ($values:expr) => {
        $values
            .into_iter()
            .flat_map(|value| value.to_le_bytes())
            .collect::<Vec<u8>>()
    };
}

/// Creates a session that can open files by path. It has one partition, so that rows keep their
/// order.
pub fn session() -> SessionContext {
    let config = SessionConfig::new()
        .with_target_partitions(1)
        .with_information_schema(true)
        .set_usize("datafusion.optimizer.repartition_file_min_size", 1);
    enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new())
}

/// Creates a session with a file registered as `f`, the default schema.
pub async fn open(path: &Path, options: ArrayOptions) -> SessionContext {
    let ctx = session();
    ctx.register_array_file_as("f", path, options)
        .await
        .unwrap();
    ctx.sql("SET datafusion.catalog.default_schema = 'f'")
        .await
        .unwrap();
    ctx
}

/// Writes datasets to a file in a temporary directory, and opens the file. The directory is deleted
/// when the returned guard is dropped.
pub async fn sample(
    datasets: &[(DatasetSpec, Vec<u8>)],
    options: ArrayOptions,
) -> (tempfile::TempDir, PathBuf, SessionContext) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sample.tet");
    write(&path, datasets);
    let ctx = open(&path, options).await;
    (folder, path, ctx)
}

/// Registers the cells of an array as rows in memory: the indices along each axis, and `value`.
pub fn register_rows(ctx: &SessionContext, name: &str, axes: &[(&str, usize)], value: ArrayRef) {
    let mut columns = Vec::new();
    let mut step = value.len();
    for (dimension, extent) in axes {
        step /= extent;
        let positions = (0..value.len()).map(|row| (row / step % extent) as i64);
        let positions: ArrayRef = Arc::new(Int64Array::from_iter_values(positions));
        columns.push((dimension.to_string(), positions, false));
    }
    columns.push(("value".to_string(), value, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    ctx.register_table(name, Arc::new(table)).unwrap();
}

/// Formats each row as its values separated by spaces.
pub fn texts(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter();
        let columns: Vec<_> = columns
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<_> = columns.iter().map(|c| c.value(row).to_string()).collect();
            rows.push(cells.join(" "));
        }
    }
    rows
}

/// Runs a query with a setting switched off, which is switched on afterwards.
pub async fn rows_without(ctx: &SessionContext, setting: &str, sql: &str) -> Vec<String> {
    rows(ctx, &format!("SET {setting} = false")).await;
    let without = rows(ctx, sql).await;
    rows(ctx, &format!("SET {setting} = true")).await;
    without
}

/// Asserts that a query has rows, and the same ones in some order if a setting is switched off.
pub async fn assert_same_without(ctx: &SessionContext, setting: &str, sql: &str) {
    let mut found = rows(ctx, sql).await;
    let mut expected = rows_without(ctx, setting, sql).await;
    found.sort();
    expected.sort();
    assert!(!found.is_empty(), "{sql}");
    assert_eq!(found, expected, "{sql}");
}

/// Returns the physical plan of a query, one node per line.
pub async fn plan(ctx: &SessionContext, sql: &str) -> String {
    let explained = rows(ctx, &format!("EXPLAIN FORMAT INDENT {sql}")).await;
    let mut plans = explained.iter();
    let physical = plans.find(|row| row.starts_with("physical_plan"));
    physical.unwrap_or_else(|| panic!("{explained:?}")).clone()
}

/// Returns the rows of a query, formatted by [`texts`].
pub async fn rows(ctx: &SessionContext, sql: &str) -> Vec<String> {
    let frame = ctx.sql(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let batches = frame.collect().await;
    texts(&batches.unwrap_or_else(|e| panic!("{sql}: {e}")))
}

/// Returns the error of a query, and panics if the query succeeds.
pub async fn error(ctx: &SessionContext, sql: &str) -> String {
    match ctx.sql(sql).await {
        Err(error) => error.to_string(),
        Ok(frame) => match frame.collect().await {
            Err(error) => error.to_string(),
            Ok(batches) => panic!("{sql}: answered {:?}", texts(&batches)),
        },
    }
}

/// The rows of a query that was run, with the plan that has its metrics.
pub struct QueryRun {
    pub rows: Vec<String>,
    plan: Arc<dyn ExecutionPlan>,
}

pub async fn run(ctx: &SessionContext, sql: &str) -> QueryRun {
    let frame = ctx.sql(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let plan = frame.create_physical_plan().await.unwrap();
    let batches = collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
    QueryRun {
        rows: texts(&batches),
        plan,
    }
}

impl QueryRun {
    /// Returns the number of chunks read. Zero also if the plan has no scan left.
    pub fn reads(&self) -> usize {
        self.metric("chunks_read")
    }

    /// Returns a metric, summed over all scans.
    pub fn metric(&self, name: &str) -> usize {
        metric(&self.plan, name)
    }
}

/// Returns a metric of a plan, summed over its scans and the operators in array space.
pub fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let is_ours = plan.is::<DataSourceExec>()
        || plan.is::<ArrayAggregateExec>()
        || plan.is::<ArrayJoinAggregateExec>()
        || plan.is::<ArrayLookupJoinExec>()
        || plan.is::<ArrayWindowExec>();
    let own = if is_ours {
        let metrics = plan.metrics().unwrap();
        let sum = metrics.sum_by_name(name);
        sum.map_or(0, |value| value.as_usize())
    } else {
        0
    };
    let children = plan.children().into_iter();
    own + children.map(|child| metric(child, name)).sum::<usize>()
}
