//! Meta-commands: lines that begin with `.` or `\`.

pub mod about;
pub mod commands;
pub mod describe;
pub mod editor;
pub mod help;
pub mod overview;
mod plot;
pub mod tables;
mod words;

use crate::meta::words::{on_or_off, path, text};
use crate::output::appearance::{Expanded, Format};
use std::path::PathBuf;
use std::time::Duration;
use tet_sql_plot::ChartKind;

/// The default interval of `.watch`, as in psql.
const WATCH: Duration = Duration::from_secs(2);

/// A meta-command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meta {
    /// Lists the meta-commands, or explains one.
    Help(Option<String>),
    /// Lists the tables, or those whose names match a pattern.
    Tables(Option<String>),
    /// Lists the open files; `true` shows all columns, `false` the most important ones.
    Files(bool),
    /// Lists the schemas, or those whose names match a pattern.
    Schemas(Option<String>),
    /// Lists the functions, or those whose names match a pattern.
    Functions(Option<String>),
    /// Describes the tables that match a name or a pattern, or all tables.
    Describe(Option<String>),
    /// Lists the chunks of a table.
    Chunks(String),
    /// Shows the plan of a statement, or of the last query.
    Explain(Option<String>),
    /// Draws the last result as a chart of this kind, on the terminal or to a file.
    Plot(Option<ChartKind>, Option<PathBuf>),
    /// Sets the format of results; `None` shows it.
    Mode(Option<Format>),
    /// Sets the row limit of tables; `None` shows it.
    MaxRows(Option<usize>),
    /// Sets the text that stands for null; `None` restores the default of the format.
    NullValue(Option<String>),
    /// Turns column headers on or off; `None` toggles them.
    Headers(Option<bool>),
    /// Sets whether rows are written as one value per line; `None` toggles it.
    Expanded(Option<Expanded>),
    /// Turns timing of statements on or off; `None` toggles it.
    Timer(Option<bool>),
    /// Turns the pager on or off; `None` toggles it.
    Pager(Option<bool>),
    /// Shows all settings of results.
    Settings,
    /// Writes a text to the destination of results.
    Print(String),
    /// Shows the settings of the shell.
    Show,
    /// Changes the directory; `None` means the home directory.
    ChangeDirectory(Option<PathBuf>),
    /// Shows a summary of the session.
    Connection,
    /// Runs the last query again.
    Go(Go),
    /// Writes results to a file, or to standard output.
    Output(Option<PathBuf>),
    /// Writes the next result to a file.
    Once(PathBuf),
    /// Runs the statements of a file.
    Read(PathBuf),
    /// Edits a file, or the last statement, and runs its text.
    Edit(Option<PathBuf>),
    /// Runs a command of the system's shell.
    Shell(String),
    /// Runs the last query at this interval and this many times; `None` means until Ctrl-C.
    Watch(Duration, Option<u64>),
    /// Sets whether the first failure ends a script; `None` shows the setting.
    Bail(Option<bool>),
    /// Opens a file, optionally under a name.
    Open(PathBuf, Option<String>),
    /// Closes the file of a schema.
    Close(String),
    /// Leaves the shell.
    Quit,
}

/// The options of `\g` and `\gx`, which end a statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Go {
    /// `true` to write rows as one value per line.
    pub is_expanded: bool,
    /// The file to write the result to.
    pub file: Option<PathBuf>,
}

