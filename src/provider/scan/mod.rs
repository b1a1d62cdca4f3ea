//! Scans of tables. [`ScanPlan`] holds what a scan will read, and [`ArrayScan`] is the
//! [`DataSource`] that reads it.

pub(crate) mod block_queue;
pub(crate) mod chunk_walk;
mod description;
pub(crate) mod grid_blocks;
pub(crate) mod grid_reader;
pub mod grid_table;
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
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::sort_pushdown::SortOrderPushdownResult;

use crate::provider::attributes::plain;
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::planning::block_subset::{BlockOrdinals, BlockSubset};
use crate::provider::planning::partitions;
use crate::provider::planning::pruning::{self, Pruner};
use crate::provider::planning::pushdown::ClassifiedFilters;
use crate::provider::planning::sorted_blocks::{SortedBlocks, sorted};
use crate::provider::scan::block_queue::{BlockQueue, SharedBlocks};
use crate::provider::scan::metrics::ScanMetrics;
use crate::provider::source::{BlockList, BlockSource, SelectedBlocks};

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
    /// The residual predicate over the columns to read. It could not be evaluated on an axis, so
    /// the scan filters rows.
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
/// over anything else    pruning    statistics rule out blocks; DataFusion filters the rows
/// dynamic               pruning    re-checked while the scan runs; DataFusion filters the rows
/// residual              exact      the scan filters the rows of every batch
/// ```
#[derive(Debug, Clone)]
pub struct ArrayScan {
    source: Arc<dyn BlockSource>,
    blocks: Arc<dyn BlockList>,
    /// The number of blocks that dimensions selected, before statistics of values pruned any.
    sliced: Option<u64>,
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
        let SelectedBlocks { blocks, residual } = source.select(&all, &read)?;
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
        mut blocks: Arc<dyn BlockList>,
        predicate: Option<&Arc<dyn PhysicalExpr>>,
        plan: ScanPlan,
        config: &ConfigOptions,
    ) -> Result<Self> {
        let mut sliced = blocks.count();
        let mut unusable = None;
        if let Some(predicate) = predicate {
            let pruned = pruning::prune_blocks(source.as_ref(), &blocks, predicate, &plan.options)?;
            unusable = pruned.unusable;
            if let Some(surviving) = pruned.blocks {
                blocks = Arc::new(BlockSubset::new(
                    blocks,
                    BlockOrdinals::Ascending(surviving),
                ));
                // Without statistics of values, the coordinates ruled out the blocks.
                if !pruned.by_values {
                    sliced = blocks.count();
                }
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
            sliced,
            unusable,
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
            found = found.saturating_add(self.blocks.block_rows(first)?);
            if count - first > MOST_LAST_BLOCKS {
                return Ok(None);
            }
        }
        let mut scan = self.with_plan(ScanPlan {
            partitions: std::iter::once(0..count - first).collect(),
            ..plan.clone()
        });
        let last = BlockOrdinals::Ordered((first..count).collect());
        scan.blocks = Arc::new(BlockSubset::new(Arc::clone(&self.blocks), last));
        scan.column_statistics = Arc::default();
        Ok(Some(scan))
    }

    /// Returns the scan with other output columns. The scan must not have a filter.
    pub(super) fn with_projection(
        &self,
        projection: Vec<usize>,
        config: &ConfigOptions,
    ) -> Result<Self> {
        let schema = project(self.source.schema(), &projection)?;
        let mut scan = self.with_plan(ScanPlan {
            columns: projection.clone(),
            projection,
            ..self.plan.as_ref().clone()
        });
        scan.read_schema = Arc::clone(&schema);
        scan.schema = schema;
        scan.column_statistics = Arc::default();
        scan.cut(
            self.target_partitions,
            config.optimizer.repartition_file_min_size,
        );
        Ok(scan)
    }

    /// Returns the scan with additional dynamic filters over its output, which prune blocks while
    /// the scan runs; `None` if none of the filters can. The rows still have to be filtered.
    ///
    /// Only [`FilterPushdown`](crate::provider::rules::filter_pushdown::FilterPushdown) calls this.
    /// The scan refuses the filters that DataFusion's rule of the same name offers, since that rule
    /// confuses columns that have the same name.
    pub(super) fn with_filters(&self, filters: &[Arc<dyn PhysicalExpr>]) -> Option<Self> {
        // A filter above a limit must not change which rows the limit keeps.
        if self.plan.fetch.is_some() {
            return None;
        }
        // Filters without dynamic parts were known when the scan was planned.
        let mut dynamic = filters.iter().filter(|filter| pruning::is_dynamic(filter));
        let first = dynamic.next()?;
        let known = self.plan.dynamic_filter.iter();
        let all = known.chain([first]).chain(dynamic).cloned();
        Some(self.with_plan(ScanPlan {
            dynamic_filter: conjunction_opt(all),
            ..self.plan.as_ref().clone()
        }))
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

    /// Returns the selected blocks.
    pub fn blocks(&self) -> &Arc<dyn BlockList> {
        &self.blocks
    }

    /// Sets the metrics that are known before reading, for the scan or an operator that replaces
    /// it.
    pub(super) fn set_plan_metrics(&self, metrics: &ScanMetrics, reads_values: bool) {
        let needed = |blocks: Option<u64>| if reads_values { blocks } else { Some(0) };
        metrics.set_plan(
            self.blocks.total(),
            needed(self.sliced),
            needed(self.blocks.count()),
        );
    }

    /// Cuts the blocks into partitions. Each partition is a range of blocks, so it keeps the order
    /// of the whole.
    fn cut(&mut self, target_partitions: usize, min_size: usize) {
        self.target_partitions = target_partitions;
        let partitions = partitions::cut(
            self.blocks.as_ref(),
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
        reads_values(self.source.as_ref(), &self.plan.columns)
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
        let (blocks, number) = match shared {
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
        stream::scan(stream::PartitionRequest {
            reader: self.blocks.reader(&self.plan.columns, options)?,
            reads_values: self.reads_values(),
            blocks,
            partition: number,
            pruner,
            read_schema: Arc::clone(&self.read_schema),
            schema: Arc::clone(&self.schema),
            filter: self.plan.filter.clone(),
            fetch: self.plan.fetch,
            batch_size: context.session_config().batch_size(),
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
        _projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        // Unused columns are already gone, and expressions are computed above the scan.
        Ok(None)
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

/// Returns `true` if any of these columns holds values. Without such a column, blocks are
/// enumerated but not read.
fn reads_values(source: &dyn BlockSource, columns: &[usize]) -> bool {
    let dimensions = source.dimensions();
    let fields = source.schema().fields();
    columns
        .iter()
        .any(|column| !dimensions.contains(&fields[*column].name().as_str()))
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
