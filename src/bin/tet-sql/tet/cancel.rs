//! Handles Ctrl-C, SIGTERM and SIGHUP.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use crate::signals::Signals;
use tet_sql::format::remove_unfinished;
use tokio::runtime::Builder;

/// The time that cancelled work gets to stop.
const PATIENCE: Duration = Duration::from_secs(2);

/// The exit status of the signal received, or 0.
static STATUS: AtomicU8 = AtomicU8::new(0);

/// Returns the exit status of the signal received, if any.
pub fn status() -> Option<u8> {
    Some(STATUS.load(Ordering::Relaxed)).filter(|status| *status != 0)
}

/// From now on, a signal ends the process and deletes its unfinished files.
///
/// On a signal, `stop` is called first. It returns `true` if work was told to stop, which then gets
/// time to end the process itself.
pub fn end_tidily(stop: impl FnOnce() -> bool + Send + 'static) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut signals = runtime.block_on(async { Signals::all() })?;
    std::thread::spawn(move || {
        let status = runtime.block_on(signals.next()).status();
        STATUS.store(status, Ordering::Relaxed);
        if stop() {
            // The process normally ends with the work. This thread ends it if the work takes too
            // long.
            std::thread::sleep(PATIENCE);
        }
        remove_unfinished();
        // There is no way to report a failure of standard error.
        let _ = writeln!(io::stderr(), "cancelled");
        std::process::exit(status.into());
    });
    Ok(())
}
