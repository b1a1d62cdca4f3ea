//! Reductions of stored cells: the cells that count, and the results to compute.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::stddev::{Stddev, StddevPop};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::functions_aggregate::variance::{VariancePopulation, VarianceSample};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::lit;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;

use crate::grid::reduce::{CellType, RequestedAggregates, SumKind};
use crate::provider::aggregate::plan::aggregation::Aggregate;
use crate::provider::aggregate::plan::columns::Columns;
use crate::provider::functions::extremes::is_max;
use crate::provider::planning::dynamic::{is_dynamic, with_subquery_values};
use crate::provider::planning::value_range::ValueRange;
use crate::provider::planning::value_set::ValueSet;
use crate::provider::source::CellFormat;

/// The maximum number of bounds of one reduction. A reduction scans all cells once per bound, so
/// beyond this limit the predicate is evaluated row by row.
const MAX_BOUNDS: usize = 8;

/// A reduction of the cells of one attribute to one result per group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReductionPlan {
    /// The index of the attribute.
    pub attribute: usize,
    /// The storage format of the attribute's cells.
    pub format: CellFormat,
    /// The index into [`Program::restrictions`], if only some of the selected cells count.
    pub restriction: Option<usize>,
    /// The values of the cells that count; `None` if all cells count.
    pub values: Option<CountedValues>,
    /// Another attribute that decides which cells count; `None` if all cells count.
    pub mask: Option<Mask>,
    /// The results to compute.
    pub wanted: RequestedAggregates,
}

/// An attribute whose values decide which cells of another attribute count: `avg(a) WHERE b > 3`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mask {
    /// The index of the attribute.
    pub attribute: usize,
    /// The storage format of the attribute's cells.
    pub format: CellFormat,
    /// The values where cells of the other attribute count.
    pub values: CountedValues,
    /// The bit pattern that replaces cells that do not count. Reductions skip it.
    pub skipped: u64,
}

/// The values of the cells that count.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CountedValues {
    /// The values, with a stand-in for each scalar subquery.
    set: ValueSet,
    /// The predicate that the values satisfy, if it has scalar subqueries.
    pending: Option<Arc<dyn PhysicalExpr>>,
    /// If `true`, the reduction counts the cells outside of the bounds, including null ones, and
    /// computes nothing else. Null cells lie within no bounds.
    others: bool,
}

/// The aggregate that is computed from the results of a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduced {
    Count,
    Sum,
    Average,
    Min,
    Max,
    Deviation,
}

impl CountedValues {
    /// Returns the values of one column that satisfy a predicate, and the index of the column.
    pub fn of(predicate: &Arc<dyn PhysicalExpr>, columns: &Columns) -> Option<(usize, Self)> {
        let cell_type = |column: usize| {
            let format = columns.format(column)?;
            format.holds_numbers().then_some(format.cell_type)
        };
        let (column, set) = ValueSet::of(&with_stand_ins(predicate).ok()?, &cell_type)?;
        let values = Self {
            set,
            pending: is_dynamic(predicate).then(|| Arc::clone(predicate)),
            others: false,
        };
        Some((column, values))
    }

    /// Returns the values for a reduction that counts cells, null ones included if they satisfy the
    /// predicate. Null cells lie within no bounds, so the cells outside the complement are counted.
    pub fn with_nulls(self) -> Self {
        Self {
            others: self.set.has_null(),
            ..self
        }
    }

    /// Returns the disjoint bounds of the cells that count, once the scalar subqueries have values.
    /// `None` if they leave no bounds, or too many.
    pub fn bounds(&self, cell_type: CellType) -> Result<Option<Vec<ValueRange>>> {
        let Some(predicate) = &self.pending else {
            return Ok(self.bounds_of(&self.set));
        };
        let predicate = with_subquery_values(predicate)?;
        let set = ValueSet::of(&predicate, &|_| Some(cell_type)).map(|(_, set)| set);
        let set = set.filter(|set| set.has_null() == self.set.has_null());
        Ok(set.and_then(|set| self.bounds_of(&set)))
    }

    fn bounds_of(&self, set: &ValueSet) -> Option<Vec<ValueRange>> {
        let bounds = match self.others {
            true => set.other_bounds(),
            false => set.bounds(),
        };
        (bounds.len() <= MAX_BOUNDS).then_some(bounds)
    }
}

impl Mask {
    /// Returns the mask of cells with the format `masked` where `column` has these values. `None` if the
    /// values include null, or if no number marks cells of that format as skipped.
    pub fn try_new(
        columns: &Columns,
        column: usize,
        values: CountedValues,
        masked: CellFormat,
    ) -> Option<Self> {
        let format = columns.format(column)?;
        values.bounds_of(&values.set)?;
        (!values.set.has_null() && format.cell_type != CellType::F16).then_some(())?;
        Some(Self {
            attribute: columns.attribute(column)?,
            format,
            values,
            skipped: masked.cell_type.nan().or(masked.fill)?,
        })
    }
}

