//! Scans of tables. [`ScanPlan`] holds what a scan will read, and [`ArrayScan`] is the
//! [`DataSource`](datafusion::datasource::source::DataSource) that reads it.

pub(crate) mod block_queue;
pub(crate) mod chunk_walk;
mod data_source;
mod description;
#[cfg(feature = "proto")]
pub(crate) mod encoded;
mod fetching;
pub mod grid;
pub(crate) mod in_flight;
pub(crate) mod metrics;
mod rewriting;
pub(in crate::provider) mod sorting;
mod statistics;
pub(crate) mod stream;
#[cfg(feature = "cluster")]
pub(in crate::provider) mod tasks;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::compute::SortOptions;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::{ColumnStatistics, Result};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;

use crate::provider::attributes::plain;
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::planning::partitions;
use crate::provider::planning::planned_blocks::{BlockOrder, PlannedBlocks};
use crate::provider::planning::pruning::{self, Pruned, PrunedCounts};
use crate::provider::planning::pushdown::ClassifiedFilters;
use crate::provider::plans::conjunction::conjunction_opt;
use crate::provider::scan::metrics::ScanMetrics;
use crate::provider::source::{BlockSource, SelectedBlocks, SharedChunks};

/// The plan of a scan as a value: block ordinals, columns and limits, but no open file.
///
/// For a table with the columns `time`, `lat` and `value`, and an axis expression that fails on
/// some coordinate (`lat = 0`):
///
/// ```text
/// SELECT value FROM t WHERE time >= '2024-02-01' AND 10 / lat > 1
///
/// selection x chunks          selected blocks         partitions
///
///        lat                     ordinals
/// Jan   .   .
/// Feb   #   #         ->          0   1        ->      0..2
/// Mar   #   #                     2   3                2..4
///
/// projection  [2]              value
/// columns     [2, 1]           value, then lat, which the filter needs
/// filter      10 / lat@1 > 1   the residual predicate, over `columns`
/// ```
#[derive(Debug, Clone)]
pub struct ScanPlan {
    /// The output columns, as indices of the table's columns.
    pub projection: Vec<usize>,
    /// The columns to read: the output columns, then any others that the filter needs.
    pub columns: Vec<usize>,
    /// The residual predicate over the columns to read, by which the scan filters rows: filters
    /// that could not be evaluated on an axis, and those that
    /// [`FilterPushdown`](crate::provider::rules::filter_pushdown::FilterPushdown) moves into the
    /// scan.
    pub filter: Option<Arc<dyn PhysicalExpr>>,
    /// The dynamic filter over the output columns. It prunes blocks; DataFusion applies it to the
    /// rows.
    pub dynamic_filter: Option<Arc<dyn PhysicalExpr>>,
    /// The maximum number of rows per partition.
    pub fetch: Option<usize>,
    /// The blocks of each partition, as ranges of ordinals in the list of selected blocks.
    pub partitions: Vec<Range<u64>>,
    /// The table's columns by which the rows of each partition are sorted, if operators of the plan rely on
    /// this order. Empty if [`ReadOptions::declare_ordering`] decides about it.
    pub ordering: Vec<(usize, SortOptions)>,
    /// `true` if operators of the plan rely on which rows are in the same partition.
    pub keeps_partitions: bool,
    /// The options for reading values.
    pub options: ReadOptions,
    /// The arguments with which the source selected the blocks.
    pub selected_by: SelectArguments,
}

/// The arguments of [`BlockSource::select`].
#[derive(Debug, Clone)]
pub struct SelectArguments {
    /// The filters, over the table's columns.
    pub filters: Vec<Arc<dyn PhysicalExpr>>,
    /// The columns, as indices of the table's columns.
    pub columns: Vec<usize>,
}

