//! `histogram(value, low, high, bins)`.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, UInt64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, UInt64Type};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};
use datafusion::physical_expr::expressions::Literal;

/// The most bins: a list of them stands in every row of the answer.
const MOST_BINS: i64 = 1 << 20;

/// How many values lie in each of some bins of equal width between two bounds, as a list. As NumPy's: a value on the edge of
/// two bins is in the upper one, `high` itself in the last; values out of bounds, and those that are not numbers, are in
/// none.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Histogram {
    signature: Signature,
}

impl Histogram {
    /// The function.
    pub fn new() -> Self {
        let types = vec![
            DataType::Float64,
            DataType::Float64,
            DataType::Float64,
            DataType::Int64,
        ];
        Self {
            signature: Signature::exact(types, Volatility::Immutable),
        }
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
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
            return plan_err!("histogram(value, low, high, bins) takes constants but for value");
        };
        if !(low < high && (high - low).is_finite()) {
            return plan_err!(
                "histogram(value, low, high, bins): found low {low} and high {high}, expected low below high"
            );
        }
        if !(1..=MOST_BINS).contains(&bins) {
            return plan_err!(
                "histogram(value, low, high, bins): found {bins} bins, expected 1 to {MOST_BINS}"
            );
        }
        Ok(Box::new(Counts {
            low,
            high,
            counts: vec![0; bins as usize],
        }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let name = format!("{}[histogram]", arguments.name);
        Ok(vec![Arc::new(Field::new(name, list(), true))])
    }
}

#[derive(Debug)]
struct Counts {
    low: f64,
    high: f64,
    counts: Vec<u64>,
}

impl Counts {
    fn edge(&self, bin: usize) -> f64 {
        bin as f64 * ((self.high - self.low) / self.counts.len() as f64) + self.low
    }

    fn bin(&self, value: f64) -> Option<usize> {
        if !(self.low <= value && value <= self.high) {
            return None;
        }
        let last = self.counts.len() - 1;
        let place = (value - self.low) / (self.high - self.low) * self.counts.len() as f64;
        let mut bin = (place as usize).min(last);
        // The quotient is rounded; the edges decide.
        if value < self.edge(bin) {
            bin = bin.saturating_sub(1);
        } else if bin < last && value >= self.edge(bin + 1) {
            bin += 1;
        }
        Some(bin)
    }
}

impl Accumulator for Counts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Float64Type>().iter().flatten() {
            if let Some(bin) = self.bin(value) {
                self.counts[bin] += 1;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let counts: Vec<ScalarValue> = self.counts.iter().map(|count| (*count).into()).collect();
        Ok(ScalarValue::List(ScalarValue::new_list(
            &counts,
            &DataType::UInt64,
            true,
        )))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.counts.capacity() * 8
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for counts in states[0].as_list::<i32>().iter().flatten() {
            let counts: &UInt64Array = counts.as_primitive::<UInt64Type>();
            for (count, other) in self.counts.iter_mut().zip(counts.values()) {
                *count += other;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_those_of_numpy() {
        let counts = Counts {
            low: 0.0,
            high: 1.0,
            counts: vec![0; 10],
        };
        // numpy.histogram of each number alone.
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
}
