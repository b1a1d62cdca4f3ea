//! Parses the reference date of a time coordinate: the text after `since`, as UDUNITS spells it.

use crate::grid::cf_time::calendar::Calendar;
use crate::grid::cf_time::{DAY, SECOND};

/// The digits of a fraction of a second that are kept: nanoseconds.
const FRACTION_DIGITS: usize = 9;

/// Returns the nanoseconds from 1970-01-01 00:00:00 UTC to a reference date: a date, an optional
/// time, and an optional time zone. The error says what is expected.
pub(super) fn parse_reference_date(text: &str, calendar: Calendar) -> Result<i128, &'static str> {
    DateParser(text).reference(calendar)
}

/// The rest of a reference date that has not been parsed yet.
struct DateParser<'a>(&'a str);

impl DateParser<'_> {
    fn reference(mut self, calendar: Calendar) -> Result<i128, &'static str> {
        const FORM: &str = "a reference date such as 1970-01-01 00:00:00";
        let (year, month, day) = self.date().ok_or(FORM)?;
        let has_time = if self.blanks() {
            self.is_at_digit()
        } else {
            self.eat(b'T') || self.eat(b't')
        };
        let time = if has_time {
            self.time().ok_or(FORM)?
        } else {
            0
        };
        self.blanks();
        let zone = self.zone().ok_or(FORM)?;
        if !self.0.is_empty() {
            return Err(FORM);
        }
        let days = calendar.days(year, month, day)?;
        Ok(i128::from(days) * DAY + time - zone)
    }

    fn date(&mut self) -> Option<(i32, u32, u32)> {
        let is_negative = self.eat(b'-');
        if !is_negative {
            self.eat(b'+');
        }
        let year = self.number(4)? as i32;
        let month = self.eat(b'-').then(|| self.number(2))??;
        let day = self.eat(b'-').then(|| self.number(2))??;
        Some((if is_negative { -year } else { year }, month, day))
    }

    /// Parses `h`, `h:m`, `h:m:s` or `h:m:s.f`. Returns nanoseconds.
    fn time(&mut self) -> Option<i128> {
        let hour = self.number(2)?;
        let mut minute = 0;
        let mut second = 0;
        let mut fraction = 0;
        if self.eat(b':') {
            minute = self.number(2)?;
            if self.eat(b':') {
                second = self.number(2)?;
                if self.eat(b'.') {
                    fraction = self.fraction()?;
                }
            }
        }
        (hour < 24 && minute < 60 && second < 60).then(|| {
            i128::from(hour * 3_600 + minute * 60 + second) * SECOND + i128::from(fraction)
        })
    }

    /// Parses the digits after a decimal point. Returns nanoseconds, or `None` if a digit below the
    /// nanosecond is not zero, since precision would be lost.
    fn fraction(&mut self) -> Option<u32> {
        let digits = self.digits(usize::MAX)?;
        let (kept, rest) = digits.split_at(digits.len().min(FRACTION_DIGITS));
        if rest.bytes().any(|digit| digit != b'0') {
            return None;
        }
        format!("{kept:0<FRACTION_DIGITS$}").parse().ok()
    }

    /// Parses an optional time zone: `Z`, `UTC`, `GMT`, or an offset such as `+6`, `-06:00` or
    /// `+0600`. Returns nanoseconds east of UTC.
    fn zone(&mut self) -> Option<i128> {
        for name in ["Z", "UTC", "GMT"] {
            if let Some(start) = self.0.get(..name.len())
                && start.eq_ignore_ascii_case(name)
            {
                self.0 = &self.0[name.len()..];
                return Some(0);
            }
        }
        let sign = if self.eat(b'+') {
            1
        } else if self.eat(b'-') {
            -1
        } else {
            return Some(0);
        };
        let digits = self.digits(4)?;
        let (hours, minutes): (u32, u32) = match digits.len() {
            4 => (digits[..2].parse().ok()?, digits[2..].parse().ok()?),
            1 | 2 if self.eat(b':') => (digits.parse().ok()?, self.number(2)?),
            1 | 2 => (digits.parse().ok()?, 0),
            _ => return None,
        };
        (hours < 24 && minutes < 60)
            .then(|| sign * i128::from(hours * 3_600 + minutes * 60) * SECOND)
    }
}

impl<'a> DateParser<'a> {
    fn eat(&mut self, byte: u8) -> bool {
        let rest = self.0.strip_prefix(char::from(byte));
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn blanks(&mut self) -> bool {
        let rest = self.0.trim_start();
        let any = rest.len() < self.0.len();
        self.0 = rest;
        any
    }

    fn is_at_digit(&self) -> bool {
        self.0.starts_with(|char: char| char.is_ascii_digit())
    }

    /// Takes as many digits as there are, at least one and at most `most`.
    fn digits(&mut self, most: usize) -> Option<&'a str> {
        let count = self
            .0
            .bytes()
            .take(most)
            .take_while(u8::is_ascii_digit)
            .count();
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        (count > 0).then_some(digits)
    }

