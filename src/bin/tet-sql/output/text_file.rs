//! Text files that collect results.

use crate::session::shutdown;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// A text file that collects the results of successive statements.
///
/// The file only ever contains complete results. The first result is written to a temporary file,
/// which replaces the old file once the result is complete. Later results are appended, and an
/// incomplete one is truncated away. Devices and pipes are written directly.
pub struct TextFile {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    /// The open file. `None` for a regular file until its first result is complete. Devices and
    /// pipes are opened at once.
    open: Option<File>,
    /// The number of results begun so far. A cancelled statement may discard its result after the
    /// next one has begun, and must not truncate the file then.
    begun: u64,
}

/// A result that is being written.
pub enum Pending {
    /// The first result, in a temporary directory beside the file.
    First(File, TempDir),
    /// A later result: the file, the offset at which the result starts, and its ordinal.
    Next(File, u64, u64),
    /// A result sent to a device or a pipe.
    Stream(File),
}

impl TextFile {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the file, relative to the working directory if the file is in it.
    pub fn name(&self) -> String {
        let directory = std::env::current_dir().unwrap_or_default();
        let name = self.path.strip_prefix(&directory).unwrap_or(&self.path);
        name.display().to_string()
    }

    /// Opens a file for results. The file need not exist yet. Opening a pipe blocks until the pipe
    /// has a reader.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Replace the target of a symbolic link, not the link itself.
        let path = match path.canonicalize() {
            Ok(path) => path,
            Err(_) => path.to_owned(),
        };
        let open = match path.metadata() {
            Ok(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(metadata) if metadata.is_file() => {
                // Fail now rather than after a long query.
                OpenOptions::new().append(true).open(&path)?;
                None
            }
            Ok(_) => Some(OpenOptions::new().write(true).open(&path)?),
            Err(_) => {
                // Fail now, too, if no file can be created in this directory.
                shutdown::temporary_directory_beside(&path)?;
                None
            }
        };
        Ok(Self {
            path,
            state: Mutex::new(State { open, begun: 0 }),
        })
    }

    /// Begins a result.
    pub fn begin(&self) -> io::Result<Pending> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.begun += 1;
        let Some(file) = state.open.as_ref() else {
            let folder = shutdown::temporary_directory_beside(&self.path)?;
            let file = File::create(folder.path().join("result"))?;
            return Ok(Pending::First(file, folder));
        };
        let mut file = file.try_clone()?;
        if !file.metadata()?.is_file() {
            return Ok(Pending::Stream(file));
        }
        let start = file.seek(SeekFrom::End(0))?;
        Ok(Pending::Next(file, start, state.begun))
    }

    /// Completes a result.
    pub fn end(&self, pending: Pending) -> io::Result<()> {
        if let Pending::First(file, folder) = pending {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if let Ok(metadata) = self.path.metadata() {
                file.set_permissions(metadata.permissions())?;
            }
            std::fs::rename(folder.path().join("result"), &self.path)?;
            state.open = Some(file);
        }
        Ok(())
    }

    /// Discards an incomplete result. Text already sent to a device or a pipe stays, and so does
    /// text in the file if another result has begun since.
    pub fn discard_result(&self, pending: Pending) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Pending::Next(file, start, number) = pending
            && number == state.begun
        {
            let _ = file.set_len(start);
        }
    }
}

impl Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::First(file, _) | Self::Next(file, ..) | Self::Stream(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns `true` if a path such as `/dev/stdout` names the file, pipe or terminal that is the standard output of this
/// process.
#[cfg(unix)]
pub fn is_standard_output(path: &Path) -> bool {
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    let output = io::stdout().as_fd().try_clone_to_owned();
    let output = output.and_then(|output| File::from(output).metadata());
    match (path.metadata(), output) {
        (Ok(path), Ok(output)) => (path.dev(), path.ino()) == (output.dev(), output.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
pub fn is_standard_output(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_contains_only_complete_results() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, "old").unwrap();
        let text = || std::fs::read_to_string(&path).unwrap();
        let file = TextFile::open(&path).unwrap();
        let begin = |content: &str| {
            let mut pending = file.begin().unwrap();
            pending.write_all(content.as_bytes()).unwrap();
            pending
        };
        file.discard_result(begin("half"));
        assert_eq!(text(), "old");
        file.end(begin("one ")).unwrap();
        file.discard_result(begin("half"));
        assert_eq!(text(), "one ");
        file.end(begin("two")).unwrap();
        assert_eq!(text(), "one two");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn opening_fails_if_the_file_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        assert!(TextFile::open(folder.path()).is_err());
        assert!(TextFile::open(&folder.path().join("no/such/file")).is_err());
        let path = folder.path().join("new");
        assert!(TextFile::open(&path).is_ok());
        assert!(!path.exists());
    }
}
