//! Aggregates the cells of an array before they are joined.
//!
//! `SELECT region, avg(value) FROM array JOIN regions ON lat BETWEEN south AND north GROUP BY region` does
//! not need the cells one by one: all cells with the same `lat` have the same matches. So their partial
//! states are computed in array space, and the join returns partial states in place of cells. This is
//! eager aggregation (Yan and Larson, VLDB 1995).
//!
//! ```text
//! array [time, lat, lon]  ->  a state per lat  ->  joined with the regions  ->  a state per region
//! ```

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::concat;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{Operator, ScalarUDF};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, lit};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, split_conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use crate::provider::aggregate::plan::aggregation::{Aggregate, Aggregation, Stage};
use crate::provider::aggregate::plan::grid_classes::{GridClasses, SelectedCoordinates};
use crate::provider::aggregate::plan::group_columns::{GroupColumns, never_fail};
use crate::provider::aggregate::rule;
use crate::provider::join::lookup::ArrayLookupJoinExec;
use crate::provider::join::lookup::coordinate_term::CoordinateTerm;
use crate::provider::join::lookup::grouped::{GROUP_NUMBER, GroupKeys};
use crate::provider::join::lookup::key_index_grid::KEY_INDEX;
use crate::provider::join::lookup::keys::KeyTerms;
use crate::provider::join::lookup::rule::extension::GridColumns;
use crate::provider::planning::pushdown::only_column;
use crate::provider::plans::below::{InlinedInput, columns_in, moved};
use crate::provider::plans::conjunction::conjunction_opt;
use crate::provider::scan::ArrayScan;
use crate::provider::source::GridSelection;

/// The minimum number of cells per group before the join. With fewer, joining the cells is cheaper.
const MIN_CELLS: u64 = 4;
/// The maximum number of groups before the join. Their partial states are kept in memory.
const MAX_GROUPS_BEFORE_JOIN: u64 = 1 << 22;
/// The approximate number of bytes per group for the keys, and for each aggregate: while the aggregate is
/// computed, and in the output.
const BYTES_PER_COLUMN: usize = 48;

/// The partial states that a join returns in place of cells.
#[derive(Debug, Clone)]
pub(in crate::provider) struct JoinedStates {
    /// For each aggregate, the columns of the join that hold its partial state.
    pub columns: Vec<Range<usize>>,
    /// The columns of the array's table, to which the arguments of the aggregates refer.
    pub table: SchemaRef,
    /// The approximate number of bytes of the partial states before the join.
    pub bytes: usize,
}

/// An aggregation over a join that returns partial states.
pub(super) struct EagerAggregation {
    /// The join, whose output are the partial states, then the group numbers.
    pub join: ArrayLookupJoinExec,
    /// The aggregates, over the columns of the array's table.
    pub aggregates: Vec<Aggregate>,
    pub states: JoinedStates,
}

/// The functions that return the terms of one axis.
struct AxisTerms {
    axis: usize,
    /// Returns the term of the key index; `None` if the keys do not use the axis.
    key: Option<Arc<ScalarUDF>>,
    /// Returns the term of the group number; `None` if no grouping expression uses the axis.
    group: Option<Arc<ScalarUDF>>,
    /// The number of distinct pairs of terms.
    count: u64,
}

impl EagerAggregation {
    /// Plans eager aggregation below `join`, whose output `cells` describes. Returns `None` if an aggregate
    /// or a predicate uses columns of the build side, if the array cannot be aggregated in array space, or
    /// if there would be more than [`MAX_GROUPS_BEFORE_JOIN`] groups or fewer than [`MIN_CELLS`] cells per
    /// group. In a partial stage, one cell per group is enough.
    pub fn try_new(
        join: &ArrayLookupJoinExec,
        cells: &GridColumns,
        aggregation: &Aggregation,
        keys: &GroupKeys,
        stage: Stage,
        config: &ConfigOptions,
    ) -> Result<Option<Self>> {
        let Some(scan) = scan_of(&join.inputs()[1])? else {
            return Ok(None);
        };
        let Some(over_table) = over_table(aggregation, cells)? else {
            return Ok(None);
        };
        let Some(key_terms) = join.cell_terms(&cells.grids) else {
            return Ok(None);
        };
        let group_terms = keys.probe.as_ref().map_or(Vec::new(), |keys| keys.terms());
        let Some(axes) = axis_terms(&cells.grids, [&key_terms, &group_terms])? else {
            return Ok(None);
        };
        let groups = axes
            .iter()
            .try_fold(1u64, |groups, axis| groups.checked_mul(axis.count));
        let rows = scan.blocks().rows().at_most().unwrap_or(u64::MAX);
        let min_cells = match stage {
            Stage::Whole => MIN_CELLS,
            // A task has the cells of some chunks, which may be few per group.
            Stage::Partial => 1,
        };
        let most = MAX_GROUPS_BEFORE_JOIN.min(rows / min_cells);
        let Some(groups) = groups.filter(|groups| !axes.is_empty() && *groups <= most) else {
            return Ok(None);
        };
        let Some(partial) = partial(&scan, &axes, &over_table, config)? else {
            return Ok(None);
        };
        let probe = with_key_index(partial, &axes, keys.probe.is_some())?;
        let mut start = 0;
        let columns = over_table.aggregates.iter().map(|aggregate| {
            let columns = start..start + aggregate.function.state_fields()?.len();
            start = columns.end;
            Ok(columns)
        });
        let columns = columns.collect::<Result<_>>()?;
        let bytes = BYTES_PER_COLUMN * (1 + over_table.aggregates.len());
        Ok(Some(Self {
            join: join.over_states(probe, start, keys),
            aggregates: over_table.aggregates,
            states: JoinedStates {
                columns,
                table: Arc::clone(&cells.table),
                bytes: bytes.saturating_mul(groups as usize),
            },
        }))
    }
}

