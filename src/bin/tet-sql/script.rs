//! Sources of statements other than the prompt.

use crate::arguments::Arguments;
use crate::failure::Failure;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, IsTerminal, Read};
use std::path::{Path, PathBuf};

/// A source of statements and meta-commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Script {
    /// A text from the command line.
    Text(String),
    /// A file.
    File(PathBuf),
    /// Standard input.
    Standard,
}

/// Returns the scripts to run in order, or `None` to show the prompt.
pub fn of_arguments(arguments: &Arguments) -> Option<Vec<Script>> {
    let mut scripts: Vec<Script> = arguments
        .commands
        .iter()
        .cloned()
        .map(Script::Text)
        .collect();
    scripts.extend(arguments.file.as_ref().map(|file| {
        if file == Path::new("-") {
            Script::Standard
        } else {
            Script::File(file.clone())
        }
    }));
    if scripts.is_empty() && !std::io::stdin().is_terminal() {
        scripts.push(Script::Standard);
    }
    (!scripts.is_empty()).then_some(scripts)
}

impl Script {
    /// Returns the name of a script file for error messages.
    pub fn name(&self) -> Option<String> {
        match self {
            Self::File(path) => Some(path.display().to_string()),
            Self::Text(_) | Self::Standard => None,
        }
    }

    /// Opens the script. Lines are read on demand, because an earlier script may still write the
    /// file, and the writer of a pipe may wait for results before it continues.
    pub fn open(self) -> Result<Lines, Failure> {
        let (name, source): (_, Box<dyn BufRead + Send>) = match self {
            Self::Text(text) => ("--command".to_owned(), Box::new(Cursor::new(text))),
            Self::File(path) => {
                let name = path.display().to_string();
                let file = File::open(&path);
                let file = file.map_err(|error| Failure::message(format!("{name}: {error}")))?;
                (name, Box::new(BufReader::new(file)))
            }
            Self::Standard => (
                "standard input".to_owned(),
                Box::new(BufReader::new(std::io::stdin())),
            ),
        };
        Ok(Lines {
            name,
            source,
            number: 0,
        })
    }
}

/// The lines of a script.
pub struct Lines {
    name: String,
    source: Box<dyn BufRead + Send>,
    /// The number of lines read.
    number: usize,
}

impl Lines {
    /// Returns the number of lines read.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Reads the next line with its line end, or `None` at the end. Fails if the line has more than
    /// `most` bytes.
    pub fn next(&mut self, most: usize) -> Result<Option<String>, Failure> {
        let named =
            |text: &dyn std::fmt::Display| Failure::message(format!("{}: {text}", self.name));
        let mut bytes = Vec::new();
        let mut source = self.source.by_ref().take((most as u64).saturating_add(1));
        let read = source.read_until(b'\n', &mut bytes);
        let read = read.map_err(|error| named(&error))?;
        if read == 0 {
            return Ok(None);
        }
        if read > most {
            let number = self.number + 1;
            return Err(named(&format_args!(
                "line {number} has more than {most} bytes, the limit of a statement: tet.max_statement_bytes"
            )));
        }
        let line = String::from_utf8(bytes).map_err(|_| named(&"not UTF-8 text"))?;
        self.number += 1;
        // Some editors write a byte order mark at the start of a file.
        let line = match line.strip_prefix('\u{feff}') {
            Some(rest) if self.number == 1 => rest.to_owned(),
            _ => line,
        };
        // Unix runs a script by the program that its first line names: `#!/usr/bin/env -S tet-sql -f`.
        Ok(Some(match self.number == 1 && line.starts_with("#!") {
            true => "\n".to_owned(),
            false => line,
        }))
    }
}
