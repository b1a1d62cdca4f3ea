//! The formats that a session can open.

use std::fmt::Debug;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, LazyLock};

#[cfg(feature = "remote")]
use bytes::Bytes;
use datafusion::prelude::SessionConfig;

use crate::error::Error;
use crate::format::foreign;
#[cfg(any(feature = "tatami", feature = "tiledb", feature = "remote"))]
use crate::format::io::place::Place;
#[cfg(feature = "remote")]
use crate::format::io::remote::{RemoteDirectory, RemoteObject, RemotePlace};
use crate::provider::adapters::arrays::built_in;
use crate::provider::adapters::create::CreateArrays;
use crate::provider::catalog::settings::options::ArrayOptions;
#[cfg(feature = "remote")]
use crate::provider::remote::place;
use crate::provider::source::container::Container;

/// The number of bytes at the start of a file by which formats recognise it.
const START: u64 = 520;

/// The maximum size of an entry of a remote directory by which formats recognise the directory.
#[cfg(feature = "remote")]
const MAX_ENTRY_BYTES: u64 = 64 << 20;

/// Returns the place that a path or URL leads to.
///
/// # Errors
/// Returns an error if the session has no store for a URL.
#[cfg(any(feature = "tatami", feature = "tiledb", feature = "remote"))]
pub(in crate::provider) fn place_of(path: &Path, session: &SessionConfig) -> Result<Place, Error> {
    #[cfg(feature = "remote")]
    if let Some(place) = place(path, session)? {
        return Ok(Place::Remote(place));
    }
    let _ = session;
    Ok(Place::from(path))
}

/// A file format: how to recognise, open and create its files.
///
/// Formats are part of a session by way of a [`FormatRegistry`].
pub trait Format: Debug + Send + Sync {
    /// The short name: `tet`.
    fn name(&self) -> &'static str;

    /// The keywords after `STORED AS`, in upper case. Each keyword of a session opens files of all
    /// of its formats, because the content of a file decides its format.
    fn keywords(&self) -> &'static [&'static str];

    /// The file name extensions, in lower case and without the leading dot: `tet`, `tet.d`.
    fn extensions(&self) -> &'static [&'static str];

    /// The names of options in `CREATE EXTERNAL TABLE ... OPTIONS (...)` that only this format has.
    /// [`Self::open`] finds their values in [`ArrayOptions::format_options`].
    fn options(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns `true` if a path with an extension of this format is usually a directory.
    fn is_directory(&self) -> bool {
        false
    }

    /// Returns `true` if a file or directory is of this format, judging by its content.
    fn recognises(&self, candidate: &Candidate<'_>) -> bool;

    /// Returns `true` if a search of directories for files should find this path. By default, a
    /// search finds no files of the format, and they have to be named.
    fn is_found_in_directories(&self, _path: &Path) -> bool {
        false
    }

    /// Splits the path of a table inside a container (`store.zarr/t2m`) into the path of the
    /// container and the name of the table. Returns `None` for any other path.
    fn split_member<'a>(&self, _path: &'a Path) -> Option<(&'a Path, String)> {
        None
    }

    /// Opens a file or directory. `session` has the settings for options that are unset.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened, or is not of this format.
    fn open(
        &self,
        path: &Path,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error>;

    /// Returns what creates array files of this format; `None` if `COPY` and `tet convert` cannot.
    fn creator(&self) -> Option<Arc<dyn CreateArrays>> {
        None
    }

    /// Opens a file or directory in an object store. By default, a format does not support this.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened, or is not of this format.
    #[cfg(feature = "remote")]
    fn open_remote(
        &self,
        file: RemoteFile,
        _options: &ArrayOptions,
        _session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let message = format!(
            "{} files cannot be read from a URL; copy the file to a local file system first",
            self.name()
        );
        Err(Error::invalid(file.path(), message))
    }
}

/// A file or directory in an object store.
#[cfg(feature = "remote")]
#[derive(Debug)]
pub enum RemoteFile {
    /// A file, whose first bytes have been read.
    File(Arc<RemoteObject>),
    /// A directory.
    Directory(RemoteDirectory),
}

#[cfg(feature = "remote")]
impl RemoteFile {
    /// Finds the file, else the directory, at a place. `is_directory` says what the name suggests,
    /// so that no request is wasted.
    fn open(place: &RemotePlace, is_directory: bool) -> Result<Self, Error> {
        if !is_directory && let Some(object) = RemoteObject::open(place)? {
            return Ok(Self::File(Arc::new(object)));
        }
        Ok(Self::Directory(RemoteDirectory::new(place.clone())))
    }

    /// Returns the object of a file.
    ///
    /// # Errors
    /// Returns an error for a directory.
    pub fn into_object(self) -> Result<Arc<RemoteObject>, Error> {
        match self {
            Self::File(object) => Ok(object),
            Self::Directory(directory) => Err(Error::invalid(
                directory.path(),
                "there is no such file (404 Not Found)",
            )),
        }
    }

    /// The URL, without secrets.
    pub fn path(&self) -> &Path {
        match self {
            Self::File(file) => file.path(),
            Self::Directory(directory) => directory.path(),
        }
    }
}

/// A file or directory whose format is not known yet.
#[derive(Debug)]
pub struct Candidate<'a> {
    path: &'a Path,
    is_directory: bool,
    start: Vec<u8>,
    #[cfg(feature = "remote")]
    remote: Option<&'a RemoteDirectory>,
}

