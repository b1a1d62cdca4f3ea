//! `date_trunc` and `date_bin` for times outside the range of nanoseconds.
//!
//! DataFusion converts times of any unit to nanoseconds, which range from 1677 to 2262. Outside
//! this range its `date_trunc` fails and its `date_bin` returns null. The functions in this module
//! support such times. Batches without any are left to DataFusion.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Int64Type, TimeUnit};
use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveDateTime, NaiveTime};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err};
use datafusion::functions::datetime;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
};

use crate::provider::functions::forwarding::forward_to_inner;

const NANOSECONDS_PER_DAY: i128 = 86_400_000_000_000;

/// `date_trunc` or `date_bin`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct WideTimes {
    /// DataFusion's function.
    inner: Arc<ScalarUDF>,
    /// `true` for `date_bin`, `false` for `date_trunc`.
    bins: bool,
}

impl WideTimes {
    /// Returns `date_trunc(granularity, time)`.
    pub fn date_trunc() -> Self {
        Self {
            inner: datetime::date_trunc(),
            bins: false,
        }
    }

    /// Returns `date_bin(stride, time, origin)`.
    pub fn date_bin() -> Self {
        Self {
            inner: datetime::date_bin(),
            bins: true,
        }
    }

    /// Returns the start of the interval that contains each time, or `None` if the arguments are
    /// left to DataFusion.
    fn starts(&self, arguments: &[ColumnarValue]) -> Result<Option<ArrayRef>> {
        let Some(times) = arguments.get(1).and_then(Times::of) else {
            return Ok(None);
        };
        let constant = |index: usize| match arguments.get(index) {
            Some(ColumnarValue::Scalar(value)) => Some(value),
            _ => None,
        };
        let start: Box<dyn Fn(i64) -> Option<i64>> = if self.bins {
            let origin = match arguments.len() {
                2 => Some(0),
                _ => constant(2).and_then(nanoseconds),
            };
            let (Some(stride), Some(origin)) = (constant(0).and_then(Stride::of), origin) else {
                return Ok(None);
            };
            Box::new(move |time| {
                let start = stride.start(i128::from(time) * times.size, origin)?;
                i64::try_from(start.div_euclid(times.size)).ok()
            })
        } else {
            let granularity = constant(0).and_then(|value| value.try_as_str().flatten());
            let Some(granularity) = granularity.and_then(Granularity::of) else {
                return Ok(None);
            };
            Box::new(move |time| {
                let start = granularity.start(i128::from(time) * times.size)?;
                i64::try_from(start.div_euclid(times.size)).ok()
            })
        };
        let starts = times.values.iter().map(|time| match time {
            None => Ok(None),
            Some(time) => match start(time) {
                Some(start) => Ok(Some(start)),
                None => Err(exec_datafusion_err!(
                    "{}: time {time} is out of range",
                    self.name()
                )),
            },
        });
        let starts: Int64Array = starts.collect::<Result<_>>()?;
        Ok(Some(cast(&starts, &times.data_type)?))
    }
}

impl ScalarUDFImpl for WideTimes {
    forward_to_inner!();

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(arguments)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(starts) = self.starts(&arguments.args)? else {
            return self.inner.invoke_with_args(arguments);
        };
        Ok(match arguments.args.get(1) {
            Some(ColumnarValue::Scalar(_)) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&starts, 0)?)
            }
            _ => ColumnarValue::Array(starts),
        })
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }
}

/// Times of which at least one is outside the range of nanoseconds.
struct Times {
    values: Int64Array,
    data_type: DataType,
    /// The length of their unit in nanoseconds.
    size: i128,
}

impl Times {
    fn of(argument: &ColumnarValue) -> Option<Self> {
        let data_type = argument.data_type();
        let DataType::Timestamp(unit, None) = &data_type else {
            return None;
        };
        let size = size(unit);
        let array = argument.to_array(1).ok()?;
        let values = cast(&array, &DataType::Int64).ok()?;
        let values = values.as_primitive::<Int64Type>().clone();
        let is_beyond = |time: i64| i64::try_from(i128::from(time) * size).is_err();
        let mut times = values.iter().flatten();
        times.any(is_beyond).then_some(Self {
            values,
            data_type,
            size,
        })
    }
}

