//! Where results go, and how.

use crate::engine::Cancellation;
use crate::failure::Failure;
use clap::ValueEnum;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, IsTerminal, Read, Stdout, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The rows of a table that a terminal shows unless told otherwise.
const TERMINAL_ROWS: usize = 40;
const BUFFER_BYTES: usize = 64 << 10;

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Lines and columns for reading
    Table,
    /// Comma-separated values
    Csv,
    /// Tab-separated values
    Tsv,
    /// One array of objects
    Json,
    /// One object a line
    Ndjson,
    /// A table for documents
    Markdown,
}

impl Format {
    /// The name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Json => "json",
            Self::Ndjson => "ndjson",
            Self::Markdown => "markdown",
        }
    }
}

/// Where results go, and how.
///
/// A statement works with a copy: after Ctrl-C it may be on its way to an end while the next one runs.
#[derive(Clone)]
pub struct Output {
    /// How results are written.
    pub format: Format,
    rows: RowLimit,
    file: Option<Arc<OutputFile>>,
    inputs: Vec<PathBuf>,
}

/// A file that results are written to.
struct OutputFile {
    file: File,
    /// What the file held before is kept until there is a result.
    is_started: AtomicBool,
}

/// An output that meta-commands change.
pub type SharedOutput = Arc<Mutex<Output>>;

/// The output as it is now.
pub fn current(output: &SharedOutput) -> Output {
    // Nothing that could fail is done under this lock.
    output
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

/// Changes the output for the statements that follow.
pub fn change(output: &SharedOutput, changed: Output) {
    *output.lock().unwrap_or_else(PoisonError::into_inner) = changed;
}

/// How many rows of a table are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowLimit {
    /// Enough for a terminal, all for anything else.
    Automatic,
    /// As many as asked for; none: all.
    Chosen(Option<usize>),
}

impl Output {
    /// Writes to a file or to standard output. The inputs are never overwritten.
    pub fn open(format: Format, file: Option<&Path>, inputs: &[PathBuf]) -> Result<Self, Failure> {
        let mut output = Self {
            format,
            rows: RowLimit::Automatic,
            file: None,
            inputs: inputs.to_vec(),
        };
        output.redirect(file)?;
        Ok(output)
    }

    /// Continues in another file, or on standard output.
    pub fn redirect(&mut self, file: Option<&Path>) -> Result<(), Failure> {
        self.file = match file {
            None => None,
            Some(path) => {
                let named = |text: String| Failure::message(format!("{}: {text}", path.display()));
                // Truncating a mapped file would end the process, and no result is meant to replace an array file,
                // whether it is open under this name, another one, or not at all.
                if self.is_input(path) || is_array_file(path) {
                    return Err(named(
                        "is an array file, which is not overwritten".to_owned(),
                    ));
                }
                let file = OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .open(path)
                    .map_err(|error| named(error.to_string()))?;
                Some(Arc::new(OutputFile {
                    file,
                    is_started: AtomicBool::new(false),
                }))
            }
        };
        Ok(())
    }

    fn is_input(&self, path: &Path) -> bool {
        let Ok(path) = path.canonicalize() else {
            return false;
        };
        let mut inputs = self.inputs.iter();
        inputs.any(|input| input.canonicalize().is_ok_and(|input| input == path))
    }

    /// Shows at most so many rows of a table; zero: all.
    pub fn set_row_limit(&mut self, rows: usize) {
        self.rows = RowLimit::Chosen((rows > 0).then_some(rows));
    }

    /// The rows to show of a result; none: all. Only tables are cut: the other formats are for programs.
    pub fn row_limit(&self) -> Option<usize> {
        match self.rows {
            _ if self.format != Format::Table => None,
            RowLimit::Chosen(rows) => rows,
            RowLimit::Automatic => {
                let terminal = self.file.is_none() && std::io::stdout().is_terminal();
                terminal.then_some(TERMINAL_ROWS)
            }
        }
    }