    fn number(&mut self, most: usize) -> Option<u32> {
        self.digits(most)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the seconds from 1970 to a reference date.
    fn seconds(text: &str) -> i64 {
        let nanoseconds = parse_reference_date(text, Calendar::Gregorian).unwrap();
        assert_eq!(nanoseconds % SECOND, 0, "{text}");
        (nanoseconds / SECOND) as i64
    }

    fn days(text: &str, calendar: Calendar) -> Result<i128, &'static str> {
        parse_reference_date(text, calendar).map(|nanoseconds| nanoseconds / DAY)
    }

    #[test]
    fn dates_and_times() {
        for text in [
            "1970-01-02",
            "1970-1-2",
            "+1970-01-2",
            "1970-01-02T00",
            "1970-01-02 0",
            "1970-01-02t0:0",
            "1970-01-02  00:00:0.0",
            "1970-01-02 00:00:00.000000000000",
        ] {
            assert_eq!(seconds(text), 86_400, "{text}");
        }
        assert_eq!(seconds("1970-01-01 23:59:59"), 86_399);
        assert_eq!(seconds("1970-01-01 1:2:3"), 3_723);
        assert_eq!(seconds("0000-01-01"), -719_528 * 86_400);
        assert_eq!(seconds("-1-12-31"), -719_529 * 86_400);
        let fraction = parse_reference_date("1970-01-01 0:0:0.25", Calendar::Mixed);
        assert_eq!(fraction, Ok(SECOND / 4));
    }

    #[test]
    fn zones() {
        for text in [
            "1970-01-01 06:00 Z",
            "1970-01-01 06:00Z",
            "1970-01-01T06:00:00 utc",
            "1970-01-01 06:00:00.0 GMT",
            "1970-01-01 12:00 +6",
            "1970-01-01 12:00 +06",
            "1970-01-01 12:00+06:00",
            "1970-01-01 12:00 +0600",
            "1970-01-01 12:00 +6:0",
            "1970-01-01 0:30 -5:30",
            "1970-01-01 -6",
            "1970-01-01-06:00",
        ] {
            assert_eq!(seconds(text), 6 * 3_600, "{text}");
        }
        assert_eq!(seconds("1970-01-01 Z"), 0);
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "-",
            "1970",
            "1970-01",
            "70",
            "1970-01-01T",
            "1970-01-01T ",
            "1970-01-01 T00",
            "1970-01-01 24",
            "1970-01-01 00:60",
            "1970-01-01 00:00:60",
            "1970-01-01 00:00:",
            "1970-01-01 00:00:00.",
            "1970-01-01 00:00:00.0000000001",
            "1970-01-01 000",
            "1970-01-0100:00",
            "1970-001-01",
            "01970-01-01",
            "--1970-01-01",
            "1970/01/01",
            "1970-01-01 00:00 0:00",
            "1970-01-01 00:00 +",
            "1970-01-01 00:00 +24",
            "1970-01-01 00:00 +6:60",
            "1970-01-01 00:00 +600",
            "1970-01-01 00:00 +06000",
            "1970-01-01 00:00 CET",
            "1970-01-01 00:00 UT\u{e9}",
            "1970-01-01 00:00 Z Z",
            "1970-01-01 00:00:00 x",
            "\u{661}970-01-01",
        ] {
            assert!(
                parse_reference_date(text, Calendar::Gregorian).is_err(),
                "{text}"
            );
        }
    }

    /// Each date has its Julian day (at noon). Julian day 2440588 is 1970-01-01.
    #[test]
    fn the_mixed_calendar() {
        for (text, julian_day) in [
            ("0001-01-01", 1_721_424),
            // 324 Julian years after 0001-01-01, and 31 + 28 + 20 days.
            ("0325-03-21", 1_721_424 + 324 * 1_461 / 4 + 79),
            // A leap day that only the Julian calendar has.
            ("1500-02-29", 2_268_992),
            ("1582-10-04", 2_299_160),
            ("1582-10-15", 2_299_161),
            ("1858-11-17", 2_400_001),
            ("2000-01-01", 2_451_545),
        ] {
            assert_eq!(
                days(text, Calendar::Mixed),
                Ok(julian_day - 2_440_588),
                "{text}"
            );
        }
    }

    #[test]
    fn dates_that_do_not_exist() {
        for text in [
            "1582-10-05",
            "1582-10-14",
            "0000-01-01",
            "-0001-01-01",
            "1500-02-30",
            "1501-02-29",
            "1700-02-29",
            "1000-00-01",
            "1000-13-01",
            "1000-01-00",
            "1000-04-31",
            "2000-02-30",
        ] {
            assert!(days(text, Calendar::Mixed).is_err(), "{text}");
        }
        for text in ["1582-10-05", "0000-02-29", "-4713-11-24"] {
            assert!(days(text, Calendar::Gregorian).is_ok(), "{text}");
        }
        assert!(days("1500-02-29", Calendar::Gregorian).is_err());
    }
}
