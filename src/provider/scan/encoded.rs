//! Encodes scans, so that they can be sent to another process.

use std::ops::Range;
use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::common::{Result, plan_err};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use serde::{Deserialize, Serialize};

use crate::grid::IndexSet;
use crate::provider::attributes::plain;
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::codec::{carried, carrier};
use crate::provider::planning::planned_blocks::{BlockOrder, PlannedBlocks};
use crate::provider::planning::pruning::PrunedCounts;
use crate::provider::plans::conjunction::conjunction_opt;
use crate::provider::scan::{ArrayScan, ScanPlan, SelectArguments, project};
use crate::provider::source::recipe::Recipe;
use crate::provider::source::{BlockSource, SelectedBlocks};

/// A scan without its expressions: the recipe of its table, and the blocks and columns to read.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EncodedScan {
    pub table: Recipe,
    /// The columns that were passed to [`BlockSource::select`], which may cut blocks to suit them.
    select_columns: Vec<usize>,
    /// The number of blocks that the source selected. Decoding fails if the source selects another
    /// number.
    selected: Option<u64>,
    order: EncodedOrder,
    pruned: PrunedCounts,
    elsewhere: u64,
    unusable: Option<String>,
    target_partitions: usize,
    projection: Vec<usize>,
    columns: Vec<usize>,
    fetch: Option<usize>,
    partitions: Vec<Range<u64>>,
    ordering: Vec<EncodedKey>,
    keeps_partitions: bool,
    options: ReadOptions,
}

/// A sort key: a column of the table, and the fields of [`SortOptions`].
#[derive(Debug, Serialize, Deserialize)]
struct EncodedKey {
    column: usize,
    descending: bool,
    nulls_first: bool,
}

/// The blocks to read, as in [`BlockOrder`].
#[derive(Debug, Serialize, Deserialize)]
enum EncodedOrder {
    All,
    Ascending {
        length: u64,
        ranges: Vec<Range<u64>>,
    },
    Listed(Vec<u64>),
}

impl ArrayScan {
    /// Encodes the scan. Returns [carriers](carrier) of its expressions beside it: the filters that
    /// selected blocks, the filter on rows, and the dynamic filter.
    ///
    /// # Errors
    /// Returns an error if the table has no recipe, or was replaced since it was opened.
    pub(in crate::provider) fn encoded(
        &self,
    ) -> Result<(EncodedScan, [Arc<dyn ExecutionPlan>; 3])> {
        let plan = self.plan.as_ref();
        let table = Recipe::required(self.source.recipe()?, self.source.name())?;
        let ordering = plan.ordering.iter().map(|(column, sort)| EncodedKey {
            column: *column,
            descending: sort.descending,
            nulls_first: sort.nulls_first,
        });
        let scan = EncodedScan {
            table,
            select_columns: plan.selected_by.columns.clone(),
            selected: self.blocks.list().count(),
            order: match self.blocks.order() {
                BlockOrder::All => EncodedOrder::All,
                BlockOrder::Ascending(blocks) => EncodedOrder::Ascending {
                    length: blocks.length(),
                    ranges: blocks.ranges().collect(),
                },
                BlockOrder::Listed(blocks) => EncodedOrder::Listed(blocks.to_vec()),
            },
            pruned: self.pruned,
            elsewhere: self.elsewhere,
            unusable: self.unusable.clone(),
            target_partitions: self.target_partitions,
            projection: plan.projection.clone(),
            columns: plan.columns.clone(),
            fetch: plan.fetch,
            partitions: plan.partitions.clone(),
            ordering: ordering.collect(),
            keeps_partitions: plan.keeps_partitions,
            options: plan.options,
        };
        let expressions = [
            carrier(&plan.selected_by.filters, &plain(self.source.schema()))?,
            carrier(&plan.filter, &self.read_schema)?,
            carrier(&plan.dynamic_filter, &self.schema)?,
        ];
        Ok((scan, expressions))
    }
}

impl EncodedScan {
    /// Decodes the scan of an opened table. The expressions are those of [`ArrayScan::encoded`].
    ///
    /// # Errors
    /// Returns an error if the columns or blocks of the scan do not match the table.
    pub fn decode(
        self,
        source: Arc<dyn BlockSource>,
        [select, filter, dynamic_filter]: [&Arc<dyn ExecutionPlan>; 3],
    ) -> Result<ArrayScan> {
        let fields = source.schema().fields().len();
        let mut columns = self.select_columns.iter().chain(&self.columns);
        if columns.any(|column| *column >= fields) || !self.columns.starts_with(&self.projection) {
            return plan_err!(
                "the columns of an encoded scan do not match the table {}",
                source.name()
            );
        }
        let schema = project(source.schema(), &self.projection)?;
        let read_schema = project(source.schema(), &self.columns)?;
        let select = carried(select, &plain(source.schema()))?;
        let filter = carried(filter, &read_schema)?;
        let dynamic_filter = carried(dynamic_filter, &schema)?;
        let SelectedBlocks { blocks, .. } =
            source.select(&select, &self.select_columns, &self.options)?;
        let order = match self.order {
            EncodedOrder::All => BlockOrder::All,
            EncodedOrder::Ascending { length, ranges } => {
                if !ranges.is_sorted_by_key(|range| range.start) {
                    return plan_err!("the blocks of an encoded scan do not ascend");
                }
                BlockOrder::Ascending(IndexSet::from_ranges(length, ranges))
            }
            EncodedOrder::Listed(blocks) => BlockOrder::Listed(blocks.into()),
        };
        let count = blocks.count();
        let is_within = match &order {
            BlockOrder::All => true,
            BlockOrder::Ascending(kept) => Some(kept.length()) == count,
            BlockOrder::Listed(list) => list.iter().all(|block| Some(*block) < count),
        };
        let blocks = PlannedBlocks::new(blocks, order);
        let steps = blocks.count().unwrap_or(u64::MAX);
        let mut partitions = self.partitions.iter();
        if count != self.selected
            || !is_within
            || partitions.any(|range| range.start > range.end || range.end > steps)
        {
            return plan_err!(
                "an encoded scan of {} does not match its blocks: {:?} encoded, {count:?} found",
                source.name(),
                self.selected
            );
        }
        let ordering = self.ordering.iter().map(|key| {
            let sort = SortOptions {
                descending: key.descending,
                nulls_first: key.nulls_first,
            };
            (key.column, sort)
        });
        Ok(ArrayScan {
            schema,
            read_schema,
            source,
            blocks,
            pruned: self.pruned,
            elsewhere: self.elsewhere,
            unusable: self.unusable,
            plan: Arc::new(ScanPlan {
                projection: self.projection,
                columns: self.columns,
                filter: conjunction_opt(filter),
                dynamic_filter: conjunction_opt(dynamic_filter),
                fetch: self.fetch,
                partitions: self.partitions,
                ordering: ordering.collect(),
                keeps_partitions: self.keeps_partitions,
                options: self.options,
                selected_by: SelectArguments {
                    filters: select,
                    columns: self.select_columns,
                },
            }),
            column_statistics: Arc::default(),
            target_partitions: self.target_partitions,
            metrics: ExecutionPlanMetricsSet::new(),
            shared: None,
        })
    }
}
