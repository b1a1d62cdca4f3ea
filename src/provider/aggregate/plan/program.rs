//! Decides how each aggregate is computed: by reducing stored cells, from an axis alone, or by
//! DataFusion's accumulators.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::bool_and_or::{BoolAnd, BoolOr};
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::sum::Sum;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};

use crate::grid::reduce::{RequestedAggregates, SumKind};
use crate::provider::aggregate::plan::aggregation::{Aggregate, Aggregation};
use crate::provider::aggregate::plan::axis_filters::is_on_axis;
use crate::provider::aggregate::plan::axis_pairs::{AxisPair, GroupPair, pair_of};
use crate::provider::aggregate::plan::columns::{Columns, value_of};
use crate::provider::aggregate::plan::group_columns::{GroupColumns, group_columns};
use crate::provider::aggregate::plan::reductions::{
    CountedValues, Mask, Reduced, ReductionPlan, reduce, reduction_of,
};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::functions::extreme_argument::ExtremeArgument;
use crate::provider::functions::extremes::is_max;
use crate::provider::plans::conjunction::conjunction_opt;
use crate::provider::source::GridSelection;

/// The program of an aggregation: one [`Output`] per aggregate, and everything the outputs are
/// computed from. It is built once, when the query is planned, holds no state of an execution, and
/// is what EXPLAIN shows.
///
/// ```text
/// SELECT lat, count(*), avg(value), max(time), median(value) FROM t GROUP BY lat
///
/// count(*)       Output::Rows                 number of selected cells, by arithmetic
/// avg(value)     Output::Reduced(0, Average)  reductions[0]: sum and count of `value`
/// max(time)      Output::Axis(0, Once)        coordinates of the axis, no chunk is read
/// median(value)  Output::RowByRow             DataFusion's accumulator, fed with rows
/// ```
///
/// Conjuncts over one dimension are solved on its axis, and those over two on the pairs of their coordinates
/// ([`AxisPair`]). Other conjuncts over one attribute, such as
/// `value > 0`, become bounds of the reductions of this attribute and [`Mask`]s of the others, and groups
/// exist where a reduction counted a cell ([`Presence::Counted`]). Any other predicate is evaluated row by row ([`Presence::Rows`]).
///
/// Planning decides how every predicate and every aggregate is computed. The values of scalar
/// subqueries and dynamic filters are known only when the query runs. They decide the index sets
/// along the axes and the bounds of the reductions, and nothing else:
///
/// ```text
///                              planning                  execution
/// time = (SELECT max(time)..)  solved on the axis time   the selected indices
/// value > (SELECT avg(value).) bounds of a reduction     the bounds
/// dynamic filter                                         the selected indices, pruned chunks
/// ```
///
/// If the values do not fit the decision, for example because a predicate fails on a coordinate,
/// DataFusion's own plan runs instead, which the metric `left_to_engine` counts.
///
/// The stages of an aggregate:
///
/// ```text
/// AggregateExec      the plan node that is replaced
///       |
/// Aggregation        expressions over the table's columns
///       |
/// Program            this type
///       |
/// Job                one execution: chunks in units, handed out to the workers
///       |-- worker: partial state --.
///       |-- worker: partial state --+-- merged -- final values, one row per group
///       `-- worker: partial state --'
/// ```
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// The aggregation over the columns of the table.
    pub aggregation: Aggregation,
    /// For each grouping expression, the columns that it refers to.
    pub group_columns: Vec<GroupColumns>,
    /// The groups of the expressions over two dimensions.
    pub group_pair: Option<Arc<GroupPair>>,
    /// The number of dimensions, which are the first columns.
    pub dimensions: usize,
    /// The attributes to read.
    pub attributes: Vec<usize>,
    /// The conjuncts of the predicate that are solved on the axes.
    pub on_axes: Vec<Arc<dyn PhysicalExpr>>,
    /// The conjuncts of the predicate that are solved on the pairs of coordinates.
    pub on_pairs: Vec<Arc<dyn PhysicalExpr>>,
    /// The conjuncts of the predicate and of FILTER clauses over two dimensions. Those that are solved are all
    /// over the same two.
    pair_filters: Vec<PairFilter>,
    /// The reductions of stored cells.
    pub reductions: Vec<ReductionPlan>,
    /// For each distinct set of predicates over one or two dimensions in the FILTER clauses, its conjuncts.
    pub restrictions: Vec<Vec<Arc<dyn PhysicalExpr>>>,
    /// One entry per aggregate, in the order of the aggregation: the way it is computed.
    pub outputs: Vec<Output>,
    /// The source of row counts, which tell the groups that exist.
    pub presence: Presence,
    /// The predicate to evaluate row by row; `None` if the reductions' bounds cover it and no
    /// accumulator needs rows.
    pub predicate: Option<Arc<dyn PhysicalExpr>>,
}

