//! How results look.

use clap::ValueEnum;

/// The rows of a table that a terminal shows unless told otherwise.
const TERMINAL_ROWS: usize = 40;

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table fitted to the terminal
    Box,
    /// A table of plain characters
    Table,
    /// Comma-separated values
    Csv,
    /// Tab-separated values
    Tsv,
    /// One array of objects
    Json,
    /// One object a line
    Ndjson,
    /// A table for documents
    Markdown,
    /// One value a line
    Line,
    /// A table for web pages
    Html,
    /// A table for papers
    Latex,
}

impl Format {
    /// The name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Box => "box",
            Self::Table => "table",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Json => "json",
            Self::Ndjson => "ndjson",
            Self::Markdown => "markdown",
            Self::Line => "line",
            Self::Html => "html",
            Self::Latex => "latex",
        }
    }

    /// Reads a name.
    pub fn parse(text: &str) -> Result<Self, String> {
        // As psql calls it.
        if text.eq_ignore_ascii_case("aligned") {
            return Ok(Self::Box);
        }
        Self::from_str(text, true).map_err(|_| {
            let names = Self::value_variants().iter().map(|format| format.name());
            let names = names.collect::<Vec<_>>().join(", ");
            format!("unknown format '{text}': use {names}")
        })
    }

    /// The endings of files, and the formats that they ask for.
    pub const ENDINGS: [(&'static str, Self); 12] = [
        ("csv", Self::Csv),
        ("tsv", Self::Tsv),
        ("tab", Self::Tsv),
        ("json", Self::Json),
        ("ndjson", Self::Ndjson),
        ("jsonl", Self::Ndjson),
        ("md", Self::Markdown),
        ("markdown", Self::Markdown),
        ("html", Self::Html),
        ("htm", Self::Html),
        ("tex", Self::Latex),
        ("latex", Self::Latex),
    ];

    /// The format that a file's ending asks for.
    pub fn of_ending(ending: &str) -> Option<Self> {
        let mut endings = Self::ENDINGS.iter();
        let (_, format) = endings.find(|(known, _)| ending.eq_ignore_ascii_case(known))?;
        Some(*format)
    }

    /// Returns `true` if the format is meant to be read, in a terminal or in a document, rather than by programs.
    pub fn is_for_reading(self) -> bool {
        self.is_for_people() || matches!(self, Self::Markdown | Self::Html | Self::Latex)
    }

    /// Whether it is meant for people, who want no more rows than they can read.
    pub fn is_for_people(self) -> bool {
        matches!(self, Self::Box | Self::Table | Self::Line)
    }
}

/// Whether rows are written as one value a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expanded {
    /// Never.
    Off,
    /// Always.
    On,
    /// Where a row has no place on a line.
    Automatic,
}

/// How many rows of a table are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowLimit {
    /// Enough for a terminal, all for anything else.
    Automatic,
    /// As many as asked for; none: all.
    Chosen(Option<usize>),
}

impl RowLimit {
    /// The most rows; none: all.
    pub fn resolve(self, is_terminal: bool) -> Option<usize> {
        match self {
            Self::Chosen(rows) => rows,
            Self::Automatic => is_terminal.then_some(TERMINAL_ROWS),
        }
    }
}

/// How results look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appearance {
    /// The format that was chosen; none: what fits the place they go to.
    pub format: Option<Format>,
    /// The text of NULL; none: that of the format.
    pub null: Option<String>,
    /// Whether names stand above the columns.
    pub headers: bool,
    /// Whether rows are written as one value a line, in tables.
    pub expanded: Expanded,
    /// How many rows of a table are shown.
    pub rows: RowLimit,
    /// Whether what is taller than the screen goes through a pager.
    pub pager: bool,
}

impl Default for Appearance {
    fn default() -> Self {
        Self {
            format: None,
            null: None,
            headers: true,
            expanded: Expanded::Off,
            rows: RowLimit::Automatic,
            pager: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_called_as_on_the_command_line() {
        for format in Format::value_variants() {
            let value = format.to_possible_value().unwrap();
            assert_eq!(value.get_name(), format.name());
            assert_eq!(Format::parse(format.name()), Ok(*format));
        }
        assert!(Format::parse("xml").unwrap_err().contains("ndjson"));
    }

    #[test]
    fn a_terminal_shows_some_rows() {
        assert_eq!(RowLimit::Automatic.resolve(true), Some(40));
        assert_eq!(RowLimit::Automatic.resolve(false), None);
        assert_eq!(RowLimit::Chosen(None).resolve(true), None);
    }
}
