//! Lines and aligned columns that fit on the screen.

use std::fmt::Write;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The width below which lines are not wrapped any narrower.
const MIN_WIDTH: usize = 20;

/// Wraps a line at spaces. Continuation lines are indented by `hanging` more than the first line.
pub fn wrapped(line: &str, width: Option<usize>, hanging: usize) -> String {
    let Some(width) = width else {
        return line.to_owned();
    };
    let width = width.max(MIN_WIDTH);
    let mut rest = line.trim_start_matches(' ');
    let indent = line.len() - rest.len();
    let margins = [indent, indent + hanging].map(|margin| margin.min(width / 2));
    let mut margins = margins.into_iter().chain(std::iter::repeat(margins[1]));
    let mut text = String::new();
    loop {
        let margin = margins.next().unwrap_or_default();
        text.extend(std::iter::repeat_n(' ', margin));
        let end = fitting(rest, width - margin);
        if end == rest.len() {
            return text + rest;
        }
        let cut = match rest[end..].starts_with(' ') {
            true => end,
            // Break a word that does not fit on a line.
            false => rest[..end].rfind(' ').unwrap_or(end),
        };
        text += rest[..cut].trim_end();
        text.push('\n');
        rest = rest[cut..].trim_start();
    }
}

/// Wraps each line of a text at spaces. Continuation lines have the indent of their first line.
pub fn on_lines(text: &str, width: Option<usize>) -> String {
    let lines = text.lines().map(|line| wrapped(line, width, 0) + "\n");
    lines.collect()
}

/// Formats rows as indented lines with aligned columns, two spaces apart. Lines that are wider than
/// the screen continue below their last column.
pub fn aligned<R: AsRef<[String]>>(rows: &[R], indent: usize, width: Option<usize>) -> String {
    let rows = || rows.iter().map(AsRef::as_ref);
    let columns = rows().map(<[String]>::len).max().unwrap_or(0);
    let mut widths = vec![0; columns];
    for cells in rows() {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = cell.width().max(*width);
        }
    }
    let before_last = &widths[..columns.saturating_sub(1)];
    let hanging = before_last.iter().map(|width| width + 2).sum();
    let mut text = String::new();
    for cells in rows() {
        let mut line = " ".repeat(indent);
        for (number, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let apart = if number > 0 { "  " } else { "" };
            let space = " ".repeat(width - cell.width());
            // Writing to a string cannot fail.
            let _ = write!(line, "{apart}{cell}{space}");
        }
        text += &wrapped(line.trim_end(), width, hanging);
        text.push('\n');
    }
    text
}

/// Returns the byte length of the longest prefix that is at most `width` columns wide.
pub fn fitting(text: &str, width: usize) -> usize {
    let mut left = width;
    for (offset, character) in text.char_indices() {
        let wide = character.width().unwrap_or(0);
        if wide > left {
            return offset;
        }
        left -= wide;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped_at_blanks() {
        let line = "    DataSourceExec: tet=temperature, slice=time[0:24], chunks=3 of 24";
        assert_eq!(
            wrapped(line, Some(40), 4),
            "    DataSourceExec: tet=temperature,\n        slice=time[0:24], chunks=3 of 24"
        );
        assert_eq!(wrapped(line, Some(80), 4), line);
        assert_eq!(wrapped(line, None, 4), line);
        for width in [1, 20, 22, 30] {
            for line in wrapped(&"日本x".repeat(40), Some(width), 4).lines() {
                assert!(line.width() <= width.max(20), "{width}: {line}");
            }
        }
    }

    #[test]
    fn lines_keep_their_indent() {
        let text = ".bail [on|off]\n  Stop a script at its first failure.\n";
        let expected = ".bail [on|off]\n  Stop a script at\n  its first failure.\n";
        assert_eq!(on_lines(text, Some(20)), expected);
        assert_eq!(on_lines(text, None), text);
    }

    #[test]
    fn columns_are_aligned() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned);
        let rows = [row(["a", "bc", "d"]), row(["äöü", "日本", ""])];
        assert_eq!(aligned(&rows, 4, None), "    a    bc    d\n    äöü  日本\n");
    }

    #[test]
    fn wide_rows_continue_below_their_last_column() {
        let rows = [["key".to_owned(), "one two three four five".to_owned()]];
        assert_eq!(
            aligned(&rows, 2, Some(22)),
            "  key  one two three\n       four five\n"
        );
        assert_eq!(
            aligned(&rows, 2, Some(40)),
            "  key  one two three four five\n"
        );
    }
}
