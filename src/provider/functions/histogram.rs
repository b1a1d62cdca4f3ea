//! The aggregate function `histogram(value, low, high, bins)`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, UInt64Array};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, UInt64Type};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err, plan_err, resources_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use datafusion::physical_expr::expressions::Literal;

use crate::provider::functions::memory::SessionMemory;

/// The max number of bins, because each row of the result contains a list of all bins.
const MAX_BINS: i64 = 1 << BIN_BITS;
const BIN_BITS: u32 = 20;
/// The max number of counters in a vector. Beyond, most counters are zero, and the others are kept
/// in a hash map.
const MAX_DENSE: usize = 1 << 20;
/// The approximate size of a hash map entry in bytes.
const ENTRY_BYTES: usize = 20;

/// Returns the number of values in each of `bins` bins of equal width between `low` and `high`, as
/// a list.
///
/// Bins are those of NumPy: a value on the edge between two bins belongs to the upper one, and
/// `high` itself to the last bin. Values out of bounds, NaN and nulls belong to none.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Histogram {
    signature: Signature,
    memory: SessionMemory,
}

impl Histogram {
    /// Creates the function. Its results are reserved in `memory`.
    pub fn new(memory: SessionMemory) -> Self {
        let types = vec![
            DataType::Float64,
            DataType::Float64,
            DataType::Float64,
            DataType::Int64,
        ];
        Self {
            signature: Signature::exact(types, Volatility::Immutable),
            memory,
        }
    }

    fn counts(&self, arguments: &AccumulatorArgs) -> Result<HistogramAccumulator> {
        if arguments.is_distinct {
            return exec_err!("histogram does not take DISTINCT");
        }
        let constant = |number: usize| -> Option<ScalarValue> {
            let literal = arguments.exprs.get(number)?.downcast_ref::<Literal>()?;
            Some(literal.value().clone())
        };
        let (
            Some(ScalarValue::Float64(Some(low))),
            Some(ScalarValue::Float64(Some(high))),
            Some(ScalarValue::Int64(Some(bins))),
        ) = (constant(1), constant(2), constant(3))
        else {
            return plan_err!(
                "histogram(value, low, high, bins): low, high and bins must be constants"
            );
        };
        if !(low < high && (high - low).is_finite()) {
            return plan_err!(
                "histogram(value, low, high, bins): found low {low} and high {high}, expected low below high"
            );
        }
        if !(1..=MAX_BINS).contains(&bins) {
            return plan_err!(
                "histogram(value, low, high, bins): found {bins} bins, expected 1 to {MAX_BINS}"
            );
        }
        Ok(HistogramAccumulator {
            low,
            high,
            bins: bins as usize,
            groups: 0,
            dense: Vec::new(),
            sparse: None,
            memory: self.memory.clone(),
            reserved: Vec::new(),
        })
    }
}

fn list() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::UInt64, true)))
}

impl AggregateUDFImpl for Histogram {
    fn name(&self) -> &str {
        "histogram"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(list())
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let mut counts = self.counts(&arguments)?;
        counts.resize(1)?;
        Ok(Box::new(counts))
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let name = format!("{}[histogram]", arguments.name);
        Ok(vec![Arc::new(Field::new(name, list(), true))])
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        !arguments.is_distinct
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(self.counts(&arguments)?))
    }
}

/// The counters of all groups. The partial state of a group is a list of its non-empty bins, each
/// followed by its count.
#[derive(Debug)]
struct HistogramAccumulator {
    low: f64,
    high: f64,
    bins: usize,
    groups: usize,
    /// The counters of one group after another, as long as there are at most [`MAX_DENSE`].
    dense: Vec<u64>,
    /// Counters by [`key`], once there are more than [`MAX_DENSE`].
    sparse: Option<HashMap<u64, u64>>,
    memory: SessionMemory,
    /// Memory reserved for results.
    reserved: Vec<MemoryReservation>,
}

impl HistogramAccumulator {
    fn edge(&self, bin: usize) -> f64 {
        bin as f64 * ((self.high - self.low) / self.bins as f64) + self.low
    }

    fn bin(&self, value: f64) -> Option<usize> {
        if !(self.low <= value && value <= self.high) {
            return None;
        }
        let last = self.bins - 1;
        let offset = (value - self.low) / (self.high - self.low) * self.bins as f64;
        let mut bin = (offset as usize).min(last);
        // The quotient may be off by a rounding error, so compare with the edges of the bin.
        if value < self.edge(bin) {
            bin = bin.saturating_sub(1);
        } else if bin < last && value >= self.edge(bin + 1) {
            bin += 1;
        }
        Some(bin)
    }

