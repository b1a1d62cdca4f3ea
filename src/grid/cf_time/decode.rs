//! Decodes numbers in CF units of time to timestamps.

use arrow::array::{Array, TimestampMicrosecondArray};
use chrono::{DateTime, NaiveDate, NaiveTime};

use crate::grid::cf_time::calendar::Calendar;
use crate::grid::cf_time::scale::Scale;
use crate::grid::cf_time::{CfTime, CfTimeError, DAY, MICROSECOND};

const MICROSECONDS_PER_DAY: i64 = (DAY / MICROSECOND) as i64;
/// 1582-10-15, the first Gregorian day of the standard calendar, in microseconds since 1970.
const FIRST_GREGORIAN: i128 = -141_427 * DAY / MICROSECOND;
const OUT_OF_RANGE: &str = "an instant in the years -262143 to 262142, the range of timestamps";

impl CfTime {
    /// Decodes numbers to UTC timestamps: integers exactly, floats to the nearest microsecond. Call
    /// it only if [`Self::has_timestamps`] returns `true`; timestamps of other calendars have wrong dates.
    ///
    /// # Errors
    /// Fails if a value is null, not finite, out of range for a timestamp, or in the Julian part of
    /// the standard calendar; if an integer is not a whole number of microseconds; if the array is
    /// not numeric.
    pub fn decode(&self, values: &dyn Array) -> Result<TimestampMicrosecondArray, CfTimeError> {
        let scale = self.scale(OUT_OF_RANGE);
        let times = scale.decode(values, |time| self.timestamp(time))?;
        Ok(times.into())
    }

    /// Returns the scale of the numbers, in microseconds since 1970 of the calendar. `range`
    /// describes the range of times.
    pub(super) fn scale(&self, range: &'static str) -> Scale {
        Scale {
            unit: self.unit,
            reference: self.reference,
            tick: MICROSECOND,
            field: "time coordinate",
            range,
        }
    }

    /// Decodes numbers to UTC timestamps: integers are rounded down to the microsecond, floats to the
    /// nearest. Nulls, NaN, infinities and, among integers, NumPy's "not a time" (`i64::MIN`) become null.
    ///
    /// # Errors
    /// Fails if an instant is out of range for a timestamp, or in the Julian part of the standard
    /// calendar, or if the array is not numeric.
    pub fn decode_values(
        &self,
        values: &dyn Array,
    ) -> Result<TimestampMicrosecondArray, CfTimeError> {
        let scale = Scale {
            field: "time",
            ..self.scale(OUT_OF_RANGE)
        };
        let times = scale.decode_values(
            values,
            |number| match number.is_finite() {
                true => self.timestamp(scale.float(number)?).map(Some),
                false => Ok(None),
            },
            |number| {
                let instant = self.reference + i128::from(number) * self.unit;
                self.timestamp(instant.div_euclid(MICROSECOND)).map(Some)
            },
        )?;
        Ok(times.reinterpret_cast())
    }

    /// Converts microseconds since 1970 of the calendar to a timestamp. The error says what is
    /// expected.
    fn timestamp(&self, microseconds: i128) -> Result<i64, &'static str> {
        if self.calendar == Calendar::Mixed && microseconds < FIRST_GREGORIAN {
            return Err(
                "an instant on or after 1582-10-15, since the standard calendar is Julian before and \
                 timestamps are not (the calendar proleptic_gregorian has no such limit)",
            );
        }
        let timestamp = i64::try_from(microseconds).ok();
        let timestamp = match self.calendar {
            Calendar::NoLeap => timestamp.and_then(without_leap_days),
            _ => timestamp,
        };
        timestamp
            // Text output and calendar functions use chrono, which has no years beyond this range.
            .filter(|timestamp| DateTime::from_timestamp_micros(*timestamp).is_some())
            .ok_or(OUT_OF_RANGE)
    }
}

