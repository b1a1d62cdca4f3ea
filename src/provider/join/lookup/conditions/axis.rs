//! The join conditions over one axis.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array, make_comparator};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{Field, Schema};
use datafusion::common::Result;
use datafusion::common::utils::normalize_float_zero;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;

use crate::grid::AxisChunks;
use crate::provider::join::lookup::conditions::sides::BothSides;
use crate::provider::join::lookup::conditions::{Condition, Conjunct};
use crate::provider::join::side::Side;
use crate::provider::plans::below::replace_columns;

/// The maximum number of selected indices along an axis.
const MAX_INDICES: u64 = 1 << 20;

/// An axis with the conditions over it alone.
#[derive(Debug)]
pub(in crate::provider::join::lookup) struct ConditionAxis {
    /// The index of the axis among those of the grid.
    pub axis: usize,
    /// The chunks along the axis.
    pub chunks: AxisChunks,
    /// The selected indices, in the order of their numbers.
    pub indices: Vec<u32>,
    /// `true` if the numbers ascend with the indices.
    pub is_in_order: bool,
    /// The coordinate of each number.
    pub coordinates: ArrayRef,
    pub field: Field,
    pub comparisons: Vec<Comparison>,
    /// The other conditions.
    pub others: Vec<Condition>,
}

/// Compares an expression over an axis, which is monotonic in the numbers, with an expression over
/// the columns of the build side.
#[derive(Debug)]
pub(in crate::provider::join::lookup) struct Comparison {
    /// The value of the expression over the axis for each number. There are no nulls.
    pub values: ArrayRef,
    pub is_descending: bool,
    /// The operator, with `values` as the left operand.
    pub operator: Operator,
    /// The right operand, over the columns of the build side.
    pub bound: Arc<dyn PhysicalExpr>,
    /// `true` for an equality key of a hash join.
    pub is_key: bool,
}

impl ConditionAxis {
    /// Prepares the conditions over one axis. Returns `None` if too few or too many indices are
    /// selected, if an expression over the axis fails, or if a key is not monotonic in the numbers.
    pub(super) fn try_new(
        axis: usize,
        conjuncts: Vec<Conjunct>,
        probe: &Side,
        both: &BothSides,
    ) -> Result<Option<Self>> {
        let (grid, set) = (&probe.part.grid, &probe.part.selection.axes()[axis]);
        let of_grid = &grid.axes()[axis];
        if !(1..=MAX_INDICES).contains(&set.count()) || of_grid.length() > u64::from(u32::MAX) {
            return Ok(None);
        }
        let mut indices: Vec<u32> = set.ranges().flatten().map(|index| index as u32).collect();
        let mut coordinates = of_grid.coordinates()?.at(set.ranges().flatten())?;
        let field = Field::new(of_grid.name(), of_grid.data_type(), false);
        let schema = Arc::new(Schema::new(vec![field.clone()]));
        let (mut compared, mut others) = (Vec::new(), Vec::new());
        for conjunct in conjuncts {
            let Some(sides) = &conjunct.comparison else {
                others.push(conjunct.expr);
                continue;
            };
            let only = Arc::new(Column::new(of_grid.name(), 0));
            let key = replace_columns(&sides.of_axis, &|_| Some(Arc::clone(&only) as _))?;
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(&coordinates)])?;
            // DataFusion's join stays. It reports the error if it evaluates the key on such a row.
            let Ok(values) = key.evaluate(&batch) else {
                return Ok(None);
            };
            // As in DataFusion's comparisons, zeros of both signs are equal.
            let values = normalize_float_zero(&values.into_array(indices.len())?);
            if values.logical_null_count() > 0
                || make_comparator(&values, &values, SortOptions::default()).is_err()
            {
                if conjunct.is_key {
                    return Ok(None);
                }
                others.push(conjunct.expr);
                continue;
            }
            let comparison = Comparison {
                values,
                is_descending: false,
                operator: sides.operator,
                bound: Arc::clone(&sides.bound),
                is_key: conjunct.is_key,
            };
            compared.push((comparison, conjunct.expr));
        }
        // In the order of an equality, the matches of a row have consecutive numbers.
        let is_equality = |comparison: &Comparison| comparison.operator == Operator::Eq;
        let first = compared
            .iter()
            .find(|(comparison, _)| is_equality(comparison));
        let monotonic = compared
            .iter()
            .find(|(comparison, _)| direction(&comparison.values).is_some());
        let sorted_by = first.or(monotonic).or(compared.first());
        let sorted_by = sorted_by.filter(|(comparison, _)| direction(&comparison.values).is_none());
        let is_in_order = sorted_by.is_none();
        if let Some((comparison, _)) = sorted_by {
            let order = stable_order(&comparison.values)?;
            indices = order
                .values()
                .iter()
                .map(|rank| indices[*rank as usize])
                .collect();
            coordinates = take(&coordinates, &order, None)?;
            for (comparison, _) in &mut compared {
                comparison.values = take(&comparison.values, &order, None)?;
            }
        }
        let mut comparisons = Vec::with_capacity(compared.len());
        for (mut comparison, expr) in compared {
            match direction(&comparison.values) {
                Some(is_descending) => {
                    comparison.is_descending = is_descending;
                    comparisons.push(comparison);
                }
                None if comparison.is_key => return Ok(None),
                None => others.push(expr),
            }
        }
        let others = others
            .iter()
            .map(|expr| Condition::new(expr, &[axis], both));
        Ok(Some(Self {
            axis,
            chunks: grid.chunk_grid().axis(axis),
            is_in_order,
            indices,
            coordinates,
            field,
            comparisons,
            others: others.collect::<Result<_>>()?,
        }))
    }
}

/// Returns `true` if values descend, `false` if they ascend or are all equal; `None` if they are not
/// monotonic.
fn direction(values: &ArrayRef) -> Option<bool> {
    let compare = make_comparator(values, values, SortOptions::default()).ok()?;
    let steps = || (1..values.len()).map(|next| compare(next - 1, next));
    if steps().all(|order| order.is_le()) {
        Some(false)
    } else {
        steps().all(|order| order.is_ge()).then_some(true)
    }
}

/// Returns the indices of values in ascending order. Equal values keep their order.
fn stable_order(values: &ArrayRef) -> Result<UInt32Array> {
    let compare = make_comparator(values, values, SortOptions::default())?;
    let mut order: Vec<u32> = (0..values.len() as u32).collect();
    order.sort_by(|one, other| compare(*one as usize, *other as usize));
    Ok(order.into())
}