/// Parses a line that begins with `.` or `\`.
pub fn parse(line: &str) -> Result<Meta, String> {
    let whole = line.trim();
    // As in psql, a shell command may follow `\!` without a space. A `;` at its end belongs to the
    // command.
    for name in ["\\!", ".shell ", ".system "] {
        if let Some(command) = whole.strip_prefix(name) {
            return needed(name.trim(), Some(command.trim()), "a command").map(Meta::Shell);
        }
    }
    let line = whole.trim_end_matches(';').trim_end();
    let (name, argument) = match line.split_once(char::is_whitespace) {
        Some((name, argument)) => (name, Some(argument.trim()).filter(|text| !text.is_empty())),
        None => (line, None),
    };
    let meta = match name {
        ".help" | "\\?" => Meta::Help(argument.map(str::to_owned)),
        // As in psql, `\d` without an argument lists the tables.
        "\\d" | "\\d+" if argument.is_none() => Meta::Tables(None),
        ".tables" | "\\dt" | "\\dt+" => Meta::Tables(argument.map(text)),
        ".databases" | "\\l" => plain(name, argument, Meta::Files(false))?,
        "\\l+" => plain(name, argument, Meta::Files(true))?,
        "\\dn" | "\\dn+" => Meta::Schemas(argument.map(text)),
        ".functions" | "\\df" | "\\df+" => Meta::Functions(argument.map(text)),
        ".schema" | "\\d" | "\\d+" => Meta::Describe(argument.map(text)),
        ".chunks" => Meta::Chunks(needed(name, argument, "a table")?),
        ".explain" => Meta::Explain(argument.map(str::to_owned)),
        ".plot" => plot(argument),
        ".print" | "\\echo" | "\\qecho" => Meta::Print(argument.map(text).unwrap_or_default()),
        ".show" => plain(name, argument, Meta::Show)?,
        ".cd" | "\\cd" => Meta::ChangeDirectory(argument.map(path)),
        "\\conninfo" => plain(name, argument, Meta::Connection)?,
        "\\g" | "\\gx" => Meta::Go(Go {
            is_expanded: name == "\\gx",
            file: argument.map(path),
        }),
        ".mode" => Meta::Mode(argument.map(Format::parse).transpose()?),
        ".maxrows" => Meta::MaxRows(argument.map(rows).transpose()?),
        ".nullvalue" => Meta::NullValue(argument.map(text)),
        ".headers" | ".header" => Meta::Headers(argument.map(on_or_off).transpose()?),
        "\\x" => Meta::Expanded(argument.map(expanded).transpose()?),
        ".timer" | "\\timing" => Meta::Timer(argument.map(on_or_off).transpose()?),
        "\\pset" => set(argument)?,
        ".output" | "\\o" => Meta::Output(argument.map(path)),
        ".once" => Meta::Once(path(&needed(name, argument, "a file")?)),
        ".read" | "\\i" => Meta::Read(path(&needed(name, argument, "a file")?)),
        ".edit" | "\\e" => Meta::Edit(argument.map(path)),
        ".shell" | ".system" => Meta::Shell(needed(name, None, "a command")?),
        ".watch" | "\\watch" => watch(argument)?,
        ".bail" => Meta::Bail(argument.map(on_or_off).transpose()?),
        ".open" => open(&needed(name, argument, "a file")?)?,
        ".close" => Meta::Close(text(&needed(name, argument, "a schema")?)),
        ".quit" | ".exit" | "\\q" => plain(name, argument, Meta::Quit)?,
        _ => return Err(unknown(name)),
    };
    Ok(meta)
}

fn unknown(name: &str) -> String {
    let meant = crate::diagnostics::suggestion::nearest(name, help::names());
    match meant {
        Some(meant) => format!("unknown command {name}; did you mean {meant}? .help lists all"),
        None => format!("unknown command {name}: .help lists the commands"),
    }
}

fn plain(name: &str, argument: Option<&str>, meta: Meta) -> Result<Meta, String> {
    match argument {
        None => Ok(meta),
        Some(argument) => Err(format!("{name} takes no argument, but got '{argument}'")),
    }
}

fn needed(name: &str, argument: Option<&str>, what: &str) -> Result<String, String> {
    match argument.filter(|argument| !argument.is_empty()) {
        Some(argument) => Ok(argument.to_owned()),
        None => Err(format!("{name} needs {what}: {}", help::usage(name))),
    }
}