impl ReductionPlan {
    /// Returns the attributes that the reduction reads.
    pub fn attributes(&self) -> impl Iterator<Item = usize> {
        let mask = self.mask.as_ref().map(|mask| mask.attribute);
        std::iter::once(self.attribute).chain(mask)
    }

    /// Returns `true` if the reduction counts the cells outside of its bounds, including null ones,
    /// and computes nothing else.
    pub fn counts_others(&self) -> bool {
        self.values.as_ref().is_some_and(|values| values.others)
    }
}

/// Returns a reduction of the cells of `column` with these values that computes nothing yet; `None`
/// if the cells have to be processed row by row.
pub(crate) fn reduction_of(
    columns: &Columns,
    column: usize,
    values: Option<CountedValues>,
) -> Option<ReductionPlan> {
    let format = columns
        .format(column)
        .filter(|format| format.holds_numbers())?;
    if let Some(values) = &values {
        values.bounds_of(&values.set)?;
    }
    Some(ReductionPlan {
        attribute: columns.attribute(column)?,
        format,
        restriction: None,
        values,
        mask: None,
        wanted: RequestedAggregates::default(),
    })
}

/// Replaces the scalar subqueries of a predicate, whose values are not known before the query runs,
/// by numeric literals.
fn with_stand_ins(predicate: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    let replaced = Arc::clone(predicate).transform_up(|expr| {
        if !expr.is::<ScalarSubqueryExpr>() {
            return Ok(Transformed::no(expr));
        }
        let one = ScalarValue::new_one(&expr.data_type(&Schema::empty())?)?;
        Ok(Transformed::yes(lit(one)))
    })?;
    Ok(replaced.data)
}

/// Returns how an aggregate of a column is computed by a reduction, and the results that the
/// reduction has to provide; `None` if no reduction can compute the aggregate.
pub(crate) fn reduce(
    aggregate: &Aggregate,
    format: CellFormat,
    cast: Option<&DataType>,
) -> Option<(Reduced, RequestedAggregates)> {
    let cell_type = format.cell_type;
    // Accept only casts that never fail, and that keep every value or round it to the nearest
    // double.
    let is_exact = match cast {
        None | Some(DataType::Float64) => true,
        Some(DataType::Int64) => cell_type.is_signed_integer() || cell_type.is_unsigned_below(8),
        Some(DataType::UInt64) => cell_type.is_unsigned_below(9),
        Some(_) => false,
    };
    if !is_exact {
        return None;
    }
    let is_float = cell_type.is_float() || cast == Some(&DataType::Float64);
    let inner = aggregate.function.fun().inner();
    let reduced = if inner.is::<Count>() {
        Reduced::Count
    } else if inner.is::<Sum>() {
        Reduced::Sum
    } else if inner.is::<Avg>() && is_float {
        Reduced::Average
    } else if let Some(is_max) = is_max(inner.as_ref()) {
        match is_max {
            true => Reduced::Max,
            false => Reduced::Min,
        }
    } else if is_float
        && (inner.is::<VarianceSample>()
            || inner.is::<VariancePopulation>()
            || inner.is::<Stddev>()
            || inner.is::<StddevPop>())
    {
        Reduced::Deviation
    } else {
        return None;
    };
    let (sum, sum_type) = match (is_float, cell_type.is_signed_integer()) {
        (true, _) => (SumKind::Float, DataType::Float64),
        (false, true) => (SumKind::Natural, DataType::Int64),
        (false, false) => (SumKind::Natural, DataType::UInt64),
    };
    let is_summed = matches!(reduced, Reduced::Sum | Reduced::Average);
    let wanted = RequestedAggregates {
        sum: is_summed.then_some(sum),
        count: is_summed || reduced == Reduced::Count,
        min: reduced == Reduced::Min,
        max: reduced == Reduced::Max,
        deviation: reduced == Reduced::Deviation,
    };
    let expected = match reduced {
        Reduced::Count => vec![DataType::Int64],
        Reduced::Sum => vec![sum_type],
        Reduced::Average => vec![DataType::UInt64, DataType::Float64],
        // The state of MIN and MAX has the type of their argument.
        Reduced::Min | Reduced::Max => vec![aggregate.function.field().data_type().clone()],
        Reduced::Deviation => vec![DataType::UInt64, DataType::Float64, DataType::Float64],
    };
    // If DataFusion's partial state has another layout, leave the aggregate to DataFusion.
    let state = aggregate.function.state_fields().ok()?;
    let state = state.iter().map(|field| field.data_type());
    state.eq(&expected).then_some((reduced, wanted))
}