    /// Makes room for at least this many groups. Never shrinks.
    fn resize(&mut self, groups: usize) -> Result<()> {
        self.groups = groups.max(self.groups);
        let Some(counts) = self.groups.checked_mul(self.bins) else {
            return resources_err!("histogram of {} groups", self.groups);
        };
        if self.sparse.is_some() || counts == self.dense.len() {
            return Ok(());
        }
        if counts <= MAX_DENSE {
            if self.dense.try_reserve(counts - self.dense.len()).is_err() {
                return resources_err!("no memory for {counts} counts of histogram");
            }
            self.dense.resize(counts, 0);
            return Ok(());
        }
        let dense = std::mem::take(&mut self.dense);
        self.sparse = Some(HashMap::new());
        for (index, count) in dense
            .into_iter()
            .enumerate()
            .filter(|(_, count)| *count > 0)
        {
            self.add(index / self.bins, index % self.bins, count);
        }
        Ok(())
    }

    fn add(&mut self, group: usize, bin: usize, count: u64) {
        match &mut self.sparse {
            None => self.dense[group * self.bins + bin] += count,
            Some(sparse) => *sparse.entry(key(group, bin)).or_default() += count,
        }
    }

    fn update<'a>(
        &mut self,
        values: &[ArrayRef],
        groups: impl Iterator<Item = &'a usize>,
        wanted: Option<&BooleanArray>,
    ) {
        let values = values[0].as_primitive::<Float64Type>();
        for (row, (value, group)) in values.iter().zip(groups).enumerate() {
            let counts = wanted.is_none_or(|wanted| wanted.is_valid(row) && wanted.value(row));
            if counts && let Some(bin) = value.and_then(|value| self.bin(value)) {
                self.add(*group, bin, 1);
            }
        }
    }

    fn merge<'a>(
        &mut self,
        states: &[ArrayRef],
        groups: impl Iterator<Item = &'a usize>,
    ) -> Result<()> {
        for (state, group) in states[0].as_list::<i32>().iter().zip(groups) {
            let Some(state) = state else { continue };
            let pairs: &UInt64Array = state.as_primitive::<UInt64Type>();
            for pair in pairs.values().chunks_exact(2) {
                if pair[0] >= self.bins as u64 {
                    return internal_err!("histogram has no bin {}", pair[0]);
                }
                self.add(*group, pair[0] as usize, pair[1]);
            }
        }
        Ok(())
    }

    /// Removes the first groups. Returns how many they are, and their non-zero counters as pairs of
    /// key and count, sorted by key.
    fn take(&mut self, emit_to: EmitTo) -> (usize, Vec<(u64, u64)>) {
        let taken = match emit_to {
            EmitTo::All => self.groups,
            EmitTo::First(groups) => groups.min(self.groups),
        };
        self.groups -= taken;
        let entries = match &mut self.sparse {
            None => {
                let rest = self.dense.split_off(taken * self.bins);
                let first = std::mem::replace(&mut self.dense, rest);
                let first = first.into_iter().enumerate();
                let first = first.filter(|(_, count)| *count > 0);
                let bins = self.bins;
                first
                    .map(|(index, count)| (key(index / bins, index % bins), count))
                    .collect()
            }
            Some(sparse) => {
                let end = key(taken, 0);
                let rest = sparse.iter().filter(|(key, _)| **key >= end);
                let rest = rest.map(|(key, count)| (key - end, *count)).collect();
                let first = std::mem::replace(sparse, rest).into_iter();
                let mut first: Vec<(u64, u64)> = first.filter(|(key, _)| *key < end).collect();
                first.sort_unstable();
                first
            }
        };
        (taken, entries)
    }

    /// Removes the first groups and returns their histograms.
    fn histograms(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (groups, entries) = self.take(emit_to);
        let counts = groups.saturating_mul(self.bins);
        if i32::try_from(counts).is_err() {
            return resources_err!(
                "{groups} histograms of {} bins are more than one array holds; have fewer bins",
                self.bins
            );
        }
        self.reserved.extend(
            self.memory
                .reserve("histogram", counts * size_of::<u64>())?,
        );
        let mut all = Vec::new();
        if all.try_reserve_exact(counts).is_err() {
            return resources_err!("no memory for {counts} counts of histogram");
        }
        all.resize(counts, 0);
        for (key, count) in entries {
            let (group, bin) = (key >> BIN_BITS, key & (MAX_BINS as u64 - 1));
            all[group as usize * self.bins + bin as usize] = count;
        }
        Ok(lists(std::iter::repeat_n(self.bins, groups), all))
    }

    /// Removes the first groups and returns their partial states.
    fn states(&mut self, emit_to: EmitTo) -> ArrayRef {
        let (groups, entries) = self.take(emit_to);
        let mut lengths = vec![0; groups];
        let mut pairs = Vec::with_capacity(2 * entries.len());
        for (key, count) in entries {
            lengths[(key >> BIN_BITS) as usize] += 2;
            pairs.extend([key & (MAX_BINS as u64 - 1), count]);
        }
        lists(lengths, pairs)
    }

    fn bytes(&self) -> usize {
        let sparse = self.sparse.as_ref().map_or(0, HashMap::capacity);
        size_of_val(self) + self.dense.capacity() * size_of::<u64>() + sparse * ENTRY_BYTES
    }
}

/// Returns the hash map key of a bin: the group index in the upper bits, the bin in the lower ones.
fn key(group: usize, bin: usize) -> u64 {
    (group as u64) << BIN_BITS | bin as u64
}

