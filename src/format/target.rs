//! The file under construction: a temporary one beside the target.

use std::fs::File;
use std::path::Path;

use tempfile::NamedTempFile;

use crate::error::{Error, Result};

/// A new temporary file beside `target`, with a name that tells what it is.
pub(crate) fn create_beside(target: &Path) -> Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tet-writing-").suffix(".tmp");
    // Temporary files are private by default; a data file should get the permissions of any new file. The process's
    // umask is applied to these.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
        .tempfile_in(folder_of(target))
        .map_err(Error::io(target, "create"))
}

/// Syncs the file and gives it the target's name.
pub(crate) fn persist(temporary: NamedTempFile, target: &Path) -> Result<()> {
    temporary
        .as_file()
        .sync_all()
        .map_err(Error::io(target, "sync"))?;
    temporary
        .persist(target)
        .map_err(|error| Error::io(target, "rename the finished file to")(error.error))?;
    // Makes the new name survive a crash, where the platform can. The file itself is already safe.
    if let Ok(folder) = File::open(folder_of(target)) {
        let _ = folder.sync_all();
    }
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
