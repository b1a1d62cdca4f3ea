//! Prunes blocks by their statistics: a block is skipped if no row of it can satisfy a predicate.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type, SchemaRef};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::physical_expr::expressions::{DynamicFilterTracking, InListExpr, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use serde::{Deserialize, Serialize};

use crate::grid::{IndexSet, IndexSetBuilder};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::planning::dynamic::{with_subquery_values, without_cases};
use crate::provider::planning::planned_blocks::{PlannedBlocks, segments};
use crate::provider::plans::conjunction::conjunction_opt;
use crate::provider::source::{
    BlockGroups, BlockList, BlockSource, BlockStatistics, ColumnBounds, ColumnKind, PruningLabels,
};

/// The maximum number of blocks that are pruned before a scan runs. Longer lists are left as they
/// are.
const MAX_BLOCKS: u64 = 16 << 20;
/// The number of blocks pruned at a time while a scan runs. It is small because a dynamic filter
/// may change before the next blocks are read.
const LOOKAHEAD: u64 = 256;
/// The maximum number of items of an IN list that is compared with statistics.
const MAX_LIST: usize = 256;

/// The result of pruning blocks.
#[derive(Debug, Default)]
pub(crate) struct Pruned {
    /// The steps of the blocks that survive; `None` if all do.
    pub steps: Option<IndexSet>,
    /// The number of blocks that each kind of evidence ruled out.
    pub counts: PrunedCounts,
    /// The reason why existing statistics could not be used, if any.
    pub unusable: Option<String>,
}

/// The number of blocks that were ruled out, by the evidence that ruled them out first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PrunedCounts {
    /// Left out by the source when it selected blocks, if there is a label for it.
    pub selected: u64,
    /// Ruled out by known columns.
    pub known: u64,
    /// Ruled out by the bounds of located columns.
    pub bounds: u64,
    /// Ruled out by zone maps.
    pub zone_map: u64,
    /// Ruled out by a bloom filter or an index of values.
    pub value_index: u64,
}

impl PrunedCounts {
    /// Returns the counts with the names of what ruled out the blocks.
    pub fn labelled(self, labels: PruningLabels) -> [(&'static str, u64); 4] {
        [
            (labels.selected.unwrap_or_default(), self.selected),
            (labels.bounds, self.bounds),
            (labels.zone_map, self.zone_map),
            (labels.value_index, self.value_index),
        ]
    }

    fn of(&mut self, evidence: Evidence) -> &mut u64 {
        match evidence {
            Evidence::Known => &mut self.known,
            Evidence::Bounds => &mut self.bounds,
            Evidence::ZoneMap => &mut self.zone_map,
            Evidence::ValueIndex => &mut self.value_index,
        }
    }
}

/// The evidence that may rule out a block. Each kind includes the kinds before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Evidence {
    Known,
    Bounds,
    ZoneMap,
    ValueIndex,
}

impl Evidence {
    fn of(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::Known => Self::Known,
            ColumnKind::Located => Self::Bounds,
            ColumnKind::Stored => Self::ZoneMap,
        }
    }
}