fn size(unit: &TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// Returns a time as nanoseconds since 1970.
fn nanoseconds(time: &ScalarValue) -> Option<i128> {
    let DataType::Timestamp(unit, _) = time.data_type() else {
        return None;
    };
    match time.cast_to(&DataType::Int64).ok()? {
        ScalarValue::Int64(Some(time)) => Some(i128::from(time) * size(&unit)),
        _ => None,
    }
}

/// Converts nanoseconds since 1970 to a date and a time of day, without fractions of a second.
fn civil(time: i128) -> Option<NaiveDateTime> {
    let seconds = i64::try_from(time.div_euclid(1_000_000_000)).ok()?;
    Some(DateTime::from_timestamp(seconds, 0)?.naive_utc())
}

fn since_1970(time: NaiveDateTime) -> i128 {
    i128::from(time.and_utc().timestamp()) * 1_000_000_000
}

/// The unit to which times are truncated.
#[derive(Clone, Copy)]
enum Granularity {
    Months(u32),
    Week,
    Nanoseconds(i128),
}

impl Granularity {
    fn of(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "year" => Self::Months(12),
            "quarter" => Self::Months(3),
            "month" => Self::Months(1),
            "week" => Self::Week,
            "day" => Self::Nanoseconds(NANOSECONDS_PER_DAY),
            "hour" => Self::Nanoseconds(NANOSECONDS_PER_DAY / 24),
            "minute" => Self::Nanoseconds(60_000_000_000),
            "second" => Self::Nanoseconds(1_000_000_000),
            "millisecond" => Self::Nanoseconds(1_000_000),
            "microsecond" => Self::Nanoseconds(1_000),
            _ => return None,
        })
    }

    fn start(self, time: i128) -> Option<i128> {
        let date = match self {
            Self::Nanoseconds(size) => return Some(time.div_euclid(size) * size),
            Self::Week => {
                let date = civil(time)?.date();
                date.checked_sub_days(Days::new(date.weekday().num_days_from_monday().into()))?
            }
            Self::Months(size) => {
                let date = civil(time)?.date();
                NaiveDate::from_ymd_opt(date.year(), date.month0() / size * size + 1, 1)?
            }
        };
        Some(since_1970(date.and_time(NaiveTime::MIN)))
    }
}

/// The length of a bin.
#[derive(Clone, Copy)]
enum Stride {
    Months(i64),
    Nanoseconds(i128),
}

impl Stride {
    fn of(interval: &ScalarValue) -> Option<Self> {
        let (months, nanoseconds) = match interval {
            ScalarValue::IntervalMonthDayNano(Some(interval)) => (
                interval.months,
                i128::from(interval.days) * NANOSECONDS_PER_DAY + i128::from(interval.nanoseconds),
            ),
            ScalarValue::IntervalDayTime(Some(interval)) => (
                0,
                i128::from(interval.days) * NANOSECONDS_PER_DAY
                    + i128::from(interval.milliseconds) * 1_000_000,
            ),
            ScalarValue::IntervalYearMonth(Some(months)) => (*months, 0),
            _ => return None,
        };
        match (months, nanoseconds) {
            (1.., 0) => Some(Self::Months(months.into())),
            (0, 1..) => Some(Self::Nanoseconds(nanoseconds)),
            _ => None,
        }
    }

    fn start(self, time: i128, origin: i128) -> Option<i128> {
        let months = match self {
            Self::Nanoseconds(size) => {
                return Some(origin + (time - origin).div_euclid(size) * size);
            }
            Self::Months(months) => months,
        };
        let fraction = origin.rem_euclid(1_000_000_000);
        let (from, to) = (civil(origin)?, civil(time)?);
        let of = |date: NaiveDateTime| i64::from(date.year()) * 12 + i64::from(date.month0());
        let bin = (of(to) - of(from)).div_euclid(months);
        let start_of = |bin: i64| {
            let shift = bin.checked_mul(months)?;
            let by = Months::new(u32::try_from(shift.unsigned_abs()).ok()?);
            let start = match shift < 0 {
                true => from.checked_sub_months(by),
                false => from.checked_add_months(by),
            };
            Some(since_1970(start?) + fraction)
        };
        match start_of(bin)? {
            start if start <= time => Some(start),
            _ => start_of(bin - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> i128 {
        since_1970(NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").unwrap())
    }

    #[test]
    fn times_are_cut_beyond_nanoseconds() {
        for (granularity, found, expected) in [
            ("year", "3000-05-01 12:30:00", "3000-01-01 00:00:00"),
            ("quarter", "3000-05-01 12:30:00", "3000-04-01 00:00:00"),
            ("month", "1500-05-09 12:30:00", "1500-05-01 00:00:00"),
            ("week", "3000-05-01 12:30:00", "3000-04-28 00:00:00"),
            ("hour", "1500-05-01 12:30:00", "1500-05-01 12:00:00"),
        ] {
            let granularity = Granularity::of(granularity).unwrap();
            assert_eq!(
                granularity.start(time(found)),
                Some(time(expected)),
                "{found}"
            );
        }
    }

    #[test]
    fn bins_count_from_their_origin() {
        let month = Stride::Months(1);
        let decade = Stride::Months(120);
        let week = Stride::Nanoseconds(7 * NANOSECONDS_PER_DAY);
        for (stride, origin, found, expected) in [
            (
                month,
                "1970-01-01 00:00:00",
                "3000-05-09 12:30:00",
                "3000-05-01 00:00:00",
            ),
            (
                month,
                "2000-01-15 00:00:00",
                "3000-05-09 12:30:00",
                "3000-04-15 00:00:00",
            ),
            (
                decade,
                "1970-01-01 00:00:00",
                "1505-05-09 12:30:00",
                "1500-01-01 00:00:00",
            ),
            (
                week,
                "2000-01-03 00:00:00",
                "3000-05-01 12:30:00",
                "3000-04-28 00:00:00",
            ),
        ] {
            let start = stride.start(time(found), time(origin));
            assert_eq!(start, Some(time(expected)), "{found}");
        }
    }
}