impl<'a> Candidate<'a> {
    /// Examines a path. Errors are ignored here, since opening the file reports them.
    pub fn new(path: &'a Path) -> Self {
        let metadata = path.metadata().ok();
        let mut start = Vec::new();
        // A pipe or a device may never end, or never deliver a byte.
        if metadata.as_ref().is_some_and(|metadata| metadata.is_file())
            && let Ok(file) = File::open(path)
        {
            file.take(START).read_to_end(&mut start).ok();
        }
        Self {
            path,
            is_directory: metadata.is_some_and(|metadata| metadata.is_dir()),
            start,
            #[cfg(feature = "remote")]
            remote: None,
        }
    }

    #[cfg(feature = "remote")]
    fn remote(file: &'a RemoteFile) -> Result<Self, Error> {
        let mut start = Vec::new();
        if let RemoteFile::File(object) = file {
            start.resize(object.size().min(START) as usize, 0);
            object.read_at(0, &mut start)?;
        }
        let remote = match file {
            RemoteFile::File(_) => None,
            RemoteFile::Directory(directory) => Some(directory),
        };
        Ok(Self {
            path: file.path(),
            is_directory: remote.is_some(),
            start,
            remote,
        })
    }

    /// Returns `true` if the file or directory is in an object store.
    #[cfg(feature = "remote")]
    pub fn is_remote(&self) -> bool {
        self.remote.is_some() || crate::format::io::remote::is_url(&self.path.to_string_lossy())
    }

    /// The path.
    pub fn path(&self) -> &'a Path {
        self.path
    }

    /// Returns `true` if the path is a directory.
    pub fn is_directory(&self) -> bool {
        self.is_directory
    }

    /// The first bytes of a file, at most 520; empty for a directory.
    pub fn start(&self) -> &[u8] {
        &self.start
    }

    /// Returns `true` if the path is a directory with an entry of this name.
    pub fn has_entry(&self, name: &str) -> bool {
        #[cfg(feature = "remote")]
        if let Some(directory) = self.remote {
            let keys = [name.to_string()];
            // An error is reported when the directory is opened.
            let found = directory
                .documents(&keys, MAX_ENTRY_BYTES)
                .unwrap_or_default();
            return found.iter().any(Option::is_some);
        }
        self.is_directory && self.path.join(name).exists()
    }

    /// Returns `true` if the path is a directory in an object store with a directory of this name.
    #[cfg(all(feature = "remote", feature = "tiledb"))]
    pub(crate) fn has_directory(&self, name: &str) -> bool {
        // An error is reported when the directory is opened.
        let names = self.remote.map(|directory| directory.directories(""));
        let names = names.and_then(Result::ok).unwrap_or_default();
        names.iter().any(|found| found == name)
    }

    /// Returns the content of the entry of this name, if the path is a directory with such a file.
    #[cfg(all(feature = "remote", feature = "zarr"))]
    pub(crate) fn entry(&self, name: &str) -> Option<Bytes> {
        if let Some(directory) = self.remote {
            let found = directory.documents(&[name.to_string()], MAX_ENTRY_BYTES);
            return found.ok()?.pop().flatten();
        }
        if !self.is_directory {
            return None;
        }
        let file = File::open(self.path.join(name)).ok()?;
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        let mut bytes = Vec::new();
        let read = file.take(MAX_ENTRY_BYTES).read_to_end(&mut bytes);
        (is_file && read.is_ok()).then(|| bytes.into())
    }
}

/// The formats that a session can open.
///
/// A path is opened by the first format that recognises its content. Only if no format does, the
/// file name decides. The default registry has the formats of this crate. To add a format, put a
/// registry into the configuration of the session:
///
/// ```
/// # use std::sync::Arc;
/// # use datafusion::prelude::{SessionConfig, SessionContext};
/// # use tet_sql::{ArrayOptions, Format, FormatRegistry, enable_arrays};
/// # fn session(format: Arc<dyn Format>) -> SessionContext {
/// let formats = FormatRegistry::default().with_format(format);
/// let config = SessionConfig::new().with_extension(Arc::new(formats));
/// enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FormatRegistry {
    formats: Vec<Arc<dyn Format>>,
}

impl Default for FormatRegistry {
    fn default() -> Self {
        Self {
            formats: built_in(),
        }
    }
}

impl FormatRegistry {
    /// Adds a format, which takes precedence over the formats already in the registry.
    pub fn with_format(mut self, format: Arc<dyn Format>) -> Self {
        self.formats.insert(0, format);
        self
    }

    /// Returns the registry of a session, or the default registry if the session has none.
    pub fn of(session: &SessionConfig) -> Arc<Self> {
        static DEFAULT: LazyLock<Arc<FormatRegistry>> = LazyLock::new(Arc::default);
        let own = session.get_extension::<Self>();
        own.unwrap_or_else(|| Arc::clone(&DEFAULT))
    }

