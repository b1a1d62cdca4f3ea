//! The accumulator of many groups.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, UInt64Array};
use arrow::datatypes::{Float64Type, UInt64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use crate::provider::functions::correlation::moments::Moments;
use crate::provider::functions::correlation::statistic::Statistic;

/// The moments of each group.
#[derive(Debug)]
pub struct GroupMoments {
    statistic: Statistic,
    groups: Vec<Moments>,
}

impl GroupMoments {
    /// Creates the accumulator of a function.
    pub fn new(statistic: Statistic) -> Self {
        Self {
            statistic,
            groups: Vec::new(),
        }
    }

    /// Calls `add` with the row, `x` and `y` of each row in which both are present.
    fn for_each_pair(
        statistic: Statistic,
        columns: &[ArrayRef],
        filter: Option<&BooleanArray>,
        mut add: impl FnMut(usize, f64, f64),
    ) {
        let [x, y] = statistic
            .arguments()
            .map(|column| columns[column].as_primitive::<Float64Type>());
        for row in 0..x.len() {
            let is_kept = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if is_kept && x.is_valid(row) && y.is_valid(row) {
                add(row, x.value(row), y.value(row));
            }
        }
    }

    /// Returns the moments as columns of partial states.
    fn columns(statistic: Statistic, groups: &mut [Moments]) -> Vec<ArrayRef> {
        let counts = groups.iter().map(|group| group.count);
        let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from_iter_values(counts))];
        for number in statistic.numbers() {
            let numbers = groups.iter_mut().map(|group| *number(group));
            columns.push(Arc::new(Float64Array::from_iter_values(numbers)));
        }
        columns
    }
}

impl GroupsAccumulator for GroupMoments {
    fn update_batch(
        &mut self,
        columns: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.groups.resize(count, Moments::default());
        Self::for_each_pair(self.statistic, columns, filter, |row, x, y| {
            self.groups[groups[row]].add(x, y);
        });
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = emit_to.take_needed(&mut self.groups);
        Ok(self.statistic.final_values(&groups))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let mut groups = emit_to.take_needed(&mut self.groups);
        Ok(Self::columns(self.statistic, &mut groups))
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.groups.resize(count, Moments::default());
        let counts = states[0].as_primitive::<UInt64Type>();
        let numbers = self.statistic.numbers().iter().zip(&states[1..]);
        let numbers: Vec<_> = numbers
            .map(|(number, column)| (number, column.as_primitive::<Float64Type>()))
            .collect();
        for (row, group) in groups.iter().enumerate() {
            let mut other = Moments {
                count: counts.value(row),
                ..Moments::default()
            };
            for (number, column) in &numbers {
                *number(&mut other) = column.value(row);
            }
            self.groups[*group].merge(&other);
        }
        Ok(())
    }

    fn convert_to_state(
        &self,
        columns: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let mut rows = vec![Moments::default(); columns[0].len()];
        Self::for_each_pair(self.statistic, columns, filter, |row, x, y| {
            rows[row].add(x, y)
        });
        Ok(Self::columns(self.statistic, &mut rows))
    }

    fn size(&self) -> usize {
        self.groups.capacity() * size_of::<Moments>()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::ScalarValue;
    use datafusion::functions_aggregate::covariance::CovarianceAccumulator;
    use datafusion::functions_aggregate::regr::{RegrAccumulator, RegrType};
    use datafusion::logical_expr::Accumulator;
    use datafusion_functions_aggregate_common::stats::StatsType;

    use super::*;

    fn numbers(values: &[Option<f64>]) -> ArrayRef {
        Arc::new(Float64Array::from(values.to_vec()))
    }

    /// Partial states are those of DataFusion's accumulator of the same function.
    #[test]
    fn partial_states_are_datafusions() {
        let columns = [
            numbers(&[Some(1.0), Some(2.5), None, Some(7.0), Some(4.0)]),
            numbers(&[Some(3.0), Some(2.0), Some(9.0), None, Some(11.0)]),
        ];
        let covariance = CovarianceAccumulator::try_new(StatsType::Sample).unwrap();
        let slope = RegrAccumulator::try_new(&RegrType::Slope).unwrap();
        let accumulators: [(_, Box<dyn Accumulator>); 2] = [
            (Statistic::SampleCovariance, Box::new(covariance)),
            (Statistic::Slope, Box::new(slope)),
        ];
        for (statistic, mut one) in accumulators {
            one.update_batch(&columns).unwrap();
            let expected = one.state().unwrap();
            let mut groups = GroupMoments::new(statistic);
            groups.update_batch(&columns, &[1; 5], None, 3).unwrap();
            let states = groups.state(EmitTo::All).unwrap();
            let found: Vec<_> = states
                .iter()
                .map(|column| ScalarValue::try_from_array(column, 1).unwrap())
                .collect();
            assert_eq!(found, expected, "{statistic:?}");
            let counts = states[0].as_primitive::<UInt64Type>();
            assert_eq!(counts.values(), &[0, 3, 0]);

            // Each row as a state of its own, and the state of all rows.
            groups.merge_batch(&states, &[0, 1, 0], 2).unwrap();
            let of_rows = groups.convert_to_state(&columns, None).unwrap();
            groups.merge_batch(&of_rows, &[0; 5], 2).unwrap();
            let values = groups.evaluate(EmitTo::All).unwrap();
            let ScalarValue::Float64(Some(expected)) = one.evaluate().unwrap() else {
                panic!("{statistic:?} has no value");
            };
            for value in values.as_primitive::<Float64Type>().iter() {
                assert!((value.unwrap() - expected).abs() < 1e-12, "{values:?}");
            }
        }
    }
}
