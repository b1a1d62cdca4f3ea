//! Writes aligned tables and JSON to the terminal.

use std::io::{self, Write};
#[cfg(feature = "tatami")]
use std::path::Path;

use serde::Serialize;
#[cfg(any(feature = "tatami", feature = "tiledb"))]
use serde_json::{Value, json};

use super::Failure;
use crate::output::formats::Visible;
use crate::output::wrapping::aligned;
use crate::terminal;
pub use crate::terminal::escape_controls as clean;

/// Writes rows with aligned columns, wrapped at the width of the terminal. The first row is the
/// header.
pub fn table(output: &mut dyn Write, rows: &[Vec<String>]) -> io::Result<()> {
    let width = terminal::is_output().then(terminal::columns);
    write!(output, "{}", aligned(rows, 2, width))
}

/// Converts texts to a row.
pub fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_string).to_vec()
}

/// Converts a table to JSON: one object per row, with the cells of the first row as keys.
#[cfg(any(feature = "tatami", feature = "tiledb"))]
pub fn listed(rows: &[Vec<String>]) -> Value {
    let Some((header, rows)) = rows.split_first() else {
        return json!([]);
    };
    let rows = rows.iter().map(|row| {
        let cells = header
            .iter()
            .cloned()
            .zip(row.iter().map(|cell| json!(cell)));
        Value::Object(cells.collect())
    });
    rows.collect()
}

/// Formats a number of things, such as `1 chunk` and `2 chunks`.
pub fn counted(count: impl ToString, thing: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// Formats extents or chunk indices, such as `48 x 10 x 20`.
pub fn shape(extents: &[u64]) -> String {
    let extents: Vec<_> = extents.iter().map(u64::to_string).collect();
    extents.join(" x ")
}

/// Writes a value as JSON, with control characters escaped.
pub fn write_json(output: &mut dyn Write, value: &impl Serialize) -> Result<(), Failure> {
    serde_json::to_writer_pretty(Visible::new(&mut *output, true), value)?;
    Ok(writeln!(output)?)
}

/// Writes the problems that `tet verify` found in a file. Returns `true` if there are none.
#[cfg(feature = "tatami")]
pub fn write_problems(
    output: &mut dyn Write,
    path: &Path,
    problems: &[impl ToString],
    summary: &str,
    is_deep: bool,
    is_json: bool,
) -> Result<bool, Failure> {
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let is_sound = problems.is_empty();
    let path = path.display().to_string();
    if is_json {
        let report = json!({ "path": path, "ok": is_sound, "deep": is_deep, "findings": problems });
        write_json(output, &report)?;
        return Ok(is_sound);
    }
    for problem in &problems {
        writeln!(output, "  error: {}", clean(problem))?;
    }
    let verdict = if is_sound { "sound" } else { "NOT SOUND" };
    writeln!(output, "{}: {verdict}; {summary}", clean(&path))?;
    Ok(is_sound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::is_obeyed;

    #[test]
    fn texts_are_cleaned_and_shapes_formatted() {
        assert_eq!(clean("a\u{1b}[31m\n\u{202e}"), "a\\u{1b}[31m\\n\\u{202e}");
        assert_eq!(shape(&[2, 3]), "2 x 3");
        assert_eq!(counted(1, "chunk"), "1 chunk");
        assert_eq!(counted("unknown", "chunk"), "unknown chunks");
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
