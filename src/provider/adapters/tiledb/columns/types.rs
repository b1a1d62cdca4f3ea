//! The SQL types of TileDB's datatypes.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, TimeUnit};

use crate::format::tiledb::{CellValues, Datatype};

/// The SQL form of one value of a datatype.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Element {
    /// A byte, 0 for false.
    Boolean,
    /// A value whose stored bytes are those of this type.
    Plain(DataType),
    /// A number of ticks that [`converted`] converts to this type.
    Converted(DataType),
    /// A part of a text.
    Text,
    /// A byte without a type.
    Byte,
}

impl Element {
    /// Returns the form of a datatype.
    pub fn of(datatype: Datatype) -> Self {
        use Datatype::*;
        let timestamp = |unit| DataType::Timestamp(unit, None);
        Self::Plain(match datatype {
            Int8 => DataType::Int8,
            Int16 => DataType::Int16,
            Int32 => DataType::Int32,
            Int64 => DataType::Int64,
            Uint8 => DataType::UInt8,
            Uint16 => DataType::UInt16,
            Uint32 => DataType::UInt32,
            Uint64 => DataType::UInt64,
            Float32 => DataType::Float32,
            Float64 => DataType::Float64,
            DatetimeSecond => timestamp(TimeUnit::Second),
            DatetimeMillisecond => timestamp(TimeUnit::Millisecond),
            DatetimeMicrosecond => timestamp(TimeUnit::Microsecond),
            DatetimeNanosecond => timestamp(TimeUnit::Nanosecond),
            TimeSecond => DataType::Duration(TimeUnit::Second),
            TimeMillisecond => DataType::Duration(TimeUnit::Millisecond),
            TimeMicrosecond => DataType::Duration(TimeUnit::Microsecond),
            TimeNanosecond => DataType::Duration(TimeUnit::Nanosecond),
            // Arrow has no unit below the nanosecond.
            DatetimePicosecond | DatetimeFemtosecond | DatetimeAttosecond | TimePicosecond
            | TimeFemtosecond | TimeAttosecond => DataType::Int64,
            DatetimeYear | DatetimeMonth | DatetimeWeek | DatetimeDay => {
                return Self::Converted(DataType::Date32);
            }
            DatetimeHour | DatetimeMinute => {
                return Self::Converted(timestamp(TimeUnit::Second));
            }
            TimeHour | TimeMinute => {
                return Self::Converted(DataType::Duration(TimeUnit::Second));
            }
            StringAscii | StringUtf8 | StringUtf16 | StringUtf32 | StringUcs2 | StringUcs4 => {
                return Self::Text;
            }
            Bool => return Self::Boolean,
            Char | Any | Blob | GeometryWkb | GeometryWkt => return Self::Byte,
        })
    }

    /// Returns the type of a cell with some number of values.
    pub fn cell_type(&self, cell_values: CellValues) -> DataType {
        let single = match self {
            Self::Boolean => DataType::Boolean,
            Self::Plain(data_type) | Self::Converted(data_type) => data_type.clone(),
            Self::Text => return DataType::Utf8,
            Self::Byte => return DataType::Binary,
        };
        match cell_values {
            CellValues::Fixed(1) => single,
            CellValues::Fixed(count) => {
                let count = i32::try_from(count).unwrap_or(i32::MAX);
                DataType::FixedSizeList(item(single), count)
            }
            CellValues::Variable => DataType::List(item(single)),
        }
    }
}

/// Returns the field of the items of a list.
pub(super) fn item(data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new_list_field(data_type, true))
}

/// Returns the unit of a datatype that SQL has no type for.
pub(super) fn unit(datatype: Datatype) -> Option<&'static str> {
    use Datatype::*;
    Some(match datatype {
        DatetimePicosecond => "picoseconds since 1970-01-01",
        DatetimeFemtosecond => "femtoseconds since 1970-01-01",
        DatetimeAttosecond => "attoseconds since 1970-01-01",
        TimePicosecond => "picoseconds",
        TimeFemtosecond => "femtoseconds",
        TimeAttosecond => "attoseconds",
        _ => return None,
    })
}

/// Returns the number of days or seconds of ticks whose SQL type has another unit; `None` if the
/// type cannot hold it. Ticks of other datatypes are returned as they are.
pub(in crate::provider::adapters::tiledb) fn converted(
    datatype: Datatype,
    ticks: i64,
) -> Option<i64> {
    use Datatype::*;
    let days = match datatype {
        DatetimeYear => first_day(ticks.checked_add(1970)?, 0)?,
        DatetimeMonth => {
            let year = ticks.div_euclid(12).checked_add(1970)?;
            first_day(year, ticks.rem_euclid(12) as usize)?
        }
        DatetimeWeek => ticks.checked_mul(7)?,
        DatetimeDay => ticks,
        DatetimeHour | TimeHour => return ticks.checked_mul(3600),
        DatetimeMinute | TimeMinute => return ticks.checked_mul(60),
        _ => return Some(ticks),
    };
    i32::try_from(days).ok().map(i64::from)
}

/// Returns the first day of a month of the Gregorian calendar, in days since 1970. `month` counts
/// from 0.
fn first_day(year: i64, month: usize) -> Option<i64> {
    const BEFORE_MONTH: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    /// Days from the first day of year 1 to that of 1970.
    const BEFORE_1970: i64 = 719_162;
    let past = year.checked_sub(1)?;
    let leap_days = |past: i64| past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400);
    let is_leap = leap_days(year) > leap_days(past);
    let before = past.checked_mul(365)?.checked_add(leap_days(past))?;
    let month_days = BEFORE_MONTH.get(month)? + i64::from(is_leap && month > 1);
    before.checked_add(month_days - BEFORE_1970)
}

#[cfg(test)]
mod tests {
    use chrono::{Datelike, NaiveDate};

    use super::*;

    #[test]
    fn first_days_are_those_of_the_calendar() {
        let epoch = NaiveDate::from_ymd_opt(1970, 1, 1).unwrap();
        for month in -40_000..40_000i64 {
            let year = 1970 + month.div_euclid(12);
            let date = NaiveDate::from_ymd_opt(year as i32, month.rem_euclid(12) as u32 + 1, 1);
            let days = (date.unwrap() - epoch).num_days();
            assert_eq!(converted(Datatype::DatetimeMonth, month), Some(days));
            if date.unwrap().month() == 1 {
                let found = converted(Datatype::DatetimeYear, year - 1970);
                assert_eq!(found, Some(days));
            }
        }
        for extreme in [i64::MIN, i64::MAX, 1 << 40] {
            for datatype in [
                Datatype::DatetimeYear,
                Datatype::DatetimeMonth,
                Datatype::DatetimeDay,
            ] {
                assert_eq!(converted(datatype, extreme), None);
            }
        }
        assert_eq!(converted(Datatype::DatetimeMinute, -2), Some(-120));
        assert_eq!(converted(Datatype::Int64, i64::MIN), Some(i64::MIN));
    }
}
