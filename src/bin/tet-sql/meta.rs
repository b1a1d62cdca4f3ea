//! Meta-commands: lines that begin with `.` or `\`.

use crate::output::Format;
use clap::ValueEnum;
use std::path::PathBuf;

/// A meta-command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meta {
    /// List the meta-commands.
    Help,
    /// List the tables.
    Tables,
    /// Describe a table, or all.
    Schema(Option<String>),
    /// Choose the format, or tell it.
    Mode(Option<Format>),
    /// Choose how many rows of a table are shown, or tell it.
    MaxRows(Option<usize>),
    /// Write results to a file, or to standard output.
    Output(Option<PathBuf>),
    /// Leave.
    Quit,
}

const HELP: [(&str, &str); 8] = [
    (".help, \\?", "list these commands"),
    (".tables, \\dt, \\d", "list the tables of all schemas"),
    (".schema [TABLE]", "describe a table, or all tables"),
    ("\\d TABLE", "describe a table"),
    (
        ".mode [FORMAT]",
        "write results as table, csv, tsv, json, ndjson or markdown",
    ),
    (
        ".maxrows [N]",
        "show at most N rows of a table (0: all of them)",
    ),
    (
        ".output [FILE]",
        "write results to a file (none: standard output)",
    ),
    (".quit, .exit, \\q", "leave"),
];

/// The names of all meta-commands.
pub const NAMES: [&str; 12] = [
    ".exit", ".help", ".maxrows", ".mode", ".output", ".quit", ".schema", ".tables", "\\?", "\\d",
    "\\dt", "\\q",
];

/// The list of meta-commands.
pub fn help() -> String {
    let lines = HELP
        .iter()
        .map(|(command, help)| format!("{command:<22}{help}\n"));
    let mut text: String = lines.collect();
    text.push_str("Anything else is SQL, ended by a semicolon.\n");
    text
}

/// Reads a line that begins with `.` or `\`.
pub fn parse(line: &str) -> Result<Meta, String> {
    let line = line.trim();
    let (name, argument) = match line.split_once(char::is_whitespace) {
        Some((name, argument)) => (name, Some(argument.trim())),
        None => (line, None),
    };
    let meta = match name {
        // As in psql: tables alone without an argument.
        "\\d" if argument.is_none() => Meta::Tables,
        ".schema" | "\\d" => Meta::Schema(argument.map(str::to_owned)),
        ".mode" => Meta::Mode(argument.map(format).transpose()?),
        ".maxrows" => Meta::MaxRows(argument.map(rows).transpose()?),
        ".output" => Meta::Output(argument.map(PathBuf::from)),
        ".help" | "\\?" => plain(name, argument, Meta::Help)?,
        ".tables" | "\\dt" => plain(name, argument, Meta::Tables)?,
        ".quit" | ".exit" | "\\q" => plain(name, argument, Meta::Quit)?,
        _ => return Err(format!("unknown command {name}: .help lists the commands")),
    };
    Ok(meta)
}

fn plain(name: &str, argument: Option<&str>, meta: Meta) -> Result<Meta, String> {
    match argument {
        None => Ok(meta),
        Some(argument) => Err(format!("{name} takes no argument, but got '{argument}'")),
    }
}

fn format(text: &str) -> Result<Format, String> {
    Format::from_str(text, true).map_err(|_| {
        let names: Vec<&str> = Format::value_variants()
            .iter()
            .map(|format| format.name())
            .collect();
        format!("unknown format '{text}': use {}", names.join(", "))
    })
}

fn rows(text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| format!("'{text}' is no number of rows"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read() {
        assert_eq!(parse(".tables"), Ok(Meta::Tables));
        assert_eq!(parse("\\dt "), Ok(Meta::Tables));
        assert_eq!(parse(".schema"), Ok(Meta::Schema(None)));
        assert_eq!(parse("\\d"), Ok(Meta::Tables));
        assert_eq!(parse("\\d  w.t"), Ok(Meta::Schema(Some("w.t".to_owned()))));
        assert_eq!(parse(".mode CSV"), Ok(Meta::Mode(Some(Format::Csv))));
        assert_eq!(parse(".maxrows 0"), Ok(Meta::MaxRows(Some(0))));
        assert_eq!(parse(".output"), Ok(Meta::Output(None)));
        assert_eq!(parse("\\q"), Ok(Meta::Quit));
    }

    #[test]
    fn wrong_commands_are_refused_with_a_hint() {
        for wrong in [".nope", "\\", ".tables t", ".mode xml", ".maxrows -1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse(".nope").unwrap_err().contains(".help"));
    }

    #[test]
    fn every_name_is_known_and_helped_with() {
        let help = help();
        for name in NAMES {
            assert!(parse(name).is_ok(), "{name}");
            assert!(help.contains(name), "{name}");
        }
    }
}