/// Returns the scan of a plan that only selects and renames columns of a scan.
fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<ArrayScan>> {
    let Some(below) = InlinedInput::of(plan)?.filter(|below| below.conjuncts.is_empty()) else {
        return Ok(None);
    };
    let scan = ArrayScan::of(below.node.as_ref()).map(|(_, scan)| scan);
    Ok(scan.filter(|scan| scan.plan().fetch.is_none()).cloned())
}

/// Rewrites the aggregates and predicates of an aggregation over a join in terms of the array's table,
/// without its grouping expressions. Returns `None` if one uses columns of the build side, or if an
/// expression over a dimension fails on a selected coordinate: the join might drop the cells of this
/// coordinate, so that the query does not fail.
fn over_table(aggregation: &Aggregation, cells: &GridColumns) -> Result<Option<Aggregation>> {
    let mut aggregates = Vec::with_capacity(aggregation.aggregates.len());
    for aggregate in &aggregation.aggregates {
        let arguments = cells.replace_in(&aggregate.arguments)?;
        let filter = cells.replace_in(aggregate.filter.as_slice())?;
        let (Some(arguments), Some(mut filter)) = (arguments, filter) else {
            return Ok(None);
        };
        aggregates.push(Aggregate {
            function: Arc::clone(&aggregate.function),
            arguments,
            filter: filter.pop(),
        });
    }
    let Some(conjuncts) = cells.replace_in(&aggregation.conjuncts)? else {
        return Ok(None);
    };
    let over_table = Aggregation {
        groups: Vec::new(),
        aggregates,
        conjuncts,
    };
    let dimensions = cells.grids.first().map_or(0, |part| part.grid.axes().len());
    let may_fail = |expr: &Arc<dyn PhysicalExpr>| match only_column(expr) {
        Some(column) if column < dimensions => !never_fail(
            &[Arc::clone(expr)],
            &[GroupColumns::One(column)],
            &cells.grids,
        ),
        _ => false,
    };
    if over_table
        .expressions()
        .flat_map(split_conjunction)
        .any(may_fail)
    {
        return Ok(None);
    }
    Ok(Some(over_table))
}

/// Finds the terms of each axis that the keys or the grouping expressions use. `terms` holds the terms of
/// the key index and those of the group number, for each array. Returns `None` if a term depends on
/// several axes, if equal coordinates have different terms, or if no cell is selected.
fn axis_terms(
    grids: &[GridSelection],
    terms: [&[Vec<KeyTerms>]; 2],
) -> Result<Option<Vec<AxisTerms>>> {
    let all = terms.iter().copied().flatten().flatten();
    let Some(mut used) = all
        .map(|terms| <[usize; 1]>::try_from(&terms.axes[..]).ok())
        .collect::<Option<Vec<_>>>()
    else {
        return Ok(None);
    };
    used.sort_unstable();
    used.dedup();
    let parts: Vec<&GridSelection> = grids.iter().collect();
    let mut axes = Vec::with_capacity(used.len());
    for [axis] in used {
        let mut coordinates: Vec<ArrayRef> = Vec::new();
        let mut selected: [Option<Vec<u32>>; 2] = [None, None];
        for grid in GridClasses::of(axis, &parts)?.firsts {
            let along = SelectedCoordinates::of(&grids[grid], axis)?;
            coordinates.push(along.coordinates(0..along.count())?);
            for (selected, terms) in selected.iter_mut().zip(terms) {
                let mut of_grid = terms.get(grid).into_iter().flatten();
                if let Some(own) = of_grid.find(|terms| terms.axes == [axis]) {
                    let indices = grids[grid].selection.axes()[axis].ranges().flatten();
                    let own = indices.map(|index| own.terms[index as usize]);
                    selected.get_or_insert_default().extend(own);
                }
            }
        }
        let arrays: Vec<_> = coordinates.iter().map(|values| values.as_ref()).collect();
        if arrays.is_empty() {
            return Ok(None);
        }
        let coordinates = concat(&arrays)?;
        let pair = |index: usize| {
            selected
                .each_ref()
                .map(|terms| Some(terms.as_ref()?[index]))
        };
        let pairs: HashSet<_> = (0..coordinates.len()).map(pair).collect();
        let count = pairs.len() as u64;
        let mut functions = [None, None];
        for (function, terms) in functions.iter_mut().zip(selected) {
            if let Some(terms) = terms {
                let Some(term) = CoordinateTerm::try_new(&coordinates, &terms)? else {
                    return Ok(None);
                };
                *function = Some(Arc::new(ScalarUDF::from(term)));
            }
        }
        let [key, group] = functions;
        axes.push(AxisTerms {
            axis,
            key,
            group,
            count,
        });
    }
    Ok(Some(axes))
}

