//! Prunes blocks by their statistics: a block is skipped if no row of it can satisfy a predicate.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, PrimitiveArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type, Schema, SchemaRef};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, DynamicFilterPhysicalExpr, DynamicFilterTracking, InListExpr, Literal,
    lit,
};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction_opt, split_conjunction};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};

use crate::grid::{IndexSet, IndexSetBuilder};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::source::{BlockList, BlockSource, BlockStatistics};

/// The number of blocks pruned at a time.
const SEGMENT: usize = 32 << 10;
/// The maximum number of blocks that are pruned before a scan runs. Longer lists are left as they
/// are.
const MAX_BLOCKS: u64 = 16 << 20;
/// The number of blocks pruned at a time while a scan runs. It is small because a dynamic filter
/// may change before the next blocks are read.
const LOOKAHEAD: u64 = 256;

/// The result of pruning a list of blocks.
#[derive(Debug, Default)]
pub(crate) struct Pruned {
    /// The blocks that survive; `None` if all do.
    pub blocks: Option<IndexSet>,
    /// `true` if statistics of values were available, and not only of dimensions.
    pub by_values: bool,
    /// The reason why existing statistics could not be used, if any.
    pub unusable: Option<String>,
}

/// Prunes blocks by a predicate over the columns of their table.
pub(crate) fn prune_blocks(
    source: &dyn BlockSource,
    blocks: &Arc<dyn BlockList>,
    predicate: &Arc<dyn PhysicalExpr>,
    options: &ReadOptions,
) -> Result<Pruned> {
    let schema = source.schema();
    let Some(count) = blocks.count().filter(|count| *count <= MAX_BLOCKS) else {
        return Ok(Pruned::default());
    };
    let Some(predicate) = pruning_predicate(predicate, schema) else {
        return Ok(Pruned::default());
    };
    let dimensions = source.dimensions();
    let mut pruned = Pruned::default();
    let mut is_known = false;
    for column in collect_columns(predicate.orig_expr()) {
        if dimensions.contains(&column.name()) {
            is_known = true;
        } else {
            let number = schema.index_of(column.name())?;
            pruned.by_values |= blocks.has_statistics(number, options);
            pruned.unusable = pruned
                .unusable
                .or_else(|| blocks.unusable_statistics(options));
        }
    }
    if count == 0 || !(is_known || pruned.by_values) {
        return Ok(pruned);
    }
    let mut surviving = IndexSetBuilder::new(count);
    for positions in segments(count) {
        let kept = keeps(blocks.as_ref(), schema, &predicate, &positions, options)?;
        let first = positions.first().copied().unwrap_or(0);
        surviving.push_mask(first, &BooleanBuffer::from(kept));
    }
    let surviving = surviving.finish();
    pruned.blocks = (!surviving.is_all()).then_some(surviving);
    Ok(pruned)
}

/// Splits the ordinals of `count` blocks into vectors of at most [`SEGMENT`].
pub(crate) fn segments(count: u64) -> impl Iterator<Item = Vec<u64>> {
    (0..count)
        .step_by(SEGMENT)
        .map(move |start| (start..count.min(start + SEGMENT as u64)).collect())
}

fn pruning_predicate(
    predicate: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
) -> Option<Arc<PruningPredicate>> {
    // DataFusion's IN lists compare bits, so that -0.0 is not in (0.0, 1.0), although -0.0 = 0.0.
    // Conjuncts with such a list are not used for pruning.
    let conjuncts = split_conjunction(predicate);
    let certain = conjuncts.into_iter().filter(|conjunct| {
        !conjunct
            .exists(|expr| Ok(is_list_with_zero(expr)))
            .unwrap_or(true)
    });
    let predicate = conjunction_opt(certain.cloned())?;
    PruningPredicateBuilder::new()
        .with_file_schema(Arc::clone(schema))
        .build(predicate)
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

/// Returns `true` for each of these blocks that may have a row satisfying the predicate.
fn keeps(
    blocks: &dyn BlockList,
    table: &SchemaRef,
    predicate: &PruningPredicate,
    positions: &[u64],
    options: &ReadOptions,
) -> Result<Vec<bool>> {
    let containers = Containers {
        blocks,
        table,
        positions,
        options,
        known: RefCell::default(),
        failure: RefCell::default(),
    };
    let kept = predicate.prune(&containers);
    if let Some(failure) = containers.failure.into_inner() {
        return Err(failure);
    }
    // A predicate that fails on bounds need not fail on any row.
    Ok(kept.unwrap_or_else(|_| vec![true; positions.len()]))
}

/// Blocks as the containers that DataFusion's pruning works on.
struct Containers<'a> {
    blocks: &'a dyn BlockList,
    table: &'a SchemaRef,
    positions: &'a [u64],
    options: &'a ReadOptions,
    known: RefCell<HashMap<usize, Option<BlockStatistics>>>,
    /// The last error. The methods of [`PruningStatistics`] cannot return errors.
    failure: RefCell<Option<datafusion::error::DataFusionError>>,
}

impl Containers<'_> {
    fn column<T>(&self, column: &Column, part: impl Fn(&BlockStatistics) -> T) -> Option<T> {
        let number = self.table.index_of(&column.name).ok()?;
        let mut known = self.known.borrow_mut();
        let statistics = known.entry(number).or_insert_with(|| {
            self.note(
                self.blocks
                    .block_statistics(number, self.positions, self.options),
            )
        });
        statistics.as_ref().map(part)
    }

    fn note<T>(&self, result: Result<Option<T>>) -> Option<T> {
        result.unwrap_or_else(|error| {
            self.failure.replace(Some(error));
            None
        })
    }
}