/// A conjunct over two dimensions, and the pairs of coordinates that satisfy it; `None` if it is evaluated row
/// by row.
#[derive(Debug, Clone)]
struct PairFilter {
    conjunct: Arc<dyn PhysicalExpr>,
    pair: Option<Arc<AxisPair>>,
}

/// The source of the number of rows in each group. A group without rows is not emitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Every selected cell is a row.
    Selected,
    /// The rows are the cells counted by the reduction with this index.
    Counted(usize),
    /// The rows are the cells that satisfy [`Program::predicate`].
    Rows,
}

/// The way one aggregate is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// The number of rows.
    Rows,
    /// The number of selected cells that the restriction with this index keeps.
    Cells(usize),
    /// The reduction with this index.
    Reduced(usize, Reduced),
    /// From the coordinates along an axis, or from the file column. The index is that of the
    /// table's column.
    Axis(usize, AxisMethod),
    /// Computed by DataFusion's accumulator, row by row.
    RowByRow,
}

/// The way an aggregate is computed from the coordinates along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AxisMethod {
    /// Each coordinate is weighted by the number of cells that the group has there.
    Reduced(Reduced),
    /// The result does not depend on repetition, so DataFusion's accumulator sees each coordinate
    /// once.
    Once,
}

impl Program {
    /// Plans an aggregation over the rows of these grids, whose table has `fields` columns. `None`
    /// if a grouping expression refers to anything but one or two dimensions or the file column.
    pub fn try_new(
        aggregation: Aggregation,
        parts: &[GridSelection],
        fields: usize,
        options: &ReadOptions,
    ) -> Option<Self> {
        let columns = Columns::of(parts, options);
        let file = parts.iter().any(|part| part.file.is_some());
        let file = file.then(|| fields - 1);
        let dimensions = columns.dimensions;
        let (group_columns, group_pair) =
            group_columns(&aggregation.groups, dimensions, file, parts)?;
        let conjuncts = aggregation.conjuncts.iter().cloned();
        let (on_axes, conjuncts): (Vec<_>, Vec<_>) =
            conjuncts.partition(|conjunct| is_on_axis(conjunct, parts));
        let mut program = Self {
            group_columns,
            group_pair,
            dimensions,
            attributes: Vec::new(),
            on_axes,
            on_pairs: Vec::new(),
            pair_filters: Vec::new(),
            reductions: Vec::new(),
            restrictions: Vec::new(),
            outputs: Vec::with_capacity(aggregation.aggregates.len()),
            presence: Presence::Selected,
            predicate: None,
            aggregation,
        };
        let (on_pairs, conjuncts): (Vec<_>, Vec<_>) = conjuncts
            .into_iter()
            .partition(|conjunct| program.solve_on_pair(conjunct, parts));
        program.on_pairs = on_pairs;
        let predicate = conjunction_opt(conjuncts);
        if let Some(predicate) = &predicate {
            match program.count(&columns, predicate, &[]) {
                Some(index) => program.presence = Presence::Counted(index),
                None => program.presence = Presence::Rows,
            }
        }
        for aggregate in program.aggregation.aggregates.clone() {
            let output = program.output(&aggregate, &columns, predicate.as_ref(), parts);
            program.outputs.push(output.unwrap_or(Output::RowByRow));
        }
        // Accumulators are fed with rows, which have to satisfy the predicate even if the
        // reductions cover it.
        if program.needs_rows() {
            program.predicate = conjunction_opt(program.on_pairs.iter().cloned().chain(predicate));
        }
        let by_row = program.row_expressions().flat_map(collect_columns);
        let attributes = by_row
            .filter_map(|column| columns.attribute(column.index()))
            .chain(
                program
                    .reductions
                    .iter()
                    .flat_map(ReductionPlan::attributes),
            )
            .collect::<BTreeSet<usize>>();
        program.attributes = attributes.into_iter().collect();
        Some(program)
    }

