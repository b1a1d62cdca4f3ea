//! Ends that others ask for: Ctrl-C, SIGTERM, and a terminal that is closed.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

#[cfg(unix)]
use tet_sql::format::ignores_hang_ups;
use tet_sql::format::remove_unfinished;
use tokio::runtime::Builder;

/// How long work that was told to stop may take to.
const PATIENCE: Duration = Duration::from_secs(2);

/// Looks after signals from when it is made: what begins behind that is ended tidily.
struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    /// Unless they are ignored.
    #[cfg(unix)]
    hang_up: Option<tokio::signal::unix::Signal>,
    #[cfg(windows)]
    interrupt: tokio::signal::windows::CtrlC,
}

impl Signals {
    /// In a runtime.
    fn new() -> io::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let hang_up = (!ignores_hang_ups()).then(|| signal(SignalKind::hangup()));
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

    /// Waits for the first signal, and gives the exit status that tells of it.
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

/// The exit status that a signal asked for; zero as long as there was none.
static STATUS: AtomicU8 = AtomicU8::new(0);

/// The exit status that a signal asked for, if there was one.
pub fn status() -> Option<u8> {
    Some(STATUS.load(Ordering::Relaxed)).filter(|status| *status != 0)
}

/// From now on, a signal ends the process, and what it has under construction is taken away. Work that can end by itself
/// is told to by `stop` before, which says whether there is any.
pub fn end_tidily(stop: impl FnOnce() -> bool + Send + 'static) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let signals = runtime.block_on(async { Signals::new() })?;
    std::thread::spawn(move || {
        let status = runtime.block_on(signals.wait());
        STATUS.store(status, Ordering::Relaxed);
        if stop() {
            // The end of the work is that of the process, unless it takes too long.
            std::thread::sleep(PATIENCE);
        }
        remove_unfinished();
        // Nobody is left to tell if this fails.
        let _ = writeln!(io::stderr(), "cancelled");
        std::process::exit(status.into());
    });
    Ok(())
}
