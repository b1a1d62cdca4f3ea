//! The `tet` command, which runs `tet-sql tet` with the same arguments. `tet-sql` is taken from the
//! directory of this executable.
//!
//! Both commands need all of DataFusion, so only one of the two executables contains it.

#![deny(missing_docs)]

use std::env::{args_os, consts::EXE_SUFFIX, current_exe};
use std::io;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    match run() {
        Ok(status) => status,
        Err(error) => {
            eprintln!("error: tet runs the command tet-sql of its own directory: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Replaces this process by `tet-sql`. Returns only if that fails.
#[cfg(unix)]
fn run() -> io::Result<ExitCode> {
    use std::os::unix::process::CommandExt;

    let (path, mut command) = tet_sql()?;
    let error = command.exec();
    Err(io::Error::new(error.kind(), format!("{path}: {error}")))
}

/// Runs `tet-sql` and returns its exit status.
#[cfg(not(unix))]
fn run() -> io::Result<ExitCode> {
    let (path, mut command) = tet_sql()?;
    let status = command
        .status()
        .map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))?;
    let status = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(status.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Returns the path and the command line of `tet-sql tet`.
fn tet_sql() -> io::Result<(String, Command)> {
    let path = current_exe()?.with_file_name(format!("tet-sql{EXE_SUFFIX}"));
    let mut command = Command::new(&path);
    command.arg("tet").args(args_os().skip(1));
    Ok((path.display().to_string(), command))
}
