//! The folder under construction: a temporary one beside the target.

use std::io;
use std::path::Path;

use tempfile::TempDir;

use crate::error::{Error, Result};
use crate::format::zarr::walk::is_hierarchy;

/// A new temporary folder beside `target`, with a name that tells what it is.
pub(super) fn create_beside(target: &Path) -> Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tet-writing-").suffix(".tmp");
    // Temporary folders are private by default; this one becomes what any new folder is. The process's umask
    // is applied.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    builder
        .tempdir_in(parent)
        .map_err(Error::io(target, "create"))
}

/// Writes one file of the hierarchy, and the folders that it lies in.
pub(super) fn write(target: &Path, file: &Path, bytes: &[u8]) -> Result<()> {
    let result = match std::fs::write(file, bytes) {
        // Only the first file of a folder finds it missing.
        Err(error) if error.kind() == io::ErrorKind::NotFound => file
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(file, bytes)),
        result => result,
    };
    result.map_err(Error::io(target, "write"))
}

/// Whether there is something in the target's place.
///
/// # Errors
/// If it is anything but a Zarr hierarchy: whatever else it is, nobody asked to have it removed.
pub(super) fn check_target(target: &Path) -> Result<bool> {
    let metadata = match std::fs::symlink_metadata(target) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(Error::io(target, "create")(error)),
    };
    if metadata.is_dir() && is_hierarchy(target) {
        return Ok(true);
    }
    Err(Error::invalid(
        target,
        "exists and is no Zarr folder; it will not be replaced",
    ))
}

/// Gives the folder the target's name, in the place of the hierarchy that has it.
pub(super) fn persist(folder: TempDir, target: &Path) -> Result<()> {
    let rename = |from: &Path, to: &Path| {
        std::fs::rename(from, to).map_err(Error::io(target, "rename the finished folder to"))
    };
    if check_target(target)? {
        // Removed with all that is in it when this function ends.
        let old = create_beside(target)?;
        let aside = old.path().join("old");
        rename(target, &aside)?;
        if let Err(error) = rename(folder.path(), target) {
            let _ = std::fs::rename(&aside, target);
            return Err(error);
        }
    } else {
        rename(folder.path(), target)?;
    }
    // It has another name now, under which nothing removes it.
    let _ = folder.keep();
    Ok(())
}
