//! Parses times as people write them: `2020`, `2020-06`, `2020-06-15 12:00`, `2020-06-15T12`.

use std::fmt;

use chrono::{Months, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta};

/// A time written as text: an instant, or a period of a year or month.
///
/// ```
/// use tet_sql::grid::WrittenTime;
///
/// let noon = WrittenTime::parse("2020-06-15 12").unwrap();
/// assert_eq!(noon.to_string(), "2020-06-15T12:00:00");
/// assert!(matches!(WrittenTime::parse("2020-06"), Some(WrittenTime::Period { .. })));
/// assert_eq!(WrittenTime::parse("June"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenTime {
    /// The first instant of a day, hour, minute, second or fraction of a second.
    Instant {
        /// The instant, converted to UTC if the text has an offset.
        time: NaiveDateTime,
        /// `true` if the text has a time of day.
        has_time_of_day: bool,
        /// `true` if the text has an offset from UTC.
        has_offset: bool,
    },
    /// A year or a month.
    Period {
        /// The first day of the period.
        start: NaiveDate,
        /// The first day after the period.
        end: NaiveDate,
    },
}

impl WrittenTime {
    /// Parses `YYYY`, `YYYY-MM`, or `YYYY-MM-DD` with an optional time of day after a `T` or a
    /// space: `HH`, `HH:MM`, `HH:MM:SS` or `HH:MM:SS.f`, with an optional offset `Z`, `+HH`,
    /// `+HHMM` or `+HH:MM`. Returns `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        if !text.is_ascii() {
            return None;
        }
        let (date, time) = match text.find(['T', ' ']) {
            Some(separator) => (&text[..separator], Some(&text[separator + 1..])),
            None => (text, None),
        };
        match (shape(date).as_str(), time) {
            ("0000", None) => Self::period(number(date)?, 1, 12),
            ("0000-00", None) => Self::period(number(&date[..4])?, number(&date[5..])?, 1),
            ("0000-00-00", time) => {
                let (year, month, day) = (&date[..4], number(&date[5..7])?, number(&date[8..])?);
                let date = NaiveDate::from_ymd_opt(number(year)?.cast_signed(), month, day)?;
                let (time_of_day, offset) = match time {
                    Some(time) => split_offset(time)?,
                    None => ("00", None),
                };
                let offset_minutes = TimeDelta::minutes(offset.unwrap_or(0));
                Some(Self::Instant {
                    time: date
                        .and_time(parse_time_of_day(time_of_day)?)
                        .checked_sub_signed(offset_minutes)?,
                    has_time_of_day: time.is_some(),
                    has_offset: offset.is_some(),
                })
            }
            _ => None,
        }
    }

    fn period(year: u32, month: u32, months: u32) -> Option<Self> {
        let start = NaiveDate::from_ymd_opt(year.cast_signed(), month, 1)?;
        let end = start.checked_add_months(Months::new(months))?;
        Some(Self::Period { start, end })
    }
}

/// Writes an instant in full, in a form that Arrow's parser reads, with a `Z` if the text had an
/// offset. Writes a period as its first day and the first day after it.
impl fmt::Display for WrittenTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instant {
                time, has_offset, ..
            } => {
                let zone = if *has_offset { "Z" } else { "" };
                write!(f, "{}{zone}", time.format("%Y-%m-%dT%H:%M:%S%.f"))
            }
            Self::Period { start, end } => write!(f, "{start} .. {end}"),
        }
    }
}

/// Returns the text with every digit replaced by `0`.
fn shape(text: &str) -> String {
    let shape = text
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c });
    shape.collect()
}

fn number(digits: &str) -> Option<u32> {
    digits.parse().ok()
}

/// Splits a time of day from its UTC offset and returns both, the offset in minutes.
fn split_offset(text: &str) -> Option<(&str, Option<i64>)> {
    if let Some(time) = text.strip_suffix(['Z', 'z']) {
        return Some((time, Some(0)));
    }
    let Some(start) = text.find(['+', '-']) else {
        return Some((text, None));
    };
    let (time, offset) = text.split_at(start);
    let (sign, digits) = offset.split_at(1);
    let (hours, minutes) = match shape(digits).as_str() {
        "00" => (digits, "0"),
        "0000" => digits.split_at(2),
        "00:00" => (&digits[..2], &digits[3..]),
        _ => return None,
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let offset = i64::from(60 * hours + minutes);
    Some((time, Some(if sign == "-" { -offset } else { offset })))
}

fn parse_time_of_day(text: &str) -> Option<NaiveTime> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_fraction =
        (1..=9).contains(&fraction.len()) && fraction.bytes().all(|b| b.is_ascii_digit());
    let (minutes, seconds) = match shape(whole).as_str() {
        "00" => ("0", "0"),
        "00:00" => (&whole[3..], "0"),
        "00:00:00" => (&whole[3..5], &whole[6..]),
        _ => return None,
    };
    if !is_fraction || (text.contains('.') && whole.len() < 8) {
        return None;
    }
    let nanoseconds = number(&format!("{fraction:0<9}"))?;
    NaiveTime::from_hms_nano_opt(
        number(&whole[..2])?,
        number(minutes)?,
        number(seconds)?,
        nanoseconds,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_completed() {
        for (text, expected) in [
            ("2020-06-15", "2020-06-15T00:00:00"),
            ("2020-06-15T12", "2020-06-15T12:00:00"),
            ("2020-06-15 12:30", "2020-06-15T12:30:00"),
            ("2020-06-15 12:30:05.25", "2020-06-15T12:30:05.250"),
            ("2020-06-15T00:30+01", "2020-06-14T23:30:00Z"),
            ("2020-06-15T00:30-0130", "2020-06-15T02:00:00Z"),
            ("0850-02-28T23Z", "0850-02-28T23:00:00Z"),
        ] {
            let parsed = WrittenTime::parse(text).map(|time| time.to_string());
            assert_eq!(parsed.as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn years_and_months_are_periods() {
        for (text, expected) in [
            ("2020", "2020-01-01 .. 2021-01-01"),
            ("2020-02", "2020-02-01 .. 2020-03-01"),
            ("2020-12", "2020-12-01 .. 2021-01-01"),
        ] {
            let parsed = WrittenTime::parse(text).map(|time| time.to_string());
            assert_eq!(parsed.as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_times() {
        for text in [
            "",
            "20",
            "20200",
            "2020-6",
            "2020-13",
            "2020-02-30",
            "2020-06-15T",
            "2020-06-15 24",
            "2020-06-15 12:5",
            "2020-06-15 12:30.5",
            "2020-06-15T12+1",
            "2020-06-15T12+24:00",
            "2020-06 12:00",
            "2020-06-15  12",
            "2020-06-15T12:00:60",
            "2020-06-15T12:00:00.",
            "juin",
            "2020–06",
        ] {
            assert_eq!(WrittenTime::parse(text), None, "{text}");
        }
    }
}
