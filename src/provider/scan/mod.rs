//! Scans of tables. [`ScanPlan`] holds what a scan will read, and [`ArrayScan`] is the
//! [`DataSource`] that reads it.

pub(crate) mod block_queue;
pub(crate) mod chunk_walk;
mod description;
mod fetching;
pub(crate) mod grid_blocks;
pub(crate) mod grid_reader;
pub mod grid_table;
pub(crate) mod in_flight;
pub(crate) mod metrics;
mod statistics;
pub(crate) mod stream;

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt::{self, Formatter};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::compute::SortOptions;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Result, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::{DataSource, DataSourceExec, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
    conjunction_opt,
};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::filter_pushdown::PushedDown;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::sort_pushdown::SortOrderPushdownResult;

use crate::provider::attributes::plain;
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::planning::partitions;
use crate::provider::planning::planned_blocks::{BlockOrder, PlannedBlocks};
use crate::provider::planning::pruning::{self, Pruned, PrunedCounts, Pruner};
use crate::provider::planning::pushdown::ClassifiedFilters;
use crate::provider::planning::sorted_blocks::{SortedBlocks, sorted};
use crate::provider::plans::below::replace_columns;
use crate::provider::scan::block_queue::{BlockQueue, SharedBlocks};
use crate::provider::scan::fetching::BlockFetcher;
use crate::provider::scan::metrics::ScanMetrics;
use crate::provider::scan::stream::{OutputColumn, RowFilter};
use crate::provider::source::{BlockSource, SelectedBlocks};

/// The maximum number of blocks that are searched for the last rows of a scan.
const MOST_LAST_BLOCKS: u64 = 1024;

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
    /// The options for reading values.
    pub options: ReadOptions,
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
            residual,
        } = source.select(&all, &read)?;
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
            options,
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
        let mut pruned = Pruned::default();
        if let Some(predicate) = predicate {
            pruned = pruning::prune_blocks(source.as_ref(), &blocks, predicate, &plan.options)?;
            if let Some(steps) = &pruned.steps {
                blocks = blocks.keep(steps)?;
            }
        }
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
            column_statistics: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        };
        scan.cut(
            target_partitions,
            config.optimizer.repartition_file_min_size,
        );
        Ok(scan)
    }

    /// Returns a scan of the last blocks only, which have at least `rows` rows, in one partition;
    /// `None` if the scan filters or limits rows, or if it takes more than [`MOST_LAST_BLOCKS`]
    /// blocks.
    pub(super) fn of_last_rows(&self, rows: usize) -> Result<Option<Self>> {
        let plan = self.plan.as_ref();
        let is_whole =
            plan.filter.is_none() && plan.dynamic_filter.is_none() && plan.fetch.is_none();
        let Some(count) = self.blocks.count().filter(|_| is_whole) else {
            return Ok(None);
        };
        let (mut first, mut found) = (count, 0u64);
        while first > 0 && found < rows as u64 {
            first -= 1;
            let Some(rows) = self.blocks.rows_at(first)?.exact() else {
                return Ok(None);
            };
            found = found.saturating_add(rows);
            if count - first > MOST_LAST_BLOCKS {
                return Ok(None);
            }
        }
        let mut scan = self.with_plan(ScanPlan {
            partitions: std::iter::once(0..count - first).collect(),
            ..plan.clone()
        });
        scan.blocks = self.blocks.reorder(first..count)?;
        scan.column_statistics = Arc::default();
        Ok(Some(scan))
    }

    /// Returns the scan with other output columns, which must include those of the dynamic filter;
    /// `None` if they do not.
    pub(super) fn with_projection(&self, projection: Vec<usize>) -> Result<Option<Self>> {
        let table = self.source.schema();
        let mut columns = projection.clone();
        let move_to = |filter: &Arc<dyn PhysicalExpr>, old: &[usize], new: &[usize]| {
            replace_columns(filter, &|index| {
                let column = old.get(index)?;
                let index = new.iter().position(|other| other == column)?;
                Some(Arc::new(Column::new(table.field(*column).name(), index)))
            })
        };
        let mut filter = None;
        if let Some(old) = &self.plan.filter {
            for column in column_indices(std::slice::from_ref(old)) {
                if !columns.contains(&self.plan.columns[column]) {
                    columns.push(self.plan.columns[column]);
                }
            }
            filter = Some(move_to(old, &self.plan.columns, &columns)?);
        }
        let dynamic_filter = match &self.plan.dynamic_filter {
            Some(old) => {
                let mut needed = column_indices(std::slice::from_ref(old));
                if !needed.all(|column| projection.contains(&self.plan.projection[column])) {
                    return Ok(None);
                }
                Some(move_to(old, &self.plan.projection, &projection)?)
            }
            None => None,
        };
        let mut scan = self.with_plan(ScanPlan {
            filter,
            dynamic_filter,
            projection,
            columns,
            ..self.plan.as_ref().clone()
        });
        scan.read_schema = project(table, &scan.plan.columns)?;
        scan.schema = project(table, &scan.plan.projection)?;
        scan.column_statistics = Arc::default();
        Ok(Some(scan))
    }

    /// Offers filters over the output to the scan. Returns the scan that uses them, with
    /// [`PushedDown::Yes`] for each filter that it applies to its rows; `None` if it uses none of
    /// them.
    ///
    /// The scan applies filters that stay the same while it runs. Filters whose value becomes known
    /// while the scan runs also prune blocks. The scan applies scalar subqueries to its rows as
    /// well, but not dynamic filters.
    ///
    /// Only [`FilterPushdown`](crate::provider::rules::filter_pushdown::FilterPushdown) calls this.
    /// The scan refuses the filters that DataFusion's rule of the same name offers, since that rule
    /// confuses columns that have the same name.
    pub(super) fn with_filters(
        &self,
        filters: &[Arc<dyn PhysicalExpr>],
    ) -> Option<(Self, Vec<PushedDown>)> {
        // A filter above a limit must not change which rows the limit keeps.
        if self.plan.fetch.is_some() || filters.is_empty() {
            return None;
        }
        let (mut applied, mut dynamic) = (Vec::new(), Vec::new());
        let answers = filters.iter().map(|filter| {
            if pruning::is_dynamic(filter) && !is_volatile(filter) {
                dynamic.push(Arc::clone(filter));
            }
            if pruning::has_dynamic_filter(filter) || is_volatile(filter) {
                return PushedDown::No;
            }
            applied.push(Arc::clone(filter));
            PushedDown::Yes
        });
        let answers = answers.collect();
        // The output columns are the first of the columns that are read.
        let applied = self.plan.filter.iter().cloned().chain(applied);
        let dynamic = self.plan.dynamic_filter.iter().cloned().chain(dynamic);
        let scan = self.with_plan(ScanPlan {
            filter: conjunction_opt(applied),
            dynamic_filter: conjunction_opt(dynamic),
            ..self.plan.as_ref().clone()
        });
        Some((scan, answers))
    }

    /// Returns the scan with its blocks cut into partitions anew.
    pub(super) fn recut(mut self, config: &ConfigOptions) -> Self {
        let min_size = config.optimizer.repartition_file_min_size;
        self.cut(self.target_partitions, min_size);
        self
    }

    /// Returns the scan as a plan node.
    pub fn into_exec(self) -> Arc<DataSourceExec> {
        DataSourceExec::from_data_source(self)
    }

    /// Returns the plan.
    pub fn plan(&self) -> &ScanPlan {
        &self.plan
    }

    /// Returns the table.
    pub fn source(&self) -> &Arc<dyn BlockSource> {
        &self.source
    }

    /// Returns the selected blocks, and those among them that the scan reads.
    pub(crate) fn blocks(&self) -> &PlannedBlocks {
        &self.blocks
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
        metrics.set_plan(self.blocks.list().total(), read, pruned);
    }

    /// Cuts the blocks into partitions. Each partition is a range of blocks, so it keeps the order
    /// of the whole.
    fn cut(&mut self, target_partitions: usize, min_size: usize) {
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

    fn reads_values(&self) -> bool {
        self.blocks.list().is_read(&self.plan.columns)
    }
}

