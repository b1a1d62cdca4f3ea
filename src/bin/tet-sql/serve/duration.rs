//! Parses durations with units.

use std::time::Duration;

/// Parses a duration such as `500ms`, `60s`, `10m` or `2h`. A number without a unit is in seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit.trim() {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        other => return Err(format!("unknown unit '{other}': use ms, s, m, h or d")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| "expected a time such as 500ms, 60s or 10m".to_owned())?;
    let duration = Duration::try_from_secs_f64(number * seconds)
        .map_err(|_| "the time is too long".to_owned())?;
    if duration.is_zero() {
        return Err("must be more than zero".to_owned());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, millis) in [
            ("500ms", 500),
            ("1", 1_000),
            ("60s", 60_000),
            ("1.5 m", 90_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_millis(millis)),
                "{text}"
            );
        }
    }

    #[test]
    fn wrong_times_are_refused() {
        for wrong in [
            "",
            "s",
            "0",
            "0ms",
            "-1s",
            "1..2s",
            "1y",
            "1e3s",
            "nan",
            "99999999999999999999999999d",
        ] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
