//! Decodes numbers that count a unit of time, without a reference date, to durations.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, DurationMicrosecondArray, DurationNanosecondArray};
use arrow::datatypes::TimeUnit;

use crate::grid::cf_time::scale::Scale;
use crate::grid::cf_time::{CfTimeError, MICROSECOND, nanoseconds, quoted, split_at_since, trim};

/// The start of the attribute `dtype` that xarray gives to durations.
const TIMEDELTA: &str = "timedelta64";
const OUT_OF_RANGE: &str =
    "a duration of less than 2^63 microseconds (nanoseconds, if they are the unit)";

/// The encoding of durations: their unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CfDuration {
    /// Nanoseconds per unit.
    unit: i128,
}

impl CfDuration {
    /// Parses the attributes `units` and `dtype`. Returns `None` if `dtype` is not NumPy's
    /// `timedelta64`, which xarray writes, or if `units` has a reference date. Units alone do not
    /// make a duration: the period of a wave in seconds is a number.
    ///
    /// ```
    /// use arrow::array::{Array, Int32Array};
    /// use arrow::datatypes::{DataType, TimeUnit};
    /// use tet_sql::grid::CfDuration;
    ///
    /// let lead = CfDuration::parse("hours", Some("timedelta64[ns]"))?.unwrap();
    /// let durations = lead.decode(&Int32Array::from(vec![0, 6]))?;
    /// assert_eq!(durations.data_type(), &DataType::Duration(TimeUnit::Microsecond));
    /// assert_eq!(CfDuration::parse("hours", None)?, None);
    /// # Ok::<(), tet_sql::grid::CfTimeError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the unit is unknown, or is a month or year, which vary in length.
    pub fn parse(units: &str, dtype: Option<&str>) -> Result<Option<Self>, CfTimeError> {
        let is_duration = dtype.is_some_and(|dtype| trim(dtype).starts_with(TIMEDELTA));
        let units = trim(units);
        if !is_duration || split_at_since(units).is_some() {
            return Ok(None);
        }
        match nanoseconds(units) {
            Ok(unit) => Ok(Some(Self { unit })),
            Err(expected) => Err(CfTimeError {
                field: "units",
                found: quoted(units),
                expected: expected.to_string(),
            }),
        }
    }

    /// Returns the Arrow unit of the decoded durations: nanoseconds if the numbers count them, else
    /// microseconds, the unit of timestamps.
    pub fn time_unit(&self) -> TimeUnit {
        match self.unit < MICROSECOND {
            true => TimeUnit::Nanosecond,
            false => TimeUnit::Microsecond,
        }
    }

    /// Decodes numbers to durations: integers exactly, floats to the nearest microsecond. Nulls, NaN
    /// and NumPy's "not a time" become null.
    ///
    /// # Errors
    /// Fails if a duration is infinite or out of range, or if the array is not numeric.
    pub fn decode(&self, values: &dyn Array) -> Result<ArrayRef, CfTimeError> {
        let scale = Scale {
            unit: self.unit,
            reference: 0,
            tick: self.unit.min(MICROSECOND),
            field: "duration",
            range: OUT_OF_RANGE,
        };
        let finish = |ticks: i128| i64::try_from(ticks).map(Some).map_err(|_| OUT_OF_RANGE);
        let ticks = scale.decode_values(
            values,
            |number| scale.float(number).and_then(finish),
            |number| scale.integer(number.into()).and_then(finish),
        )?;
        let (_, ticks, nulls) = ticks.into_parts();
        Ok(match self.time_unit() {
            TimeUnit::Nanosecond => Arc::new(DurationNanosecondArray::new(ticks, nulls)),
            _ => Arc::new(DurationMicrosecondArray::new(ticks, nulls)),
        })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        AsArray, Float32Array, Float64Array, Int8Array, Int64Array, StringArray, UInt64Array,
    };
    use arrow::datatypes::{DurationMicrosecondType, DurationNanosecondType};

    use super::*;

    fn duration(units: &str) -> CfDuration {
        let parsed = CfDuration::parse(units, Some("timedelta64[ns]"));
        parsed.unwrap().unwrap()
    }

    #[test]
    fn only_numpy_durations_are_durations() {
        let parse = |units, dtype| CfDuration::parse(units, dtype);
        assert_eq!(parse("hours", None), Ok(None));
        assert_eq!(parse("hours", Some("int64")), Ok(None));
        let since = parse("hours since 2000-01-01", Some("timedelta64[ns]"));
        assert_eq!(since, Ok(None));
        let error = parse("months", Some("timedelta64[ns]")).unwrap_err();
        assert!(error.to_string().starts_with("units is \"months\""));
        assert!(parse("K", Some("timedelta64[s]")).is_err());
    }

    #[test]
    fn numbers_of_every_type() {
        let micros = |units: &str, values: &dyn Array| -> Vec<Option<i64>> {
            let decoded = duration(units).decode(values).unwrap();
            let decoded = decoded.as_primitive::<DurationMicrosecondType>();
            decoded.iter().collect()
        };
        let hour = 3_600_000_000;
        let values = Int8Array::from(vec![Some(-6), None, Some(48)]);
        assert_eq!(
            micros("hours", &values),
            [Some(-6 * hour), None, Some(48 * hour)]
        );
        let values = Int64Array::from(vec![i64::MIN, 1]);
        assert_eq!(micros("us", &values), [None, Some(1)]);
        let values = Float64Array::from(vec![0.5, f64::NAN, -0.25]);
        assert_eq!(
            micros("days", &values),
            [Some(12 * hour), None, Some(-6 * hour)]
        );
        assert_eq!(
            micros("h", &Float32Array::from(vec![1.5])),
            [Some(3 * hour / 2)]
        );
        let nanos = duration("ns").decode(&Int64Array::from(vec![1, -1_001]));
        let nanos = nanos.unwrap();
        let nanos = nanos.as_primitive::<DurationNanosecondType>();
        assert_eq!(nanos.values(), &[1, -1_001]);
    }

    #[test]
    fn durations_out_of_range() {
        let refused = |units: &str, values: &dyn Array| {
            let error = duration(units).decode(values).unwrap_err();
            error.to_string()
        };
        let error = refused("days", &Int64Array::from(vec![1 << 40]));
        assert!(error.starts_with("duration is 1099511627776, expected a duration of"));
        refused("days", &UInt64Array::from(vec![u64::MAX]));
        refused("days", &Float64Array::from(vec![f64::INFINITY]));
        refused("days", &Float64Array::from(vec![1e300]));
        refused("days", &Float64Array::from(vec![1e12]));
        refused("days", &StringArray::from(vec!["x"]));
    }
}