impl DataSource for ArrayScan {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.open_with_args(OpenArgs::new(partition, context))
    }

    fn create_sibling_state(&self, config: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        // Partitions with a declared ordering must keep to their own blocks.
        let is_shared = config.execution.enable_file_stream_work_stealing
            && self.plan.partitions.len() > 1
            && !self.plan.options.declare_ordering;
        is_shared.then(|| Arc::new(SharedBlocks::new(&self.plan.partitions)) as _)
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let OpenArgs {
            partition,
            context,
            sibling_state,
        } = args;
        let metrics = ScanMetrics::new(&self.metrics, partition);
        if partition == 0 {
            self.set_plan_metrics(&metrics, self.reads_values());
        }
        let shared = sibling_state.and_then(|shared| shared.downcast::<SharedBlocks>().ok());
        let (queue, number) = match shared {
            Some(shared) => (shared.open(partition), partition),
            None => {
                let own = &self.plan.partitions[partition..=partition];
                (Arc::new(BlockQueue::new(own)), 0)
            }
        };
        let options = &self.plan.options;
        let dynamic_filter = self.plan.dynamic_filter.as_ref();
        let pruner = dynamic_filter.map(|filter| {
            let table = self.source.schema();
            Pruner::new(&self.blocks, table, &self.schema, filter, options)
        });
        let batch_size = context.session_config().batch_size();
        let list = self.blocks.list();
        let reader = |columns: &[usize]| list.reader(columns, batch_size, options);
        // The columns of the filter, then the output columns that the filter does not read.
        let (mut filter, mut filtered, mut columns) = (None, Vec::new(), Vec::new());
        if let Some(predicate) = &self.plan.filter {
            let indices: BTreeSet<usize> = collect_columns(predicate)
                .iter()
                .map(Column::index)
                .collect();
            let indices: Vec<usize> = indices.into_iter().collect();
            filtered = indices
                .iter()
                .map(|index| self.plan.columns[*index])
                .collect();
            filter = Some(RowFilter {
                reader: reader(&filtered)?,
                schema: Arc::new(self.read_schema.project(&indices)?),
                predicate: replace_columns(predicate, &|index| {
                    let number = indices.iter().position(|other| *other == index)?;
                    Some(Arc::new(Column::new(
                        self.read_schema.field(index).name(),
                        number,
                    )))
                })?,
            });
        }
        let mut output = Vec::with_capacity(self.plan.projection.len());
        for column in &self.plan.projection {
            let in_filter = filtered.iter().position(|other| other == column);
            output
                .push(in_filter.map_or(OutputColumn::Reader(columns.len()), OutputColumn::Filter));
            if in_filter.is_none() {
                columns.push(*column);
            }
        }
        let reader = match filter.is_some() && columns.is_empty() {
            true => None,
            false => Some(reader(&columns)?),
        };
        // The columns of a filter over dimensions are not fetched, so the others are fetched ahead.
        let is_filtered_first = filter.is_some() && list.is_read(&filtered);
        let fetched = match is_filtered_first {
            true => filtered,
            false => columns.clone(),
        };
        stream::scan(stream::PartitionRequest {
            blocks: BlockFetcher::new(
                &self.blocks,
                fetched,
                *options,
                queue,
                number,
                pruner,
                &context,
            ),
            reads_values: self.reads_values(),
            is_filtered_first,
            filter,
            output,
            reader,
            columns,
            schema: Arc::clone(&self.schema),
            fetch: self.plan.fetch,
            batch_size,
            metrics,
        })
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let separator = match t {
            DisplayFormatType::TreeRender => "\n",
            DisplayFormatType::Default | DisplayFormatType::Verbose => ", ",
        };
        let parts: Vec<_> = self
            .describe()
            .into_iter()
            .map(|(name, text)| format!("{name}={text}"))
            .collect();
        write!(f, "{}", parts.join(separator))
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        min_size: usize,
        _output_ordering: Option<LexOrdering>,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        if target_partitions == self.target_partitions {
            return Ok(None);
        }
        let mut scan = self.with_plan(self.plan.as_ref().clone());
        scan.cut(target_partitions, min_size);
        Ok(Some(Arc::new(scan)))
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.plan.partitions.len())
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        if !self.plan.options.declare_ordering {
            return EquivalenceProperties::new(Arc::clone(&self.schema));
        }
        let mut ordering = Vec::new();
        for (column, descending) in self.blocks.ordering() {
            let Some(number) = self.plan.projection.iter().position(|c| *c == column) else {
                break;
            };
            ordering.push(PhysicalSortExpr::new(
                Arc::new(Column::new(self.schema.field(number).name(), number)),
                SortOptions {
                    descending,
                    nulls_first: descending,
                },
            ));
        }
        EquivalenceProperties::new_with_orderings(Arc::clone(&self.schema), [ordering])
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        self.statistics_of(partition).map(Arc::new)
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        // The blocks beyond the current limit are no longer in the plan.
        if let Some(fetch) = self.plan.fetch
            && limit.is_none_or(|limit| limit > fetch)
        {
            return None;
        }
        let plan = ScanPlan {
            fetch: limit,
            ..self.plan.as_ref().clone()
        };
        Some(Arc::new(self.with_plan(plan)))
    }

    fn fetch(&self) -> Option<usize> {
        self.plan.fetch
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        // Columns that only the filter needs are left out. Expressions are computed above the scan.
        let columns = projection.iter().map(|projected| {
            let column = projected.expr.downcast_ref::<Column>()?;
            let is_renamed = self.schema.field(column.index()).name() != &projected.alias;
            (!is_renamed).then(|| self.plan.projection[column.index()])
        });
        let Some(columns) = columns.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let distinct: BTreeSet<_> = columns.iter().collect();
        if distinct.len() < columns.len() {
            return Ok(None);
        }
        let scan = self.with_projection(columns)?;
        Ok(scan.map(|scan| Arc::new(scan) as _))
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn DataSource>>> {
        if self.plan.fetch.is_some() {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        let columns = order.iter().map_while(|key| {
            let column = key.expr.downcast_ref::<Column>()?;
            let number = self.plan.projection.get(column.index())?;
            Some((*number, key.options))
        });
        let columns: Vec<_> = columns.collect();
        let parts = self.plan.partitions.len();
        let Some(SortedBlocks { blocks, partitions }) =
            sorted(&self.blocks, &columns, &self.plan.options, parts)?
        else {
            return Ok(SortOrderPushdownResult::Unsupported);
        };
        // DataFusion still sorts the rows. Since the first rows come first, a TopK prunes more and
        // more of the other blocks.
        let mut scan = self.with_plan(ScanPlan {
            partitions,
            ..self.plan.as_ref().clone()
        });
        scan.blocks = blocks;
        Ok(SortOrderPushdownResult::Inexact {
            inner: Arc::new(scan),
        })
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for filter in [&self.plan.filter, &self.plan.dynamic_filter]
            .into_iter()
            .flatten()
        {
            if f(filter)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
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