    /// A buffered writer for one statement's result.
    pub fn sink(&self, cancellation: Cancellation) -> Sink<'_> {
        let destination = match &self.file {
            Some(output) => Destination::File(output),
            None => Destination::Standard(std::io::stdout()),
        };
        Sink(BufWriter::with_capacity(
            BUFFER_BYTES,
            Guard {
                destination,
                cancellation,
                failure: None,
            },
        ))
    }
}

fn is_array_file(path: &Path) -> bool {
    let mut magic = [0; 4];
    path.is_file()
        && File::open(path)
            .and_then(|mut file| file.read_exact(&mut magic))
            .is_ok()
        && magic == *b"TETR"
}

/// A buffered writer that remembers why it failed: the writers of formats keep only the text of an error.
pub struct Sink<'a>(BufWriter<Guard<'a>>);

impl Sink<'_> {
    /// Writes what is buffered.
    pub fn finish(&mut self) -> Result<(), Failure> {
        let result = self.0.flush();
        match self.failure() {
            Some(failure) => Err(failure),
            None => Ok(result?),
        }
    }

    /// Begins a file even if there is nothing to write: an empty result is a result, too.
    pub fn start(&mut self) -> Result<(), Failure> {
        let guard = self.0.get_mut();
        if !guard.cancellation.is_cancelled()
            && let Destination::File(output) = &guard.destination
        {
            output.start()?;
        }
        Ok(())
    }

    /// Why writing failed, if it did.
    pub fn failure(&mut self) -> Option<Failure> {
        self.0.get_mut().failure.take()
    }
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    /// Formats flush after each batch, which would write small pieces; `finish` writes the last one.
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct Guard<'a> {
    destination: Destination<'a>,
    cancellation: Cancellation,
    failure: Option<Failure>,
}

enum Destination<'a> {
    Standard(Stdout),
    File(&'a OutputFile),
}

impl OutputFile {
    /// Gives up what the file held before. Devices and pipes have no length.
    fn start(&self) -> std::io::Result<()> {
        if !self.is_started.load(Ordering::Relaxed) {
            if self.file.metadata()?.is_file() {
                self.file.set_len(0)?;
            }
            self.is_started.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Guard<'_> {
    fn remember<T>(&mut self, result: std::io::Result<T>) -> std::io::Result<T> {
        if let Err(error) = &result
            && error.kind() != std::io::ErrorKind::Interrupted
        {
            self.failure = Some(match error.kind() {
                std::io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
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
            Destination::File(output) => output.start().and_then(|()| (&output.file).write(bytes)),
        };
        self.remember(result)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let result = match &mut self.destination {
            Destination::Standard(stdout) => stdout.flush(),
            Destination::File(output) => (&output.file).flush(),
        };
        self.remember(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("a.tet");
        std::fs::write(&input, "precious").unwrap();
        let again = folder.path().join(".").join("a.tet");
        let result = Output::open(Format::Csv, Some(&again), std::slice::from_ref(&input));
        assert!(result.is_err());
        assert_eq!(std::fs::read(&input).unwrap(), b"precious");
    }

    #[test]
    fn only_tables_are_cut() {
        let mut output = Output::open(Format::Table, None, &[]).unwrap();
        output.set_row_limit(3);
        assert_eq!(output.row_limit(), Some(3));
        output.format = Format::Csv;
        assert_eq!(output.row_limit(), None);
        output.format = Format::Table;
        output.set_row_limit(0);
        assert_eq!(output.row_limit(), None);
    }

    #[test]
    fn a_cancelled_statement_writes_nothing_more() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let output = Output::open(Format::Table, Some(file.path()), &[]).unwrap();
        let cancellation = Cancellation::default();
        let mut sink = output.sink(cancellation.clone());
        sink.write_all(b"text").unwrap();
        sink.finish().unwrap();
        cancellation.cancel();
        sink.write_all(b"more").unwrap();
        assert!(sink.finish().is_err());
        drop(sink);
        assert_eq!(std::fs::read(file.path()).unwrap(), b"text");
    }

    #[test]
    fn formats_are_called_as_on_the_command_line() {
        for format in Format::value_variants() {
            let value = format.to_possible_value().unwrap();
            assert_eq!(value.get_name(), format.name());
        }
    }
}
