//! The destinations of results, and the formats they are written in.

pub mod appearance;
pub mod export;
pub mod formats;
pub mod head_and_tail;
pub mod pager;
pub mod picture;
pub mod progress;
pub mod sink;
pub mod text_file;
pub mod wrapping;

use crate::failure::Failure;
use crate::output::appearance::{Appearance, Format};
use crate::output::formats::Style;
use crate::output::pager::Pager;
use crate::output::sink::{Destination, Sink};
use crate::output::text_file::{TextFile, is_standard_output};
use crate::session::worker_threads::Cancellation;
use crate::terminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tet_sql::FormatRegistry;

/// The extensions of files that hold a single result, and the content of such a file.
const SINGLE: [(&str, Content); 7] = [
    ("parquet", Content::Rows("PARQUET")),
    ("arrow", Content::Rows("ARROW")),
    ("feather", Content::Rows("ARROW")),
    ("tet", Content::Rows("TET")),
    ("zarr", Content::Rows("ZARR")),
    ("png", Content::Picture),
    ("svg", Content::Picture),
];
/// The extensions of files in the default format of a pipe, a table of ASCII characters. A file
/// name without an extension selects this format, too.
const PLAIN: [&str; 4] = ["txt", "text", "log", "out"];

/// The destination of results and the settings that determine their look.
///
/// ```text
///                     ┌─ Standard: standard output, through a pager if the result is tall
/// -o, .output, .once ─┼─ Text:     a text file that collects results (CSV, JSON, HTML, ...)
///                     └─ Single:   a file that holds one result (Parquet, tet, Zarr, a picture)
/// ```
///
/// A statement works with a copy of the output: after Ctrl-C, the cancelled statement may still be
/// finishing while the next one runs.
#[derive(Clone)]
pub struct Output {
    /// The settings that determine the look of results.
    pub appearance: Appearance,
    destination: ResultDestination,
    /// The destination of the next result only, as set by `.once`.
    once: Option<ResultDestination>,
    inputs: Vec<PathBuf>,
    /// `true` if a pager must not write files or run commands.
    read_only: bool,
}

/// A destination of results.
#[derive(Clone)]
struct ResultDestination {
    target: Target,
    /// The format that the file name extension selects.
    format: Option<Format>,
}

impl ResultDestination {
    const STANDARD: Self = Self {
        target: Target::Standard,
        format: None,
    };
}

/// The kind of a destination.
#[derive(Clone)]
pub enum Target {
    /// Standard output.
    Standard,
    /// A text file that collects results.
    Text(Arc<TextFile>),
    /// A file that holds a single result.
    Single(Arc<SingleTarget>),
}

/// The content of a file that holds a single result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// The rows, in the format of this name in `COPY ... STORED AS`.
    Rows(&'static str),
    /// An image of a chart of the rows.
    Picture,
}

/// A file that holds a single result.
pub struct SingleTarget {
    /// The path of the file.
    pub path: PathBuf,
    /// The content of the file.
    pub content: Content,
    is_used: AtomicBool,
}

impl SingleTarget {
    /// Records that the file holds its result.
    pub fn take(&self) {
        self.is_used.store(true, Ordering::Relaxed);
    }

    /// Fails if the file already holds its result, which a second one would replace.
    pub fn check(&self) -> Result<(), Failure> {
        if self.is_used.load(Ordering::Relaxed) {
            let path = self.path.display();
            return Err(Failure::message(format!(
                "{path} already holds a result and cannot hold another: choose a different file with .output FILE"
            )));
        }
        Ok(())
    }
}

/// The output of a session, which meta-commands change.
pub type SharedOutput = Arc<Mutex<Output>>;