/// A scan over the selected blocks of a table.
///
/// The predicates of a query are applied in this order:
///
/// ```text
/// over one dimension    exact      selects cells; only chunks with a selected cell are blocks
/// over anything else    pruning    statistics rule out blocks
/// dynamic               pruning    re-checked while the scan runs; DataFusion filters the rows
/// residual              exact      the scan filters the rows of every batch
/// ```
#[derive(Debug, Clone)]
pub struct ArrayScan {
    source: Arc<dyn BlockSource>,
    blocks: PlannedBlocks,
    /// The number of blocks that were ruled out before the scan runs.
    pruned: PrunedCounts,
    /// The reason why zone maps could not be used, if the scan would have used them.
    unusable: Option<String>,
    plan: Arc<ScanPlan>,
    /// The number of the table's blocks that the scans of other tasks count in their metrics.
    elsewhere: u64,
    /// The decoded chunks that other operators of the plan read as well.
    shared: Option<Arc<SharedChunks>>,
    /// The statistics of the output columns, computed on first use: they may need every coordinate
    /// and every zone map.
    column_statistics: Arc<OnceLock<Vec<ColumnStatistics>>>,
    /// The number of partitions requested when the blocks were cut.
    target_partitions: usize,
    /// The schema of the columns to read.
    read_schema: SchemaRef,
    /// The schema of the output.
    schema: SchemaRef,
    metrics: ExecutionPlanMetricsSet,
}

impl ArrayScan {
    /// Returns the scan of an array that a plan node is, with the node; `None` if it is another node.
    pub(in crate::provider) fn of(node: &dyn ExecutionPlan) -> Option<(&DataSourceExec, &Self)> {
        let source = node.downcast_ref::<DataSourceExec>()?;
        let scan = source.data_source().downcast_ref::<Self>()?;
        Some((source, scan))
    }

