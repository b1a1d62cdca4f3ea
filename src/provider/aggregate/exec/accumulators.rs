//! DataFusion's accumulators, fed with group indices.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, new_null_array};
use arrow::compute::{concat, filter, filter_record_batch};
use arrow::datatypes::Schema;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::GroupsAccumulatorAdapter;

use crate::provider::aggregate::plan::aggregation::Aggregate;
use crate::provider::functions::extremes::is_max;
use crate::provider::functions::order_statistics::collected::{absorb, double_up_to, split};
use crate::provider::planning::mask::mask;
use crate::provider::plans::safety::is_safe;
use crate::provider::plans::tasks::result_of;

/// The approximate number of bytes per group of an accumulator for many groups.
const BYTES_PER_GROUP: usize = 32;
/// The approximate overhead, in bytes, of a group that has an accumulator of its own.
const BYTES_BESIDE: usize = 64;
/// The minimum average length, in rows, of runs that are reduced first and then merged into their groups.
const MIN_RUN: usize = 256;
/// The number of parts per task in which the groups of an accumulator are evaluated.
const PARTS_PER_TASK: usize = 8;

/// The accumulators of one aggregate, for all groups.
pub(crate) enum Accumulated {
    /// A single group, because there are no grouping expressions. DataFusion uses the same
    /// accumulator then.
    Single(Box<dyn Accumulator>),
    /// Any number of groups.
    Groups(Box<dyn GroupsAccumulator>),
}

impl Accumulated {
    /// Creates empty accumulators for rows in any order of groups.
    ///
    /// DataFusion's accumulators assume that once a group has a row, all groups with lower indices
    /// have one too, unless some row was filtered out. So they first receive a row of the last
    /// group, which the filter rejects.
    pub fn for_rows(
        aggregate: &Aggregate,
        is_grouped: bool,
        schema: &Schema,
        count: usize,
    ) -> Result<Self> {
        let mut accumulated = Self::new(&aggregate.function, is_grouped)?;
        if let (Self::Groups(groups), Some(last)) = (&mut accumulated, count.checked_sub(1)) {
            let arguments = aggregate.arguments.iter();
            let row = arguments.map(|argument| Ok(new_null_array(&argument.data_type(schema)?, 1)));
            let row = row.collect::<Result<Vec<_>>>()?;
            let no = BooleanArray::from(vec![false]);
            groups.update_batch(&row, &[last], Some(&no), count)?;
        }
        Ok(accumulated)
    }

    /// Sets the number of rows up to which a group doubles its memory, if the accumulator keeps the values of rows.
    pub fn double_up_to(&mut self, rows: usize) {
        if let Self::Groups(groups) = self {
            double_up_to(groups.as_mut(), rows);
        }
    }

    /// Creates empty accumulators to merge partial states into.
    pub fn new(function: &Arc<AggregateFunctionExpr>, is_grouped: bool) -> Result<Self> {
        if !is_grouped {
            return Ok(Self::Single(function.create_accumulator()?));
        }
        if function.groups_accumulator_supported() {
            return Ok(Self::Groups(function.create_groups_accumulator()?));
        }
        let function = Arc::clone(function);
        let adapter = GroupsAccumulatorAdapter::new(move || function.create_accumulator());
        Ok(Self::Groups(Box::new(adapter)))
    }

    /// Returns the approximate number of bytes that the accumulators of `count` groups take before
    /// any row.
    pub fn initial_bytes(
        function: &Arc<AggregateFunctionExpr>,
        is_grouped: bool,
        count: usize,
    ) -> Result<usize> {
        let per_group = if is_grouped && function.groups_accumulator_supported() {
            BYTES_PER_GROUP
        } else {
            function
                .create_accumulator()?
                .size()
                .saturating_add(BYTES_BESIDE)
        };
        Ok(per_group.saturating_mul(count))
    }

    /// Adds rows, given as arguments and group indices. `count` is the total number of groups.
    pub fn update(
        &mut self,
        arguments: &[ArrayRef],
        groups: &[usize],
        wanted: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        match self {
            Self::Groups(groups_of) => groups_of.update_batch(arguments, groups, wanted, count),
            Self::Single(single) => update_single(single.as_mut(), arguments, wanted),
        }
    }

