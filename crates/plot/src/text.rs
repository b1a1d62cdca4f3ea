//! Formats names and numbers for display.

/// The maximum number of characters shown of a name.
const LONGEST: usize = 80;

/// Puts a text on one line, replaces control characters, and shortens it to [`LONGEST`] characters.
/// Names in files must not control the terminal.
pub fn clean(text: &str) -> String {
    let mut clean: String = text
        .chars()
        .take(LONGEST)
        .map(|c| if is_hidden(c) { ' ' } else { c })
        .collect();
    if text.chars().nth(LONGEST).is_some() {
        clean.pop();
        clean.push('…');
    }
    clean.trim().to_owned()
}

/// Returns `true` for control characters, zero-width characters and characters that change the text
/// direction.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns a name, followed by the unit in brackets.
pub fn title(name: &str, unit: Option<&str>) -> String {
    match unit {
        Some(unit) => format!("{name} [{unit}]"),
        None => name.to_owned(),
    }
}

/// Formats a number with at most six significant digits.
pub fn number(value: f64) -> String {
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    match rounded.abs() {
        0.0 => "0".to_owned(),
        size if (1e-4..1e9).contains(&size) => rounded.to_string(),
        _ => format!("{rounded:e}"),
    }
}

/// Returns a count with its noun, in singular or plural.
pub fn counted(count: usize, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {many}"),
    }
}

/// Shortens a text to at most `characters` characters, with an ellipsis at the end.
pub fn shortened(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(characters.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_obey_no_terminal() {
        assert_eq!(clean("a\u{1b}[31m\nb"), "a [31m b");
        assert_eq!(clean(&"x".repeat(200)).chars().count(), LONGEST);
        assert_eq!(title("lat", Some("degrees_north")), "lat [degrees_north]");
    }

    #[test]
    fn numbers_have_six_digits() {
        let expected = [
            (0.0, "0"),
            (-0.0, "0"),
            (0.1 + 0.2, "0.3"),
            (1234567.0, "1234570"),
            (-2.5e-9, "-2.5e-9"),
            (6.02214076e23, "6.02214e23"),
        ];
        for (value, text) in expected {
            assert_eq!(number(value), text);
        }
    }
}