    /// Returns `true` if cells have to be processed row by row.
    pub fn needs_rows(&self) -> bool {
        self.outputs.contains(&Output::RowByRow) || self.presence == Presence::Rows
    }

    /// Returns the expressions that are evaluated row by row.
    fn row_expressions(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.by_row()
            .flat_map(|aggregate| aggregate.arguments.iter().chain(&aggregate.filter))
            .chain(&self.predicate)
    }

    /// Returns `true` if a conjunct was solved on pairs of coordinates.
    pub fn is_on_pair(&self, conjunct: &Arc<dyn PhysicalExpr>) -> bool {
        let mut filters = self.pair_filters.iter();
        filters.any(|filter| &filter.conjunct == conjunct && filter.pair.is_some())
    }

    /// Solves a conjunct on pairs of coordinates. Returns `false` if that is not possible.
    fn solve_on_pair(&mut self, conjunct: &Arc<dyn PhysicalExpr>, parts: &[GridSelection]) -> bool {
        let mut known = self.pair_filters.iter();
        if !known.any(|filter| &filter.conjunct == conjunct) {
            let pair = match pair_of(conjunct, self.dimensions) {
                Some(axes) if self.pair_axes().is_none_or(|other| other == axes) => {
                    // Unreadable coordinates are reported when the query reads them.
                    AxisPair::of_predicate(conjunct, axes, parts).ok().flatten()
                }
                _ => None,
            };
            self.pair_filters.push(PairFilter {
                conjunct: Arc::clone(conjunct),
                pair: pair.map(Arc::new),
            });
        }
        self.is_on_pair(conjunct)
    }

    /// Returns the axes of the pairs, if there are any.
    fn pair_axes(&self) -> Option<[usize; 2]> {
        let groups = self.group_pair.iter().map(|groups| groups.pair.axes);
        let filters = self.pair_filters.iter();
        let filters = filters.filter_map(|filter| filter.pair.as_ref());
        groups.chain(filters.map(|pair| pair.axes)).next()
    }

    /// Returns the solved conjuncts over two dimensions of the predicate and, if given, of a restriction.
    pub fn filters_of(&self, restriction: Option<usize>) -> impl Iterator<Item = &AxisPair> {
        let restriction = restriction.map(|number| &self.restrictions[number]);
        let filters = self.pair_filters.iter().filter(move |filter| {
            let is_in = |conjuncts: &Vec<_>| conjuncts.contains(&filter.conjunct);
            is_in(&self.on_pairs) || restriction.is_some_and(is_in)
        });
        filters.filter_map(|filter| filter.pair.as_deref())
    }

    /// Returns `true` if the selected cells of each group are a product of indices along the axes.
    pub fn is_product(&self) -> bool {
        self.group_pair.is_none() && self.on_pairs.is_empty()
    }

    /// Returns the axes that are grouped by.
    pub fn grouped_axes(&self) -> Vec<usize> {
        let columns = self
            .group_columns
            .iter()
            .filter_map(|columns| match columns {
                GroupColumns::One(column) => Some(*column),
                GroupColumns::Pair => None,
            });
        let pair = self.group_pair.iter().flat_map(|groups| groups.pair.axes);
        columns.chain(pair).collect()
    }

    /// Returns the aggregates with the way each is computed.
    pub fn computed(&self) -> impl Iterator<Item = (&Aggregate, Output)> {
        let outputs = self.outputs.iter().copied();
        self.aggregation.aggregates.iter().zip(outputs)
    }

    /// Returns the aggregates that DataFusion's accumulators compute row by row.
    pub fn by_row(&self) -> impl Iterator<Item = &Aggregate> {
        self.computed()
            .filter(|(_, output)| *output == Output::RowByRow)
            .map(|(aggregate, _)| aggregate)
    }

    /// Returns `true` if there are grouping expressions.
    pub fn is_grouped(&self) -> bool {
        !self.aggregation.groups.is_empty()
    }