    /// Adds rows with the values of the aggregate's arguments. `groups` are the group indices of the rows,
    /// and `runs` the runs of rows with the same group, if they are long.
    fn add(
        &mut self,
        function: &AggregateFunctionExpr,
        arguments: &[ArrayRef],
        wanted: Option<&BooleanArray>,
        groups: &[usize],
        runs: Option<&[Range<usize>]>,
        count: usize,
    ) -> Result<()> {
        match (self, runs) {
            (Self::Groups(groups_of), Some(runs)) if is_reducible(function) => {
                let numbers: Vec<usize> = runs.iter().map(|run| groups[run.start]).collect();
                let states = states_of_runs(function, arguments, wanted, runs)?;
                groups_of.merge_batch(&states, &numbers, count)
            }
            (accumulated, _) => accumulated.update(arguments, groups, wanted, count),
        }
    }

    /// Returns the final values of all groups, computed in several tasks if the accumulator keeps many values.
    pub async fn evaluate_in_tasks(self, tasks: usize) -> Result<ArrayRef> {
        let mut groups = match self {
            // More parts than tasks run at a time, so that a cancelled query stops parts that have not begun.
            Self::Groups(groups) => split(groups, tasks * PARTS_PER_TASK),
            mut single => return single.evaluate(),
        };
        if let [groups] = groups.as_mut_slice() {
            return groups.evaluate(EmitTo::All);
        }
        let tasks = groups
            .into_iter()
            .map(|mut groups| SpawnedTask::spawn(async move { groups.evaluate(EmitTo::All) }));
        let tasks: Vec<_> = tasks.collect();
        let mut values = Vec::with_capacity(tasks.len());
        for task in tasks {
            values.push(result_of(task).await?);
        }
        let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        Ok(concat(&values)?)
    }

    /// Returns the partial state of all groups.
    pub fn state(&mut self) -> Result<Vec<ArrayRef>> {
        match self {
            Self::Groups(groups) => groups.state(EmitTo::All),
            Self::Single(single) => {
                let state = single.state()?;
                state.iter().map(ScalarValue::to_array).collect()
            }
        }
    }

    /// Moves the values of other accumulators of the same aggregate to these, if they keep values. Otherwise
    /// returns the others, whose partial state is to be merged.
    pub fn absorb(&mut self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Groups(one), Self::Groups(other)) => {
                absorb(one.as_mut(), other).map(Self::Groups)
            }
            (_, other) => Some(other),
        }
    }

    /// Merges partial states. `groups` holds the group index of each, and `count` is the number of groups;
    /// both are ignored without grouping.
    pub fn merge(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        match self {
            Self::Single(single) => single.merge_batch(states),
            Self::Groups(groups_of) => groups_of.merge_batch(states, groups, count),
        }
    }

    /// Merges one partial state of each group.
    pub fn merge_all(&mut self, states: &[ArrayRef], count: usize) -> Result<()> {
        let rows = states.first().map_or(0, |state| state.len());
        self.merge(states, &(0..rows).collect::<Vec<_>>(), count)
    }

    /// Returns the final values of all groups.
    pub fn evaluate(&mut self) -> Result<ArrayRef> {
        match self {
            Self::Groups(groups) => groups.evaluate(EmitTo::All),
            Self::Single(single) => single.evaluate()?.to_array(),
        }
    }

    /// Returns the size of the accumulators in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Groups(groups) => groups.size(),
            Self::Single(single) => single.size(),
        }
    }
}

/// Adds the rows of a batch to the accumulators of several aggregates over its columns. `groups` are the
/// group indices of the rows.
pub(crate) fn add_rows<'a>(
    aggregates: impl Iterator<Item = &'a Aggregate>,
    accumulated: &mut [Accumulated],
    batch: &RecordBatch,
    groups: &[usize],
    count: usize,
) -> Result<()> {
    let runs = long_runs(groups);
    let mut evaluated: Vec<(&Arc<dyn PhysicalExpr>, ArrayRef)> = Vec::new();
    for (aggregate, accumulated) in aggregates.zip(accumulated) {
        let filter = aggregate.filter.as_ref();
        let wanted = filter.map(|filter| mask(filter, batch)).transpose()?;
        let is_safe = |argument| is_safe(argument, batch.schema_ref());
        if let Some(wanted) = &wanted
            && !aggregate.arguments.iter().all(is_safe)
        {
            add_filtered(aggregate, accumulated, batch, wanted, groups, count)?;
            continue;
        }
        let mut arguments = Vec::with_capacity(aggregate.arguments.len());
        for argument in &aggregate.arguments {
            // `max(abs(a - b))` and `avg(abs(a - b))` share their argument.
            let mut known = evaluated.iter().filter(|(known, _)| *known == argument);
            arguments.push(match known.next().filter(|_| !is_volatile(argument)) {
                Some((_, values)) => Arc::clone(values),
                None => {
                    let values = argument.evaluate(batch)?.into_array(batch.num_rows())?;
                    evaluated.push((argument, Arc::clone(&values)));
                    values
                }
            });
        }
        let (function, runs) = (&aggregate.function, runs.as_deref());
        accumulated.add(function, &arguments, wanted.as_ref(), groups, runs, count)?;
    }
    Ok(())
}

