//! Writes the bytes of one result to its destination.

use crate::failure::Failure;
use crate::output::pager::Pager;
use crate::output::text_file::{Pending, TextFile};
use crate::session::worker_threads::Cancellation;
use std::io::{BufWriter, Stdout, Write};

const BUFFER_BYTES: usize = 64 << 10;

/// A buffered writer for one result. It remembers why writing failed, because format writers keep
/// only the text of an error.
pub struct Sink<'a>(BufWriter<Guard<'a>>);

impl<'a> Sink<'a> {
    /// Creates a writer of one result, which fails once the statement is cancelled.
    pub fn new(destination: Destination<'a>, cancellation: Cancellation) -> Self {
        let guard = Guard {
            destination,
            cancellation,
            failure: None,
        };
        Self(BufWriter::with_capacity(BUFFER_BYTES, guard))
    }

    /// Writes the buffered bytes.
    pub fn finish(&mut self) -> Result<(), Failure> {
        let result = self.0.flush();
        match self.failure() {
            Some(failure) => Err(failure),
            None => Ok(result?),
        }
    }

    /// Completes the result. A file is written even if the result is empty. Waits until the user
    /// quits the pager, if there is one.
    pub fn end(&mut self) -> Result<(), Failure> {
        let guard = self.0.get_mut();
        if guard.cancellation.is_cancelled() {
            return Ok(());
        }
        match &mut guard.destination {
            Destination::File(file, pending) => {
                let pending = match pending.take() {
                    Some(pending) => pending,
                    None => file.begin()?,
                };
                file.end(pending)?;
            }
            Destination::Pager(pager) => pager.end()?,
            Destination::Standard(_) => {}
        }
        Ok(())
    }

    /// Returns the reason why writing failed, if it failed.
    pub fn failure(&mut self) -> Option<Failure> {
        self.0.get_mut().failure.take()
    }
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    /// Does nothing, because format writers flush after each batch, which would cause many small
    /// writes. [`Sink::finish`] writes the buffered bytes.
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct Guard<'a> {
    destination: Destination<'a>,
    cancellation: Cancellation,
    failure: Option<Failure>,
}

/// The destination of the bytes of one result.
pub enum Destination<'a> {
    /// Standard output.
    Standard(Stdout),
    /// A pager, if the result is tall.
    Pager(Pager),
    /// A text file, and the result that is being added to it.
    File(&'a TextFile, Option<Pending>),
}

impl Guard<'_> {
    fn remember<T>(&mut self, result: std::io::Result<T>) -> std::io::Result<T> {
        if let Err(error) = &result
            && error.kind() != std::io::ErrorKind::Interrupted
        {
            self.failure = Some(match (error.kind(), &self.destination) {
                // The user quit the pager, which ends this result but not the session.
                (std::io::ErrorKind::BrokenPipe, Destination::Pager(_)) => Failure::Enough,
                (std::io::ErrorKind::BrokenPipe, _) => Failure::BrokenPipe,
                _ => Failure::message(format!("cannot write the result: {error}")),
            });
        }
        result
    }
}

impl Write for Guard<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.cancellation.is_cancelled() {
            return Err(std::io::Error::other("cancelled"));
        }
        let result = match &mut self.destination {
            Destination::Standard(stdout) => stdout.write(bytes),
            Destination::Pager(pager) => pager.write(bytes),
            Destination::File(file, pending) => match pending {
                Some(pending) => pending.write(bytes),
                None => file
                    .begin()
                    .and_then(|begun| pending.insert(begun).write(bytes)),
            },
        };
        self.remember(result)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let result = match &mut self.destination {
            Destination::Standard(stdout) => stdout.flush(),
            Destination::Pager(pager) => pager.flush(),
            // Files are not buffered.
            Destination::File(..) => Ok(()),
        };
        self.remember(result)
    }
}

impl Drop for Guard<'_> {
    /// Discards a result that was not completed.
    fn drop(&mut self) {
        if let Destination::File(file, pending) = &mut self.destination
            && let Some(pending) = pending.take()
        {
            file.discard_result(pending);
        }
    }
}
