//! Aggregates the cells of an array before they are joined.
//!
//! `SELECT region, avg(value) FROM array JOIN regions ON lat BETWEEN south AND north GROUP BY region` does
//! not need the cells one by one: all cells with the same `lat` have the same matches. So their partial
//! states are computed in array space, and the join returns partial states in place of cells (eager
//! aggregation: Yan and Larson, VLDB 1995).
//!
//! ```text
//! array [time, lat, lon]  ->  a state per lat  ->  joined with the regions  ->  a state per region
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::concat;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::{Operator, ScalarUDF};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, lit};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, conjunction_opt};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use crate::provider::aggregate::plan::aggregation::{Aggregate, Aggregation, Stage};
use crate::provider::aggregate::plan::grid_classes::{GridClasses, SelectedCoordinates};
use crate::provider::aggregate::rule;
use crate::provider::join::lookup::ArrayLookupJoinExec;
use crate::provider::join::lookup::coordinate_number::CoordinateNumber;
use crate::provider::join::lookup::grouped::{GROUP_NUMBER, GroupKeys};
use crate::provider::join::lookup::key_index_grid::KEY_INDEX;
use crate::provider::join::lookup::keys::{KeyTerms, ProbeKeys};
use crate::provider::join::lookup::rule::extension::GridColumns;
use crate::provider::plans::below::{InlinedInput, columns_in, replace_columns};
use crate::provider::scan::ArrayScan;
use crate::provider::source::GridSelection;

/// The minimum number of cells per partial state. With fewer, joining the cells is cheaper.
const MIN_CELLS: u64 = 4;
/// The maximum number of partial states, which are kept in memory.
const MAX_STATES: u64 = 1 << 22;

/// The partial states that a join returns in place of cells.
#[derive(Debug)]
pub(in crate::provider) struct JoinedStates {
    /// For each aggregate, its partial state, over the columns of the join.
    pub columns: Vec<Vec<Arc<dyn PhysicalExpr>>>,
    /// The columns of the array's table, to which the arguments of the aggregates refer.
    pub table: SchemaRef,
}

/// An aggregation over a join that returns partial states.
pub(super) struct EagerAggregation {
    /// The join, whose output are the partial states, then the group numbers.
    pub join: ArrayLookupJoinExec,
    /// The aggregates, over the columns of the array's table.
    pub aggregates: Vec<Aggregate>,
    pub states: JoinedStates,
}

/// The numbers of the coordinates of one axis: a term of the key index and a term of the group number,
/// as far as the axis has them.
struct AxisNumbers {
    axis: usize,
    key: Option<Arc<ScalarUDF>>,
    group: Option<Arc<ScalarUDF>>,
    /// The number of distinct pairs of terms.
    count: u64,
}

impl EagerAggregation {
    /// Plans the aggregation over a join, whose output `cells` describes. Returns `None` if an aggregate
    /// or a predicate uses columns of the build side, if the array cannot be aggregated in array space,
    /// or if that would leave nearly as many states as there are cells.
    pub fn try_new(
        join: &ArrayLookupJoinExec,
        cells: &GridColumns,
        aggregation: &Aggregation,
        keys: &GroupKeys,
        config: &ConfigOptions,
    ) -> Result<Option<Self>> {
        let Some(scan) = scan_of(&join.inputs()[1])? else {
            return Ok(None);
        };
        let Some(key_terms) = join.cell_terms(&cells.grids) else {
            return Ok(None);
        };
        let group_terms = keys.probe.as_ref().map(ProbeKeys::terms);
        let Some(axes) = axis_numbers(&cells.grids, &key_terms, group_terms.as_deref())? else {
            return Ok(None);
        };
        let states = axes
            .iter()
            .try_fold(1u64, |states, axis| states.checked_mul(axis.count));
        let most = GridSelection::cells(&cells.grids).map_or(u64::MAX, |cells| cells / MIN_CELLS);
        if axes.is_empty() || states.is_none_or(|states| states > most.min(MAX_STATES)) {
            return Ok(None);
        }
        let Some(over_table) = over_table(aggregation, cells)? else {
            return Ok(None);
        };
        let Some(partial) = partial(&scan, &axes, &over_table, config)? else {
            return Ok(None);
        };
        let has_groups = keys.probe.is_some();
        let probe = numbered(partial, &axes, has_groups)?;
        let schema = probe.schema();
        let mut start = 0;
        let columns = over_table.aggregates.iter().map(|aggregate| {
            let columns = start..start + aggregate.function.state_fields()?.len();
            start = columns.end;
            Ok(columns.map(|index| column(&schema, index)).collect())
        });
        let columns = columns.collect::<Result<_>>()?;
        Ok(Some(Self {
            join: join.over_states(probe, start, keys),
            aggregates: over_table.aggregates,
            states: JoinedStates {
                columns,
                table: Arc::clone(&cells.table),
            },
        }))
    }
}

/// Returns the scan of a plan that only selects and renames columns of a scan.
fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<ArrayScan>> {
    let Some(below) = InlinedInput::of(plan)?.filter(|below| below.conjuncts.is_empty()) else {
        return Ok(None);
    };
    let source = below.node.downcast_ref::<DataSourceExec>();
    let scan = source.and_then(|source| source.data_source().downcast_ref::<ArrayScan>());
    Ok(scan.filter(|scan| scan.plan().fetch.is_none()).cloned())
}

/// Rewrites an aggregation over a join in terms of the array's table; `None` if it uses columns of the build
/// side. The grouping expressions are left out.
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
    let conjuncts = cells.replace_in(&aggregation.conjuncts)?;
    Ok(conjuncts.map(|conjuncts| Aggregation {
        groups: Vec::new(),
        aggregates,
        conjuncts,
    }))
}