/// Prunes blocks by a predicate over the columns of their table.
pub(crate) fn prune_blocks(
    source: &dyn BlockSource,
    blocks: &PlannedBlocks,
    predicate: &Arc<dyn PhysicalExpr>,
    options: &ReadOptions,
) -> Result<Pruned> {
    let schema = source.schema();
    let mut pruned = Pruned::default();
    let Some(count) = blocks.count().filter(|count| *count <= MAX_BLOCKS) else {
        return Ok(pruned);
    };
    let Some(predicate) = pruning_predicate(predicate, schema) else {
        return Ok(pruned);
    };
    let mut columns = Vec::new();
    for column in collect_columns(predicate.orig_expr()) {
        let number = schema.index_of(column.name())?;
        let availability = blocks.list().availability(number, options);
        pruned.unusable = pruned.unusable.or(availability.unusable);
        if availability.is_known {
            columns.push((number, Evidence::of(source.column_kind(number))));
        }
    }
    if count == 0 || columns.is_empty() {
        return Ok(pruned);
    }
    let groups = blocks.list().groups();
    // A group has no finer bounds than its statistics.
    let of_groups = columns
        .iter()
        .map(|(column, _)| (*column, Evidence::ZoneMap));
    let of_groups: Vec<_> = of_groups.collect();
    let mut surviving = IndexSetBuilder::new(count);
    for steps in segments(count) {
        let all = blocks.blocks(steps.clone())?;
        let mut ruled_out = vec![None; all.len()];
        if let Some(BlockGroups { blocks, ends }) = &groups {
            let group = |block: &u64| ends.partition_point(|end| end <= block) as u64;
            let mut some: Vec<u64> = all.iter().map(group).collect();
            some.sort_unstable();
            some.dedup();
            let by_group = rule_out(blocks.as_ref(), &some, &of_groups, &predicate, options)?;
            for (block, ruled_out) in all.iter().zip(&mut ruled_out) {
                let group = some.binary_search(&group(block));
                *ruled_out = group.ok().and_then(|index| by_group[index]);
            }
        }
        let left: Vec<usize> = (0..all.len()).filter(|i| ruled_out[*i].is_none()).collect();
        let some: Vec<u64> = left.iter().map(|index| all[*index]).collect();
        let by_block = rule_out(blocks.list().as_ref(), &some, &columns, &predicate, options)?;
        for (index, evidence) in left.into_iter().zip(by_block) {
            ruled_out[index] = evidence;
        }
        for evidence in ruled_out.iter().flatten() {
            *pruned.counts.of(*evidence) += 1;
        }
        let kept = BooleanBuffer::collect_bool(all.len(), |index| ruled_out[index].is_none());
        surviving.push_mask(steps.start, &kept);
    }
    let surviving = surviving.finish();
    pruned.steps = (!surviving.is_all()).then_some(surviving);
    Ok(pruned)
}

/// Returns the evidence that rules out each of these blocks; `None` for blocks that survive. `columns` are
/// the columns with statistics, each with the evidence that these are.
fn rule_out(
    list: &dyn BlockList,
    ordinals: &[u64],
    columns: &[(usize, Evidence)],
    predicate: &PruningPredicate,
    options: &ReadOptions,
) -> Result<Vec<Option<Evidence>>> {
    let mut stages: BTreeSet<Evidence> = columns.iter().map(|(_, evidence)| *evidence).collect();
    if stages.contains(&Evidence::ZoneMap) {
        stages.insert(Evidence::ValueIndex);
    }
    let mut ruled_out = vec![None; ordinals.len()];
    // The indices into `ordinals` of the blocks that survive.
    let mut left: Vec<usize> = (0..ordinals.len()).collect();
    let mut is_index_wanted = false;
    for stage in stages {
        // Most predicates, such as `value > 300`, search for no value.
        if left.is_empty() || (stage == Evidence::ValueIndex && !is_index_wanted) {
            continue;
        }
        let some: Vec<u64> = left.iter().map(|index| ordinals[*index]).collect();
        let some_of = |is_one: &dyn Fn(Evidence) -> bool| -> Vec<usize> {
            let columns = columns.iter().filter(|(_, of_column)| is_one(*of_column));
            columns.map(|(column, _)| *column).collect()
        };
        let known = some_of(&|of_column| of_column <= stage);
        let is_searched = |of_column| {
            stage == Evidence::ValueIndex || (of_column < Evidence::ZoneMap && of_column <= stage)
        };
        let containers = Containers {
            blocks: list,
            table: predicate.schema(),
            ordinals: &some,
            options,
            searched: some_of(&is_searched),
            statistics: list.statistics(&known, &some, options)?,
            columns: known,
            is_index_wanted: Cell::default(),
            failure: RefCell::default(),
        };
        let mut kept = containers.keeps(predicate)?.into_iter();
        is_index_wanted |= containers.is_index_wanted.get();
        left.retain(|index| {
            let is_kept = kept.next().unwrap_or(true);
            if !is_kept {
                ruled_out[*index] = Some(stage);
            }
            is_kept
        });
    }
    Ok(ruled_out)
}