impl PruningStatistics for Containers<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.column(column, |known| with_zeros(&known.min, -0.0))
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.column(column, |known| with_zeros(&known.max, 0.0))
    }

    fn num_containers(&self) -> usize {
        self.positions.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        self.column(column, |known| Arc::new(known.nulls.clone()) as ArrayRef)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let sizes = self.note(self.blocks.block_sizes(self.positions));
        sizes.map(|sizes| Arc::new(sizes) as ArrayRef)
    }

    fn contained(&self, column: &Column, values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        let number = self.table.index_of(&column.name).ok()?;
        self.note(
            self.blocks
                .contained(number, self.positions, values, self.options),
        )
    }
}

/// Replaces bounds that are zero by `zero`, so that they hold for zeros of both signs. Zone maps
/// tell -0.0 from 0.0, and so do some of DataFusion's comparisons.
fn with_zeros(bounds: &ArrayRef, zero: f64) -> ArrayRef {
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

/// Returns `true` if the value of an expression is known only once the query runs: it has a dynamic
/// filter or a scalar subquery.
pub(crate) fn is_dynamic(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.exists(|expr| {
        Ok(expr.downcast_ref::<DynamicFilterPhysicalExpr>().is_some()
            || expr.downcast_ref::<ScalarSubqueryExpr>().is_some())
    })
    .unwrap_or(false)
}

/// Prunes blocks while a scan runs, by dynamic filters and other filters whose values change during
/// the scan.
pub(crate) struct Pruner {
    blocks: Arc<dyn BlockList>,
    /// The schema of the table.
    table: SchemaRef,
    /// The schema of the scan's output, which the filter refers to.
    schema: SchemaRef,
    filter: Arc<dyn PhysicalExpr>,
    tracking: DynamicFilterTracking,
    options: ReadOptions,
    predicate: Option<Arc<PruningPredicate>>,
    is_checked: bool,
    /// The ordinal of the block that `known[0]` belongs to.
    known_from: u64,
    known: Vec<bool>,
}

impl Pruner {
    /// Creates the pruner of one partition of a scan.
    pub fn new(
        blocks: &Arc<dyn BlockList>,
        table: &SchemaRef,
        schema: &SchemaRef,
        filter: &Arc<dyn PhysicalExpr>,
        options: &ReadOptions,
    ) -> Self {
        Self {
            blocks: Arc::clone(blocks),
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

    /// Returns `true` if the block with ordinal `position` may have a row that passes the filters
    /// in their current state. `end` is the end of the run of blocks that the scan is reading.
    pub fn keeps(&mut self, position: u64, end: u64) -> Result<bool> {
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
        let known = position
            .checked_sub(self.known_from)
            .and_then(|offset| self.known.get(offset as usize));
        if let Some(known) = known {
            return Ok(*known);
        }
        let positions: Vec<u64> = (position..end.min(position.saturating_add(LOOKAHEAD))).collect();
        self.known = keeps(
            self.blocks.as_ref(),
            &self.table,
            predicate,
            &positions,
            &self.options,
        )?;
        self.known_from = position;
        Ok(self.known.first().copied().unwrap_or(true))
    }
}

/// Weakens a filter by replacing every CASE with the OR of its results. A partitioned hash join
/// wraps its keys in a CASE over the partitions, which statistics cannot decide.
fn without_cases(filter: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    let replaced = Arc::clone(filter).transform_down(|expr| {
        if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            let results = case.when_then_expr().iter().map(|(_, then)| then);
            let results = results.chain(case.else_expr()).cloned();
            let either = |one, other| -> Arc<dyn PhysicalExpr> {
                Arc::new(BinaryExpr::new(one, Operator::Or, other))
            };
            let any = results.reduce(either).unwrap_or_else(|| lit(false));
            return Ok(Transformed::yes(any));
        }
        let is_junction = expr
            .downcast_ref::<BinaryExpr>()
            .is_some_and(|expr| matches!(expr.op(), Operator::And | Operator::Or));
        // Below any other node, such as NOT, a weaker operand may make the whole filter stronger.
        let further = match is_junction {
            true => TreeNodeRecursion::Continue,
            false => TreeNodeRecursion::Jump,
        };
        Ok(Transformed::new(expr, false, further))
    })?;
    Ok(replaced.data)
}

/// Replaces the scalar subqueries of a filter by their values, which are known once a scan runs.
pub(crate) fn with_subquery_values(
    filter: &Arc<dyn PhysicalExpr>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let replaced = Arc::clone(filter).transform_up(|expr| {
        let Some(subquery) = expr.downcast_ref::<ScalarSubqueryExpr>() else {
            return Ok(Transformed::no(expr));
        };
        // A scalar subquery does not depend on the rows.
        let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
        Ok(match subquery.evaluate(&nothing) {
            Ok(ColumnarValue::Scalar(value)) => Transformed::yes(lit(value)),
            // A subquery whose value is not known yet rules out nothing.
            _ => Transformed::no(expr),
        })
    })?;
    Ok(replaced.data)
}
