//! Infers typed coordinates from text labels.
//!
//! The labels of an axis get a type other than text only if that type can represent each of them
//! without losing information: `007` and `+5` stay text, and so do mixtures of types.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::Date32Type;
use chrono::{NaiveDate, NaiveTime};

/// The longest label, in bytes, that is parsed as a number. Any f64 in its shortest form fits.
const MAX_NUMBER: usize = 400;

/// Returns the coordinates that labels spell: `Int64`, `Float64`, `Date32` or
/// `Timestamp(Microsecond)` if every label is of that type, else `Utf8`. Times are UTC, whether
/// they end in `Z` or not, but an axis that mixes both forms stays text.
///
/// ```
/// use arrow::datatypes::DataType;
/// use tet_sql::grid::infer_labels;
///
/// assert_eq!(infer_labels(&["-45", "45"]).data_type(), &DataType::Int64);
/// assert_eq!(infer_labels(&["33.3", "34"]).data_type(), &DataType::Float64);
/// assert_eq!(infer_labels(&["2024-01-31"]).data_type(), &DataType::Date32);
/// assert_eq!(infer_labels(&["007"]).data_type(), &DataType::Utf8);
/// ```
pub fn infer_labels<S: AsRef<str>>(labels: &[S]) -> ArrayRef {
    if labels.is_empty() {
        return text_labels(labels);
    }
    if let Some(values) = parse_all(labels, integer) {
        return Arc::new(Int64Array::from(values));
    }
    if let Some(values) = parse_all(labels, float) {
        return Arc::new(Float64Array::from(values));
    }
    if let Some(values) = parse_all(labels, date) {
        return Arc::new(Date32Array::from_iter_values(
            values.into_iter().map(Date32Type::from_naive_date),
        ));
    }
    if let Some(values) = parse_all(labels, timestamp)
        && values.iter().all(|value| value.1 == values[0].1)
    {
        return Arc::new(TimestampMicrosecondArray::from_iter_values(
            values.into_iter().map(|value| value.0),
        ));
    }
    text_labels(labels)
}

/// Returns the labels as text, without inferring a type.
pub fn text_labels<S: AsRef<str>>(labels: &[S]) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(
        labels.iter().map(AsRef::as_ref),
    ))
}

fn parse_all<S: AsRef<str>, T>(labels: &[S], parse: fn(&str) -> Option<T>) -> Option<Vec<T>> {
    labels.iter().map(|label| parse(label.as_ref())).collect()
}

fn integer(label: &str) -> Option<i64> {
    let value: i64 = label.parse().ok()?;
    (value.to_string() == label).then_some(value)
}

/// Parses a finite number in its shortest form, in scientific form, or with any fixed number of
/// decimals.
fn float(label: &str) -> Option<f64> {
    if label.len() > MAX_NUMBER {
        return None;
    }
    let value: f64 = label.parse().ok()?;
    if !value.is_finite() {
        return None;
    }
    let decimals = label.split_once('.').map_or(0, |(_, digits)| digits.len());
    let spelled = format!("{value}") == label
        || format!("{value:?}") == label
        || format!("{value:e}") == label
        || format!("{value:.decimals$}") == label;
    // DataFusion compares -0.0 and 0.0 as equal, so they are one coordinate.
    spelled.then_some(value + 0.0)
}

/// Parses `YYYY-MM-DD`.
fn date(label: &str) -> Option<NaiveDate> {
    let bytes = label.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let year = digits(&label[..4])?;
    NaiveDate::from_ymd_opt(
        i32::try_from(year).ok()?,
        digits(&label[5..7])?,
        digits(&label[8..])?,
    )
}

