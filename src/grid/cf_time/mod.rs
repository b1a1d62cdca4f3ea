//! Decodes time coordinates by the CF conventions (section 4.4): numbers that count a unit from a
//! reference date, as in `days since 1970-01-01`.
//!
//! CF's `standard` calendar is mixed: Julian up to 1582-10-04, Gregorian from the next day, which
//! is 1582-10-15. Timestamps are always Gregorian. A reference date before the change is therefore
//! read as a Julian date, but an instant before the change is an error.
//!
//! Every date of `noleap` is also a Gregorian date, so these times become timestamps of the same
//! date and time of day. Times of the calendars `360_day`, `all_leap` and `julian` become text.
//!
//! Numbers with a unit and no reference date are durations, if the attribute `dtype` says so.

mod calendar;
mod dates;
mod decode;
mod duration;
mod reference_date;
mod scale;

pub use duration::CfDuration;

use crate::grid::cf_time::calendar::Calendar;
use crate::grid::cf_time::reference_date::parse_reference_date;

/// The maximum number of characters of a file's text that an error message quotes.
const MAX_QUOTED: usize = 100;
/// Units longer than this many bytes are rejected without being compared: every known name is
/// shorter.
const MAX_UNIT: usize = 20;

/// Nanoseconds per microsecond.
const MICROSECOND: i128 = 1_000;
/// Nanoseconds per millisecond.
const MILLISECOND: i128 = 1_000 * MICROSECOND;
/// Nanoseconds per second.
const SECOND: i128 = 1_000 * MILLISECOND;
/// Nanoseconds per day.
const DAY: i128 = 86_400 * SECOND;

/// The reason why numbers with units of time cannot be decoded to times or durations.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {found}, expected {expected}")]
pub struct CfTimeError {
    /// The attribute `units` or `calendar`, or `time coordinate`, `time` or `duration` for one of the
    /// numbers.
    pub field: &'static str,
    /// The offending text or value, as found in the file.
    pub found: String,
    /// A description of what can be decoded.
    pub expected: String,
}

/// The encoding of a time coordinate: a unit, a reference date and a calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CfTime {
    /// Nanoseconds per unit.
    unit: i128,
    /// The reference date in nanoseconds since 1970, as [`Calendar::days`] counts them.
    reference: i128,
    calendar: Calendar,
}

impl CfTime {
    /// Parses the attributes `units` and `calendar`. Returns `None` if `units` is not of the form
    /// `<unit> since <date>`.
    ///
    /// ```
    /// use arrow::array::Int32Array;
    /// use tet_sql::grid::CfTime;
    ///
    /// let time = CfTime::parse("hours since 1900-01-01 00:00:0.0", None)?.unwrap();
    /// // 1970-01-01
    /// assert_eq!(time.decode(&Int32Array::from(vec![613_608]))?.value(0), 0);
    /// assert_eq!(CfTime::parse("degrees_north", None)?, None);
    /// # Ok::<(), tet_sql::grid::CfTimeError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the unit is unknown, or is a month or year, which vary in length; if the reference
    /// date cannot be read; if the calendar is unknown.
    pub fn parse(units: &str, calendar: Option<&str>) -> Result<Option<Self>, CfTimeError> {
        let units = trim(units);
        let Some((unit, reference)) = split_at_since(units) else {
            return Ok(None);
        };
        let calendar = parse_calendar(calendar.unwrap_or_default())?;
        let malformed = |expected: &str| CfTimeError {
            field: "units",
            found: quoted(units),
            expected: expected.to_string(),
        };
        let unit = nanoseconds(unit).map_err(malformed)?;
        let reference = parse_reference_date(reference, calendar).map_err(malformed)?;
        Ok(Some(Self {
            unit,
            reference,
            calendar,
        }))
    }
}

/// Trims white space, and the zero bytes that pad text of a fixed width.
fn trim(text: &str) -> &str {
    text.trim_matches(|char: char| char.is_whitespace() || char == '\0')
}

fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Returns the text before and after the first word `since`.
fn split_at_since(units: &str) -> Option<(&str, &str)> {
    let mut start = 0;
    for piece in units.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        if word.eq_ignore_ascii_case("since") {
            let end = start + word.len();
            return Some((units[..start].trim(), units[end..].trim()));
        }
        start += piece.len();
    }
    None
}

fn parse_calendar(calendar: &str) -> Result<Calendar, CfTimeError> {
    let name = trim(calendar);
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    if name.is_empty() || is("standard") || is("gregorian") {
        Ok(Calendar::Mixed)
    } else if is("proleptic_gregorian") {
        Ok(Calendar::Gregorian)
    } else if is("noleap") || is("365_day") {
        Ok(Calendar::NoLeap)
    } else if is("all_leap") || is("366_day") {
        Ok(Calendar::AllLeap)
    } else if is("360_day") {
        Ok(Calendar::Day360)
    } else if is("julian") {
        Ok(Calendar::Julian)
    } else {
        Err(CfTimeError {
            field: "calendar",
            found: quoted(name),
            expected: "standard, gregorian, proleptic_gregorian, noleap, 365_day, all_leap, 366_day, 360_day or julian"
                .to_string(),
        })
    }
}

