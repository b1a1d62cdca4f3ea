//! Shutdown on SIGTERM and SIGHUP. Ctrl-C cancels only the running statement.

use crate::failure::Failure;
use crate::messages;
use crate::session::leftovers;
#[cfg(unix)]
use crate::signals::{Signal, Signals};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;
use tet_sql::format::remove_unfinished;

/// The temporary directories of the process. Once shutdown begins, the lock is never released, so
/// that no further directories are created.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// The number of attempts to remove a directory in which statements may still be creating files.
const ATTEMPTS: usize = 10;

/// Creates a temporary directory that is removed when it is dropped or when the process is told to
/// end. Also removes the directories of processes that were killed.
pub fn temporary_directory() -> std::io::Result<TempDir> {
    let folder = make(leftovers::PREFIX, |builder| builder.tempdir())?;
    leftovers::mark(folder.path());
    let of_us = folder.path().to_owned();
    // Removing gigabytes may take long, so a thread does it. If this process ends first, the next
    // one continues.
    std::thread::spawn(move || leftovers::remove_beside(&of_us));
    Ok(folder)
}

/// Creates a temporary directory beside a file, for content that is to become this file.
pub fn temporary_directory_beside(path: &Path) -> std::io::Result<TempDir> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    make(".tet-sql-", |builder| builder.tempdir_in(parent))
}

fn make(
    prefix: &str,
    make: impl FnOnce(&tempfile::Builder<'_, '_>) -> std::io::Result<TempDir>,
) -> std::io::Result<TempDir> {
    // The lock ensures that shutdown knows every directory that exists.
    let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = make(tempfile::Builder::new().prefix(prefix))?;
    // The current directory may change.
    folders.push(std::path::absolute(folder.path())?);
    Ok(folder)
}

/// Makes SIGTERM and SIGHUP end the process cleanly, whether it runs a statement that cannot be
/// stopped or waits at the prompt. SIGHUP stays ignored if it was ignored before, as under `nohup`.
#[cfg(unix)]
pub fn end_tidily() -> Result<(), Failure> {
    // The terminal settings before the prompt changes them to read single keys.
    let terminal = rustix::termios::tcgetattr(std::io::stdin()).ok();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut signals = runtime.block_on(async { Signals::of_shutdown() })?;
    std::thread::spawn(move || {
        let signal = runtime.block_on(signals.next());
        remove_unfinished();
        remove_temporary_directories();
        if let Some(terminal) = &terminal {
            restore(terminal);
        }
        if signal == Signal::Terminate {
            messages::note("terminated");
        }
        std::process::exit(signal.status().into());
    });
    Ok(())
}

/// Restores the settings of a terminal.
#[cfg(unix)]
fn restore(terminal: &rustix::termios::Termios) {
    use rustix::termios::{OptionalActions, tcsetattr};
    use std::io::{IsTerminal, Write};
    let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, terminal);
    let mut output = std::io::stdout();
    if output.is_terminal() {
        // Turn off bracketed paste.
        let _ = output.write_all(b"\x1b[?2004l\r\n");
        let _ = output.flush();
    }
}

#[cfg(not(unix))]
pub fn end_tidily() -> Result<(), Failure> {
    Ok(())
}

/// Removes the temporary directories that abandoned statements may have left. Call this only right
/// before the process ends, because no temporary directory can be created afterwards.
pub fn remove_temporary_directories() {
    let folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    for folder in folders.iter() {
        let mut attempts = 0..ATTEMPTS;
        while folder.exists() && attempts.next().is_some() {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
    std::mem::forget(folders);
}
