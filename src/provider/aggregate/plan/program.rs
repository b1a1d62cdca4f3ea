//! How each aggregate is computed: by reducing stored cells, or by the engine's own accumulators.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::bool_and_or::{BoolAnd, BoolOr};
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::stddev::{Stddev, StddevPop};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::functions_aggregate::variance::{VariancePopulation, VarianceSample};
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction_opt, split_conjunction};

use crate::grid::reduce::{CellType, SumKind, Wanted};
use crate::provider::aggregate::plan::aggregation::{Aggregate, Aggregation};
use crate::provider::aggregate::plan::columns::Columns;
use crate::provider::functions::extreme_argument::ExtremeArgument;
use crate::provider::functions::extremes::is_max;
use crate::provider::planning::value_bounds::Bounds;
use crate::provider::planning::value_set::ValueSet;
use crate::provider::source::CellFormat;

/// The most bounds of one reduction, which looks at every cell once for each. More are rather asked of rows.
const MOST_BOUNDS: usize = 8;

/// How the aggregates of an aggregation are computed.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// Reductions of stored cells.
    pub reductions: Vec<ReductionPlan>,
    /// Predicates over single dimensions, all of which the cells of some aggregates have to satisfy.
    pub restrictions: Vec<Vec<Arc<dyn PhysicalExpr>>>,
    /// Where each aggregate comes from.
    pub outputs: Vec<Output>,
    /// Which rows there are.
    pub presence: Presence,
    /// What rows have to satisfy that is not in the bounds of reductions.
    pub predicate: Option<Arc<dyn PhysicalExpr>>,
}

/// A reduction of the cells of one attribute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReductionPlan {
    /// The number of the attribute.
    pub attribute: usize,
    /// How its cells are stored.
    pub format: CellFormat,
    /// The restriction of its cells, by its number.
    pub restriction: Option<usize>,
    /// The bounds of the cells that count, apart from each other; `None` if all do.
    pub bounds: Option<Vec<Bounds>>,
    /// Whether it is all other cells that are counted, also missing ones. Then nothing else is wanted.
    pub others: bool,
    /// What is wanted of them.
    pub wanted: Wanted,
}

/// Which rows there are in each group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// All selected cells.
    Selected,
    /// The cells that count in a reduction.
    Counted(usize),
    /// Those that the predicate leaves.
    Rows,
}

/// Where an aggregate comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// The number of rows.
    Rows,
    /// The number of selected cells that a restriction leaves.
    Cells(usize),
    /// A reduction, by its number.
    Reduced(usize, Reduced),
    /// The positions along an axis, or the files, by the number of the table's column.
    Axis(usize, OfPositions),
    /// The engine's accumulators.
    Engine,
}

/// How an aggregate is computed of the positions along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OfPositions {
    /// Each counts as often as a group has cells there.
    Reduced(Reduced),
    /// The engine looks at each once.
    Once,
}

/// What becomes of the results of a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduced {
    Count,
    Sum,
    Average,
    Least,
    Greatest,
    Deviation,
}

impl Program {
    /// How to compute an aggregation over these columns. `is_on_axis` tells whether a conjunct of an aggregate's filter is
    /// solved on an axis.
    pub fn new(
        aggregation: &Aggregation,
        columns: &Columns,
        is_on_axis: &dyn Fn(&Arc<dyn PhysicalExpr>) -> bool,
    ) -> Self {
        let predicate = conjunction_opt(aggregation.conjuncts.iter().cloned());
        let cell_type = |column: usize| {
            let format = columns.format(column)?;
            is_reducible(format).then_some(format.cell_type)
        };
        let values = predicate
            .as_ref()
            .map(|predicate| ValueSet::of(predicate, &cell_type));
        let mut program = Self {
            reductions: Vec::new(),
            restrictions: Vec::new(),
            outputs: Vec::new(),
            presence: Presence::Selected,
            predicate: None,
        };
        let mut rows = None;
        if let Some(values) = values {
            let counted = values.and_then(|(column, values)| {
                let index = program.count(columns, column, &values, &[])?;
                Some((index, column, values))
            });
            match counted {
                Some((index, column, values)) => {
                    program.presence = Presence::Counted(index);
                    rows = Some((column, values));
                }
                None => {
                    program.presence = Presence::Rows;
                    program.predicate = predicate;
                }
            }
        }
        for aggregate in &aggregation.aggregates {
            let rows = rows.as_ref();
            let output = program.output(aggregate, columns, &cell_type, rows, is_on_axis);
            program.outputs.push(output.unwrap_or(Output::Engine));
        }
        // Where the engine has to look at rows anyway, they need the predicate.
        if program.outputs.contains(&Output::Engine) && program.predicate.is_none() {
            program.predicate = conjunction_opt(aggregation.conjuncts.iter().cloned());
        }
        program
    }

