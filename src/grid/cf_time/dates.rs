//! Decodes times of calendars whose dates are no timestamps to text.

use std::fmt::Write;

use arrow::array::{Array, StringArray, StringBuilder};

use crate::grid::cf_time::calendar::Calendar;
use crate::grid::cf_time::{CfTime, CfTimeError, DAY, MICROSECOND};

const MICROSECONDS_PER_DAY: i64 = (DAY / MICROSECOND) as i64;
const OUT_OF_RANGE: &str = "a date in the years 0000 to 9999";
const NOT_JULIAN: &str = "a date in the years 0001 to 9999";

impl CfTime {
    /// Decodes numbers to dates as text, such as `2001-02-30T12:00:00`. Seconds have three or six
    /// decimals if the time needs them. The order of the texts is the order of the times, and equal
    /// times have equal texts.
    ///
    /// Call it only if [`Self::has_timestamps`] returns `false`. Integers are decoded exactly, floats to
    /// the nearest microsecond.
    ///
    /// ```
    /// use arrow::array::Int64Array;
    /// use tet_sql::grid::CfTime;
    ///
    /// let time = CfTime::parse("days since 2001-01-01", Some("360_day"))?.unwrap();
    /// let dates = time.decode_dates(&Int64Array::from(vec![59, 60]))?;
    /// assert_eq!(dates.value(0), "2001-02-30T00:00:00");
    /// assert_eq!(dates.value(1), "2001-03-01T00:00:00");
    /// # Ok::<(), tet_sql::grid::CfTimeError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if a value is null, not finite, or outside of the years 0000 to 9999 (`julian`:
    /// 0001 to 9999); if an integer is not a whole number of microseconds; if the array is not numeric.
    pub fn decode_dates(&self, values: &dyn Array) -> Result<StringArray, CfTimeError> {
        let (first_year, range) = match self.calendar {
            Calendar::Julian => (1, NOT_JULIAN),
            _ => (0, OUT_OF_RANGE),
        };
        let times = self.scale(range).decode(values, |time| {
            let time = i64::try_from(time).map_err(|_| range)?;
            let date = self.calendar.date(time.div_euclid(MICROSECONDS_PER_DAY));
            match (first_year..=9999).contains(&date.year) {
                true => Ok(time),
                false => Err(range),
            }
        })?;
        let mut dates = StringBuilder::with_capacity(times.len(), times.len() * 26);
        let mut text = String::new();
        for time in times {
            let date = self.calendar.date(time.div_euclid(MICROSECONDS_PER_DAY));
            let time_of_day = time.rem_euclid(MICROSECONDS_PER_DAY);
            let seconds = time_of_day / 1_000_000;
            let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            text.clear();
            // Writing to a string never fails.
            let _ = write!(
                text,
                "{:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}",
                date.year, date.month, date.day
            );
            let _ = match time_of_day % 1_000_000 {
                0 => Ok(()),
                micros if micros % 1_000 == 0 => write!(text, ".{:03}", micros / 1_000),
                micros => write!(text, ".{micros:06}"),
            };
            dates.append_value(&text);
        }
        Ok(dates.finish())
    }

    /// Returns `true` if the times are decoded to timestamps, `false` if they are decoded to text
    /// because the calendar has dates that timestamps do not have.
    pub fn has_timestamps(&self) -> bool {
        self.calendar.has_timestamps()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int64Array};

    use super::*;

    fn time(units: &str, calendar: &str) -> CfTime {
        CfTime::parse(units, Some(calendar)).unwrap().unwrap()
    }

    fn dates(units: &str, calendar: &str, value: impl Array) -> Vec<String> {
        let dates = time(units, calendar).decode_dates(&value).unwrap();
        dates.iter().flatten().map(str::to_string).collect()
    }

    #[test]
    fn dates_of_each_calendar() {
        for line in [
            // Every month has 30 days.
            "days since 2001-02-28 | 360_day | 2 | 2001-02-30T00:00:00",
            "days since 2001-02-28 | 360_day | 3 | 2001-03-01T00:00:00",
            "hours since 1850-01-01 12:00 | 360_day | 8640 | 1851-01-01T12:00:00",
            "days since 0000-01-01 | 360_day | 3599999 | 9999-12-30T00:00:00",
            // 2001 has a 29 February.
            "days since 2001-02-28 | all_leap | 1 | 2001-02-29T00:00:00",
            "days since 2001-01-01 | 366_day | 366 | 2002-01-01T00:00:00",
            // 1900 is a leap year of the Julian calendar. The October Revolution of 1917 was on 25
            // October, 7 November in the Gregorian calendar.
            "days since 1900-02-28 | julian | 1 | 1900-02-29T00:00:00",
            "days since 1917-10-24 | JULIAN | 1 | 1917-10-25T00:00:00",
            "seconds since 0001-01-01 | julian | -1 | ",
        ] {
            let fields: Vec<_> = line.split(" | ").collect();
            let value = Int64Array::from(vec![fields[2].parse::<i64>().unwrap()]);
            let found = time(fields[0], fields[1]).decode_dates(&value);
            match (found, fields[3]) {
                (Err(error), "") => assert!(error.to_string().contains(NOT_JULIAN)),
                (found, expected) => assert_eq!(found.unwrap().value(0), expected, "{line}"),
            }
        }
    }

    #[test]
    fn fractions_are_as_long_as_needed() {
        let of = |values: Vec<f64>| {
            dates(
                "days since 2001-02-30",
                "360_day",
                Float64Array::from(values),
            )
        };
        assert_eq!(of(vec![0.5]), ["2001-02-30T12:00:00"]);
        assert_eq!(
            of(vec![0.0, 1.0 / 86_400_000.0]),
            ["2001-02-30T00:00:00", "2001-02-30T00:00:00.001"]
        );
        assert_eq!(of(vec![-1.0 / 86_400e6]), ["2001-02-29T23:59:59.999999"]);
        assert!(of(Vec::new()).is_empty());
    }

    #[test]
    fn years_of_other_widths_are_refused() {
        let time = time("days since 2000-01-01", "360_day");
        for days in [-720_001, 2_880_000] {
            let error = time.decode_dates(&Int64Array::from(vec![days]));
            let error = error.unwrap_err().to_string();
            let expected = format!("time coordinate is {days} at index 0, expected {OUT_OF_RANGE}");
            assert_eq!(error, expected);
        }
        for value in [f64::NAN, 1e300] {
            assert!(time.decode_dates(&Float64Array::from(vec![value])).is_err());
        }
    }
}
