//! An end that others ask for: SIGTERM and SIGHUP, which are not of a statement, as Ctrl-C is, but of the process.

use crate::failure::Failure;
use crate::messages;
use crate::session::leftovers;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;
#[cfg(unix)]
use tet_sql::format::ignores_hang_ups;
use tet_sql::format::remove_unfinished;

/// Temporary folders of the process. Locked for ever once it is about to end.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// How often a folder is removed in which statements may still be making files.
const ATTEMPTS: usize = 10;

/// Makes a temporary folder that is removed when it is dropped, or the process is told to end. What was left there by processes that
/// were killed is removed, too.
pub fn temporary_folder() -> std::io::Result<TempDir> {
    let folder = make(leftovers::PREFIX, |builder| builder.tempdir())?;
    leftovers::mark(folder.path());
    let of_us = folder.path().to_owned();
    // It may take long to remove gigabytes. What is not removed before the process ends is left to the next one.
    std::thread::spawn(move || leftovers::remove_beside(&of_us));
    Ok(folder)
}

/// The same beside a file, for what is to become that file.
pub fn temporary_folder_beside(path: &Path) -> std::io::Result<TempDir> {
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
    // Never there without being known.
    let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = make(tempfile::Builder::new().prefix(prefix))?;
    // Where the process is may change.
    folders.push(std::path::absolute(folder.path())?);
    Ok(folder)
}

/// From now on, SIGTERM and SIGHUP end the process tidily, whatever it is at: statements that cannot be stopped, or the prompt. But
/// not SIGHUP, if it was ignored before.
#[cfg(unix)]
pub fn end_tidily() -> Result<(), Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    // As it is before the prompt sees to its keys itself.
    let terminal = rustix::termios::tcgetattr(std::io::stdin()).ok();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (mut terminate, mut hang_up) = runtime.block_on(async {
        let terminate = signal(SignalKind::terminate())?;
        std::io::Result::Ok((terminate, HangUps::listen()?))
    })?;
    std::thread::spawn(move || {
        // The window may be closed, too.
        let status = runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => 143,
                () = hang_up.next() => 129,
            }
        });
        remove_unfinished();
        remove_folders();
        if let Some(terminal) = &terminal {
            restore(terminal);
        }
        if status == 143 {
            messages::note("terminated");
        }
        std::process::exit(status);
    });
    Ok(())
}

/// Every SIGHUP from now on, unless it is ignored.
#[cfg(unix)]
pub struct HangUps(Option<tokio::signal::unix::Signal>);

#[cfg(unix)]
impl HangUps {
    /// Begins to listen.
    pub fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let signals = (!ignores_hang_ups()).then(|| signal(SignalKind::hangup()));
        signals.transpose().map(Self)
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        match &mut self.0 {
            Some(signals) => {
                signals.recv().await;
            }
            None => std::future::pending().await,
        }
    }
}

/// Leaves a terminal as it was.
#[cfg(unix)]
fn restore(terminal: &rustix::termios::Termios) {
    use rustix::termios::{OptionalActions, tcsetattr};
    use std::io::{IsTerminal, Write};
    let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, terminal);
    let mut output = std::io::stdout();
    if output.is_terminal() {
        // Without marks around what is pasted.
        let _ = output.write_all(b"\x1b[?2004l\r\n");
        let _ = output.flush();
    }
}

#[cfg(not(unix))]
pub fn end_tidily() -> Result<(), Failure> {
    Ok(())
}

/// Takes away what statements that were given up may have left, for a process that ends next.
pub fn remove_folders() {
    let folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    for folder in folders.iter() {
        let mut attempts = 0..ATTEMPTS;
        while folder.exists() && attempts.next().is_some() {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
    std::mem::forget(folders);
}
