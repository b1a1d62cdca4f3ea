//! DataFusion's accumulators, fed with group indices.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, new_null_array};
use arrow::compute::filter;
use arrow::datatypes::Schema;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::GroupsAccumulatorAdapter;

use crate::provider::aggregate::plan::aggregation::Aggregate;
use crate::provider::planning::mask::mask;

/// The approximate number of bytes per group of an accumulator for many groups.
const BYTES_PER_GROUP: usize = 32;
/// The approximate overhead, in bytes, of a group that has an accumulator of its own.
const BYTES_BESIDE: usize = 64;

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

    /// Adds the rows of a batch. `aggregate` is over its columns, and `groups` are the group indices of
    /// its rows.
    pub fn add(
        &mut self,
        aggregate: &Aggregate,
        batch: &RecordBatch,
        groups: &[usize],
        count: usize,
    ) -> Result<()> {
        let arguments = aggregate.arguments.iter();
        let arguments =
            arguments.map(|argument| argument.evaluate(batch)?.into_array(batch.num_rows()));
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        let filter = aggregate.filter.as_ref();
        let wanted = filter.map(|filter| mask(filter, batch)).transpose()?;
        self.update(&arguments, groups, wanted.as_ref(), count)
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

    /// Merges partial states of all groups.
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