fn lists(lengths: impl IntoIterator<Item = usize>, values: Vec<u64>) -> ArrayRef {
    let field = Arc::new(Field::new_list_field(DataType::UInt64, true));
    let values = UInt64Array::new(ScalarBuffer::from(values), None);
    let offsets = OffsetBuffer::from_lengths(lengths);
    Arc::new(ListArray::new(field, offsets, Arc::new(values), None))
}

impl GroupsAccumulator for HistogramAccumulator {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        wanted: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.resize(count)?;
        self.update(values, groups.iter(), wanted);
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.histograms(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.states(emit_to)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.resize(count)?;
        self.merge(states, groups.iter())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        wanted: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<Float64Type>();
        let (mut lengths, mut pairs) = (Vec::with_capacity(values.len()), Vec::new());
        for (row, value) in values.iter().enumerate() {
            let counts = wanted.is_none_or(|wanted| wanted.is_valid(row) && wanted.value(row));
            let bin = value.filter(|_| counts).and_then(|value| self.bin(value));
            lengths.push(if bin.is_some() { 2 } else { 0 });
            pairs.extend(bin.into_iter().flat_map(|bin| [bin as u64, 1]));
        }
        Ok(vec![lists(lengths, pairs)])
    }

    fn size(&self) -> usize {
        self.bytes()
    }
}

impl Accumulator for HistogramAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.update(values, std::iter::repeat(&0), None);
        Ok(())
    }

    // The counters of a single group are never sparse. They are cloned, because a window function
    // evaluates its accumulator after every row.
    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&lists([self.bins], self.dense.clone()), 0)
    }

    fn size(&self) -> usize {
        self.bytes()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let state = ScalarValue::try_from_array(&self.states(EmitTo::All), 0)?;
        self.resize(1)?;
        Ok(vec![state])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.merge(states, std::iter::repeat(&0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(bins: usize) -> HistogramAccumulator {
        HistogramAccumulator {
            low: 0.0,
            high: 1.0,
            bins,
            groups: 0,
            dense: Vec::new(),
            sparse: None,
            memory: SessionMemory::default(),
            reserved: Vec::new(),
        }
    }

    #[test]
    fn edges_are_those_of_numpy() {
        let counts = counts(10);
        // Expected bins are from numpy.histogram of each number alone.
        for (value, bin) in [
            (0.0, Some(0)),
            (0.1, Some(1)),
            (0.3, Some(2)),
            (0.30000000000000004, Some(3)),
            (0.7, Some(6)),
            (0.7000000000000001, Some(7)),
            (1.0, Some(9)),
            (1.0000000000000002, None),
            (-1e-300, None),
            (f64::NAN, None),
        ] {
            assert_eq!(counts.bin(value), bin, "{value}");
        }
    }

    /// Tests both representations: 4 bins keep the counters in a vector, 2^19 bins in a hash map.
    #[test]
    fn groups_are_counted_apart_and_taken_in_order() {
        for bins in [4, 1 << 19] {
            let column = |values: &[f64]| -> ArrayRef {
                Arc::new(arrow::array::Float64Array::from(values.to_vec()))
            };
            let found = |counts: &ArrayRef| -> Vec<Vec<(usize, u64)>> {
                let lists = counts.as_list::<i32>().iter().flatten();
                let counts = lists.map(|list| list.as_primitive::<UInt64Type>().values().to_vec());
                let counts = counts.map(|counts| counts.into_iter().enumerate());
                let some = counts.map(|counts| counts.filter(|(_, count)| *count > 0).collect());
                some.collect()
            };
            let mut one = counts(bins);
            let values = [0.0, 0.0, 1.0, 0.5, f64::NAN];
            GroupsAccumulator::update_batch(
                &mut one,
                &[column(&values)],
                &[0, 1, 1, 4, 2],
                None,
                5,
            )
            .unwrap();
            // Merge the partial states of one accumulator into another one, whose groups are in a
            // different order.
            let states = GroupsAccumulator::state(&mut one, EmitTo::All).unwrap();
            let mut two = counts(bins);
            let rows = counts(bins)
                .convert_to_state(&[column(&values)], None)
                .unwrap();
            GroupsAccumulator::merge_batch(&mut two, &rows, &[4, 3, 3, 0, 2], 5).unwrap();
            GroupsAccumulator::merge_batch(&mut two, &states, &[4, 3, 2, 1, 0], 5).unwrap();
            let (last, middle) = (bins - 1, bins / 2);
            let expected = [
                vec![(middle, 2)],
                vec![],
                vec![],
                vec![(0, 2), (last, 2)],
                vec![(0, 2)],
            ];
            let first = GroupsAccumulator::evaluate(&mut two, EmitTo::First(2)).unwrap();
            let rest = GroupsAccumulator::evaluate(&mut two, EmitTo::All).unwrap();
            assert_eq!(found(&first), expected[..2], "{bins} bins");
            assert_eq!(found(&rest), expected[2..], "{bins} bins");
        }
    }
}
