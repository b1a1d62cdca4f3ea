//! The file under construction: a temporary one beside the target.

use std::borrow::Cow;
use std::fs::File;
use std::path::Path;

use tempfile::{NamedTempFile, TempDir};

use crate::error::{Error, Result};

/// What tells that something is under construction.
const PREFIX: &str = ".tet-writing-";
const SUFFIX: &str = ".tmp";

/// A new temporary file beside `target`, with a name that tells what it is.
pub(crate) fn create_beside(target: &Path) -> Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    // Temporary files are private by default; a data file should get the permissions of any new file. The process's
    // umask is applied to these.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
        .tempfile_in(folder_of(&resolved(target)))
        .map_err(Error::io(target, "create"))
}

/// The same as a folder.
pub(crate) fn folder_beside(target: &Path) -> Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    // Temporary folders are private by default; this one may become what any new folder is.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    builder
        .tempdir_in(folder_of(&resolved(target)))
        .map_err(Error::io(target, "create"))
}

/// Syncs the file and gives it the target's name.
pub(crate) fn persist(temporary: NamedTempFile, target: &Path) -> Result<()> {
    temporary
        .as_file()
        .sync_all()
        .map_err(Error::io(target, "sync"))?;
    let resolved = resolved(target);
    temporary
        .persist(&resolved)
        .map_err(|error| Error::io(target, "rename the finished file to")(error.error))?;
    // Makes the new name survive a crash, where the platform can. The file itself is already safe.
    if let Ok(folder) = File::open(folder_of(&resolved)) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// Where a link leads: it is the file that is replaced, not the link to it.
fn resolved(target: &Path) -> Cow<'_, Path> {
    match target.is_symlink().then(|| target.canonicalize()) {
        Some(Ok(path)) => Cow::Owned(path),
        _ => Cow::Borrowed(target),
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