    /// The formats, in order of precedence.
    pub fn formats(&self) -> &[Arc<dyn Format>] {
        &self.formats
    }

    /// Returns the format of a file or directory, judging by its content.
    pub fn recognise(&self, path: &Path) -> Option<&Arc<dyn Format>> {
        let candidate = Candidate::new(path);
        let mut formats = self.formats.iter();
        formats.find(|format| format.recognises(&candidate))
    }

    /// Returns the format whose extension a file name has.
    pub fn by_name(&self, name: &str) -> Option<&Arc<dyn Format>> {
        let name = name.trim_end_matches('/').to_ascii_lowercase();
        let has = |extension: &&str| {
            let rest = name.strip_suffix(*extension);
            rest.is_some_and(|rest| rest.ends_with('.'))
        };
        let mut formats = self.formats.iter();
        formats.find(|format| format.extensions().iter().any(&has))
    }

    /// Returns `true` if a directory is opened as one container.
    pub fn is_container_directory(&self, path: &Path) -> bool {
        path.is_dir() && self.recognise(path).is_some()
    }

    /// Returns `true` if a search of directories for files should find this path.
    pub fn finds_in_directories(&self, path: &Path) -> bool {
        let mut formats = self.formats.iter();
        formats.any(|format| format.is_found_in_directories(path))
    }

    /// Splits the path of a table inside a container. See [`Format::split_member`].
    pub fn split_member<'a>(&self, path: &'a Path) -> Option<(&'a Path, String)> {
        let mut formats = self.formats.iter();
        formats.find_map(|format| format.split_member(path))
    }

    /// Opens a file or directory.
    ///
    /// # Errors
    /// Returns an error if no format can open the path.
    pub fn open(
        &self,
        path: &Path,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let options = &options.bound(session.options());
        #[cfg(feature = "remote")]
        if let Some(place) = place(path, session)? {
            return self.open_remote(&place, options, session);
        }
        if let Some(format) = self.recognise(path) {
            return format.open(path, options, session);
        }
        if let Some(advice) = foreign(path) {
            return Err(Error::invalid(path, advice));
        }
        let metadata = path.metadata().map_err(Error::io(path, "open"))?;
        if !metadata.is_file() && !metadata.is_dir() {
            return Err(Error::invalid(path, "is not a regular file"));
        }
        // The format that the name suggests gives the most specific error.
        if let Some(format) = self.by_name(&path.to_string_lossy()) {
            return format.open(path, options, session);
        }
        if metadata.is_file() {
            // The format of an unreadable file is unknown, so report why the file cannot be read.
            File::open(path).map_err(Error::io(path, "open"))?;
        }
        Err(self.unknown(path))
    }

    fn unknown(&self, path: &Path) -> Error {
        let names = self.formats.iter().map(|format| format.name());
        let message = format!(
            "neither its content nor its name is that of an array format ({})",
            names.collect::<Vec<_>>().join(", ")
        );
        Error::invalid(path, message)
    }

    /// Opens a file or directory in an object store.
    #[cfg(feature = "remote")]
    fn open_remote(
        &self,
        place: &RemotePlace,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let name = place.path().to_string_lossy();
        let by_name = self.by_name(&name);
        let is_directory =
            name.ends_with('/') || by_name.is_some_and(|format| format.is_directory());
        let file = RemoteFile::open(place, is_directory)?;
        if let (RemoteFile::Directory(_), Some(format), false) = (&file, by_name, is_directory) {
            // Its error says that there is no such file.
            return format.open_remote(file, options, session);
        }
        let candidate = Candidate::remote(&file)?;
        let mut formats = self.formats.iter();
        // The format that the name suggests is asked first, to save requests.
        let recognised = by_name.filter(|format| format.recognises(&candidate));
        let recognised =
            recognised.or_else(|| formats.find(|format| format.recognises(&candidate)));
        match recognised.or(by_name) {
            Some(format) => format.open_remote(file, options, session),
            None => Err(match file {
                RemoteFile::File(_) => self.unknown(place.path()),
                RemoteFile::Directory(_) => Error::invalid(
                    place.path(),
                    "there is neither a file (404 Not Found) nor a directory of an array format; some servers \
                     answer 403 or 404 without credentials",
                ),
            }),
        }
    }

    /// Opens a file or directory with the format of this name; `None` if there is no such format.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    #[cfg(any(feature = "proto", feature = "tiledb"))]
    pub(crate) fn open_as(
        &self,
        format: &str,
        path: &Path,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Option<Result<Arc<dyn Container>, Error>> {
        let mut formats = self.formats.iter();
        let format = formats.find(|known| known.name() == format)?;
        #[cfg(feature = "remote")]
        match place(path, session) {
            Ok(None) => {}
            Ok(Some(place)) => {
                let is_directory =
                    format.is_directory() || place.path().to_string_lossy().ends_with('/');
                let file = RemoteFile::open(&place, is_directory);
                return Some(file.and_then(|file| format.open_remote(file, options, session)));
            }
            Err(error) => return Some(Err(error)),
        }
        Some(format.open(path, options, session))
    }
}