/// Returns the predicate that rules out blocks by their statistics; `None` if there is none.
pub(crate) fn pruning_predicate(
    predicate: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
) -> Option<Arc<PruningPredicate>> {
    let predicate = conjunction_opt(certain_conjuncts(predicate).cloned())?;
    PruningPredicateBuilder::new()
        .with_file_schema(Arc::clone(schema))
        .with_max_in_list_size(MAX_LIST)
        .build(predicate)
}

/// Returns the conjuncts of a dynamic filter without an IN list that contains zero. DataFusion's IN lists
/// compare bits, so that -0.0 is not in (0.0, 1.0), although -0.0 = 0.0: such a list may reject rows that the
/// join matches.
pub(crate) fn certain_conjuncts(
    predicate: &Arc<dyn PhysicalExpr>,
) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
    split_conjunction(predicate).into_iter().filter(|conjunct| {
        !conjunct
            .exists(|expr| Ok(is_list_with_zero(expr)))
            .unwrap_or(true)
    })
}

fn is_list_with_zero(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let Some(list) = expr.downcast_ref::<InListExpr>() else {
        return false;
    };
    list.list().iter().any(|item| {
        let literal = item.downcast_ref::<Literal>().map(Literal::value);
        matches!(
            literal,
            Some(ScalarValue::Float32(Some(0.0)) | ScalarValue::Float64(Some(0.0)))
        )
    })
}

/// Blocks as the containers that DataFusion's pruning works on.
struct Containers<'a> {
    blocks: &'a dyn BlockList,
    table: &'a SchemaRef,
    /// The ordinals of the blocks.
    ordinals: &'a [u64],
    options: &'a ReadOptions,
    /// The columns of `statistics`.
    columns: Vec<usize>,
    /// The columns whose values may be searched.
    searched: Vec<usize>,
    statistics: BlockStatistics,
    /// `true` if the predicate searches for values of a column that may not be searched yet.
    is_index_wanted: Cell<bool>,
    /// The last error. The methods of [`PruningStatistics`] cannot return errors.
    failure: RefCell<Option<DataFusionError>>,
}

impl Containers<'_> {
    /// Returns one value per block: `true` if the block may have a row that satisfies the
    /// predicate.
    fn keeps(&self, predicate: &PruningPredicate) -> Result<Vec<bool>> {
        let kept = predicate.prune(self);
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        // A predicate that fails on bounds need not fail on any row.
        Ok(kept.unwrap_or_else(|_| vec![true; self.ordinals.len()]))
    }

    fn column(&self, column: &Column) -> Option<&ColumnBounds> {
        let number = self.table.index_of(&column.name).ok()?;
        let index = self.columns.iter().position(|column| *column == number)?;
        self.statistics.columns.get(index)?.as_ref()
    }
}

impl PruningStatistics for Containers<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        let known = self.column(column)?;
        Some(with_zeros(&known.min, -0.0))
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        let known = self.column(column)?;
        Some(with_zeros(&known.max, 0.0))
    }

    fn num_containers(&self) -> usize {
        self.ordinals.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        Some(Arc::new(self.column(column)?.nulls.clone()))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(self.statistics.rows.clone()))
    }

    fn contained(&self, column: &Column, values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        let number = self.table.index_of(&column.name).ok()?;
        if !self.searched.contains(&number) {
            self.is_index_wanted.set(true);
            return None;
        }
        let contained = self
            .blocks
            .contained(number, self.ordinals, values, self.options);
        contained.unwrap_or_else(|error| {
            self.failure.replace(Some(error));
            None
        })
    }
}