    /// Creates a scan of the blocks that `filters` leave, cut into at most as many partitions as
    /// the session requests. Filters over one dimension are applied exactly; other filters only
    /// prune blocks. `limit` is the maximum number of rows.
    pub fn try_new(
        session: &dyn Session,
        source: Arc<dyn BlockSource>,
        projection: Vec<usize>,
        filters: &[Expr],
        limit: Option<usize>,
        options: ReadOptions,
    ) -> Result<Self> {
        let table = plain(source.schema());
        let dimensions = source.dimensions();
        let filters = ClassifiedFilters::try_new(session, &table, &dimensions, filters)?;
        let all = filters.all();
        let mut read = projection.clone();
        read.extend(column_indices(&all));
        let SelectedBlocks {
            blocks,
            kept,
            mut residual,
        } = source.select(&all, &read, &options)?;
        if source.grids().is_empty() {
            // DataFusion leaves filters without columns to the scan.
            let constant = all
                .iter()
                .filter(|filter| collect_columns(filter).is_empty());
            residual.extend(constant.cloned());
        }
        let blocks =
            PlannedBlocks::new(blocks, kept.map_or(BlockOrder::All, BlockOrder::Ascending));
        let predicate = conjunction_opt(filters.inexact);
        let mut columns = projection.clone();
        for column in column_indices(&residual) {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        let read_schema = project(&table, &columns)?;
        let filter = conjunction_opt(residual)
            .map(|filter| reassign_expr_columns(filter, &read_schema))
            .transpose()?;
        let plan = ScanPlan {
            projection,
            columns,
            filter,
            dynamic_filter: None,
            fetch: limit,
            partitions: Vec::new(),
            ordering: Vec::new(),
            keeps_partitions: false,
            options,
            selected_by: SelectArguments {
                filters: all,
                columns: read,
            },
        };
        Self::of_blocks(
            source,
            blocks,
            predicate.as_ref(),
            plan,
            session.config_options(),
        )
    }

    /// Creates a scan of the blocks that may contain a row satisfying `predicate`. The predicate
    /// refers to the table's columns and is not applied to rows. `plan` has no partitions yet.
    pub(super) fn of_blocks(
        source: Arc<dyn BlockSource>,
        mut blocks: PlannedBlocks,
        predicate: Option<&Arc<dyn PhysicalExpr>>,
        plan: ScanPlan,
        config: &ConfigOptions,
    ) -> Result<Self> {
        let label = blocks.list().pruning_labels().selected;
        let selected = label.and(blocks.list().count().zip(blocks.count()));
        let mut pruned = Pruned::default();
        if let Some(predicate) = predicate {
            pruned = pruning::prune_blocks(source.as_ref(), &blocks, predicate, &plan.options)?;
            if let Some(steps) = &pruned.steps {
                blocks = blocks.keep(steps)?;
            }
        }
        pruned.counts.selected = selected.map_or(0, |(all, kept)| all - kept);
        let target_partitions = if config.optimizer.repartition_file_scans {
            config.execution.target_partitions
        } else {
            1
        };
        let mut scan = Self {
            schema: project(source.schema(), &plan.projection)?,
            read_schema: project(source.schema(), &plan.columns)?,
            target_partitions,
            source,
            blocks,
            pruned: pruned.counts,
            unusable: pruned.unusable,
            plan: Arc::new(plan),
            elsewhere: 0,
            shared: None,
            column_statistics: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        };
        scan.cut(
            target_partitions,
            config.optimizer.repartition_file_min_size,
        );
        Ok(scan)
    }

    /// Returns the scan as a plan node.
    pub fn into_exec(self) -> Arc<DataSourceExec> {
        DataSourceExec::from_data_source(self)
    }

    /// Returns the plan.
    pub fn plan(&self) -> &ScanPlan {
        &self.plan
    }

    /// Returns the schema of the output.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the table.
    pub fn source(&self) -> &Arc<dyn BlockSource> {
        &self.source
    }

    /// Returns the selected blocks, and those among them that the scan reads.
    pub(crate) fn blocks(&self) -> &PlannedBlocks {
        &self.blocks
    }

    /// Returns the scan with chunks that it shares with other operators of the plan.
    pub(in crate::provider) fn with_shared(&self, shared: &Arc<SharedChunks>) -> Self {
        Self {
            shared: Some(Arc::clone(shared)),
            ..self.clone()
        }
    }

    /// Returns the shared chunks for an execution.
    pub(in crate::provider) fn shared(
        &self,
        context: &Arc<TaskContext>,
    ) -> Option<Arc<SharedChunks>> {
        let shared = self.shared.as_ref()?;
        shared.start(context);
        Some(Arc::clone(shared))
    }

    /// Sets the metrics that are known before reading, for the scan or an operator that replaces
    /// it.
    pub(super) fn set_plan_metrics(&self, metrics: &ScanMetrics, reads_values: bool) {
        let read = if reads_values {
            self.blocks.count()
        } else {
            Some(0)
        };
        let pruned = if reads_values {
            self.pruned
        } else {
            PrunedCounts::default()
        };
        let list = self.blocks.list();
        let total = list.total();
        let total = total.map(|total| total.saturating_sub(self.elsewhere));
        metrics.set_plan(total, read, pruned, list.pruning_labels());
    }

    /// Cuts the blocks into partitions. Each partition is a range of blocks, so it keeps the order
    /// of the whole. Partitions whose order other operators rely on stay as they are.
    fn cut(&mut self, target_partitions: usize, min_size: usize) {
        if !self.plan.ordering.is_empty() {
            return;
        }
        self.target_partitions = target_partitions;
        let partitions = partitions::cut(
            &self.blocks,
            &self.plan.options,
            self.reads_values(),
            self.plan.fetch.filter(|_| self.plan.filter.is_none()),
            target_partitions,
            min_size,
        );
        Arc::make_mut(&mut self.plan).partitions = partitions;
    }

    fn with_plan(&self, plan: ScanPlan) -> Self {
        Self {
            plan: Arc::new(plan),
            metrics: ExecutionPlanMetricsSet::new(),
            ..self.clone()
        }
    }

    /// Returns `true` if a column is read from the file.
    pub(in crate::provider) fn reads_values(&self) -> bool {
        self.blocks.list().is_read(&self.plan.columns)
    }
}

/// Returns the indices of the columns that the filters refer to, in ascending order per filter.
fn column_indices(filters: &[Arc<dyn PhysicalExpr>]) -> impl Iterator<Item = usize> + '_ {
    filters.iter().flat_map(|filter| {
        let columns: BTreeSet<_> = collect_columns(filter).iter().map(Column::index).collect();
        columns
    })
}

/// Returns the schema of some columns, without attributes (see [`plain`]).
fn project(schema: &Schema, columns: &[usize]) -> Result<SchemaRef> {
    Ok(plain(&schema.project(columns)?))
}