/// Adds the rows of a batch that satisfy the FILTER clause of an aggregate whose arguments may fail on other rows.
fn add_filtered(
    aggregate: &Aggregate,
    accumulated: &mut Accumulated,
    batch: &RecordBatch,
    wanted: &BooleanArray,
    groups: &[usize],
    count: usize,
) -> Result<()> {
    let batch = filter_record_batch(batch, wanted)?;
    let groups = groups.iter().zip(wanted.values());
    let groups = groups.filter_map(|(group, is_wanted)| is_wanted.then_some(*group));
    let arguments = aggregate.arguments.iter();
    let arguments =
        arguments.map(|argument| argument.evaluate(&batch)?.into_array(batch.num_rows()));
    accumulated.update(
        &arguments.collect::<Result<Vec<_>>>()?,
        &groups.collect::<Vec<_>>(),
        None,
        count,
    )
}

/// Adds rows to the accumulator of a single group.
fn update_single(
    single: &mut dyn Accumulator,
    arguments: &[ArrayRef],
    wanted: Option<&BooleanArray>,
) -> Result<()> {
    let Some(wanted) = wanted else {
        return single.update_batch(arguments);
    };
    let arguments = arguments.iter();
    let arguments = arguments.map(|argument| filter(argument, wanted));
    single.update_batch(&arguments.collect::<Result<Vec<_>, _>>()?)
}

/// Returns the runs of rows with the same group index; `None` if they are shorter than [`MIN_RUN`] on
/// average.
fn long_runs(groups: &[usize]) -> Option<Vec<Range<usize>>> {
    let most = groups.len() / MIN_RUN;
    let mut runs = Vec::new();
    let mut start = 0;
    for run in groups.chunk_by(|one, other| one == other) {
        if runs.len() == most {
            return None;
        }
        runs.push(start..start + run.len());
        start += run.len();
    }
    Some(runs)
}

/// Returns `true` if the partial state of a run can be merged into the accumulator of its group.
fn is_reducible(function: &AggregateFunctionExpr) -> bool {
    let inner = function.fun().inner();
    let is_known = inner.is::<Avg>() || inner.is::<Sum>() || inner.is::<Count>();
    (is_known || is_max(inner.as_ref()).is_some())
        && function.groups_accumulator_supported()
        && !function.is_distinct()
}

/// Returns the partial state of each run of rows.
///
/// A `GroupsAccumulator` adds one row after another, and consecutive rows of one group depend on each
/// other. An `Accumulator` reduces the whole run at once.
fn states_of_runs(
    function: &AggregateFunctionExpr,
    arguments: &[ArrayRef],
    wanted: Option<&BooleanArray>,
    runs: &[Range<usize>],
) -> Result<Vec<ArrayRef>> {
    let mut columns: Vec<Vec<ScalarValue>> = Vec::new();
    for run in runs {
        let mut single = function.create_accumulator()?;
        let arguments = arguments.iter();
        let arguments = arguments.map(|values| values.slice(run.start, run.len()));
        let wanted = wanted.map(|wanted| wanted.slice(run.start, run.len()));
        update_single(
            single.as_mut(),
            &arguments.collect::<Vec<_>>(),
            wanted.as_ref(),
        )?;
        let mut state = single.state()?;
        // When a `GroupsAccumulator` merges states, a count that is not null marks the group as having a
        // value. An `Accumulator` without values returns 0.
        if let [count, sum] = state.as_mut_slice()
            && sum.is_null()
        {
            *count = ScalarValue::try_from(count.data_type())?;
        }
        columns.resize_with(state.len(), Vec::new);
        for (column, value) in columns.iter_mut().zip(state) {
            column.push(value);
        }
    }
    let columns = columns.into_iter();
    columns.map(ScalarValue::iter_to_array).collect()
}
