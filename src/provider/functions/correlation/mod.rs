//! The aggregate function `corr`, also for groups with a large mean.
//!
//! DataFusion's grouped `corr` subtracts a product of sums from a sum of products. Both have the same leading digits if
//! a mean is large beside the deviations from it, as that of a time in seconds since 1970, so that the difference has
//! no correct digits. The accumulator in this module updates means and sums of products of deviations, as DataFusion
//! does without groups (Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample
//! Variances", 1979).

mod moments;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, UInt64Array};
use arrow::datatypes::{FieldRef, Float64Type, UInt64Type};
use datafusion::common::Result;
use datafusion::functions_aggregate::correlation::corr_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator,
};

use self::moments::Moments;
use crate::provider::functions::forwarding::forward_to_inner;

/// `corr`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Correlation {
    /// DataFusion's function.
    inner: Arc<AggregateUDF>,
}

impl Default for Correlation {
    fn default() -> Self {
        Self { inner: corr_udaf() }
    }
}

impl AggregateUDFImpl for Correlation {
    forward_to_inner!();

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(arguments)
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(arguments)
    }

    fn groups_accumulator_supported(&self, _arguments: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        _arguments: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Correlations::default()))
    }
}

/// The moments of each group.
#[derive(Debug, Default)]
struct Correlations {
    groups: Vec<Moments>,
}

impl Correlations {
    /// Calls `add` with the values of each row in which both are present.
    fn for_each_pair(
        columns: &[ArrayRef],
        filter: Option<&BooleanArray>,
        mut add: impl FnMut(usize, f64, f64),
    ) {
        let x = columns[0].as_primitive::<Float64Type>();
        let y = columns[1].as_primitive::<Float64Type>();
        for row in 0..x.len() {
            let is_kept = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if is_kept && x.is_valid(row) && y.is_valid(row) {
                add(row, x.value(row), y.value(row));
            }
        }
    }

    /// Returns the moments as columns, in the order of DataFusion's accumulator without groups.
    fn columns(groups: &[Moments]) -> Vec<ArrayRef> {
        let numbers = |number: fn(&Moments) -> f64| -> ArrayRef {
            Arc::new(Float64Array::from_iter_values(groups.iter().map(number)))
        };
        let counts = groups.iter().map(|group| group.count);
        vec![
            Arc::new(UInt64Array::from_iter_values(counts)),
            numbers(|group| group.mean_x),
            numbers(|group| group.squares_x),
            numbers(|group| group.mean_y),
            numbers(|group| group.squares_y),
            numbers(|group| group.products),
        ]
    }
}

impl GroupsAccumulator for Correlations {
    fn update_batch(
        &mut self,
        columns: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.groups.resize(count, Moments::default());
        Self::for_each_pair(columns, filter, |row, x, y| {
            self.groups[groups[row]].add(x, y);
        });
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = emit_to.take_needed(&mut self.groups);
        let found = groups.iter().map(Moments::correlation);
        Ok(Arc::new(found.collect::<Float64Array>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(Self::columns(&emit_to.take_needed(&mut self.groups)))
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.groups.resize(count, Moments::default());
        let counts = states[0].as_primitive::<UInt64Type>();
        let numbers = |column: usize| states[column].as_primitive::<Float64Type>();
        for (row, group) in groups.iter().enumerate() {
            self.groups[*group].merge(&Moments {
                count: counts.value(row),
                mean_x: numbers(1).value(row),
                squares_x: numbers(2).value(row),
                mean_y: numbers(3).value(row),
                squares_y: numbers(4).value(row),
                products: numbers(5).value(row),
            });
        }
        Ok(())
    }

    fn convert_to_state(
        &self,
        columns: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let mut rows = vec![Moments::default(); columns[0].len()];
        Self::for_each_pair(columns, filter, |row, x, y| rows[row].add(x, y));
        Ok(Self::columns(&rows))
    }

    fn size(&self) -> usize {
        self.groups.capacity() * size_of::<Moments>()
    }
}
