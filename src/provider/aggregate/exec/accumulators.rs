//! The engine's accumulators, fed with group numbers.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, new_null_array};
use arrow::compute::filter;
use arrow::datatypes::Schema;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::GroupsAccumulatorAdapter;

use crate::provider::aggregate::plan::aggregation::Aggregate;

/// Bytes of a group of an accumulator that keeps all groups together, about.
const BYTES_PER_GROUP: usize = 32;
/// Bytes of a group whose accumulator is its own, beside that.
const BYTES_BESIDE: usize = 64;

/// An aggregate of all groups.
pub(crate) enum Accumulated {
    /// Of the one group that is not grouped by anything: as the engine does without groups.
    Single(Box<dyn Accumulator>),
    /// Of any number of groups.
    Groups(Box<dyn GroupsAccumulator>),
}

impl Accumulated {
    /// Nothing yet. For rows as they come: the accumulators take it for granted that every group has had a row by the time
    /// that a later one has, unless some row was left out. So they are told of one of the last group that does not count.
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

    /// Nothing yet. For states of all groups.
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

    /// Bytes that an aggregate of so many groups takes ahead of any row, about.
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

    /// Adds rows: the arguments and the group of each. `count` is the number of groups in all.
    pub fn update(
        &mut self,
        arguments: &[ArrayRef],
        groups: &[usize],
        wanted: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        match (self, wanted) {
            (Self::Groups(groups_of), _) => {
                groups_of.update_batch(arguments, groups, wanted, count)
            }
            (Self::Single(single), None) => single.update_batch(arguments),
            (Self::Single(single), Some(wanted)) => {
                let arguments = arguments.iter();
                let arguments = arguments.map(|argument| filter(argument, wanted));
                single.update_batch(&arguments.collect::<Result<Vec<_>, _>>()?)
            }
        }
    }

    /// The state of all groups.
    pub fn state(&mut self) -> Result<Vec<ArrayRef>> {
        match self {
            Self::Groups(groups) => groups.state(EmitTo::All),
            Self::Single(single) => {
                let state = single.state()?;
                state.iter().map(ScalarValue::to_array).collect()
            }
        }
    }

    /// Adds states of all groups.
    pub fn merge(&mut self, states: &[ArrayRef], count: usize) -> Result<()> {
        match self {
            Self::Single(single) => single.merge_batch(states),
            Self::Groups(groups) => {
                let rows = states.first().map_or(0, |state| state.len());
                let numbers: Vec<usize> = (0..rows).collect();
                groups.merge_batch(states, &numbers, count)
            }
        }
    }

    /// The values of all groups.
    pub fn evaluate(&mut self) -> Result<ArrayRef> {
        match self {
            Self::Groups(groups) => groups.evaluate(EmitTo::All),
            Self::Single(single) => single.evaluate()?.to_array(),
        }
    }

    /// Bytes that it takes.
    pub fn size(&self) -> usize {
        match self {
            Self::Groups(groups) => groups.size(),
            Self::Single(single) => single.size(),
        }
    }
}