/// Replaces bounds that are zero by `zero`, so that they hold for zeros of both signs. Zone maps
/// tell -0.0 from 0.0, and so do some of DataFusion's comparisons.
pub(crate) fn with_zeros(bounds: &ArrayRef, zero: f64) -> ArrayRef {
    fn replace<T: ArrowPrimitiveType>(bounds: &ArrayRef, zero: T::Native) -> ArrayRef
    where
        T::Native: PartialEq + Default,
    {
        let bounds = bounds.as_primitive::<T>();
        let replaced: PrimitiveArray<T> = bounds.unary(|bound| {
            if bound == T::Native::default() {
                zero
            } else {
                bound
            }
        });
        Arc::new(replaced)
    }
    match bounds.data_type() {
        DataType::Float32 => replace::<Float32Type>(bounds, zero as f32),
        DataType::Float64 => replace::<Float64Type>(bounds, zero),
        _ => Arc::clone(bounds),
    }
}

/// Prunes blocks while a scan runs, by dynamic filters and other filters whose values change during
/// the scan.
pub(crate) struct Pruner {
    blocks: PlannedBlocks,
    /// The schema of the table.
    table: SchemaRef,
    /// The schema of the scan's output, which the filter refers to.
    schema: SchemaRef,
    filter: Arc<dyn PhysicalExpr>,
    tracking: DynamicFilterTracking,
    options: ReadOptions,
    predicate: Option<Arc<PruningPredicate>>,
    is_checked: bool,
    /// The step of the block that `known[0]` belongs to.
    known_from: u64,
    known: Vec<bool>,
}

impl Pruner {
    /// Creates the pruner of one partition of a scan.
    pub fn new(
        blocks: &PlannedBlocks,
        table: &SchemaRef,
        schema: &SchemaRef,
        filter: &Arc<dyn PhysicalExpr>,
        options: &ReadOptions,
    ) -> Self {
        Self {
            blocks: blocks.clone(),
            table: Arc::clone(table),
            schema: Arc::clone(schema),
            tracking: DynamicFilterTracking::classify(filter),
            filter: Arc::clone(filter),
            options: *options,
            predicate: None,
            is_checked: false,
            known_from: 0,
            known: Vec::new(),
        }
    }

    /// Returns `true` if the block of this step may have a row that passes the filters in their
    /// current state. `end` is the end of the steps that the scan is reading.
    pub fn keeps(&mut self, step: u64, end: u64) -> Result<bool> {
        let has_changed = self
            .tracking
            .watcher()
            .is_some_and(|watcher| watcher.changed());
        if has_changed || !self.is_checked {
            self.is_checked = true;
            self.known.clear();
            let filter = with_subquery_values(&self.filter)?;
            let filter = without_cases(&snapshot_physical_expr(filter)?)?;
            self.predicate = pruning_predicate(&filter, &self.schema);
        }
        let Some(predicate) = &self.predicate else {
            return Ok(true);
        };
        let known = step
            .checked_sub(self.known_from)
            .and_then(|offset| self.known.get(offset as usize));
        if let Some(known) = known {
            return Ok(*known);
        }
        let steps = step..end.min(step.saturating_add(LOOKAHEAD)).max(step + 1);
        let ordinals = self.blocks.blocks(steps)?;
        let list = self.blocks.list().as_ref();
        let columns = collect_columns(predicate.orig_expr()).into_iter();
        let columns = columns.filter_map(|column| self.table.index_of(column.name()).ok());
        let columns = columns.filter(|column| list.availability(*column, &self.options).is_known);
        let columns: Vec<usize> = columns.collect();
        let containers = Containers {
            blocks: list,
            table: &self.table,
            ordinals: &ordinals,
            options: &self.options,
            statistics: list.statistics(&columns, &ordinals, &self.options)?,
            searched: columns.clone(),
            columns,
            is_index_wanted: Cell::default(),
            failure: RefCell::default(),
        };
        self.known = containers.keeps(predicate)?;
        self.known_from = step;
        Ok(self.known.first().copied().unwrap_or(true))
    }
}