/// Converts microseconds since 1970 of the calendar `noleap` to the timestamp of the same date and
/// time of day.
fn without_leap_days(microseconds: i64) -> Option<i64> {
    let date = Calendar::NoLeap.date(microseconds.div_euclid(MICROSECONDS_PER_DAY));
    let year = i32::try_from(date.year).ok()?;
    let date = NaiveDate::from_ymd_opt(year, date.month, date.day)?;
    let midnight = date.and_time(NaiveTime::MIN).and_utc().timestamp_micros();
    midnight.checked_add(microseconds.rem_euclid(MICROSECONDS_PER_DAY))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, BooleanArray, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array,
        Int64Array, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
    };

    use super::*;

    fn time(units: &str, calendar: &str) -> CfTime {
        CfTime::parse(units, Some(calendar)).unwrap().unwrap()
    }

    fn refused(units: &str, calendar: &str, value: impl Array) -> String {
        let error = time(units, calendar).decode(&value).unwrap_err();
        error.to_string()
    }

    #[test]
    fn instants_before_the_change_of_calendar() {
        let error = refused(
            "days since 0001-01-01",
            "",
            Int32Array::from(vec![577_737, 577_736]),
        );
        assert!(
            error.starts_with(
                "time coordinate is 577736 at index 1, expected an instant on or after 1582-10-15"
            ),
            "{error}"
        );
        refused("days since 1582-10-15", "", Float64Array::from(vec![-1e-9]));
        refused("days since 1970-01-01", "", Float64Array::from(vec![-1e9]));
        // Less than half a microsecond before the change.
        let decode = |calendar, value: f64| {
            let time = time("days since 1582-10-15", calendar);
            time.decode(&Float64Array::from(vec![value]))
                .unwrap()
                .value(0)
        };
        assert_eq!(decode("standard", -1e-12), decode("standard", 0.0));
        assert_eq!(
            decode("proleptic_gregorian", -1.0),
            decode("standard", 0.0) - 86_400_000_000
        );
    }

    #[test]
    fn every_type_of_number() {
        let arrays: [ArrayRef; 10] = [
            Arc::new(Int8Array::from(vec![7])),
            Arc::new(Int16Array::from(vec![7])),
            Arc::new(Int32Array::from(vec![7])),
            Arc::new(Int64Array::from(vec![7])),
            Arc::new(UInt8Array::from(vec![7])),
            Arc::new(UInt16Array::from(vec![7])),
            Arc::new(UInt32Array::from(vec![7])),
            Arc::new(UInt64Array::from(vec![7])),
            Arc::new(Float32Array::from(vec![7.0])),
            Arc::new(Float64Array::from(vec![7.0])),
        ];
        let time = time("minutes since 1970-01-01", "");
        for array in arrays {
            let decoded = time.decode(&array).unwrap();
            assert_eq!(decoded.values(), &[420_000_000], "{}", array.data_type());
            assert_eq!(time.decode(&array.slice(1, 0)).unwrap().len(), 0);
        }
        let error = time.decode(&BooleanArray::from(vec![true])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "time coordinate is of type Boolean, expected numbers"
        );
    }

    #[test]
    fn integers_are_exact() {
        let micros = time("us since 1970-01-01", "proleptic_gregorian");
        let values = vec![9_007_199_254_740_993, -1, -9_007_199_254_740_993];
        let decoded = micros.decode(&Int64Array::from(values.clone())).unwrap();
        assert_eq!(decoded.values(), &values[..]);
        // Nanoseconds that need 64 bits.
        let nanos = time("ns since 1970-01-01", "");
        let decoded = nanos.decode(&UInt64Array::from(vec![18_446_744_073_709_551_000]));
        assert_eq!(decoded.unwrap().values(), &[18_446_744_073_709_551]);
        assert_eq!(
            refused(
                "ns since 1970-01-01",
                "",
                Int64Array::from(vec![1_000, -999])
            ),
            "time coordinate is -999 at index 1, expected a whole number of microseconds"
        );
        // The reference date may supply the missing nanoseconds.
        let odd = time("ns since 1970-01-01 00:00:00.000000001", "");
        assert_eq!(
            odd.decode(&Int64Array::from(vec![-1, 999]))
                .unwrap()
                .values(),
            &[0, 1]
        );
    }

    #[test]
    fn fractions_are_rounded_once() {
        let decode = |units: &str, value: f64| {
            let time = time(&format!("{units} since 1970-01-01"), "proleptic_gregorian");
            time.decode(&Float64Array::from(vec![value]))
                .unwrap()
                .value(0)
        };
        assert_eq!(decode("days", 1.0 / 24.0), 3_600_000_000);
        assert_eq!(decode("days", -1.0 / 3.0), -28_800_000_000);
        assert_eq!(decode("hours", 0.1), 360_000_000);
        assert_eq!(decode("s", 1.5e-6), 2);
        assert_eq!(decode("ns", 499.999), 0);
        assert_eq!(decode("ns", 500.0), 1);
        assert_eq!(decode("ns", -500.0), 0);
        assert_eq!(decode("ns", -500.001), -1);
        for tiny in [0.0, -0.0, f64::MIN_POSITIVE, 5e-324, -5e-324] {
            assert_eq!(decode("weeks", tiny), 0);
        }
        // For this many seconds, a microsecond is the last digit of an f64. A product in f64 would
        // be off.
        assert_eq!(decode("s", 4_611_686_018.427_387), 4_611_686_018_427_387);
        assert_eq!(decode("us", 9_007_199_254_740_991.0), 9_007_199_254_740_991);
        assert_eq!(decode("days", 100_000.123_456_789), 8_640_010_666_666_570);
    }

    #[test]
    fn values_may_be_missing() {
        let hours = time("hours since 1970-01-01", "");
        let integers = Int64Array::from(vec![Some(1), None, Some(i64::MIN)]);
        let floats = Float64Array::from(vec![Some(0.5), Some(f64::INFINITY), Some(f64::NAN)]);
        for (values, first) in [
            (&integers as &dyn Array, 3_600_000_000),
            (&floats, 1_800_000_000),
        ] {
            let decoded = hours.decode_values(values).unwrap();
            assert_eq!((decoded.value(0), decoded.null_count()), (first, 2));
        }
        for (values, found) in [
            (
                &UInt64Array::from(vec![u64::MAX]) as &dyn Array,
                "time is a number of 2^63 or more",
            ),
            (&Float64Array::from(vec![1e300]), "time is 1e300"),
            (
                &Int64Array::from(vec![i64::MAX]),
                "time is 9223372036854775807",
            ),
        ] {
            let error = hours.decode_values(values).unwrap_err().to_string();
            assert!(error.starts_with(found), "{error}");
        }
    }

    #[test]
    fn values_that_are_no_instants() {
        let units = "days since 1970-01-01";
        for (value, name) in [
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (1e300, "1e300"),
            (f64::MAX, "1.7976931348623157e308"),
            (-1e17, "-1e17"),
            (1e8, "100000000.0"),
        ] {
            let error = refused(
                units,
                "proleptic_gregorian",
                Float64Array::from(vec![0.0, value]),
            );
            assert!(
                error.starts_with(&format!("time coordinate is {name} at index 1, expected ")),
                "{error}"
            );
        }
        for value in [i64::MIN, i64::MAX] {
            refused(
                "weeks since 9999-12-31",
                "proleptic_gregorian",
                Int64Array::from(vec![value]),
            );
        }
        refused(
            "weeks since 9999-12-31",
            "",
            UInt64Array::from(vec![u64::MAX]),
        );
        assert_eq!(
            refused(units, "", Int8Array::from(vec![Some(0), None])),
            "time coordinate is NULL at index 1, expected a number"
        );
    }
}
