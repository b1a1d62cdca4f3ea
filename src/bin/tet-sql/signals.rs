//! Ctrl-C, SIGTERM and SIGHUP.

use std::io;
#[cfg(unix)]
use tet_sql::format::ignores_sighup;
#[cfg(unix)]
use tokio::signal::unix::{SignalKind, signal};

/// A signal that stops a statement or the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    #[cfg(unix)]
    Terminate,
    /// SIGHUP, sent when the terminal is closed.
    #[cfg(unix)]
    HangUp,
}

impl Signal {
    /// Returns the exit status of a process that the signal ends.
    pub fn status(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            #[cfg(unix)]
            Self::Terminate => 143,
            #[cfg(unix)]
            Self::HangUp => 129,
        }
    }
}

/// A stream of Ctrl-C.
#[cfg(unix)]
pub type Interrupts = tokio::signal::unix::Signal;
/// A stream of Ctrl-C.
#[cfg(windows)]
pub type Interrupts = tokio::signal::windows::CtrlC;

/// Starts to listen for Ctrl-C. Must be called in a Tokio runtime.
pub fn interrupts() -> io::Result<Interrupts> {
    #[cfg(unix)]
    return signal(SignalKind::interrupt());
    #[cfg(windows)]
    return tokio::signal::windows::ctrl_c();
}

/// A stream of signals. SIGHUP is left out if the process ignores it, as under `nohup`.
pub struct Signals {
    interrupt: Option<Interrupts>,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hang_up: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    /// Starts to listen for SIGTERM and SIGHUP. Must be called in a Tokio runtime.
    pub fn of_shutdown() -> io::Result<Self> {
        Ok(Self {
            interrupt: None,
            #[cfg(unix)]
            terminate: signal(SignalKind::terminate())?,
            #[cfg(unix)]
            hang_up: (!ignores_sighup())
                .then(|| signal(SignalKind::hangup()))
                .transpose()?,
        })
    }

    /// Starts to listen for Ctrl-C, SIGTERM and SIGHUP. Must be called in a Tokio runtime.
    pub fn all() -> io::Result<Self> {
        Ok(Self {
            interrupt: Some(interrupts()?),
            ..Self::of_shutdown()?
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> Signal {
        let interrupt = async {
            match &mut self.interrupt {
                Some(interrupts) => interrupts.recv().await,
                None => std::future::pending().await,
            }
        };
        #[cfg(unix)]
        {
            let hang_up = async {
                match &mut self.hang_up {
                    Some(signals) => signals.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = interrupt => Signal::Interrupt,
                _ = self.terminate.recv() => Signal::Terminate,
                _ = hang_up => Signal::HangUp,
            }
        }
        #[cfg(windows)]
        {
            interrupt.await;
            Signal::Interrupt
        }
    }
}
