//! The settings that determine the look of results.

use clap::ValueEnum;

/// The default row limit on a terminal.
const TERMINAL_ROWS: usize = 40;

/// The format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table fitted to the terminal
    Box,
    /// A table drawn with ASCII characters
    Table,
    /// Comma-separated values
    Csv,
    /// Tab-separated values
    Tsv,
    /// One JSON array of objects
    Json,
    /// One JSON object per line
    Ndjson,
    /// A Markdown table
    Markdown,
    /// One value per line
    Line,
    /// An HTML table
    Html,
    /// A LaTeX table
    Latex,
}

impl Format {
    /// Returns the name of the format on the command line.
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

    /// Parses the name of a format.
    pub fn parse(text: &str) -> Result<Self, String> {
        // psql's name for this format.
        if text.eq_ignore_ascii_case("aligned") {
            return Ok(Self::Box);
        }
        Self::from_str(text, true).map_err(|_| {
            let names = Self::value_variants().iter().map(|format| format.name());
            let names = names.collect::<Vec<_>>().join(", ");
            format!("unknown format '{text}': use {names}")
        })
    }

    /// File name extensions and the formats they select.
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

    /// Returns the format that a file name extension selects.
    pub fn of_ending(ending: &str) -> Option<Self> {
        let mut endings = Self::ENDINGS.iter();
        let (_, format) = endings.find(|(known, _)| ending.eq_ignore_ascii_case(known))?;
        Some(*format)
    }

    /// Returns `true` if people read the format, in a terminal or in a document. The other formats
    /// are for programs.
    pub fn is_for_reading(self) -> bool {
        self.is_for_people() || matches!(self, Self::Markdown | Self::Html | Self::Latex)
    }

    /// Returns `true` if people read the format in a terminal. Only these formats are cut to the
    /// row limit.
    pub fn is_for_people(self) -> bool {
        matches!(self, Self::Box | Self::Table | Self::Line)
    }
}

/// The setting for writing rows as one value per line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expanded {
    /// Never.
    Off,
    /// Always.
    On,
    /// Only if a row does not fit on a line.
    Automatic,
}

/// The row limit of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowLimit {
    /// `TERMINAL_ROWS` on a terminal, all rows elsewhere.
    Automatic,
    /// A limit chosen by the user; `None` means all rows.
    Chosen(Option<usize>),
}

impl RowLimit {
    /// Returns the maximum number of rows to show; `None` means all rows.
    pub fn resolve(self, is_terminal: bool) -> Option<usize> {
        match self {
            Self::Chosen(rows) => rows,
            Self::Automatic => is_terminal.then_some(TERMINAL_ROWS),
        }
    }
}

/// The settings that determine the look of results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appearance {
    /// The chosen format; `None` means the default of the destination.
    pub format: Option<Format>,
    /// The text that stands for null; `None` means the default of the format.
    pub null: Option<String>,
    /// `true` to write the column names above the columns.
    pub headers: bool,
    /// The setting for one value per line in tables.
    pub expanded: Expanded,
    /// The row limit of tables.
    pub rows: RowLimit,
    /// `true` to show results that are taller than the screen in a pager.
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