    fn output(
        &mut self,
        aggregate: &Aggregate,
        columns: &Columns,
        predicate: Option<&Arc<dyn PhysicalExpr>>,
        parts: &[GridSelection],
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
            && self.is_product()
            && let Some(output) = of_axis(aggregate, columns)
        {
            return Some(output);
        }
        // A predicate evaluated row by row leaves no bounds that a reduction could use.
        if self.presence == Presence::Rows || function.is_distinct() {
            return None;
        }
        let filter = aggregate.filter.iter().flat_map(split_conjunction);
        let (on_axes, filter): (Vec<_>, Vec<_>) = filter.cloned().partition(|conjunct| {
            is_on_axis(conjunct, parts) || self.solve_on_pair(conjunct, parts)
        });
        // Both the predicate and the FILTER clause restrict the cells that count.
        let values = conjunction_opt(predicate.into_iter().cloned().chain(filter));
        if counts_rows {
            return match values {
                None => self.restriction(&on_axes).map(Output::Cells),
                Some(values) => self
                    .count(columns, &values, &on_axes)
                    .map(|index| Output::Reduced(index, Reduced::Count)),
            };
        }
        let [argument] = aggregate.arguments.as_slice() else {
            return None;
        };
        let (column, cast) = value_of(argument)?;
        let format = columns.format(column)?;
        let (values, mask) = match values.map(|values| CountedValues::of(&values, columns)) {
            Some(Some((bounded, values))) if bounded == column => (Some(values), None),
            Some(Some((other, values))) => {
                (None, Some(Mask::try_new(columns, other, values, format)?))
            }
            Some(None) => return None,
            None => (None, None),
        };
        let (reduced, wanted) = reduce(aggregate, format, cast.as_ref())?;
        let plan = ReductionPlan {
            mask,
            ..reduction_of(columns, column, values)?
        };
        let index = self.reduction_for(plan, &on_axes, wanted.sum);
        let before = &mut self.reductions[index].wanted;
        *before = RequestedAggregates {
            sum: before.sum.or(wanted.sum),
            count: before.count || wanted.count,
            min: before.min || wanted.min,
            max: before.max || wanted.max,
            deviation: before.deviation || wanted.deviation,
        };
        Some(Output::Reduced(index, reduced))
    }

    /// Returns the index of the restriction to these conjuncts; `None` if there are no conjuncts.
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

    /// Returns the index of the reduction that counts the rows that satisfy `predicate`, which is
    /// over one attribute, and all of `on_axes`.
    fn count(
        &mut self,
        columns: &Columns,
        predicate: &Arc<dyn PhysicalExpr>,
        on_axes: &[Arc<dyn PhysicalExpr>],
    ) -> Option<usize> {
        let (column, values) = CountedValues::of(predicate, columns)?;
        let values = values.with_nulls();
        let plan = reduction_of(columns, column, Some(values))?;
        let index = self.reduction_for(plan, on_axes, None);
        self.reductions[index].wanted.count = true;
        Some(index)
    }

    /// Returns the index of a reduction that equals `plan` restricted to `on_axes` and whose sums,
    /// if any, are of the given kind. Adds the reduction if there is none.
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

/// Returns the output of an aggregate whose expressions all refer to one dimension, or to the file
/// column.
fn of_axis(aggregate: &Aggregate, columns: &Columns) -> Option<Output> {
    let expressions = aggregate.arguments.iter().chain(&aggregate.filter);
    let over = expressions.flat_map(collect_columns);
    let mut over = over.map(|column| column.index());
    // An aggregate of constants can be computed along any axis.
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
        return Some(Output::Axis(column, AxisMethod::Once));
    }
    let state = function.state_fields().ok()?;
    let state: Vec<&DataType> = state.iter().map(|field| field.data_type()).collect();
    // If DataFusion's partial state has another layout, leave the aggregate to DataFusion.
    let reduced = match state.as_slice() {
        [DataType::Int64] if is_count => Reduced::Count,
        [DataType::Float64 | DataType::Int64 | DataType::UInt64] if is_sum => Reduced::Sum,
        [DataType::UInt64, DataType::Float64] if is_average => Reduced::Average,
        _ => return None,
    };
    Some(Output::Axis(column, AxisMethod::Reduced(reduced)))
}