    /// Whether rows have to be looked at one by one.
    pub fn needs_rows(&self) -> bool {
        self.outputs.contains(&Output::Engine) || self.presence == Presence::Rows
    }

    /// The expressions that are evaluated row by row.
    pub fn row_expressions<'a>(
        &'a self,
        aggregation: &'a Aggregation,
    ) -> impl Iterator<Item = &'a Arc<dyn PhysicalExpr>> {
        let aggregates = self.outputs.iter().zip(&aggregation.aggregates);
        aggregates
            .filter(|(output, _)| **output == Output::Engine)
            .flat_map(|(_, aggregate)| aggregate.arguments.iter().chain(&aggregate.filter))
            .chain(&self.predicate)
    }

    fn output(
        &mut self,
        aggregate: &Aggregate,
        columns: &Columns,
        cell_type: &dyn Fn(usize) -> Option<CellType>,
        rows: Option<&(usize, ValueSet)>,
        is_on_axis: &dyn Fn(&Arc<dyn PhysicalExpr>) -> bool,
    ) -> Option<Output> {
        let function = &aggregate.function;
        let inner = function.fun().inner();
        let counts_rows = inner.is::<Count>()
            && !function.is_distinct()
            && columns.are_never_null(&aggregate.arguments);
        if counts_rows && aggregate.filter.is_none() {
            return Some(Output::Rows);
        }
        if self.presence == Presence::Selected
            && let Some(output) = of_axis(aggregate, columns)
        {
            return Some(output);
        }
        // Rows that a predicate over other columns leaves are only known one by one.
        if self.presence == Presence::Rows || function.is_distinct() {
            return None;
        }
        let filter = aggregate.filter.iter().flat_map(split_conjunction);
        let (on_axes, filter): (Vec<_>, Vec<_>) =
            filter.cloned().partition(|conjunct| is_on_axis(conjunct));
        let filter = match conjunction_opt(filter) {
            Some(filter) => Some(ValueSet::of(&filter, cell_type)?),
            None => None,
        };
        // Both at once, as one predicate.
        let values = match (rows.cloned(), filter) {
            (Some((one, rows)), Some((other, filter))) if one == other => {
                Some((one, rows.and(&filter)?))
            }
            (Some(_), Some(_)) => return None,
            (one, other) => one.or(other),
        };
        if counts_rows {
            return match values {
                None => self.restriction(&on_axes).map(Output::Cells),
                Some((column, values)) => self
                    .count(columns, column, &values, &on_axes)
                    .map(|index| Output::Reduced(index, Reduced::Count)),
            };
        }
        let [argument] = aggregate.arguments.as_slice() else {
            return None;
        };
        let (column, cast) = value_of(argument)?;
        let bounds = match values {
            Some((bounded, values)) if bounded == column => Some(values.bounds()),
            Some(_) => return None,
            None => None,
        };
        let format = columns.format(column)?;
        let (reduced, wanted) = reduce(aggregate, format, cast.as_ref())?;
        let plan = self.reduction_of(columns, column, bounds)?;
        let index = self.reduction_for(plan, &on_axes, wanted.sum);
        let before = &mut self.reductions[index].wanted;
        *before = Wanted {
            sum: before.sum.or(wanted.sum),
            count: before.count || wanted.count,
            least: before.least || wanted.least,
            greatest: before.greatest || wanted.greatest,
            deviation: before.deviation || wanted.deviation,
        };
        Some(Output::Reduced(index, reduced))
    }

    /// The restriction to what satisfies these predicates, if there are any.
    fn restriction(&mut self, on_axes: &[Arc<dyn PhysicalExpr>]) -> Option<usize> {
        if on_axes.is_empty() {
            return None;
        }
        let found = self.restrictions.iter().position(|one| one == on_axes);
        Some(found.unwrap_or_else(|| {
            self.restrictions.push(on_axes.to_vec());
            self.restrictions.len() - 1
        }))
    }

    /// The reduction that counts the rows where a column's value is one of a set, and that satisfy predicates over
    /// dimensions.
    fn count(
        &mut self,
        columns: &Columns,
        column: usize,
        values: &ValueSet,
        on_axes: &[Arc<dyn PhysicalExpr>],
    ) -> Option<usize> {
        // What is missing is counted as what is not one of the other values.
        let others = values.has_null();
        let bounds = if others {
            values.other_bounds()
        } else {
            values.bounds()
        };
        let plan = ReductionPlan {
            others,
            ..self.reduction_of(columns, column, Some(bounds))?
        };
        let index = self.reduction_for(plan, on_axes, None);
        self.reductions[index].wanted.count = true;
        Some(index)
    }

    /// A reduction of a column's cells within bounds, of which nothing is wanted yet; `None` if they are better looked at one
    /// by one.
    fn reduction_of(
        &self,
        columns: &Columns,
        column: usize,
        bounds: Option<Vec<Bounds>>,
    ) -> Option<ReductionPlan> {
        let format = columns.format(column)?;
        let is_possible = is_reducible(format)
            && bounds
                .as_ref()
                .is_none_or(|bounds| bounds.len() <= MOST_BOUNDS);
        Some(ReductionPlan {
            attribute: columns.attribute(column).filter(|_| is_possible)?,
            format,
            restriction: None,
            bounds,
            others: false,
            wanted: Wanted::default(),
        })
    }

    /// The number of a reduction like this one, of cells that satisfy predicates over dimensions, whose sums are of that kind
    /// or can become so.
    fn reduction_for(
        &mut self,
        plan: ReductionPlan,
        on_axes: &[Arc<dyn PhysicalExpr>],
        sum: Option<SumKind>,
    ) -> usize {
        let plan = ReductionPlan {
            restriction: self.restriction(on_axes),
            ..plan
        };
        let found = self.reductions.iter().position(|one| {
            let sums_agree = match (one.wanted.sum, sum) {
                (Some(one), Some(other)) => one == other,
                _ => true,
            };
            let wanted = plan.wanted;
            sums_agree
                && ReductionPlan {
                    wanted,
                    ..one.clone()
                } == plan
        });
        found.unwrap_or_else(|| {
            self.reductions.push(plan);
            self.reductions.len() - 1
        })
    }
}