/// Parses `YYYY-MM-DD`, then `T` or a space, then `HH:MM`, `HH:MM:SS` or `HH:MM:SS.f`, then
/// nothing, `Z` or `+00:00`. Returns microseconds since 1970, and `true` if the label names UTC.
fn timestamp(label: &str) -> Option<(i64, bool)> {
    if !label.is_ascii() || !matches!(label.as_bytes().get(10), Some(b'T' | b' ')) {
        return None;
    }
    let date = date(&label[..10])?;
    let rest = &label[11..];
    let (time, is_utc) = match rest.strip_suffix('Z').or(rest.strip_suffix("+00:00")) {
        Some(time) => (time, true),
        None => (rest, false),
    };
    let bytes = time.as_bytes();
    if bytes.len() < 5 || bytes[2] != b':' {
        return None;
    }
    let (seconds, fraction) = match bytes.len() {
        5 => (0, ""),
        8.. if bytes[5] == b':' => {
            let fraction = match &time[8..] {
                "" => "",
                fraction => fraction.strip_prefix('.').filter(|f| !f.is_empty())?,
            };
            (digits(&time[6..8])?, fraction)
        }
        _ => return None,
    };
    // Digits below the microsecond must be zeros: a timestamp could not hold them.
    if fraction.len() > 9
        || fraction
            .get(6..)
            .is_some_and(|rest| rest.bytes().any(|b| b != b'0'))
    {
        return None;
    }
    let microseconds = match fraction {
        "" => 0,
        fraction => digits(&format!("{fraction:0<6}")[..6])?,
    };
    let time = NaiveTime::from_hms_micro_opt(
        digits(&time[..2])?,
        digits(&time[3..5])?,
        seconds,
        microseconds,
    )?;
    Some((date.and_time(time).and_utc().timestamp_micros(), is_utc))
}

fn digits(text: &str) -> Option<u32> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::{DataType, Float64Type, TimeUnit, TimestampMicrosecondType};

    use super::*;

    fn inferred(labels: &[&str]) -> DataType {
        infer_labels(labels).data_type().clone()
    }

    #[test]
    fn integers() {
        assert_eq!(
            inferred(&["0", "-5", "9223372036854775807"]),
            DataType::Int64
        );
        for text in [
            "007",
            "+5",
            " 5",
            "5 ",
            "",
            "-0",
            "9223372036854775808",
            "1_000",
        ] {
            let expected = match text {
                // Both spell numbers that are not an i64.
                "-0" | "9223372036854775808" => DataType::Float64,
                _ => DataType::Utf8,
            };
            assert_eq!(inferred(&[text]), expected, "{text}");
        }
    }

    #[test]
    fn floats() {
        for text in [
            "33.3", "1.0", "10.50", "-0.0", "1e20", "1e-7", "0.1", "-179.95",
        ] {
            assert_eq!(inferred(&[text]), DataType::Float64, "{text}");
        }
        for text in [".5", "5.", "007.5", "+0.5", "NaN", "inf", "1E5", "0x10"] {
            assert_eq!(inferred(&[text]), DataType::Utf8, "{text}");
        }
        let long = format!("0.{}1", "0".repeat(70_000));
        assert_eq!(inferred(&[&long]), DataType::Utf8);
        let mixed = infer_labels(&["1", "1.5"]);
        assert_eq!(mixed.as_primitive::<Float64Type>().values(), &[1.0, 1.5]);
    }

    #[test]
    fn dates_and_times() {
        let timestamps = DataType::Timestamp(TimeUnit::Microsecond, None);
        assert_eq!(inferred(&["2024-02-29"]), DataType::Date32);
        for text in [
            "2024-01-01T00:00:00Z",
            "2024-01-01 00:00",
            "2024-01-01T23:59:59.5",
            "2024-01-01T00:00:00.000001000",
            "2024-01-01T00:00:00+00:00",
        ] {
            assert_eq!(inferred(&[text]), timestamps, "{text}");
        }
        for text in [
            "2023-02-29",
            "2024-1-1",
            "2024-01-01T24:00:00",
            "2024-01-01T00:00:60",
            "2024-01-01T00",
            "2024-01-01T00:00:00.",
            "2024-01-01T00:00:00.0000001",
            "2024-01-01T00:00:00+02:00",
            "2024-01-01TZ",
            "２０２４-01",
        ] {
            assert_eq!(inferred(&[text]), DataType::Utf8, "{text}");
        }
        assert_eq!(
            inferred(&["2024-01-01T00:00:00Z", "2024-01-01T00:00:00"]),
            DataType::Utf8
        );
        let parsed = infer_labels(&["1970-01-01T00:00:01.25"]);
        assert_eq!(
            parsed.as_primitive::<TimestampMicrosecondType>().value(0),
            1_250_000
        );
    }

    #[test]
    fn one_odd_label_keeps_the_axis_text() {
        assert_eq!(inferred(&["1", "two"]), DataType::Utf8);
        assert_eq!(
            inferred(&["2024-01-01", "2024-01-01T00:00"]),
            DataType::Utf8
        );
        assert_eq!(inferred(&[]), DataType::Utf8);
    }
}
