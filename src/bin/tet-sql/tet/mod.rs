//! The `tet` command, which shows, checks, repairs and converts files. It is part of the `tet-sql`
//! executable.
//!
//! Results go to standard output, everything else to standard error.
//!
//! | exit status | meaning |
//! | --- | --- |
//! | 0 | success |
//! | 1 | the file is damaged or cannot be read |
//! | 2 | wrong usage |
//! | 129, 130, 143 | SIGHUP, Ctrl-C or SIGTERM while writing a file |

mod arguments;
mod cancel;
#[cfg(feature = "tatami")]
mod collection;
mod convert;
#[cfg(feature = "tatami")]
mod documents;
mod info;
mod lines;
mod listing;
mod other;
mod repair;
#[cfg(feature = "tiledb")]
mod tiledb;
mod verify;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use tet_sql::format::remove_unfinished;

use self::arguments::Arguments;
pub use self::arguments::Command;

/// The reason why the command ended early.
enum Failure {
    /// An error to report on standard error.
    Message(String),
    /// The reader of standard output closed it.
    BrokenPipe,
}

impl From<tet_sql::Error> for Failure {
    fn from(error: tet_sql::Error) -> Self {
        Self::Message(error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::Message(format!("standard output: {error}")),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::from(io::Error::from(error))
    }
}

/// Runs `tet`. The first item of `line` is the name of the program.
pub fn main(line: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments = Arguments::parse_from(line);
    let mut output = io::BufWriter::new(io::stdout().lock());
    let result = match arguments.command {
        Command::Info(arguments) => info::run(&arguments, &mut output),
        Command::Verify(arguments) => verify::run(&arguments, &mut output),
        Command::Repair(arguments) => repair::run(&arguments, &mut output),
        Command::Index(arguments) => repair::run_index(&arguments, &mut output),
        Command::Convert(arguments) => convert::run(&arguments, &mut output),
        Command::Completions { shell } => {
            // `generate` panics if it cannot write, so write to memory first.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "tet", &mut script);
            let written = output.write_all(&script);
            written.map(|()| true).map_err(Failure::from)
        }
        Command::Man => man(&mut output).map(|()| true).map_err(Failure::from),
    };
    if result.is_err() {
        // A write that failed may have created its temporary directory again while it stopped.
        remove_unfinished();
    }
    if let (Err(Failure::Message(_)), Some(status)) = (&result, cancel::status()) {
        // The user asked for the cancellation, so it is not reported as an error.
        let _ = writeln!(io::stderr(), "cancelled");
        return ExitCode::from(status);
    }
    let result = result.and_then(|is_sound| {
        output.flush()?;
        Ok(is_sound)
    });
    match result {
        Ok(true) | Err(Failure::BrokenPipe) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(Failure::Message(message)) => {
            // There is no way to report a failure of standard error.
            let _ = writeln!(io::stderr(), "error: {}", lines::clean(&message));
            ExitCode::from(1)
        }
    }
}

/// Writes the manual page, followed by those of the subcommands.
fn man(output: &mut dyn Write) -> io::Result<()> {
    let command = Arguments::command();
    // `render` can panic if it cannot write, so write to memory first.
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for one in command.get_subcommands() {
        let title = format!("tet-{}", one.get_name());
        clap_mangen::Man::new(one.clone())
            .title(title)
            .render(&mut page)?;
    }
    output.write_all(&page)
}