/// How an aggregate is computed that is of one dimension, or of the file, in all of its expressions.
fn of_axis(aggregate: &Aggregate, columns: &Columns) -> Option<Output> {
    let expressions = aggregate.arguments.iter().chain(&aggregate.filter);
    let over = expressions.flat_map(collect_columns);
    let mut over = over.map(|column| column.index());
    // What is constant is so along any axis.
    let column = over.next().or((columns.dimensions > 0).then_some(0))?;
    if columns.attribute(column).is_some() || over.any(|other| other != column) {
        return None;
    }
    let function = &aggregate.function;
    let inner = function.fun().inner();
    let (is_count, is_sum, is_average) =
        (inner.is::<Count>(), inner.is::<Sum>(), inner.is::<Avg>());
    let is_same_once = is_max(inner.as_ref()).is_some()
        || inner.is::<BoolAnd>()
        || inner.is::<BoolOr>()
        || inner.is::<ExtremeArgument>()
        || (function.is_distinct() && (is_count || is_sum || is_average));
    if is_same_once {
        return Some(Output::Axis(column, OfPositions::Once));
    }
    let state = function.state_fields().ok()?;
    let state: Vec<&DataType> = state.iter().map(|field| field.data_type()).collect();
    // Should the engine's state not be what is made here, the engine makes it.
    let reduced = match state.as_slice() {
        [DataType::Int64] if is_count => Reduced::Count,
        [DataType::Float64 | DataType::Int64 | DataType::UInt64] if is_sum => Reduced::Sum,
        [DataType::UInt64, DataType::Float64] if is_average => Reduced::Average,
        _ => return None,
    };
    Some(Output::Axis(column, OfPositions::Reduced(reduced)))
}

