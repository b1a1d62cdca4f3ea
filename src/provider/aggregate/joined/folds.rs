//! Partial states of runs of joined rows.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Int64Array, PrimitiveArray, UInt64Array,
};
use arrow::datatypes::{
    ArrowNativeTypeOp, DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, internal_err};
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::sum::Sum;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use crate::provider::functions::extremes::is_max;

/// The number of values that are combined at the same time.
const LANES: usize = 8;

/// One column of a partial state, as a fold of a column of joined rows. Nulls are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::provider) enum Fold {
    /// The number of values, for `count`.
    Count,
    /// The number of values, for `avg`: null for none.
    CountOfMean,
    Sum,
    Min,
    Max,
}

impl Fold {
    /// Returns the folds of an argument of this type that make up the partial state of a function; `None` if the state
    /// is of another kind.
    pub fn of_argument(function: &AggregateFunctionExpr, argument: &DataType) -> Option<Vec<Self>> {
        let states = state_types(function)?;
        let inner = function.fun().inner();
        let is = |expected: &[&DataType]| states.iter().eq(expected.iter().copied());
        if inner.is::<Count>() && is(&[&DataType::Int64]) {
            Some(vec![Self::Count])
        } else if inner.is::<Sum>() && is_summed(argument) && is(&[argument]) {
            Some(vec![Self::Sum])
        } else if inner.is::<Avg>()
            && *argument == DataType::Float64
            && is(&[&DataType::UInt64, argument])
        {
            Some(vec![Self::CountOfMean, Self::Sum])
        } else {
            let fold = extreme(function)?;
            (is_compared(argument) && is(&[argument])).then(|| vec![fold])
        }
    }

    /// Returns the folds of partial states that merge them; `None` if they are merged in another way.
    pub fn of_states(function: &AggregateFunctionExpr) -> Option<Vec<Self>> {
        let states = state_types(function)?;
        let inner = function.fun().inner();
        if inner.is::<Count>() || inner.is::<Sum>() || inner.is::<Avg>() {
            let are_summed = states.iter().all(is_summed);
            return are_summed.then(|| vec![Self::Sum; states.len()]);
        }
        let fold = extreme(function)?;
        states.iter().all(is_compared).then(|| vec![fold])
    }

    /// Folds the values of each run.
    pub fn fold(self, values: &ArrayRef, runs: &[Range<usize>]) -> Result<ArrayRef> {
        macro_rules! folded {
            ($fold:expr, $($data_type:ident: $array_type:ident),*) => {
                match values.data_type() {
                    $(DataType::$data_type => folded::<$array_type>(values, runs, $fold),)*
                    other => return internal_err!("a run of {other} is folded"),
                }
            };
            ($fold:expr) => {
                folded!(
                    $fold, Int8: Int8Type, Int16: Int16Type, Int32: Int32Type, Int64: Int64Type, UInt8: UInt8Type,
                    UInt16: UInt16Type, UInt32: UInt32Type, UInt64: UInt64Type, Float32: Float32Type,
                    Float64: Float64Type
                )
            };
        }
        Ok(match self {
            Self::Count => {
                let counts = counts(values, runs).map(|count| count as i64);
                Arc::new(Int64Array::from_iter_values(counts))
            }
            Self::CountOfMean => {
                let counts = counts(values, runs).map(|count| (count > 0).then_some(count as u64));
                Arc::new(counts.collect::<UInt64Array>())
            }
            Self::Sum => folded!(
                |one, other| one.add_wrapping(other),
                Int64: Int64Type, UInt64: UInt64Type, Float64: Float64Type
            ),
            // NaN is greater than all numbers.
            Self::Min => folded!(|one, other| if other.is_lt(one) { other } else { one }),
            Self::Max => folded!(|one, other| if other.is_gt(one) { other } else { one }),
        })
    }
}

