//! [`ArrayScan`] as DataFusion's data source.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt::{self, Formatter};
use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::sort_pushdown::SortOrderPushdownResult;

#[cfg(feature = "proto")]
use {
    crate::provider::codec::Operator, datafusion::physical_plan::proto::ExecutionPlanEncodeCtx,
    datafusion_proto::protobuf::PhysicalPlanNode,
};

use crate::provider::planning::pruning::Pruner;
use crate::provider::planning::sorted_blocks::{SortedBlocks, sorted};
use crate::provider::scan::block_queue::{BlockQueue, SharedBlocks};
use crate::provider::scan::fetching::BlockFetcher;
use crate::provider::scan::metrics::ScanMetrics;
use crate::provider::scan::stream::{self, OutputColumn, RowFilter};
use crate::provider::scan::{ArrayScan, ScanPlan, column_indices};

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
            && self.plan.ordering.is_empty()
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
        let list = self.blocks.list();
        let batch_size = context.session_config().batch_size();
        let batch_size = list.batch_rows(&self.plan.columns, batch_size);
        let chunks = self.shared(&context);
        let reader = |columns: &[usize]| {
            let mut reader = list.reader(columns, batch_size, options)?;
            if let Some(chunks) = &chunks {
                reader.share_decoded(chunks)?;
            }
            Ok::<_, DataFusionError>(reader)
        };
        // The columns of the filter, then the output columns that the filter does not read.
        let (mut filter, mut filtered, mut columns) = (None, Vec::new(), Vec::new());
        if let Some(predicate) = &self.plan.filter {
            let indices = column_indices(std::slice::from_ref(predicate));
            let indices: Vec<usize> = indices.collect();
            let of_table = indices.iter().map(|index| self.plan.columns[*index]);
            filtered = of_table.collect();
            let schema = Arc::new(self.read_schema.project(&indices)?);
            filter = Some(RowFilter {
                reader: reader(&filtered)?,
                predicate: reassign_expr_columns(Arc::clone(predicate), &schema)?,
                schema,
                is_output: filtered
                    .iter()
                    .any(|column| self.plan.projection.contains(column)),
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
        if target_partitions == self.target_partitions || !self.plan.ordering.is_empty() {
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
        let mut sorted_by = self.plan.ordering.clone();
        if sorted_by.is_empty() && self.plan.options.declare_ordering {
            for (column, descending) in self.blocks.ordering() {
                let sort = SortOptions {
                    descending,
                    nulls_first: descending,
                };
                sorted_by.push((column, sort));
            }
        }
        let ordering = sorted_by.into_iter().map_while(|(column, options)| {
            let number = self.plan.projection.iter().position(|c| *c == column)?;
            let column = Column::new(self.schema.field(number).name(), number);
            Some(PhysicalSortExpr::new(Arc::new(column), options))
        });
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
            ordering: Vec::new(),
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

    #[cfg(feature = "proto")]
    fn try_to_proto(
        &self,
        context: &ExecutionPlanEncodeCtx<'_>,
    ) -> Result<Option<PhysicalPlanNode>> {
        let (scan, expressions) = self.encoded()?;
        let inputs = context.encode_children(&expressions)?;
        Operator::Scan(Box::new(scan)).encode(inputs).map(Some)
    }
}