fn rows(text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| format!("'{text}' is not a number of rows"))
}

fn expanded(text: &str) -> Result<Expanded, String> {
    if text.eq_ignore_ascii_case("auto") {
        return Ok(Expanded::Automatic);
    }
    let on = on_or_off(text).map_err(|_| format!("expected on, off or auto, found '{text}'"))?;
    Ok(if on { Expanded::On } else { Expanded::Off })
}

/// Parses `\pset NAME [VALUE]`, with psql's names.
fn set(argument: Option<&str>) -> Result<Meta, String> {
    let Some(argument) = argument else {
        return Ok(Meta::Settings);
    };
    let (name, value) = match argument.split_once(char::is_whitespace) {
        Some((name, value)) => (name, Some(value.trim())),
        None => (argument, None),
    };
    Ok(match name {
        "format" => Meta::Mode(value.map(Format::parse).transpose()?),
        "null" => Meta::NullValue(value.map(text)),
        "expanded" | "x" => Meta::Expanded(value.map(expanded).transpose()?),
        "tuples_only" | "t" => Meta::Headers(value.map(on_or_off).transpose()?.map(|only| !only)),
        "pager" => Meta::Pager(value.map(on_or_off).transpose()?),
        "maxrows" => Meta::MaxRows(value.map(rows).transpose()?),
        _ => {
            return Err(format!(
                "\\pset has no setting '{name}': use format, null, expanded, tuples_only, pager or maxrows"
            ));
        }
    })
}

fn watch(argument: Option<&str>) -> Result<Meta, String> {
    let mut words = argument.unwrap_or_default().split_whitespace();
    let pause = match words.next() {
        None => WATCH,
        Some(word) => {
            let seconds = word.parse().ok();
            let pause = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            pause.ok_or_else(|| format!("'{word}' is not a number of seconds"))?
        }
    };
    let times = match words.next() {
        None => None,
        Some(word) => {
            let times = word.strip_prefix("c=").unwrap_or(word).parse().ok();
            Some(times.ok_or_else(|| format!("'{word}' is not a number of times"))?)
        }
    };
    Ok(Meta::Watch(pause, times))
}

/// Parses `[KIND] [FILE]`.
fn plot(argument: Option<&str>) -> Meta {
    let Some(argument) = argument else {
        return Meta::Plot(None, None);
    };
    let (first, rest) = match argument.split_once(char::is_whitespace) {
        Some((first, rest)) => (first, Some(rest.trim())),
        None => (argument, None),
    };
    match ChartKind::of_name(first) {
        Some(kind) => Meta::Plot(Some(kind), rest.map(path)),
        None => Meta::Plot(None, Some(path(argument))),
    }
}

