//! Where statements come from when there is no prompt.

use crate::arguments::Arguments;
use crate::failure::Failure;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

/// A text of statements and meta-commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Script {
    /// Given on the command line.
    Text(String),
    /// A file.
    File(PathBuf),
    /// Standard input.
    Standard,
}

/// The scripts to run, in order; none: statements are asked for at a prompt.
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
    /// What errors call it; what was given on the command line needs no name.
    pub fn name(&self) -> Option<String> {
        match self {
            Self::File(path) => Some(path.display().to_string()),
            Self::Text(_) | Self::Standard => None,
        }
    }

    /// The text, read now: a script before may have written it.
    pub fn read(self) -> Result<String, Failure> {
        let (name, bytes) = match self {
            Self::Text(text) => return Ok(text),
            Self::File(path) => {
                let name = path.display().to_string();
                let bytes = std::fs::read(&path)
                    .map_err(|error| Failure::message(format!("{name}: {error}")))?;
                (name, bytes)
            }
            Self::Standard => {
                let mut bytes = Vec::new();
                std::io::stdin().lock().read_to_end(&mut bytes)?;
                ("standard input".to_owned(), bytes)
            }
        };
        let text = String::from_utf8(bytes)
            .map_err(|_| Failure::message(format!("{name}: not UTF-8 text")))?;
        // Some editors begin a file with a byte order mark.
        Ok(match text.strip_prefix('\u{feff}') {
            Some(text) => text.to_owned(),
            None => text,
        })
    }
}
