//! Handles Ctrl-C, SIGTERM and SIGHUP.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

#[cfg(unix)]
use tet_sql::format::ignores_sighup;
use tet_sql::format::remove_unfinished;
use tokio::runtime::Builder;

/// The time that cancelled work gets to stop.
const PATIENCE: Duration = Duration::from_secs(2);

/// Listens for signals from its creation on, so that work started afterwards is cleaned up.
struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    /// `None` if SIGHUP is ignored.
    #[cfg(unix)]
    hang_up: Option<tokio::signal::unix::Signal>,
    #[cfg(windows)]
    interrupt: tokio::signal::windows::CtrlC,
}

impl Signals {
    /// Starts to listen. Must be called in a Tokio runtime.
    fn new() -> io::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let hang_up = (!ignores_sighup()).then(|| signal(SignalKind::hangup()));
            Ok(Self {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
                hang_up: hang_up.transpose()?,
            })
        }
        #[cfg(windows)]
        Ok(Self {
            interrupt: tokio::signal::windows::ctrl_c()?,
        })
    }

    /// Waits for the first signal, and returns its exit status.
    async fn wait(mut self) -> u8 {
        #[cfg(unix)]
        {
            let hang_up = async {
                match &mut self.hang_up {
                    Some(signals) => signals.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.interrupt.recv() => 130,
                _ = self.terminate.recv() => 143,
                _ = hang_up => 129,
            }
        }
        #[cfg(windows)]
        {
            self.interrupt.recv().await;
            130
        }
    }
}

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
    let signals = runtime.block_on(async { Signals::new() })?;
    std::thread::spawn(move || {
        let status = runtime.block_on(signals.wait());
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
