//! Where results go.

pub mod appearance;
pub mod export;
pub mod formats;
pub mod head_and_tail;
pub mod pager;
pub mod picture;
pub mod progress;
pub mod text_file;

use crate::failure::Failure;
use crate::output::appearance::{Appearance, Format};
use crate::output::formats::Style;
use crate::output::pager::Pager;
use crate::output::text_file::{Pending, TextFile};
use crate::session::worker_threads::Cancellation;
use crate::terminal;
use std::io::{BufWriter, Stdout, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tet_sql::provider::adapters::arrays::is_array_file;

const BUFFER_BYTES: usize = 64 << 10;

/// The endings of files that hold one result, and what it becomes there.
const SINGLE: [(&str, Content); 7] = [
    ("parquet", Content::Rows("PARQUET")),
    ("arrow", Content::Rows("ARROW")),
    ("feather", Content::Rows("ARROW")),
    ("tet", Content::Rows("TET")),
    ("zarr", Content::Rows("ZARR")),
    ("png", Content::Picture),
    ("svg", Content::Picture),
];
/// The endings of files that hold the table of characters that a pipe gets; a name without an ending is one, too.
const PLAIN: [&str; 4] = ["txt", "text", "log", "out"];

/// Where results go, and how they look.
///
/// A statement works with a copy: after Ctrl-C it may be on its way to an end while the next one runs.
#[derive(Clone)]
pub struct Output {
    /// How results look.
    pub appearance: Appearance,
    place: Place,
    /// Where the next result goes, if only that.
    once: Option<Place>,
    inputs: Vec<PathBuf>,
    /// Whether a pager may write no files and run no commands.
    read_only: bool,
}

/// A place for results.
#[derive(Clone)]
struct Place {
    target: Target,
    /// The format that a file's ending asks for.
    format: Option<Format>,
}

impl Place {
    const STANDARD: Self = Self {
        target: Target::Standard,
        format: None,
    };
}

/// What results are written to.
#[derive(Clone)]
pub enum Target {
    /// Standard output.
    Standard,
    /// A file of text.
    Text(Arc<TextFile>),
    /// A file that holds one result.
    Single(Arc<SingleTarget>),
}

/// What a result becomes in a file that holds one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// The rows, in the format that COPY calls so.
    Rows(&'static str),
    /// A picture of the rows.
    Picture,
}

/// A file that holds one result.
pub struct SingleTarget {
    /// The file.
    pub path: PathBuf,
    /// What it holds.
    pub content: Content,
    is_used: AtomicBool,
}

impl SingleTarget {
    /// Notes that a result is there.
    pub fn take(&self) {
        self.is_used.store(true, Ordering::Relaxed);
    }

    /// Whether it is free: a second result would take the place of the first.
    pub fn check(&self) -> Result<(), Failure> {
        if self.is_used.load(Ordering::Relaxed) {
            let path = self.path.display();
            return Err(Failure::message(format!(
                "{path} has a result already, and holds one only: .output FILE chooses another"
            )));
        }
        Ok(())
    }
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

/// The output for a text, for which files of one result have no place: they wait for rows.
pub fn for_text(output: &SharedOutput) -> Output {
    let is_single = |place: &Place| matches!(place.target, Target::Single(_));
    let mut chosen = current(output);
    if !chosen.once.as_ref().is_some_and(is_single) {
        chosen = for_result(output);
    }
    if is_single(&chosen.place) {
        chosen.place = Place::STANDARD;
    }
    chosen
}

/// The output for a statement with a result: that of `.once` is used up by it.
pub fn for_result(output: &SharedOutput) -> Output {
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    let mut current = output.clone();
    if let Some(once) = output.once.take() {
        current.place = once;
    }
    current
}

impl Output {
    /// Writes to standard output, for now. The inputs are never overwritten.
    pub fn new(inputs: Vec<PathBuf>, read_only: bool) -> Self {
        let mut output = Self {
            appearance: Appearance::default(),
            place: Place::STANDARD,
            once: None,
            inputs: Vec::new(),
            read_only,
        };
        inputs.into_iter().for_each(|input| output.add_input(input));
        output
    }

    /// Continues in another file, or on standard output.
    pub fn redirect(&mut self, file: Option<&Path>) -> Result<(), Failure> {
        self.once = None;
        self.place = match file {
            // As everywhere, and as SQLite calls it.
            Some(path) if path == Path::new("-") || path == Path::new("stdout") => Place::STANDARD,
            None => Place::STANDARD,
            Some(path) => self.place_of(path)?,
        };
        Ok(())
    }

    /// Writes the next result to a file, and only that.
    pub fn redirect_once(&mut self, file: &Path) -> Result<(), Failure> {
        self.once = Some(self.place_of(file)?);
        Ok(())
    }

    /// Chooses the format of the results that follow.
    pub fn set_format(&mut self, format: Format) {
        self.appearance.format = Some(format);
        self.place.format = None;
    }

    fn place_of(&self, path: &Path) -> Result<Place, Failure> {
        let named = |text: String| Failure::message(format!("{}: {text}", path.display()));
        if path.to_string_lossy().starts_with('|') {
            return Err(named("results go to files, not to commands".to_owned()));
        }
        let ending = path.extension().unwrap_or_default().to_string_lossy();
        let single = SINGLE
            .iter()
            .find(|(single, _)| ending.eq_ignore_ascii_case(single));
        // Truncating a mapped file would end the process, and no result is meant to replace an array file, whether it is
        // open under this name, another one, or not at all.
        if is_array_file(path) {
            return Err(named(
                "is an array file, which is not overwritten".to_owned(),
            ));
        }
        if self.is_input(path) {
            return Err(named(
                "is open as an input, which is not overwritten".to_owned(),
            ));
        }
        if let Some((_, content)) = single {
            let target = SingleTarget {
                path: path.to_owned(),
                content: *content,
                is_used: AtomicBool::new(false),
            };
            return Ok(Place {
                target: Target::Single(Arc::new(target)),
                format: None,
            });
        }
        let format = Format::of_ending(&ending);
        let is_plain =
            ending.is_empty() || PLAIN.iter().any(|one| ending.eq_ignore_ascii_case(one));
        // Devices and pipes have names of their own.
        let is_file = !path.exists() || path.is_file();
        if format.is_none() && !is_plain && self.appearance.format.is_none() && is_file {
            return Err(named(unknown_ending(&ending)));
        }
        let absolute = std::path::absolute(path).map_err(|error| named(error.to_string()))?;
        let file = TextFile::open(&absolute).map_err(|error| named(error.to_string()))?;
        Ok(Place {
            target: Target::Text(Arc::new(file)),
            format,
        })
    }

    fn is_input(&self, path: &Path) -> bool {
        let Ok(path) = path.canonicalize() else {
            return false;
        };
        let mut inputs = self.inputs.iter();
        inputs.any(|input| input.canonicalize().is_ok_and(|input| input == path))
    }

    /// From now on this file is not overwritten, either.
    pub fn add_input(&mut self, input: PathBuf) {
        // The shell may move to another directory.
        self.inputs
            .push(std::path::absolute(&input).unwrap_or(input));
    }

    /// The file that results go to, unless they go to standard output.
    pub fn file(&self) -> Option<&Path> {
        match &self.place.target {
            Target::Standard => None,
            Target::Text(file) => Some(file.path()),
            Target::Single(target) => Some(&target.path),
        }
    }

    /// Where results go.
    pub fn target(&self) -> &Target {
        &self.place.target
    }

    /// Whether results are shown on a terminal.
    pub fn is_terminal(&self) -> bool {
        matches!(self.place.target, Target::Standard) && terminal::is_output()
    }

    /// The format of results.
    pub fn format(&self) -> Format {
        let for_place = match self.is_terminal() {
            true => Format::Box,
            false => Format::Table,
        };
        self.place
            .format
            .or(self.appearance.format)
            .unwrap_or(for_place)
    }

    /// How results are written.
    pub fn style(&self) -> Style {
        let is_terminal = self.is_terminal();
        Style {
            format: self.format(),
            null: self.appearance.null.clone(),
            headers: self.appearance.headers,
            expanded: self.appearance.expanded,
            width: is_terminal.then(terminal::columns),
            styled: is_terminal && terminal::colours_output(),
        }
    }

    /// The rows to show of a result; none: all. What is for programs is not cut.
    pub fn row_limit(&self) -> Option<usize> {
        let is_shown = matches!(self.place.target, Target::Standard);
        if !is_shown || !self.format().is_for_people() {
            return None;
        }
        self.appearance.rows.resolve(self.is_terminal())
    }

    /// A buffered writer for one statement's result.
    pub fn sink(&self, cancellation: Cancellation) -> Sink<'_> {
        let destination = match &self.place.target {
            Target::Text(file) => Destination::File(file, None),
            _ if self.appearance.pager && self.is_terminal() && terminal::is_input() => {
                Destination::Pager(Pager::new(terminal::lines(), self.read_only))
            }
            _ => Destination::Standard(std::io::stdout()),
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

/// Says which endings are known.
fn unknown_ending(ending: &str) -> String {
    let single = SINGLE.iter().map(|(ending, _)| *ending);
    let known = Format::ENDINGS.iter().map(|(ending, _)| *ending);
    let known = single.chain(known).chain(PLAIN);
    let known: Vec<_> = known.map(|ending| format!(".{ending}")).collect();
    let instead = match ending.to_ascii_lowercase().as_str() {
        "nc" | "nc4" | "cdf" | "h5" | "hdf5" => {
            "; xarray makes NetCDF of a .zarr directory: xarray.open_zarr('x.zarr').to_netcdf('x.nc')"
        }
        "npy" | "npz" => "; tet convert makes NumPy's files of a .tet file or a .zarr directory",
        _ => "",
    };
    format!(
        "no format has the ending .{ending}; there are {}; a format chosen with --format or .mode is written under any name{instead}",
        known.join(", ")
    )
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

    /// Begins a file even if there is nothing to write: an empty result is a result, too. Waits for the reader of a pager.
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
    Pager(Pager),
    File(&'a TextFile, Option<Pending>),
}

impl Guard<'_> {
    fn remember<T>(&mut self, result: std::io::Result<T>) -> std::io::Result<T> {
        if let Err(error) = &result
            && error.kind() != std::io::ErrorKind::Interrupted
        {
            self.failure = Some(match (error.kind(), &self.destination) {
                // The reader has seen enough of this result, but not of the session.
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
            // Nothing is kept.
            Destination::File(..) => Ok(()),
        };
        self.remember(result)
    }
}

impl Drop for Guard<'_> {
    /// A result that has not come to its end is none.
    fn drop(&mut self) {
        if let Destination::File(file, pending) = &mut self.destination
            && let Some(pending) = pending.take()
        {
            file.give_up(pending);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::appearance::RowLimit;

    fn opened(path: &Path, inputs: &[PathBuf]) -> Result<Output, Failure> {
        let mut output = Output::new(inputs.to_vec(), false);
        output.redirect(Some(path)).map(|()| output)
    }

    #[test]
    fn inputs_are_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("a.tet");
        std::fs::write(&input, "precious").unwrap();
        let again = folder.path().join(".").join("a.tet");
        assert!(opened(&again, std::slice::from_ref(&input)).is_err());
        assert_eq!(std::fs::read(&input).unwrap(), b"precious");
    }

    #[test]
    fn what_is_for_programs_is_not_cut() {
        let mut output = Output::new(Vec::new(), false);
        output.appearance.rows = RowLimit::Chosen(Some(3));
        assert_eq!(output.row_limit(), Some(3));
        output.appearance.format = Some(Format::Csv);
        assert_eq!(output.row_limit(), None);
        output.appearance.format = Some(Format::Box);
        output.appearance.rows = RowLimit::Chosen(None);
        assert_eq!(output.row_limit(), None);
    }

    #[test]
    fn a_files_ending_chooses_its_format() {
        let folder = tempfile::tempdir().unwrap();
        let output = opened(&folder.path().join("a.CSV"), &[]).unwrap();
        assert_eq!(output.format(), Format::Csv);
        let output = opened(&folder.path().join("a.txt"), &[]).unwrap();
        assert_eq!(output.format(), Format::Table);
        let output = opened(&folder.path().join("a.parquet"), &[]).unwrap();
        let Target::Single(target) = output.target() else {
            panic!("no file of one result");
        };
        assert_eq!(target.content, Content::Rows("PARQUET"));
        assert!(target.check().is_ok());
        target.take();
        assert!(target.check().is_err());
    }

    #[test]
    fn an_unknown_ending_is_an_error_that_lists_the_known_ones() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["o.nc", "o.npz", "o.xlsx", "o.dat"] {
            let path = folder.path().join(name);
            let Err(Failure::Message(error)) = opened(&path, &[]) else {
                panic!("{name}");
            };
            for known in [
                ".csv", ".parquet", ".feather", ".tet", ".zarr", ".png", ".txt",
            ] {
                assert!(error.contains(known), "{error}");
            }
        }
        // A format that was chosen holds under any name.
        let mut output = Output::new(Vec::new(), false);
        output.set_format(Format::Csv);
        output.redirect(Some(&folder.path().join("o.dat"))).unwrap();
        assert_eq!(output.format(), Format::Csv);
        assert!(opened(&folder.path().join("o"), &[]).is_ok());
        let output = opened(&folder.path().join("o.PNG"), &[]).unwrap();
        let is_picture = |target: &SingleTarget| target.content == Content::Picture;
        assert!(matches!(output.target(), Target::Single(target) if is_picture(target)));
    }

    #[test]
    fn the_next_result_goes_elsewhere_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut output = Output::new(Vec::new(), false);
        output
            .redirect_once(&folder.path().join("once.txt"))
            .unwrap();
        let shared = Arc::new(Mutex::new(output));
        assert!(matches!(for_result(&shared).target(), Target::Text(_)));
        assert!(matches!(for_result(&shared).target(), Target::Standard));
    }

    #[test]
    fn a_cancelled_statement_writes_nothing_more() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let output = opened(file.path(), &[]).unwrap();
        let cancellation = Cancellation::default();
        let mut sink = output.sink(cancellation.clone());
        sink.write_all(b"text").unwrap();
        sink.finish().unwrap();
        sink.end().unwrap();
        drop(sink);
        let mut sink = output.sink(cancellation.clone());
        sink.write_all(b"more").unwrap();
        cancellation.cancel();
        assert!(sink.finish().is_err());
        sink.end().unwrap();
        drop(sink);
        assert_eq!(std::fs::read(file.path()).unwrap(), b"text");
    }
}