/// Returns the operator that computes the partial states of a scan's cells, grouped by their terms.
/// Returns `None` if they cannot be computed in array space.
fn partial(
    scan: &ArrayScan,
    axes: &[AxisTerms],
    aggregation: &Aggregation,
    config: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let plan = scan.plan();
    let mut columns = columns_in(plan.dynamic_filter.iter());
    for column in &mut columns {
        *column = plan.projection[*column];
    }
    columns.extend(axes.iter().map(|axis| axis.axis));
    columns.extend(columns_in(aggregation.expressions()));
    columns.sort_unstable();
    columns.dedup();
    let Some(scan) = scan.with_projection(columns.clone())? else {
        return Ok(None);
    };
    let schema = Arc::clone(scan.schema());
    let over_scan = aggregation.map(|expr| moved(expr, &columns, &schema))?;
    let config = Arc::new(config.clone());
    let mut groups: Vec<(Arc<dyn PhysicalExpr>, String)> = Vec::with_capacity(axes.len());
    for axis in axes {
        let Ok(index) = columns.binary_search(&axis.axis) else {
            return Ok(None);
        };
        for function in axis.key.iter().chain(&axis.group) {
            let coordinate = vec![column(&schema, index)];
            let function = Arc::clone(function);
            let term =
                ScalarFunctionExpr::try_new(function, coordinate, &schema, Arc::clone(&config))?;
            groups.push((Arc::new(term) as _, format!("term_{}", groups.len())));
        }
    }
    let (mut functions, mut filters) = (Vec::new(), Vec::new());
    for aggregate in over_scan.aggregates {
        let arguments = aggregate.arguments;
        let Some(function) = aggregate
            .function
            .with_new_expressions(arguments, Vec::new())
        else {
            return Ok(None);
        };
        functions.push(Arc::<AggregateFunctionExpr>::new(function));
        filters.push(aggregate.filter);
    }
    let mut input: Arc<dyn ExecutionPlan> = scan.into_exec();
    if let Some(predicate) = conjunction_opt(over_scan.conjuncts) {
        input = Arc::new(FilterExec::try_new(predicate, input)?);
    }
    let groups = PhysicalGroupBy::new_single(groups);
    let mode = AggregateMode::Partial;
    let plan = AggregateExec::try_new(mode, groups, functions, filters, input, schema)?;
    let plan: Arc<dyn ExecutionPlan> = Arc::new(plan);
    let operator = rule::operator(&plan, Stage::Partial)?;
    let operator = operator.filter(|operator| !operator.program().needs_rows());
    Ok(operator.map(|operator| Arc::new(operator) as _))
}

/// Adds up the terms of each row of a partial aggregation. The output has the partial states, then the
/// key index, then the group number if there is one.
fn with_key_index(
    partial: Arc<dyn ExecutionPlan>,
    axes: &[AxisTerms],
    has_group_number: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = partial.schema();
    let (mut keys, mut groups) = (Vec::new(), Vec::new());
    let mut index = 0..;
    for axis in axes {
        for (function, terms) in [(&axis.key, &mut keys), (&axis.group, &mut groups)] {
            let used = function.iter().zip(&mut index);
            terms.extend(used.map(|(_, index)| column(&schema, index)));
        }
    }
    let states = keys.len() + groups.len()..schema.fields().len();
    let states = states.map(|index| ProjectionExpr {
        expr: column(&schema, index),
        alias: schema.field(index).name().clone(),
    });
    let mut output: Vec<_> = states.collect();
    let sums = [(KEY_INDEX, keys), (GROUP_NUMBER, groups)];
    for (name, terms) in sums.into_iter().take(1 + usize::from(has_group_number)) {
        output.push(ProjectionExpr {
            expr: sum(terms),
            alias: name.to_string(),
        });
    }
    Ok(Arc::new(ProjectionExec::try_new(output, partial)?))
}

fn column(schema: &Schema, index: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(schema.field(index).name(), index))
}

/// Returns the sum of the terms; zero without terms. Unlike the sum in [`KeyTerms`], it need not saturate:
/// only selected coordinates have groups, and none of them has the term
/// [`NO_KEY`](crate::provider::join::lookup::keys::NO_KEY).
fn sum(terms: Vec<Arc<dyn PhysicalExpr>>) -> Arc<dyn PhysicalExpr> {
    let sum = terms
        .into_iter()
        .reduce(|sum, term| Arc::new(BinaryExpr::new(sum, Operator::Plus, term)));
    sum.unwrap_or_else(|| lit(0u32))
}
