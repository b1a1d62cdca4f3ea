//! The fields of dates in text, such as day 30 of `2001-02-30T12:00:00`.

use arrow::array::{ArrayRef, AsArray, Int32Array};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::Result;

/// The last day of each month in the calendar that has the longest one: February has 30 days in
/// `360_day`.
const LAST_DAYS: [i32; 12] = [31, 30, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// A date with an optional time of day, without a calendar.
#[derive(Debug, PartialEq, Eq)]
struct TextDate {
    year: i32,
    month: i32,
    day: i32,
    hour: i32,
    minute: i32,
    second: i32,
}

impl TextDate {
    /// Parses `YYYY-MM-DD`, optionally followed by `T` or a blank and `HH:MM:SS` with an optional
    /// fraction.
    fn parse(text: &str) -> Option<Self> {
        if !text.is_ascii() {
            return None;
        }
        let (date, time) = text.split_at_checked(10)?;
        let (year, rest) = number(date, 4)?;
        let (month, rest) = number(rest.strip_prefix('-')?, 2)?;
        let (day, rest) = number(rest.strip_prefix('-')?, 2)?;
        let last_day = LAST_DAYS.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
        if !rest.is_empty() || !(1..=*last_day).contains(&day) {
            return None;
        }
        let mut parsed = Self {
            year,
            month,
            day,
            hour: 0,
            minute: 0,
            second: 0,
        };
        if time.is_empty() {
            return Some(parsed);
        }
        let (hour, rest) = number(time.strip_prefix(['T', ' '])?, 2)?;
        let (minute, rest) = number(rest.strip_prefix(':')?, 2)?;
        let (second, fraction) = number(rest.strip_prefix(':')?, 2)?;
        let is_fraction = match fraction.strip_prefix('.') {
            Some(digits) => {
                (1..=9).contains(&digits.len())
                    && digits.bytes().all(|digit| digit.is_ascii_digit())
            }
            None => fraction.is_empty(),
        };
        if hour > 23 || minute > 59 || second > 59 || !is_fraction {
            return None;
        }
        (parsed.hour, parsed.minute, parsed.second) = (hour, minute, second);
        Some(parsed)
    }

    /// Returns a field by its name in `date_part`.
    fn field(&self, name: &str) -> Option<i32> {
        Some(match name {
            "year" => self.year,
            "quarter" => (self.month + 2) / 3,
            "month" => self.month,
            "day" => self.day,
            "hour" => self.hour,
            "minute" => self.minute,
            "second" => self.second,
            _ => return None,
        })
    }
}

/// Returns a field of each text. Returns `None` if a text is not a plain date, or if the field
/// depends on the calendar, as the day of the year does: then the caller casts the texts to timestamps.
pub(super) fn fields(field: &str, texts: &ArrayRef) -> Result<Option<Int32Array>> {
    let texts = cast(texts, &DataType::Utf8)?;
    let texts = texts.as_string::<i32>().iter();
    let fields = texts.map(|text| match text {
        None => Some(None),
        Some(text) => TextDate::parse(text)?.field(field).map(Some),
    });
    Ok(fields.collect())
}

/// Parses the first `digits` characters of a text as a number. Returns the number and the rest of the
/// text.
fn number(text: &str, digits: usize) -> Option<(i32, &str)> {
    let (digits, rest) = text.split_at_checked(digits)?;
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
    Some((is_number.then(|| digits.parse().ok())??, rest))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::StringArray;

    use super::*;

    #[test]
    fn fields_are_those_of_the_text() {
        let date = TextDate::parse("2001-02-30T12:34:56.789").unwrap();
        for (name, expected) in [
            ("year", 2001),
            ("quarter", 1),
            ("month", 2),
            ("day", 30),
            ("hour", 12),
            ("minute", 34),
            ("second", 56),
        ] {
            assert_eq!(date.field(name), Some(expected));
        }
        assert_eq!(date.field("doy"), None);
        assert_eq!(date.field("week"), None);
        let day = TextDate::parse("0000-12-31").unwrap();
        assert_eq!((day.year, day.field("quarter")), (0, Some(4)));
    }

    #[test]
    fn other_texts_are_left_to_timestamps() {
        for text in [
            "",
            "2001-02",
            "2001-02-31",
            "2001-04-31",
            "2001-00-01",
            "2001-13-01",
            "2001-02-30T",
            "2001-02-30T12",
            "2001-02-30T12:00",
            "2001-02-30T24:00:00",
            "2001-02-30T12:00:60",
            "2001-02-30T12:00:00.",
            "2001-02-30T12:00:00Z",
            "2001-02-30T12:00:00+02:00",
            "+001-02-30",
            "noon",
        ] {
            assert_eq!(TextDate::parse(text), None, "{text}");
        }
        let texts = |texts: Vec<Option<&str>>| -> ArrayRef { Arc::new(StringArray::from(texts)) };
        let fields = |array| fields("day", &array).unwrap();
        let dates = texts(vec![Some("2001-02-30"), None]);
        assert_eq!(fields(dates), Some(Int32Array::from(vec![Some(30), None])));
        let others = texts(vec![Some("2001-02-30"), Some("2001-02-28T00:00Z")]);
        assert_eq!(fields(others), None);
    }
}