/// Numbers the coordinates of all axes that have terms. Returns `None` if a term depends on several axes.
fn axis_numbers(
    grids: &[GridSelection],
    key_terms: &[Vec<KeyTerms>],
    group_terms: Option<&[Vec<KeyTerms>]>,
) -> Result<Option<Vec<AxisNumbers>>> {
    let dimensions = grids.first().map_or(0, |part| part.grid.axes().len());
    let all = key_terms.iter().chain(group_terms.into_iter().flatten());
    if all.flatten().any(|terms| terms.axes.len() != 1) {
        return Ok(None);
    }
    let parts: Vec<&GridSelection> = grids.iter().collect();
    let mut axes = Vec::new();
    for axis in 0..dimensions {
        let terms_of = |terms: &[Vec<KeyTerms>], grid: usize| {
            let terms = terms.get(grid)?.iter();
            let terms = terms.filter(|terms| terms.axes == [axis]);
            terms.map(|terms| Arc::clone(&terms.terms)).next()
        };
        let mut coordinates: Vec<ArrayRef> = Vec::new();
        let mut numbers = [None, None];
        for grid in GridClasses::of(axis, &parts)?.firsts {
            let along = SelectedCoordinates::of(&grids[grid], axis)?;
            let terms = [
                terms_of(key_terms, grid),
                group_terms.and_then(|terms| terms_of(terms, grid)),
            ];
            if terms.iter().any(Option::is_some) {
                coordinates.push(along.coordinates(0..along.count())?);
            }
            let selected = grids[grid].selection.axes()[axis].ranges();
            let selected: Vec<u64> = selected.flatten().collect();
            for (numbers, terms) in numbers.iter_mut().zip(terms) {
                if let Some(terms) = terms {
                    let selected = selected.iter().map(|index| terms[*index as usize]);
                    numbers.get_or_insert_with(Vec::new).extend(selected);
                }
            }
        }
        if coordinates.is_empty() {
            continue;
        }
        let arrays: Vec<_> = coordinates.iter().map(|values| values.as_ref()).collect();
        let coordinates = concat(&arrays)?;
        let [key, group] = numbers;
        let pair = |index: usize| {
            let of = |numbers: &Option<Vec<u32>>| numbers.as_ref().map(|numbers| numbers[index]);
            (of(&key), of(&group))
        };
        let count = (0..coordinates.len()).map(pair).collect::<HashSet<_>>();
        let count = count.len() as u64;
        let mut functions = [None, None];
        for (function, numbers) in functions.iter_mut().zip([key, group]) {
            if let Some(numbers) = numbers {
                let Some(number) = CoordinateNumber::try_new(&coordinates, &numbers)? else {
                    return Ok(None);
                };
                *function = Some(Arc::new(ScalarUDF::from(number)));
            }
        }
        let [key, group] = functions;
        axes.push(AxisNumbers {
            axis,
            key,
            group,
            count,
        });
    }
    Ok(Some(axes))
}

/// Returns the operator that computes partial states of the cells of a scan, grouped by the numbers of the
/// axes; `None` if they cannot be computed in array space.
fn partial(
    scan: &ArrayScan,
    axes: &[AxisNumbers],
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
    let of_scan = |expr: &Arc<dyn PhysicalExpr>| {
        replace_columns(expr, &|number| {
            let index = columns.binary_search(&number).ok()?;
            Some(column(&schema, index))
        })
    };
    let over_scan = aggregation.map(of_scan)?;
    let config = Arc::new(config.clone());
    let mut groups: Vec<(Arc<dyn PhysicalExpr>, String)> = Vec::with_capacity(axes.len());
    for axis in axes {
        let Ok(index) = columns.binary_search(&axis.axis) else {
            return Ok(None);
        };
        for function in axis.key.iter().chain(&axis.group) {
            let coordinate = vec![column(&schema, index)];
            let function = Arc::clone(function);
            let number =
                ScalarFunctionExpr::try_new(function, coordinate, &schema, Arc::clone(&config))?;
            groups.push((Arc::new(number) as _, format!("number_{}", groups.len())));
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

/// Returns the rows of a partial aggregation by the numbers of the axes: the partial states, the key index,
/// and the group number if there is one.
fn numbered(
    partial: Arc<dyn ExecutionPlan>,
    axes: &[AxisNumbers],
    has_groups: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = partial.schema();
    let (mut keys, mut groups) = (Vec::new(), Vec::new());
    let mut numbers = 0;
    for axis in axes {
        for (terms, has_number) in [
            (&mut keys, axis.key.is_some()),
            (&mut groups, axis.group.is_some()),
        ] {
            if has_number {
                terms.push(column(&schema, numbers));
                numbers += 1;
            }
        }
    }
    let mut output: Vec<ProjectionExpr> = Vec::new();
    for index in numbers..schema.fields().len() {
        output.push(ProjectionExpr {
            expr: column(&schema, index),
            alias: schema.field(index).name().clone(),
        });
    }
    let sums = [(KEY_INDEX, keys), (GROUP_NUMBER, groups)];
    for (name, terms) in sums.into_iter().take(1 + usize::from(has_groups)) {
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

/// Returns the sum of some terms.
fn sum(terms: Vec<Arc<dyn PhysicalExpr>>) -> Arc<dyn PhysicalExpr> {
    let sum = terms
        .into_iter()
        .reduce(|sum, term| Arc::new(BinaryExpr::new(sum, Operator::Plus, term)));
    sum.unwrap_or_else(|| lit(0u32))
}