/// Returns a copy of the current output.
pub fn current(output: &SharedOutput) -> Output {
    // No code that could panic runs under this lock, so a poisoned lock still holds a valid output.
    output
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

/// Replaces the output for the statements that follow.
pub fn change(output: &SharedOutput, changed: Output) {
    *output.lock().unwrap_or_else(PoisonError::into_inner) = changed;
}

/// Returns the output for text that is not the result of a statement. Such text is never written to
/// a file that holds a single result: the file keeps waiting for rows.
pub fn for_text(output: &SharedOutput) -> Output {
    let is_single =
        |destination: &ResultDestination| matches!(destination.target, Target::Single(_));
    let mut chosen = current(output);
    if !chosen.once.as_ref().is_some_and(is_single) {
        chosen = for_result(output);
    }
    if is_single(&chosen.destination) {
        chosen.destination = ResultDestination::STANDARD;
    }
    chosen
}

/// Returns the output for the result of a statement. This uses up the destination of `.once`.
pub fn for_result(output: &SharedOutput) -> Output {
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    let mut current = output.clone();
    if let Some(once) = output.once.take() {
        current.destination = once;
    }
    current
}

impl Output {
    /// Creates an output that writes to standard output. The `inputs` are files that are never
    /// overwritten.
    pub fn new(inputs: Vec<PathBuf>, read_only: bool) -> Self {
        let mut output = Self {
            appearance: Appearance::default(),
            destination: ResultDestination::STANDARD,
            once: None,
            inputs: Vec::new(),
            read_only,
        };
        inputs.into_iter().for_each(|input| output.add_input(input));
        output
    }

    /// Redirects the results that follow to a file or to standard output.
    pub fn redirect(&mut self, file: Option<&Path>) -> Result<(), Failure> {
        self.once = None;
        self.destination = match file {
            // `-` is the usual name of standard output, and SQLite calls it `stdout`.
            Some(path) if path == Path::new("-") || path == Path::new("stdout") => {
                ResultDestination::STANDARD
            }
            None => ResultDestination::STANDARD,
            Some(path) => self.place_of(path)?,
        };
        Ok(())
    }

    /// Redirects only the next result to a file.
    pub fn redirect_once(&mut self, file: &Path) -> Result<(), Failure> {
        self.once = Some(self.place_of(file)?);
        Ok(())
    }

    /// Sets the format of the results that follow.
    pub fn set_format(&mut self, format: Format) {
        self.appearance.format = Some(format);
        self.destination.format = None;
    }

    fn place_of(&self, path: &Path) -> Result<ResultDestination, Failure> {
        let named = |text: String| Failure::message(format!("{}: {text}", path.display()));
        if path.to_string_lossy().starts_with('|') {
            return Err(named("results go to files, not to commands".to_owned()));
        }
        let ending = path.extension().unwrap_or_default().to_string_lossy();
        let single = SINGLE
            .iter()
            .find(|(single, _)| ending.eq_ignore_ascii_case(single));
        let format = Format::of_ending(&ending);
        // Replacing the file behind `/dev/stdout` would delete what other programs have written to it.
        if single.is_none() && is_standard_output(path) {
            let target = Target::Standard;
            return Ok(ResultDestination { target, format });
        }
        // Truncating a memory-mapped file would crash the process. No array file is overwritten,
        // whether it is open under this name, under another name, or not at all.
        if FormatRegistry::default().recognise(path).is_some() {
            return Err(named(
                "is an array file; array files are never overwritten".to_owned(),
            ));
        }
        if self.is_input(path) {
            return Err(named(
                "is open as an input; inputs are never overwritten".to_owned(),
            ));
        }
        if let Some((_, content)) = single {
            let target = SingleTarget {
                path: path.to_owned(),
                content: *content,
                is_used: AtomicBool::new(false),
            };
            return Ok(ResultDestination {
                target: Target::Single(Arc::new(target)),
                format: None,
            });
        }
        let is_plain =
            ending.is_empty() || PLAIN.iter().any(|one| ending.eq_ignore_ascii_case(one));
        // The names of devices and pipes do not say a format.
        let is_file = !path.exists() || path.is_file();
        if format.is_none() && !is_plain && self.appearance.format.is_none() && is_file {
            return Err(named(unknown_ending(&ending)));
        }
        let absolute = std::path::absolute(path).map_err(|error| named(error.to_string()))?;
        let file = TextFile::open(&absolute).map_err(|error| named(error.to_string()))?;
        Ok(ResultDestination {
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

    /// Adds a file that must not be overwritten.
    pub fn add_input(&mut self, input: PathBuf) {
        // An absolute path, because `.cd` may change the directory.
        self.inputs
            .push(std::path::absolute(&input).unwrap_or(input));
    }

    /// Returns the file that results are written to, or `None` for standard output.
    pub fn file(&self) -> Option<&Path> {
        match &self.destination.target {
            Target::Standard => None,
            Target::Text(file) => Some(file.path()),
            Target::Single(target) => Some(&target.path),
        }
    }

    /// Returns the destination of results.
    pub fn target(&self) -> &Target {
        &self.destination.target
    }

    /// Returns `true` if results are shown on a terminal.
    pub fn is_terminal(&self) -> bool {
        matches!(self.destination.target, Target::Standard) && terminal::is_output()
    }

    /// Returns the format of results.
    pub fn format(&self) -> Format {
        let for_place = match self.is_terminal() {
            true => Format::Box,
            false => Format::Table,
        };
        self.destination
            .format
            .or(self.appearance.format)
            .unwrap_or(for_place)
    }

    /// Returns the style that results are written in.
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

    /// Returns the maximum number of rows to show; `None` means all rows. Formats for programs are
    /// never cut.
    pub fn row_limit(&self) -> Option<usize> {
        let is_shown = matches!(self.destination.target, Target::Standard);
        if !is_shown || !self.format().is_for_people() {
            return None;
        }
        self.appearance.rows.resolve(self.is_terminal())
    }

    /// Returns a buffered writer for the result of one statement.
    pub fn sink(&self, cancellation: Cancellation) -> Sink<'_> {
        let destination = match &self.destination.target {
            Target::Text(file) => Destination::File(file, None),
            _ if self.appearance.pager && self.is_terminal() && terminal::is_input() => {
                Destination::Pager(Pager::new(terminal::lines(), self.read_only))
            }
            _ => Destination::Standard(std::io::stdout()),
        };
        Sink::new(destination, cancellation)
    }
}

/// Returns the error text for an unknown file name extension, which lists the known ones.
fn unknown_ending(ending: &str) -> String {
    let single = SINGLE.iter().map(|(ending, _)| *ending);
    let known = Format::ENDINGS.iter().map(|(ending, _)| *ending);
    let known = single.chain(known).chain(PLAIN);
    let known: Vec<_> = known.map(|ending| format!(".{ending}")).collect();
    let instead = match ending.to_ascii_lowercase().as_str() {
        "nc" | "nc4" | "cdf" | "h5" | "hdf5" => {
            "; to get NetCDF, convert a .zarr directory with xarray: xarray.open_zarr('x.zarr').to_netcdf('x.nc')"
        }
        "npy" | "npz" => {
            "; to get NumPy files, use tet convert on a .tet file or a .zarr directory"
        }
        _ => "",
    };
    format!(
        "unknown file extension .{ending}: expected one of {}, or choose a format with --format or .mode, \
         which applies to any file name{instead}",
        known.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::appearance::RowLimit;
    use std::io::Write;

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
    fn formats_for_programs_are_not_cut() {
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
        // A format chosen by the user applies whatever the file name.
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
