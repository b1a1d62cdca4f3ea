//! What a scan will read: its plan, as a value, and the [`DataSource`] that the engine sees.

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
use std::fmt::{self, Formatter};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::compute::SortOptions;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, DFSchema, Result, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::{DataSource, DataSourceExec, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::conjunction_opt as physical_conjunction_opt;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::sort_pushdown::SortOrderPushdownResult;

use crate::provider::attributes::plain;
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::planning::partitions;
use crate::provider::planning::pruning::{self, Pruner};
use crate::provider::planning::pushdown;
use crate::provider::planning::some_blocks::{Positions, SomeBlocks};
use crate::provider::planning::sorted_blocks::{Sorted, sorted};
use crate::provider::scan::block_queue::{BlockQueue, SharedBlocks};
use crate::provider::scan::metrics::ScanMetrics;
use crate::provider::source::{BlockList, BlockSource, SelectedBlocks};

/// The blocks among which the last rows of a scan are looked for.
const MOST_LAST_BLOCKS: u64 = 1024;

/// What a scan reads of a table. It knows nothing of files: block positions, columns, rows.
#[derive(Debug, Clone)]
pub struct ScanPlan {
    /// The columns of the output, as numbers of the table's columns.
    pub projection: Vec<usize>,
    /// The columns that have to be read: those of the output, then what else the filter needs.
    pub columns: Vec<usize>,
    /// A filter over the read columns, for predicates that could not be evaluated on an axis.
    pub filter: Option<Arc<dyn PhysicalExpr>>,
    /// Filters over the output whose values become known while the query runs. They rule out blocks; the engine applies
    /// them to the rows.
    pub dynamic_filter: Option<Arc<dyn PhysicalExpr>>,
    /// The most rows that a partition gives.
    pub fetch: Option<usize>,
    /// The blocks of each partition, as positions in the list of selected blocks.
    pub partitions: Vec<Range<u64>>,
    /// How values are read.
    pub options: ReadOptions,
}

/// A scan over the selected blocks of a table.
#[derive(Debug, Clone)]
pub struct ArrayScan {
    source: Arc<dyn BlockSource>,
    blocks: Arc<dyn BlockList>,
    /// Blocks that dimensions selected, before what is known of values ruled some of them out.
    sliced: Option<u64>,
    /// Why zone maps could not be used, if they were wanted.
    unusable: Option<String>,
    plan: Arc<ScanPlan>,
    /// Statistics of the columns, once they are asked for: they can take a look at every coordinate and every zone.
    column_statistics: Arc<OnceLock<Vec<ColumnStatistics>>>,
    /// How many partitions were wanted when the blocks were cut.
    target_partitions: usize,
    /// Of the columns read.
    read_schema: SchemaRef,
    /// Of the output.
    schema: SchemaRef,
    metrics: ExecutionPlanMetricsSet,
}

impl ArrayScan {
    /// A scan of the blocks that `filters` leave, cut into up to as many partitions as the session wants. Filters over
    /// one dimension are applied exactly, others are only used to rule out blocks. `limit` is the most rows wanted.
    pub fn try_new(
        session: &dyn Session,
        source: Arc<dyn BlockSource>,
        projection: Vec<usize>,
        filters: &[Expr],
        limit: Option<usize>,
        options: ReadOptions,
    ) -> Result<Self> {
        let table = Arc::clone(source.schema());
        let mut read = projection.clone();
        for column in filters.iter().flat_map(Expr::column_refs) {
            read.push(table.index_of(&column.name)?);
        }
        let SelectedBlocks { blocks, residual } = source.select(session, filters, &read)?;
        let predicate = inexact(session, source.as_ref(), filters)?;
        let mut columns = projection.clone();
        for column in residual.iter().flat_map(|filter| filter.column_refs()) {
            let number = table.index_of(&column.name)?;
            if !columns.contains(&number) {
                columns.push(number);
            }
        }
        let filter = conjunction(residual)
            .map(|filter| {
                let schema = DFSchema::try_from(project(&table, &columns)?)?;
                session.create_physical_expr(filter, &schema)
            })
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

    /// A scan of those of some blocks that may have a row that satisfies the predicate, which is not applied to rows and
    /// speaks of the table's columns. The plan is still without partitions.
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
            let pruned = pruning::surviving(source.as_ref(), &blocks, predicate, &plan.options)?;
            unusable = pruned.unusable;
            if let Some(surviving) = pruned.blocks {
                blocks = Arc::new(SomeBlocks::new(blocks, Positions::Some(surviving)));
                // Without zone maps it is the coordinates that ruled blocks out.
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

    /// A scan of the last blocks only, which hold at least so many rows, in one partition; `None` if the scan filters rows
    /// or does not know how many rows its blocks hold.
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
        let last = Positions::Ordered((first..count).collect());
        scan.blocks = Arc::new(SomeBlocks::new(Arc::clone(&self.blocks), last));
        scan.column_statistics = Arc::default();
        Ok(Some(scan))
    }

    /// The same scan of other columns of the table. There must be no filter.
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

    /// The scan with more filters over its output that rule out blocks while it runs; `None` if none of these does. The
    /// rows that the scan gives still have to be filtered.
    ///
    /// Only [`FilterPushdown`](crate::provider::rules::filter_pushdown::FilterPushdown) calls this. The scan refuses what
    /// DataFusion's rule of the same name offers, since that one mistakes columns for others of the same name.
    pub(super) fn with_filters(&self, filters: &[Arc<dyn PhysicalExpr>]) -> Option<Self> {
        // A filter above a limit does not apply to the rows behind the limit.
        if self.plan.fetch.is_some() {
            return None;
        }
        // Filters without dynamic parts were known when the scan was planned.
        let mut dynamic = filters.iter().filter(|filter| pruning::is_dynamic(filter));
        let first = dynamic.next()?;
        let known = self.plan.dynamic_filter.iter();
        let all = known.chain([first]).chain(dynamic).cloned();
        Some(self.with_plan(ScanPlan {
            dynamic_filter: physical_conjunction_opt(all),
            ..self.plan.as_ref().clone()
        }))
    }

    /// The scan as a plan node.
    pub fn into_exec(self) -> Arc<DataSourceExec> {
        DataSourceExec::from_data_source(self)
    }

    /// What will be read.
    pub fn plan(&self) -> &ScanPlan {
        &self.plan
    }

    /// The table.
    pub fn source(&self) -> &Arc<dyn BlockSource> {
        &self.source
    }

    /// The selected blocks.
    pub fn blocks(&self) -> &Arc<dyn BlockList> {
        &self.blocks
    }

    /// Notes what is known before reading, for the scan or an operator that takes its place.
    pub(super) fn set_plan_metrics(&self, metrics: &ScanMetrics, reads_values: bool) {
        let needed = |blocks: Option<u64>| if reads_values { blocks } else { Some(0) };
        metrics.set_plan(
            self.blocks.total(),
            needed(self.sliced),
            needed(self.blocks.count()),
        );
    }

    /// Cuts the blocks into partitions. Each is a run of blocks, so that it keeps whatever order the whole has.
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
        // Partitions that are said to be in order keep to their own blocks.
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
        stream::scan(stream::Request {
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
        // The blocks behind a limit are gone already.
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
        // Unused columns are gone already; expressions are computed above the scan.
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
        let Some(Sorted { blocks, partitions }) =
            sorted(&self.blocks, &columns, &self.plan.options, parts)?
        else {
            return Ok(SortOrderPushdownResult::Unsupported);
        };
        // The engine still sorts. But the first rows come first, so that it asks for fewer and fewer of the others.
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

/// Whether any of these columns holds values. Without one, blocks are enumerated but not read.
fn reads_values(source: &dyn BlockSource, columns: &[usize]) -> bool {
    let dimensions = source.dimensions();
    let fields = source.schema().fields();
    columns
        .iter()
        .any(|column| !dimensions.contains(&fields[*column].name().as_str()))
}

/// The filters that dimensions alone do not answer, as one predicate over the table's columns.
fn inexact(
    session: &dyn Session,
    source: &dyn BlockSource,
    filters: &[Expr],
) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let dimensions = source.dimensions();
    let inexact = filters
        .iter()
        .map(|filter| unnormalize_col(filter.clone()))
        .filter(|filter| {
            pushdown::classify(&dimensions, filter) == TableProviderFilterPushDown::Inexact
        });
    let Some(predicate) = conjunction(inexact) else {
        return Ok(None);
    };
    let schema = DFSchema::try_from(Arc::clone(source.schema()))?;
    session.create_physical_expr(predicate, &schema).map(Some)
}

/// Some columns of a table, without attributes.
fn project(schema: &Schema, columns: &[usize]) -> Result<SchemaRef> {
    Ok(plain(&schema.project(columns)?))
}
