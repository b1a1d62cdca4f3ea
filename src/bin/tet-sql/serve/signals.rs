//! The signals that stop the server.

use std::io;

#[cfg(unix)]
use crate::session::shutdown::HangUps;

/// The signal that stopped the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// Ctrl-C.
    Interrupted,
    /// SIGTERM.
    #[cfg(unix)]
    Terminated,
    /// SIGHUP, sent when the terminal is closed.
    #[cfg(unix)]
    HungUp,
}

/// Listens for Ctrl-C, SIGTERM and SIGHUP, unless SIGHUP is ignored.
#[cfg(unix)]
pub struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: HangUps,
}

#[cfg(unix)]
impl Signals {
    /// Starts to listen.
    pub fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: HangUps::listen()?,
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> StopSignal {
        tokio::select! {
            _ = self.interrupt.recv() => StopSignal::Interrupted,
            _ = self.terminate.recv() => StopSignal::Terminated,
            () = self.hang_up.next() => StopSignal::HungUp,
        }
    }
}

/// Listens for Ctrl-C.
#[cfg(windows)]
pub struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    /// Starts to listen.
    pub fn listen() -> io::Result<Self> {
        Ok(Self(tokio::signal::windows::ctrl_c()?))
    }

    /// Waits for the next Ctrl-C.
    pub async fn next(&mut self) -> StopSignal {
        self.0.recv().await;
        StopSignal::Interrupted
    }
}