/// Whether what the engine makes of the cells is what a reduction makes of them: it does not order what is no number.
fn is_reducible(format: CellFormat) -> bool {
    format.nan_is_null || !format.cell_type.is_float()
}

/// The column that an expression is, and what it is cast to.
pub(crate) fn value_of(expr: &Arc<dyn PhysicalExpr>) -> Option<(usize, Option<DataType>)> {
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) => {
            let column = cast.expr().downcast_ref::<Column>()?;
            Some((column.index(), Some(cast.cast_type().clone())))
        }
        None => Some((expr.downcast_ref::<Column>()?.index(), None)),
    }
}

/// What a function of a column, cast or not, takes of a reduction.
fn reduce(
    aggregate: &Aggregate,
    format: CellFormat,
    cast: Option<&DataType>,
) -> Option<(Reduced, Wanted)> {
    let cell_type = format.cell_type;
    // Casts that keep every value, or round it to the nearest double, and never fail.
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
    let state = aggregate.function.state_fields().ok()?;
    let state: Vec<&DataType> = state.iter().map(|field| field.data_type()).collect();
    let natural = if is_float {
        SumKind::Float
    } else {
        SumKind::Natural
    };
    let sum_type = match (is_float, cell_type.is_signed_integer()) {
        (true, _) => DataType::Float64,
        (false, true) => DataType::Int64,
        (false, false) => DataType::UInt64,
    };
    let nothing = Wanted::default();
    let inner = aggregate.function.fun().inner();
    let (reduced, wanted, expected) = if inner.is::<Count>() {
        let wanted = Wanted {
            count: true,
            ..nothing
        };
        (Reduced::Count, wanted, vec![DataType::Int64])
    } else if inner.is::<Sum>() {
        let wanted = Wanted {
            sum: Some(natural),
            count: true,
            ..nothing
        };
        (Reduced::Sum, wanted, vec![sum_type])
    } else if inner.is::<Avg>() && is_float {
        let wanted = Wanted {
            sum: Some(SumKind::Float),
            count: true,
            ..nothing
        };
        let expected = vec![DataType::UInt64, DataType::Float64];
        (Reduced::Average, wanted, expected)
    } else if let Some(is_max) = is_max(inner.as_ref()) {
        let wanted = Wanted {
            least: !is_max,
            greatest: is_max,
            ..nothing
        };
        let reduced = match is_max {
            true => Reduced::Greatest,
            false => Reduced::Least,
        };
        // Of the type of the argument, whatever that is.
        (
            reduced,
            wanted,
            vec![aggregate.function.field().data_type().clone()],
        )
    } else if is_float
        && (inner.is::<VarianceSample>()
            || inner.is::<VariancePopulation>()
            || inner.is::<Stddev>()
            || inner.is::<StddevPop>())
    {
        let wanted = Wanted {
            deviation: true,
            ..nothing
        };
        let expected = vec![DataType::UInt64, DataType::Float64, DataType::Float64];
        (Reduced::Deviation, wanted, expected)
    } else {
        return None;
    };
    // Should the engine's state not be what is made here, the engine makes it.
    (state.len() == expected.len()
        && state
            .iter()
            .zip(&expected)
            .all(|(one, other)| *one == other))
    .then_some((reduced, wanted))
}