/// Returns the nanoseconds per unit. The error says which units are expected.
fn nanoseconds(unit: &str) -> Result<i128, &'static str> {
    let name = if unit.len() > MAX_UNIT {
        String::new()
    } else {
        unit.to_lowercase()
    };
    Ok(match name.as_str() {
        "week" | "weeks" => 7 * DAY,
        "day" | "days" | "d" => DAY,
        "hour" | "hours" | "hr" | "hrs" | "h" => 3_600 * SECOND,
        "minute" | "minutes" | "min" | "mins" => 60 * SECOND,
        "second" | "seconds" | "sec" | "secs" | "s" => SECOND,
        "millisecond" | "milliseconds" | "millisec" | "millisecs" | "millis" | "msec" | "msecs"
        | "ms" => MILLISECOND,
        // The prefix is either of two characters: U+00B5 (micro sign) or U+03BC (Greek mu).
        "microsecond" | "microseconds" | "microsec" | "microsecs" | "us" | "\u{b5}s"
        | "\u{3bc}s" => MICROSECOND,
        "nanosecond" | "nanoseconds" | "nanosec" | "nanosecs" | "nsec" | "nsecs" | "ns" => 1,
        "month" | "months" | "mon" | "mons" | "year" | "years" | "yr" | "yrs" | "a"
        | "common_year" | "common_years" | "leap_year" | "leap_years" | "julian_year"
        | "julian_years" | "gregorian_year" | "gregorian_years" | "tropical_year"
        | "tropical_years" | "decade" | "decades" | "century" | "centuries" => {
            return Err("a unit no longer than weeks, since months and years vary in length");
        }
        _ => {
            return Err(
                "a unit of weeks, days, hours, minutes, seconds, milliseconds, microseconds or nanoseconds",
            );
        }
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int32Array};
    use chrono::DateTime;

    use super::*;

    fn time(units: &str, calendar: &str) -> CfTime {
        CfTime::parse(units, Some(calendar)).unwrap().unwrap()
    }

    fn refused(units: &str, calendar: &str) -> String {
        let message = CfTime::parse(units, Some(calendar))
            .unwrap_err()
            .to_string();
        assert!(message.len() < 1_000, "{message}");
        message
    }

    /// Checks one line: units, calendar, a value, and the instant that it decodes to.
    fn assert_decoded(line: &str) {
        let fields: Vec<_> = line.split(" | ").collect();
        let value = Float64Array::from(vec![fields[2].parse::<f64>().unwrap()]);
        let decoded = time(fields[0], fields[1]).decode(&value).unwrap();
        let instant = DateTime::from_timestamp_micros(decoded.value(0)).unwrap();
        assert_eq!(instant.naive_utc().to_string(), fields[3], "{line}");
    }

    #[test]
    fn units_of_no_time() {
        for units in [
            "",
            "K",
            "degrees_north",
            "hours",
            "m s-1",
            "sincere days",
            "days sinc",
        ] {
            assert_eq!(
                CfTime::parse(units, Some("noleap")).unwrap(),
                None,
                "{units}"
            );
        }
    }

    #[test]
    fn spellings_of_units() {
        for (names, micros) in [
            ("weeks week", 604_800_000_000i64),
            ("days day d Days DAY", 86_400_000_000),
            ("hours hour hr hrs h", 3_600_000_000),
            ("minutes minute min mins", 60_000_000),
            ("seconds second sec secs s", 1_000_000),
            ("milliseconds millisecond msec msecs millis ms", 1_000),
            ("microseconds microsecond microsec us \u{b5}s \u{3bc}s", 1),
        ] {
            for name in names.split(' ') {
                let time = time(&format!("{name} since 1970-01-01"), "");
                let decoded = time.decode(&Int32Array::from(vec![-1, 3])).unwrap();
                assert_eq!(decoded.values(), &[-micros, 3 * micros], "{name}");
            }
        }
        for name in ["nanoseconds", "nanosecond", "ns"] {
            let time = time(&format!("{name} SINCE 1970-01-01"), "");
            let decoded = time.decode(&Int32Array::from(vec![-1_000, 3_000])).unwrap();
            assert_eq!(decoded.values(), &[-1, 3], "{name}");
        }
    }

    #[test]
    fn units_that_cannot_become_timestamps() {
        assert_eq!(
            refused("months since 2000-01-01", ""),
            "units is \"months since 2000-01-01\", expected a unit no longer than weeks, since months and years \
             vary in length"
        );
        for unit in [
            "month",
            "years",
            "Year",
            "common_years",
            "furlongs",
            "",
            "6 hours",
            "K",
        ] {
            refused(&format!("{unit} since 2000-01-01"), "");
        }
        assert_eq!(
            refused("days since forever", ""),
            "units is \"days since forever\", expected a reference date such as 1970-01-01 00:00:00"
        );
        refused("since", "");
        refused("days since", "");
        refused("days since since 2000-01-01", "");
        let long = "since \u{b5} ".repeat(1 << 20);
        refused(&long, "");
        refused(
            &format!("days since 2000-01-01 00:00:00.{}1", "0".repeat(1 << 20)),
            "",
        );
        refused(
            &format!("{} since 2000-01-01", "\u{b5}".repeat(1 << 20)),
            "",
        );
    }

    #[test]
    fn calendars() {
        let parse = |calendar| CfTime::parse("days since 2000-01-01", calendar);
        let standard = parse(None).unwrap();
        for calendar in [
            "",
            " ",
            "standard",
            "Gregorian ",
            "STANDARD",
            "standard\0\0",
        ] {
            assert_eq!(parse(Some(calendar)).unwrap(), standard, "{calendar}");
        }
        assert_ne!(parse(Some(" Proleptic_Gregorian")).unwrap(), standard);
        assert_eq!(
            refused("days since 2000-01-01", "none"),
            "calendar is \"none\", expected standard, gregorian, proleptic_gregorian, noleap, 365_day, all_leap, \
             366_day, 360_day or julian"
        );
        for calendar in ["utc", "tai", "x"] {
            refused("days since 2000-01-01", calendar);
        }
        for (one, other) in [("noleap", "365_day"), ("all_leap", "366_day")] {
            assert_eq!(parse(Some(one)), parse(Some(other)));
        }
        let has_timestamps = |calendar| parse(Some(calendar)).unwrap().unwrap().has_timestamps();
        assert!(has_timestamps("standard") && has_timestamps("NOLEAP"));
        for calendar in ["all_leap", "360_day", "julian"] {
            assert!(!has_timestamps(calendar), "{calendar}");
        }
        refused("days since 2000-01-01", &"\u{b5}".repeat(1 << 20));
    }

    /// Checks instants against other sources.
    #[test]
    fn known_instants() {
        for line in [
            "days since 1970-01-01 | standard | 19782.5 | 2024-02-29 12:00:00",
            // 2^31 seconds.
            "seconds since 1970-01-01T00:00:00Z | standard | 2147483648 | 2038-01-19 03:14:08",
            // The units of ERA5. From 1900 to 1970 there are 25567 days.
            "hours since 1900-01-01 00:00:0.0 | gregorian | 613608 | 1970-01-01 00:00:00",
            "days since 2000-01-01 06:00 -6:00 | standard | 0 | 2000-01-01 12:00:00",
            // 2000-01-01 12:00 is Julian date 2451545. The modified Julian date is 2400000.5 less.
            "days since 1858-11-17 | standard | 51544.5 | 2000-01-01 12:00:00",
            "days since -4713-11-24 12:00 | proleptic_gregorian | 2451545 | 2000-01-01 12:00:00",
            // The GPS epoch is 315964800 seconds after 1970, the Windows epoch 11644473600 before.
            "seconds since 1980-1-6 | standard | -315964800 | 1970-01-01 00:00:00",
            "seconds since 1601-01-01 | standard | 11644473600 | 1970-01-01 00:00:00",
            // MATLAB's day number of 1970-01-01 is 719529, and 1 is 0000-01-01. .NET counts 719162
            // days from 0001-01-01.
            "days since 0-1-1 | proleptic_gregorian | 719528 | 1970-01-01 00:00:00",
            "days since 1-1-1 | proleptic_gregorian | 719162 | 1970-01-01 00:00:00",
            // 59 days after 1 January is always 1 March.
            "days since 2000-01-01 | noleap | 58 | 2000-02-28 00:00:00",
            "days since 2000-01-01 | noleap | 59 | 2000-03-01 00:00:00",
            "hours since 1850-01-01 12:00 | 365_day | 1314000 | 2000-01-01 12:00:00",
            "days since 2000-01-01 | noleap | -365.25 | 1998-12-31 18:00:00",
        ] {
            assert_decoded(line);
        }
    }

    /// 0001-01-01 of the Julian calendar is Julian day 1721424 (at noon), and 1948-01-01 is
    /// 2432552: 711128 days or 17067072 hours later. The Gregorian calendar begins on 1582-10-15,
    /// Julian day 2299161.
    #[test]
    fn reference_dates_before_the_change_of_calendar() {
        for line in [
            "hours since 1-1-1 00:00:0.0 | standard | 17067072 | 1948-01-01 00:00:00",
            // In the year 1, the calendars are two days apart.
            "hours since 1-1-1 00:00:0.0 | proleptic_gregorian | 17067072 | 1948-01-03 00:00:00",
            "days since 0001-01-01 | standard | 719164 | 1970-01-01 00:00:00",
            "days since 0001-01-01 | standard | 577737 | 1582-10-15 00:00:00",
            "days since 1582-10-4 | standard | 1 | 1582-10-15 00:00:00",
            "days since 1582-10-15 | standard | 0 | 1582-10-15 00:00:00",
        ] {
            assert_decoded(line);
        }
    }
}
