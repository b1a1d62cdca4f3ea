//! Lets a plan decode each chunk once that several operators, or several windows of one operator, read.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::provider::aggregate::ArrayAggregateExec;
use crate::provider::rules::operators::replace_operators;
use crate::provider::scan::ArrayScan;
use crate::provider::source::shared_chunks::{ArrayName, ArrayRead, SharedChunks};
use crate::provider::source::{GridSelection, Windows};
use crate::provider::window::ArrayWindowExec;

/// The maximum number of arrays that all scans of a plan read. With more, every scan decodes its own
/// chunks.
const MAX_ARRAYS: usize = 4096;

/// Lets scans, aggregates and windows over the same array share decoded chunks.
///
/// In a plan that computes a climatology and subtracts it from the same array, the aggregate decodes
/// the chunks, and the scan above takes them. A scan that joins arrays with other chunks takes a chunk that it needs for
/// several windows, and a window along an axis one that it needs for several tiles.
#[derive(Debug)]
pub(crate) struct SharedReads;

impl PhysicalOptimizerRule for SharedReads {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut count = 0;
        let mut reads: HashMap<ArrayName, Vec<ArrayRead>> = HashMap::new();
        plan.apply(|node| {
            let Some(scan) = scan_of(node) else {
                return Ok(TreeNodeRecursion::Continue);
            };
            let operator = node.downcast_ref::<ArrayWindowExec>();
            let arrays = arrays(scan, operator.map(ArrayWindowExec::windows))?;
            count += arrays.len();
            for (array, read) in arrays {
                reads.entry(array).or_default().push(read);
            }
            Ok(match count > MAX_ARRAYS {
                true => TreeNodeRecursion::Stop,
                false => TreeNodeRecursion::Continue,
            })
        })?;
        reads.retain(|_, reads| reads.len() > 1 || reads.iter().any(ArrayRead::may_repeat));
        if count > MAX_ARRAYS || reads.is_empty() {
            return Ok(plan);
        }
        let shared = Arc::new(SharedChunks::new(reads));
        replace_operators(plan, |node| Ok(with_shared(node, &shared)))
    }

    fn name(&self) -> &str {
        "shared_reads"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns the scan that an operator runs, if it reads values.
fn scan_of(node: &Arc<dyn ExecutionPlan>) -> Option<&ArrayScan> {
    let scan = if let Some(aggregate) = node.downcast_ref::<ArrayAggregateExec>() {
        aggregate.scan()
    } else if let Some(windows) = node.downcast_ref::<ArrayWindowExec>() {
        windows.scan()
    } else {
        ArrayScan::of(node.as_ref())?.1
    };
    scan.reads_values().then_some(scan)
}

/// Returns the operator with these shared chunks; `None` if it runs no scan of arrays.
fn with_shared(
    node: &Arc<dyn ExecutionPlan>,
    shared: &Arc<SharedChunks>,
) -> Option<Arc<dyn ExecutionPlan>> {
    if let Some(aggregate) = node.downcast_ref::<ArrayAggregateExec>() {
        Some(Arc::new(aggregate.with_shared(shared)))
    } else if let Some(windows) = node.downcast_ref::<ArrayWindowExec>() {
        Some(Arc::new(windows.with_shared(shared)))
    } else {
        let (source, scan) = ArrayScan::of(node.as_ref())?;
        let scan = Arc::new(scan.with_shared(shared));
        Some(Arc::new(source.clone().with_data_source(scan)))
    }
}

/// Returns the stored arrays that the columns of a scan read, and what they read of each: these windows, or else all chunks.
fn arrays(scan: &ArrayScan, windows: Option<Windows>) -> Result<Vec<(ArrayName, ArrayRead)>> {
    let mut arrays = Vec::new();
    let blocks = scan.blocks();
    let grids = match blocks.count() == blocks.list().count() {
        // A scan of all blocks in another order.
        true => blocks.list().grid_selections(),
        false => blocks.grid_selections(),
    };
    let grids = grids.unwrap_or_default();
    for GridSelection {
        grid, selection, ..
    } in grids
    {
        let chunks = || Windows::Chunks {
            grid: grid.chunk_grid().clone(),
            selected: selection.chunks(grid.chunk_grid()),
        };
        let windows = windows.clone().unwrap_or_else(chunks);
        let attributes = scan.plan().columns.iter();
        let attributes = attributes.filter_map(|column| column.checked_sub(grid.axes().len()));
        // The last column may be the file column, which no array stores.
        for attribute in attributes.filter(|attribute| *attribute < grid.attributes().len()) {
            if let Some((stored, windows)) = grid.stored_windows(attribute, &windows)? {
                let name = (stored.path().to_path_buf(), stored.name().to_string());
                let chunks = stored.chunk_grid().clone();
                arrays.push((name, ArrayRead { chunks, windows }));
            }
        }
    }
    Ok(arrays)
}

#[cfg(test)]
mod tests {
    use datafusion::physical_plan::{collect, displayable};
    use datafusion::prelude::{SessionConfig, SessionContext};

    use crate::format::tet::{Compression, DatasetSpec, Dtype, TetWriter};
    use crate::provider::plans::fixtures::set;
    use crate::{ArrayOptions, ArraySessionExt, enable_arrays};

    use super::*;

    /// Runs a query. Returns the number of bytes that it read, and its plan.
    async fn bytes_read(ctx: &SessionContext, sql: &str) -> (usize, String) {
        let frame = ctx.sql(sql).await.unwrap();
        let plan = frame.create_physical_plan().await.unwrap();
        collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
        let mut bytes = 0;
        plan.apply(|node| {
            let read = node.metrics().and_then(|all| all.sum_by_name("bytes_read"));
            bytes += read.map_or(0, |read| read.as_usize());
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
        (bytes, displayable(plan.as_ref()).indent(true).to_string())
    }

    #[tokio::test]
    async fn tiles_of_windows_share_chunks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("array.tet");
        let spec = DatasetSpec::new("t", Dtype::F32, &[48, 6, 4], &[8, 6, 4])
            .with_dim_names(["time", "lat", "lon"])
            .with_compression(Compression::ZSTD);
        let cells = (0..48 * 24u32).flat_map(|n| ((n * 7 % 1013) as f32).to_le_bytes());
        let mut writer = TetWriter::create(&path, vec![spec]).unwrap();
        let cells: Vec<u8> = cells.collect();
        writer.write_dataset(0, &cells).unwrap();
        writer.finish().unwrap();
        // Two tasks might decode the same chunk at the same time.
        let config = SessionConfig::new().with_target_partitions(1);
        let ctx = enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new());
        ctx.register_array_file_as("f", &path, ArrayOptions::new())
            .await
            .unwrap();
        set(&ctx, "datafusion.catalog.default_schema", "'f'").await;
        let (once, _) = bytes_read(&ctx, "SELECT sum(value) FROM t").await;
        let (bytes, plan) = bytes_read(
            &ctx,
            "SELECT max(n) FROM (SELECT row_number() OVER (PARTITION BY lat, lon ORDER BY value) AS n FROM t)",
        )
        .await;
        assert!(plan.contains("tiles=16"), "{plan}");
        assert_eq!(bytes, once);
    }
}
