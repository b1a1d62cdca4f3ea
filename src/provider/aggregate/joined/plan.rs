//! The plan of an aggregation over a lookup join.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::{JoinSide, Result};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

use crate::provider::aggregate::joined::eager::{EagerAggregation, JoinedStates};
use crate::provider::aggregate::joined::folds::Fold;
use crate::provider::aggregate::joined::operator::ArrayJoinAggregateExec;
use crate::provider::aggregate::plan::aggregation::{Aggregate, Aggregation, Stage};
use crate::provider::aggregate::plan::groups::MAX_GROUPS;
use crate::provider::aggregate::rule::{FEW_GROUPS, SPARSE};
use crate::provider::join::lookup::ArrayLookupJoinExec;
use crate::provider::join::lookup::grouped::GroupKeys;
use crate::provider::join::lookup::keys::ProbeKeys;
use crate::provider::join::lookup::rule::extension::GridColumns;
use crate::provider::plans::below::{InlinedInput, columns_in, moved, replace_columns};
use crate::provider::plans::conjunction::conjunction_opt;
use crate::provider::source::GridSelection;

/// The plan of an aggregation over a lookup join.
#[derive(Debug, Clone)]
pub(in crate::provider) struct JoinAggregation {
    /// For each grouping expression, its side of the join, and its ordinal among the grouping
    /// expressions of that side.
    pub groups: Vec<(JoinSide, usize)>,
    /// The grouping expressions over dimensions of the probe side; `None` if there are none.
    pub probe: Option<Arc<ProbeKeys>>,
    /// `true` if there are grouping expressions over the build side.
    pub is_grouped_by_build: bool,
    /// The aggregates, over the columns of the join, or of the array's table if the join returns partial
    /// states.
    pub aggregates: Vec<Aggregate>,
    /// The partial states that the join returns in place of cells; `None` if it returns cells.
    pub states: Option<JoinedStates>,
    /// For each aggregate, the columns of its partial state as folds of runs of joined rows; `None` if joined rows are
    /// added one by one.
    pub folds: Option<Vec<Vec<Fold>>>,
    /// The predicate that joined rows have to satisfy.
    pub predicate: Option<Arc<dyn PhysicalExpr>>,
    /// The number of selected cells of the probe side, if known.
    pub cells: Option<u64>,
    /// The grouping expressions, for EXPLAIN.
    pub expressions: Vec<Arc<dyn PhysicalExpr>>,
}