/// Parses `FILE`, `FILE AS NAME` or, as on the command line, `NAME=FILE`.
fn open(argument: &str) -> Result<Meta, String> {
    let lower = argument.to_ascii_lowercase();
    // An ` as ` within quotes belongs to the path.
    let quoted = match argument.chars().next() {
        Some(quote @ ('\'' | '"')) => argument[1..].find(quote).map_or(0, |end| end + 2),
        _ => 0,
    };
    let separator = lower[quoted..].rfind(" as ").map(|offset| quoted + offset);
    if let Some(offset) = separator {
        let name = text(argument[offset + 4..].trim());
        return Ok(Meta::Open(path(argument[..offset].trim()), Some(name)));
    }
    Ok(Meta::Open(path(argument), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read() {
        let path = PathBuf::from;
        let expected = [
            (".tables", Meta::Tables(None)),
            ("\\dt ", Meta::Tables(None)),
            (".open 'x as y.tet'", Meta::Open(path("x as y.tet"), None)),
            (".open \"x as y.tet\"", Meta::Open(path("x as y.tet"), None)),
            (
                ".open it's.tet as x",
                Meta::Open(path("it's.tet"), Some("x".to_owned())),
            ),
            (
                ".open 'x as y.tet' as z",
                Meta::Open(path("x as y.tet"), Some("z".to_owned())),
            ),
            (".tables %temp%", Meta::Tables(Some("%temp%".to_owned()))),
            (".schema", Meta::Describe(None)),
            ("\\d", Meta::Tables(None)),
            ("\\d  w.t", Meta::Describe(Some("w.t".to_owned()))),
            (".mode CSV", Meta::Mode(Some(Format::Csv))),
            ("\\pset format aligned", Meta::Mode(Some(Format::Box))),
            (
                "\\pset null '(none)'",
                Meta::NullValue(Some("(none)".to_owned())),
            ),
            ("\\pset tuples_only on", Meta::Headers(Some(false))),
            ("\\pset", Meta::Settings),
            (".maxrows 0", Meta::MaxRows(Some(0))),
            (".output", Meta::Output(None)),
            ("\\o 'a b.csv'", Meta::Output(Some(path("a b.csv")))),
            (".once x.parquet", Meta::Once(path("x.parquet"))),
            ("\\x auto", Meta::Expanded(Some(Expanded::Automatic))),
            ("\\timing", Meta::Timer(None)),
            ("\\! ls -l", Meta::Shell("ls -l".to_owned())),
            ("\\!ls", Meta::Shell("ls".to_owned())),
            (
                ".shell find . -exec ls {} \\;",
                Meta::Shell("find . -exec ls {} \\;".to_owned()),
            ),
            (
                "\\watch 0.5 c=3",
                Meta::Watch(Duration::from_millis(500), Some(3)),
            ),
            ("\\watch", Meta::Watch(Duration::from_secs(2), None)),
            (".open a.tet", Meta::Open(path("a.tet"), None)),
            (
                ".open 'a.tet' as w",
                Meta::Open(path("a.tet"), Some("w".to_owned())),
            ),
            ("\\dt demo.*", Meta::Tables(Some("demo.*".to_owned()))),
            (".schema t*", Meta::Describe(Some("t*".to_owned()))),
            ("\\d+ t", Meta::Describe(Some("t".to_owned()))),
            ("\\l+", Meta::Files(true)),
            ("\\df a*", Meta::Functions(Some("a*".to_owned()))),
            ("\\echo 'a  b'", Meta::Print("a  b".to_owned())),
            (".cd", Meta::ChangeDirectory(None)),
            (
                ".plot map m.png",
                Meta::Plot(Some(ChartKind::Map), Some(path("m.png"))),
            ),
            (".plot m.png", Meta::Plot(None, Some(path("m.png")))),
            (".plot hist", Meta::Plot(Some(ChartKind::Histogram), None)),
            (
                "\\gx out.md",
                Meta::Go(Go {
                    is_expanded: true,
                    file: Some(path("out.md")),
                }),
            ),
            ("\\q", Meta::Quit),
        ];
        for (line, meta) in expected {
            assert_eq!(parse(line), Ok(meta), "{line}");
        }
    }

    #[test]
    fn wrong_commands_are_refused_with_a_hint() {
        for wrong in [
            ".nope",
            "\\",
            ".quit now",
            ".mode xml",
            ".maxrows -1",
            ".once",
            ".read",
            "\\!",
            "\\x maybe",
            "\\pset border 2",
            "\\watch soon",
            "\\watch -1",
            ".timer perhaps",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse(".nope").unwrap_err().contains(".help"));
        assert!(
            parse(".tabels")
                .unwrap_err()
                .contains("did you mean .tables?")
        );
    }

    #[test]
    fn every_command_that_is_helped_with_is_known() {
        for name in help::names() {
            let known = [
                name.to_owned(),
                format!("{name} x"),
                format!("{name} on"),
                format!("{name} 1"),
            ];
            assert!(known.iter().any(|line| parse(line).is_ok()), "{name}");
        }
    }
}
