//! Tables as aligned columns.

use std::io::{self, Write};

/// Writes rows with their columns aligned, two blanks apart; the first row is the head.
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

/// A row of texts.
pub fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_string).to_vec()
}

/// Extents or positions: `48 x 10 x 20`.
pub fn shape(extents: &[u64]) -> String {
    let extents: Vec<_> = extents.iter().map(u64::to_string).collect();
    extents.join(" x ")
}

/// Text of a file, with what a terminal would obey made visible.
pub fn clean(text: &str) -> String {
    let is_plain = |letter: char| !letter.is_control();
    if text.chars().all(is_plain) {
        return text.to_string();
    }
    let letters = text.chars().map(|letter| match is_plain(letter) {
        true => letter.to_string(),
        false => letter.escape_default().to_string(),
    });
    letters.collect()
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
        assert_eq!(clean("a\u{1b}[31m\n"), "a\\u{1b}[31m\\n");
        assert_eq!(shape(&[2, 3]), "2 x 3");
    }
}
