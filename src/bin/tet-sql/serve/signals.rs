//! What ends the server.

use std::io;

#[cfg(unix)]
use crate::session::shutdown::HangUps;

/// Who asked the server to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Ctrl-C.
    Interrupted,
    /// SIGTERM.
    #[cfg(unix)]
    Terminated,
    /// SIGHUP, of a terminal that was closed.
    #[cfg(unix)]
    HungUp,
}

/// Every Ctrl-C, SIGTERM and SIGHUP from now on, but for a SIGHUP that is ignored.
#[cfg(unix)]
pub struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: HangUps,
}

#[cfg(unix)]
impl Signals {
    /// Begins to listen.
    pub fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: HangUps::listen()?,
        })
    }

    /// The next one.
    pub async fn next(&mut self) -> Ending {
        tokio::select! {
            _ = self.interrupt.recv() => Ending::Interrupted,
            _ = self.terminate.recv() => Ending::Terminated,
            () = self.hang_up.next() => Ending::HungUp,
        }
    }
}

/// Every Ctrl-C from now on.
#[cfg(windows)]
pub struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    /// Begins to listen.
    pub fn listen() -> io::Result<Self> {
        Ok(Self(tokio::signal::windows::ctrl_c()?))
    }

    /// The next one.
    pub async fn next(&mut self) -> Ending {
        self.0.recv().await;
        Ending::Interrupted
    }
}
