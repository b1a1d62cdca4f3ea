//! Writes aligned tables and JSON to the terminal.

use std::io::{self, Write};

use serde::Serialize;

use super::Failure;

/// Writes rows with aligned columns, two spaces apart. The first row is the header.
pub fn table(output: &mut dyn Write, rows: &[Vec<String>]) -> io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let cells: Vec<_> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        writeln!(output, "  {}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

/// Converts texts to a row.
pub fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_string).to_vec()
}

/// Formats extents or chunk indices, such as `48 x 10 x 20`.
pub fn shape(extents: &[u64]) -> String {
    let extents: Vec<_> = extents.iter().map(u64::to_string).collect();
    extents.join(" x ")
}

/// Escapes control characters and characters that change the text direction, in text from a file.
pub fn clean(text: &str) -> String {
    escaped(text, |character| character.escape_default().to_string())
}

/// Writes a value as JSON, with control characters escaped.
pub fn write_json(output: &mut dyn Write, value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)?;
    for line in text.lines() {
        let line = escaped(line, |character| format!("\\u{:04x}", u32::from(character)));
        writeln!(output, "{line}")?;
    }
    Ok(())
}

fn escaped(text: &str, escape: impl Fn(char) -> String) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match is_obeyed(character) {
            true => escaped += &escape(character),
            false => escaped.push(character),
        }
    }
    escaped
}

/// Returns `true` for control characters and characters that change the text direction.
fn is_obeyed(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut output = Vec::new();
        table(&mut output, &[row(["name", "n"]), row(["é", "10"])]).unwrap();
        assert_eq!(
            String::from_utf8(output).unwrap(),
            "  name  n\n  é     10\n"
        );
        assert_eq!(clean("a\u{1b}[31m\n\u{202e}"), "a\\u{1b}[31m\\n\\u{202e}");
        assert_eq!(shape(&[2, 3]), "2 x 3");
    }

    #[test]
    fn json_is_the_same_text_without_what_terminals_obey() {
        let value = "a\u{1b}\u{9b}2J\u{202e}";
        let mut output = Vec::new();
        assert!(write_json(&mut output, &[value]).is_ok());
        let text = String::from_utf8(output).unwrap();
        assert!(
            !text.contains(|c: char| is_obeyed(c) && c != '\n'),
            "{text:?}"
        );
        let read: Vec<String> = serde_json::from_str(&text).unwrap();
        assert_eq!(read, [value]);
    }
}
