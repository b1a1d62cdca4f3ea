//! Parses and formats sizes in bytes.

/// Parses `512M`, `2G`, `1.5GiB`, `100MB` or a plain number of bytes.
///
/// A single letter and its `iB` form are powers of 1024, as in DataFusion's settings. `KB`, `MB`,
/// `GB` and `TB` are powers of 1000.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        other => return Err(format!("unknown unit '{other}': use K, M, G or T")),
    };
    let bytes = match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(factor),
        // The conversion saturates and drops fractions of a byte.
        Err(_) => match number.parse::<f64>() {
            Ok(fraction) => Some((fraction * factor as f64) as u64).filter(|&b| b < u64::MAX),
            Err(_) => return Err("expected a number of bytes such as 512M or 2GiB".to_owned()),
        },
    };
    match bytes {
        None => Err("too many bytes".to_owned()),
        Some(0) => Err("must be more than zero".to_owned()),
        Some(bytes) => Ok(bytes),
    }
}

/// Formats bytes in the largest binary unit with a value of at least 1.
pub fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be printed as 1024.0.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse_size("1"), Ok(1));
        assert_eq!(parse_size("512M"), Ok(512 << 20));
        assert_eq!(parse_size("2g"), Ok(2 << 30));
        assert_eq!(parse_size("1GiB"), Ok(1 << 30));
        assert_eq!(parse_size("1 GB"), Ok(1_000_000_000));
        assert_eq!(parse_size("1.5K"), Ok(1536));
        assert_eq!(parse_size("18446744073709551615"), Ok(u64::MAX));
    }

    #[test]
    fn wrong_sizes_are_refused() {
        for wrong in [
            "",
            "M",
            "0",
            "-1",
            "0.1",
            "1X",
            "1..2",
            "nan",
            "16777216T",
            "1e3",
            "99999999.0T",
        ] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_written() {
        assert_eq!(human_size(0), "0 B");
        assert_eq!(human_size(1023), "1023 B");
        assert_eq!(human_size(1024), "1.0 KiB");
        assert_eq!(human_size((1 << 20) - 1), "1.0 MiB");
        assert_eq!(human_size(u64::MAX), "16.0 EiB");
    }
}
