//! Evenly spaced coordinates, computed rather than stored.

use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

/// Evenly spaced coordinates of an integer, date, timestamp or duration type: `start`, `start + step`, ...
///
/// ```
/// use arrow::datatypes::{DataType, TimeUnit};
/// use tet_sql::grid::Steps;
///
/// // A year in steps of an hour.
/// let seconds = DataType::Timestamp(TimeUnit::Second, None);
/// let hours = Steps::try_new(seconds, 1_704_067_200, 3600, 8784)?;
/// assert_eq!(hours.indices_within(1_704_070_000, 1_704_080_000), 1..4);
/// # Ok::<(), arrow::error::ArrowError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    data_type: DataType,
    start: i128,
    step: i128,
    length: u64,
}

/// Returns the min and max number that an integer, date, timestamp or duration type stores; `None` for other
/// types.
pub fn stored_limits(data_type: &DataType) -> Option<(i128, i128)> {
    use DataType::{Date32, Date64, Duration, Int8, Int16, Int32, Int64, Timestamp};
    use DataType::{UInt8, UInt16, UInt32, UInt64};
    Some(match data_type {
        Int8 => (i8::MIN.into(), i8::MAX.into()),
        Int16 => (i16::MIN.into(), i16::MAX.into()),
        Int32 | Date32 => (i32::MIN.into(), i32::MAX.into()),
        Int64 | Date64 | Timestamp(..) | Duration(_) => (i64::MIN.into(), i64::MAX.into()),
        UInt8 => (0, u8::MAX.into()),
        UInt16 => (0, u16::MAX.into()),
        UInt32 => (0, u32::MAX.into()),
        UInt64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

/// Evaluates `$values` with `$at` bound to a function from indices to coordinates, for the type of
/// the steps, and makes an array of the resulting vector.
macro_rules! collect_steps {
    ($steps:expr, $at:ident => $values:expr) => {
        $crate::grid::steps::collect_steps!(@types $steps, $at => $values,
            Int8 => Int8Type, Int16 => Int16Type, Int32 => Int32Type, Int64 => Int64Type,
            UInt8 => UInt8Type, UInt16 => UInt16Type, UInt32 => UInt32Type, UInt64 => UInt64Type,
            Date32 => Date32Type, Date64 => Date64Type,
            Timestamp(arrow::datatypes::TimeUnit::Second, _) => TimestampSecondType,
            Timestamp(arrow::datatypes::TimeUnit::Millisecond, _) => TimestampMillisecondType,
            Timestamp(arrow::datatypes::TimeUnit::Microsecond, _) => TimestampMicrosecondType,
            Timestamp(arrow::datatypes::TimeUnit::Nanosecond, _) => TimestampNanosecondType,
            Duration(arrow::datatypes::TimeUnit::Second) => DurationSecondType,
            Duration(arrow::datatypes::TimeUnit::Millisecond) => DurationMillisecondType,
            Duration(arrow::datatypes::TimeUnit::Microsecond) => DurationMicrosecondType,
            Duration(arrow::datatypes::TimeUnit::Nanosecond) => DurationNanosecondType)
    };
    (@types $steps:expr, $at:ident => $values:expr,
        $($name:ident $(($($part:pat),+))? => $type:ident),*) => {
        match $steps.data_type() {
            $(arrow::datatypes::DataType::$name $(($($part),+))? => {
                type Native =
                    <arrow::datatypes::$type as arrow::datatypes::ArrowPrimitiveType>::Native;
                // Every coordinate fits into the type, so arithmetic that wraps is exact.
                let (start, step) = ($steps.start() as Native, $steps.step() as Native);
                let $at = |index: u64| start.wrapping_add(step.wrapping_mul(index as Native));
                let values: Vec<Native> = $values;
                let values = arrow::array::PrimitiveArray::<arrow::datatypes::$type>::new(
                    values.into(),
                    None,
                );
                let values = values.with_data_type($steps.data_type().clone());
                std::sync::Arc::new(values) as arrow::array::ArrayRef
            })*
            // Unreachable: the constructor refuses other types.
            other => arrow::array::new_empty_array(other),
        }
    };
}

pub(super) use collect_steps;

impl Steps {
    /// Returns `length` coordinates from `start` on, in steps of `step`, as the numbers that the
    /// type stores: days for Date32, milliseconds for Date64, units since 1970 for timestamps, units for
    /// durations.
    ///
    /// # Errors
    /// Fails if the type is not an integer, date, timestamp or duration, if the step is zero, or if a
    /// coordinate does not fit into the type.
    pub fn try_new(
        data_type: DataType,
        start: i128,
        step: i128,
        length: u64,
    ) -> Result<Self, ArrowError> {
        let Some((min, max)) = stored_limits(&data_type) else {
            return Err(ArrowError::InvalidArgumentError(format!(
                "evenly spaced coordinates cannot be of type {data_type}"
            )));
        };
        if step == 0 {
            return Err(ArrowError::InvalidArgumentError(
                "evenly spaced coordinates need a step other than 0".to_string(),
            ));
        }
        let fits = |number| (min..=max).contains(&number);
        let last = i128::from(length.saturating_sub(1)).checked_mul(step);
        let last = last.and_then(|distance| start.checked_add(distance));
        if length > 0 && !(fits(start) && last.is_some_and(fits)) {
            return Err(ArrowError::ArithmeticOverflow(format!(
                "{length} coordinates from {start} in steps of {step} do not fit into {data_type}"
            )));
        }
        Ok(Self {
            data_type,
            start,
            // Axes of at most one coordinate get the same step, so that equal axes compare equal.
            step: if length > 1 { step } else { 1 },
            length,
        })
    }

    /// Returns the coordinates 0, 1, ... as Int64, or as UInt64 if Int64 is too small.
    pub fn counted(length: u64) -> Self {
        Self {
            data_type: match length <= 1 << 63 {
                true => DataType::Int64,
                false => DataType::UInt64,
            },
            start: 0,
            step: 1,
            length,
        }
    }

    /// Returns the Arrow type of the coordinates.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Returns the coordinate of index 0, as the stored number.
    pub fn start(&self) -> i128 {
        self.start
    }

    /// Returns the difference of consecutive coordinates.
    pub fn step(&self) -> i128 {
        self.step
    }

    /// Returns the number of coordinates.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the coordinate at an index, as the stored number.
    pub fn coordinate(&self, index: u64) -> i128 {
        // The constructor checked the last coordinate.
        self.start + self.step * i128::from(index)
    }

    /// Returns the min and max coordinate; `None` if there are no coordinates.
    pub fn bounds(&self) -> Option<(i128, i128)> {
        let last = self.coordinate(self.length.checked_sub(1)?);
        Some((self.start.min(last), self.start.max(last)))
    }

    /// Returns the same coordinates in ascending order.
    pub fn ascending(&self) -> Self {
        match self.bounds() {
            Some((min, _)) if self.step < 0 => Self {
                start: min,
                step: -self.step,
                ..self.clone()
            },
            _ => self.clone(),
        }
    }

    /// Returns the indices whose coordinates lie between two stored numbers, both included.
    pub fn indices_within(&self, min: i128, max: i128) -> Range<u64> {
        let Some((lowest, highest)) = self.bounds() else {
            return 0..0;
        };
        let (min, max) = (min.max(lowest), max.min(highest));
        if min > max {
            return 0..0;
        }
        // Round inwards at both ends. The bounds were clipped above, so no difference overflows.
        let (near, far) = match self.step > 0 {
            true => (min - self.start, max - self.start),
            false => (self.start - max, self.start - min),
        };
        let step = self.step.abs();
        let (first, last) = ((near + step - 1) / step, far / step);
        if first > last {
            return 0..0;
        }
        first as u64..last as u64 + 1
    }

    /// Returns the index of a stored number; `None` if there is no such coordinate.
    pub fn index_of(&self, number: i128) -> Option<u64> {
        let indices = self.indices_within(number, number);
        (!indices.is_empty()).then_some(indices.start)
    }

    /// Returns the coordinates at these indices.
    pub fn at(&self, indices: impl Iterator<Item = u64>) -> ArrayRef {
        collect_steps!(self, at => indices.map(at).collect())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray, TimestampMicrosecondArray};
    use arrow::compute::cast;
    use arrow::datatypes::{Int64Type, TimeUnit, UInt64Type};

    use super::*;

    #[test]
    fn coordinates_of_every_type() {
        use DataType::{Date32, Date64, Int8, Int16, Int32, Int64, Timestamp};
        use DataType::{UInt8, UInt16, UInt32, UInt64};
        use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        let times = [Second, Millisecond, Microsecond, Nanosecond];
        let times = times.map(|unit| Timestamp(unit, Some("+01:00".into())));
        let types = [
            Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Date32, Date64,
        ];
        for data_type in types.into_iter().chain(times) {
            for (start, step) in [(3, 1), (3, 7), (100, -9)] {
                let steps = Steps::try_new(data_type.clone(), start, step, 10).unwrap();
                let found = steps.at([0, 9, 4].into_iter());
                assert_eq!(*found.data_type(), data_type);
                let found = match data_type {
                    Date32 => cast(&cast(&found, &Int32).unwrap(), &Int64).unwrap(),
                    _ => cast(&found, &Int64).unwrap(),
                };
                let expected = [0, 9, 4].map(|index| (start + step * index) as i64);
                assert_eq!(found.as_primitive::<Int64Type>().values(), &expected);
            }
        }
    }

    #[test]
    fn coordinates_up_to_the_limits_of_a_type() {
        for (data_type, (min, max)) in [
            (DataType::Int8, (-128, 127)),
            (DataType::UInt64, (0, i128::from(u64::MAX))),
            (DataType::Date32, (i32::MIN.into(), i32::MAX.into())),
        ] {
            let fits = |start, step, length| {
                Steps::try_new(data_type.clone(), start, step, length).is_ok()
            };
            assert!(fits(max, -(max - min), 2) && fits(min, max - min, 2));
            assert!(fits(max, 1, 1) && !fits(max, 1, 2) && !fits(max + 1, -1, 2));
            assert!(fits(min, -1, 1) && !fits(min, -1, 2) && fits(max + 1, 1, 0));
            assert!(!fits(0, 0, 2) && !fits(0, i128::MAX, u64::MAX));
        }
        assert!(Steps::try_new(DataType::Float64, 0, 1, 1).is_err());
        assert_eq!(*Steps::counted(1 << 63).data_type(), DataType::Int64);
        let last = Steps::counted(u64::MAX).at(std::iter::once(u64::MAX - 1));
        assert_eq!(last.as_primitive::<UInt64Type>().value(0), u64::MAX - 1);
    }

    #[test]
    fn indices_within_bounds_by_brute_force() {
        for (start, step, length) in [(0, 1, 9), (-5, 3, 7), (10, -4, 6), (2, -1, 1), (0, 5, 0)] {
            let steps = Steps::try_new(DataType::Int16, start, step, length).unwrap();
            let ascending = steps.ascending();
            for (min, max) in (-20..30).flat_map(|min| (-20..30).map(move |max| (min, max))) {
                let within = |steps: &Steps| -> Vec<u64> {
                    let is_within = |index: &u64| (min..=max).contains(&steps.coordinate(*index));
                    (0..steps.length()).filter(is_within).collect()
                };
                for steps in [&steps, &ascending] {
                    let found: Vec<_> = steps.indices_within(min, max).collect();
                    assert_eq!(found, within(steps), "{steps:?} {min}..={max}");
                }
                if min == max {
                    assert_eq!(steps.index_of(min), within(&steps).first().copied());
                }
            }
        }
        let extreme = Steps::try_new(DataType::UInt64, 0, 1 << 62, 3).unwrap();
        assert_eq!(extreme.indices_within(i128::MIN, i128::MAX), 0..3);
    }

    #[test]
    fn time_zones_are_kept() {
        let data_type = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let steps = Steps::try_new(data_type, 5, 10, 1_000_000_000_000).unwrap();
        let expected = TimestampMicrosecondArray::from(vec![15, 25]).with_timezone("UTC");
        assert_eq!(steps.at(1..3).as_ref(), &expected as &dyn Array);
    }
}