/// Returns the types of the columns of a function's partial state.
fn state_types(function: &AggregateFunctionExpr) -> Option<Vec<DataType>> {
    let fields = function.state_fields().ok()?;
    Some(
        fields
            .iter()
            .map(|field| field.data_type().clone())
            .collect(),
    )
}

fn extreme(function: &AggregateFunctionExpr) -> Option<Fold> {
    let is_max = is_max(function.fun().inner().as_ref())?;
    Some(if is_max { Fold::Max } else { Fold::Min })
}

fn is_summed(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int64 | DataType::UInt64 | DataType::Float64
    )
}

fn is_compared(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Float32 | DataType::Float64)
}

/// Returns the number of values in each run.
fn counts(values: &ArrayRef, runs: &[Range<usize>]) -> impl Iterator<Item = usize> {
    // Unlike `nulls`, `logical_nulls` includes those of dictionaries.
    let nulls = values
        .logical_nulls()
        .filter(|nulls| nulls.null_count() > 0);
    runs.iter().map(move |run| match &nulls {
        None => run.len(),
        Some(nulls) => nulls.inner().slice(run.start, run.len()).count_set_bits(),
    })
}

fn folded<T: ArrowPrimitiveType>(
    values: &ArrayRef,
    runs: &[Range<usize>],
    fold: impl Fn(T::Native, T::Native) -> T::Native,
) -> ArrayRef {
    let values = values.as_primitive::<T>();
    let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
    let Some(nulls) = nulls else {
        let of_runs = runs
            .iter()
            .map(|run| of_slice(&values.values()[run.clone()], &fold));
        return Arc::new(of_runs.collect::<PrimitiveArray<T>>());
    };
    let of_runs = runs.iter().map(|run| {
        let mut valid = run.clone().filter(|row| nulls.is_valid(*row));
        let first = values.values()[valid.next()?];
        Some(valid.fold(first, |folded, row| fold(folded, values.values()[row])))
    });
    Arc::new(of_runs.collect::<PrimitiveArray<T>>())
}

/// Folds values in lanes, not in their order; `None` if there are none.
fn of_slice<N: Copy>(values: &[N], fold: impl Fn(N, N) -> N) -> Option<N> {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let Some((first, chunks)) = chunks.split_first() else {
        return values.iter().copied().reduce(fold);
    };
    let mut lanes = *first;
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = fold(*lane, *value);
        }
    }
    lanes.iter().chain(rest).copied().reduce(fold)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int64Array};

    use super::*;

    #[test]
    fn folds_of_runs() {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..40));
        let runs = [0..40, 3..4, 5..15];
        let sums = Fold::Sum.fold(&values, &runs).unwrap();
        assert_eq!(sums.as_primitive::<Int64Type>().values(), &[780, 3, 95]);
        let max = Fold::Max.fold(&values, &runs).unwrap();
        assert_eq!(max.as_primitive::<Int64Type>().values(), &[39, 3, 14]);
        let some = Float64Array::from(vec![None, Some(2.0), Some(f64::NAN), None]);
        let some: ArrayRef = Arc::new(some);
        let runs = [0..2, 0..1, 1..4];
        let counts = Fold::Count.fold(&some, &runs).unwrap();
        assert_eq!(counts.as_primitive::<Int64Type>().values(), &[1, 0, 2]);
        let counts = Fold::CountOfMean.fold(&some, &runs).unwrap();
        let expected: UInt64Array = [Some(1), None, Some(2)].into_iter().collect();
        assert_eq!(counts.as_primitive::<UInt64Type>(), &expected);
        let min = Fold::Min.fold(&some, &runs).unwrap();
        let expected = Float64Array::from(vec![Some(2.0), None, Some(2.0)]);
        assert_eq!(min.as_primitive::<Float64Type>(), &expected);
        let max = Fold::Max.fold(&some, &runs).unwrap();
        assert!(max.as_primitive::<Float64Type>().value(2).is_nan());
    }
}
