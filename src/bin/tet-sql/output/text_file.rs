//! Files that results are written to as text.

use crate::session::shutdown;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// A file for the text of results, one after another. It has whole results only: the first takes the place of what was there
/// when it is complete, and those that follow are taken off again if they are not.
pub struct TextFile {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    /// Once there is a result, or if it is none of those files that are replaced, such as a device or a pipe.
    open: Option<File>,
    /// Results that were begun. A statement that was cancelled may give its own up when the next has long begun.
    begun: u64,
}

/// One result on its way into a file.
pub enum Pending {
    /// The first one, beside its place.
    First(File, TempDir),
    /// One that follows, with the place at which it begins, and its number.
    Next(File, u64, u64),
    /// One to something else than a file.
    Stream(File),
}

impl TextFile {
    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file that need not be there yet. Opening a pipe waits for its reader.
    pub fn open(path: &Path) -> io::Result<Self> {
        // The file behind a link is replaced, not the link.
        let path = match path.canonicalize() {
            Ok(path) => path,
            Err(_) => path.to_owned(),
        };
        let open = match path.metadata() {
            Ok(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(metadata) if metadata.is_file() => {
                // Told now rather than after a long query.
                OpenOptions::new().append(true).open(&path)?;
                None
            }
            Ok(_) => Some(OpenOptions::new().write(true).open(&path)?),
            Err(_) => {
                // Likewise.
                shutdown::temporary_folder_beside(&path)?;
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
            let folder = shutdown::temporary_folder_beside(&self.path)?;
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

    /// Ends a result that is complete.
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

    /// Takes a result back that is not complete, as far as that is possible.
    pub fn give_up(&self, pending: Pending) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_results_are_there() {
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
        file.give_up(begin("half"));
        assert_eq!(text(), "old");
        file.end(begin("one ")).unwrap();
        file.give_up(begin("half"));
        assert_eq!(text(), "one ");
        file.end(begin("two")).unwrap();
        assert_eq!(text(), "one two");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_written_is_told_at_once() {
        let folder = tempfile::tempdir().unwrap();
        assert!(TextFile::open(folder.path()).is_err());
        assert!(TextFile::open(&folder.path().join("no/such/file")).is_err());
        let path = folder.path().join("new");
        assert!(TextFile::open(&path).is_ok());
        assert!(!path.exists());
    }
}