impl JoinAggregation {
    /// Returns `true` if there are grouping expressions.
    pub fn is_grouped(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Returns `true` if it pays to keep a result for each of `groups` groups, including groups without
    /// rows. If most groups have no rows, hashing the remaining groups is cheaper.
    pub fn has_room_for(&self, groups: usize) -> bool {
        let cells = self.cells.unwrap_or(u64::MAX);
        groups as u64 <= FEW_GROUPS
            || (groups <= MAX_GROUPS && groups as u64 <= cells.saturating_mul(SPARSE))
    }

    /// Returns the partial state of each run of rows, for each aggregate. `rows` are the columns of the join, without
    /// values for those of the build side. `None` if the states are not known as folds.
    pub fn states_of_runs(
        &self,
        rows: &RecordBatch,
        runs: &[Range<usize>],
    ) -> Result<Option<Vec<Vec<ArrayRef>>>> {
        let Some(folds) = &self.folds else {
            return Ok(None);
        };
        let mut states = Vec::with_capacity(folds.len());
        for (number, folds) in folds.iter().enumerate() {
            let of_argument;
            let columns = match &self.states {
                Some(states) => &rows.columns()[states.columns[number].clone()],
                None => {
                    let argument = &self.aggregates[number].arguments[0];
                    let values = argument.evaluate(rows)?.into_array(rows.num_rows())?;
                    of_argument = vec![values; folds.len()];
                    &of_argument[..]
                }
            };
            let folded = folds.iter().zip(columns);
            let folded = folded.map(|(fold, values)| fold.fold(values, runs));
            states.push(folded.collect::<Result<Vec<_>>>()?);
        }
        Ok(Some(states))
    }

    /// Returns an upper bound on the number of groups of the probe side.
    pub fn probe_groups(&self) -> usize {
        self.probe.as_ref().map_or(1, |keys| keys.count)
    }
}

/// Returns the operator that computes this stage of the aggregation `first`, whose input is a lookup join with
/// filters and projections, and produces the output of `plan`. `None` if a grouping expression uses
/// attributes of the array or both sides of the join, if rows of the build side without a match are
/// output, or if there are many groups per cell.
pub(in crate::provider) fn operator(
    plan: &Arc<dyn ExecutionPlan>,
    first: &AggregateExec,
    stage: Stage,
    config: &ConfigOptions,
) -> Result<Option<ArrayJoinAggregateExec>> {
    let Some(below) = InlinedInput::of(first.input())? else {
        return Ok(None);
    };
    let Some(join) = below.node.downcast_ref::<ArrayLookupJoinExec>() else {
        return Ok(None);
    };
    let Some(aggregation) = Aggregation::of(first) else {
        return Ok(None);
    };
    let Some(cells) = GridColumns::of_join(join)? else {
        return Ok(None);
    };
    // With a limit, DataFusion stops early.
    if first.limit_options().is_some() {
        return Ok(None);
    }
    let aggregation = aggregation.over(&below)?;
    let columns = join.output_columns();
    let (mut probe, mut build, mut groups) = (Vec::new(), Vec::new(), Vec::new());
    for expr in &aggregation.groups {
        let used = columns_in(std::iter::once(expr));
        let Some(side) = used.first().map(|column| columns[*column].side) else {
            return Ok(None);
        };
        if used.iter().any(|column| columns[*column].side != side) {
            return Ok(None);
        }
        let of_side = match side {
            JoinSide::Left => &mut build,
            _ => &mut probe,
        };
        groups.push((side, of_side.len()));
        of_side.push(Arc::clone(expr));
    }
    let probe = match probe.is_empty() {
        true => None,
        false => match cells.group_numbers(&probe)? {
            None => return Ok(None),
            Some(keys) => Some(Arc::new(keys)),
        },
    };

    let others = Aggregation {
        groups: Vec::new(),
        ..aggregation.clone()
    };
    let build_schema = join.children()[0].schema();
    let build = build.iter().map(|expr| {
        replace_columns(expr, &|number| {
            let index = columns.get(number)?.index;
            let name = build_schema.field(index).name();
            Some(Arc::new(Column::new(name, index)))
        })
    });
    let build = build.collect::<Result<Vec<_>>>()?;
    let keys = GroupKeys { probe, build };
    let needed = columns_in(others.expressions());
    let Some(numbered) = join.with_groups(&needed, &keys, config)? else {
        return Ok(None);
    };
    let schema: SchemaRef = numbered.schema();
    let of_cells = others.map(|expr| moved(expr, &needed, &schema))?;
    let predicate = conjunction_opt(of_cells.conjuncts);
    let is_of_array = |column: &usize| columns[*column].side == JoinSide::Right;
    let folds = match join.has_runs() && predicate.is_none() && needed.iter().all(is_of_array) {
        true => folds_of_cells(&of_cells.aggregates, &schema)?,
        false => None,
    };
    let program = JoinAggregation {
        folds,
        cells: GridSelection::cells(&cells.grids),
        groups,
        is_grouped_by_build: !keys.build.is_empty(),
        probe: keys.probe.clone(),
        aggregates: of_cells.aggregates,
        states: None,
        predicate,
        expressions: aggregation.groups,
    };
    if !program.has_room_for(program.probe_groups()) {
        return Ok(None);
    }
    let eager = EagerAggregation::try_new(join, &cells, &others, &keys, stage, config)?;
    let over = |join: ArrayLookupJoinExec, program, fallback| {
        ArrayJoinAggregateExec::new(stage, Arc::new(join), Arc::new(program), fallback)
    };
    Ok(Some(match eager {
        None => over(numbered, program, Arc::clone(plan)),
        Some(eager) => {
            let aggregates = eager.aggregates.iter();
            let folds = aggregates.map(|aggregate| Fold::of_states(&aggregate.function));
            let of_states = JoinAggregation {
                folds: folds.collect::<Option<_>>().filter(|_| join.has_runs()),
                aggregates: eager.aggregates,
                states: Some(eager.states),
                predicate: None,
                ..program.clone()
            };
            let of_cells = over(numbered, program, Arc::clone(plan));
            over(eager.join, of_states, Arc::new(of_cells))
        }
    }))
}

/// Returns the folds of the arguments of aggregates over joined rows with this schema; `None` if an aggregate has another
/// partial state.
fn folds_of_cells(aggregates: &[Aggregate], schema: &SchemaRef) -> Result<Option<Vec<Vec<Fold>>>> {
    let folds = aggregates.iter().map(|aggregate| {
        let ([argument], None) = (aggregate.arguments.as_slice(), &aggregate.filter) else {
            return Ok(None);
        };
        let data_type = argument.data_type(schema)?;
        Ok(Fold::of_argument(&aggregate.function, &data_type))
    });
    folds.collect()
}
