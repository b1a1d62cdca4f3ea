//! Writes files into the directory under construction, and gives it the target's name.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::hold_removal;
use crate::format::io::target::{TemporaryDirectory, create_directory_beside, replace_permissions};
use crate::format::zarr::walk::{DOCUMENTS, MAX_DEPTH, is_array, is_hierarchy};

/// Writes one file of the hierarchy, creating the directories that contain it.
pub(super) fn write(target: &Path, file: &Path, bytes: &[u8]) -> Result<()> {
    // Creating missing directories must not race with `remove_unfinished` deleting them.
    let _held = hold_removal();
    let result = match std::fs::write(file, bytes) {
        // Only the first file of each directory needs the directory created.
        Err(error) if error.kind() == io::ErrorKind::NotFound => file
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(file, bytes)),
        result => result,
    };
    result.map_err(Error::io(target, "write"))
}

/// Returns `true` if the target exists.
///
/// # Errors
/// Fails if the target is anything but a Zarr hierarchy without other files. Replacing it would
/// delete files that are not part of a hierarchy.
pub(super) fn check_target(target: &Path) -> Result<bool> {
    let metadata = match std::fs::symlink_metadata(target) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(Error::io(target, "create")(error)),
    };
    if !metadata.is_dir() || !is_hierarchy(target) {
        return Err(Error::invalid(
            target,
            "exists and is not a Zarr hierarchy; it will not be replaced",
        ));
    }
    match find_unrelated(target, MAX_DEPTH)? {
        None => Ok(true),
        Some(found) => Err(Error::invalid(
            target,
            format!(
                "exists, and {} in it is not part of a Zarr hierarchy; it will not be replaced",
                found.display()
            ),
        )),
    }
}

/// Finds an entry that is neither metadata nor part of an array, or a directory nested too deep.
fn find_unrelated(folder: &Path, depth: usize) -> Result<Option<PathBuf>> {
    if depth == 0 || is_array(folder) {
        return Ok((depth == 0).then(|| folder.to_path_buf()));
    }
    for entry in folder.read_dir().map_err(Error::io(folder, "list"))? {
        let entry = entry.map_err(Error::io(folder, "list"))?;
        let path = entry.path();
        let file_type = entry
            .file_type()
            .map_err(Error::io(&path, "read the file type"))?;
        let found = if file_type.is_dir() {
            find_unrelated(&path, depth - 1)?
        } else {
            let name = entry.file_name();
            (!DOCUMENTS.iter().any(|document| name == *document)).then_some(path)
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Gives the directory the target's name, replacing an existing hierarchy.
pub(super) fn persist(folder: TemporaryDirectory, target: &Path) -> Result<()> {
    let action = "move the finished directory into place";
    let exists = check_target(target)?;
    // Shutdown must not be deleting the directory while it becomes the target.
    let held = hold_removal();
    if !exists {
        std::fs::rename(folder.path(), target).map_err(Error::io(target, action))?;
        drop(held);
        // The directory is the target now, and no longer temporary.
        folder.keep();
        return Ok(());
    }
    // After the exchange, the old hierarchy has the temporary name and is deleted with it.
    if exchange(folder.path(), target) {
        return replace_permissions(folder.path(), target);
    }
    // Creating another directory takes the lock that is held.
    drop(held);
    let old = create_directory_beside(target)?;
    let aside = old.path().join("old");
    // Shutdown waits until one of the two hierarchies has the target's name.
    let held = hold_removal();
    std::fs::rename(target, &aside).map_err(Error::io(target, action))?;
    if let Err(error) = std::fs::rename(folder.path(), target) {
        if std::fs::rename(&aside, target).is_ok() {
            return Err(Error::io(target, action)(error));
        }
        let message = format!(
            "could not be replaced ({error}) or restored; the previous hierarchy is now at {}",
            aside.display()
        );
        // Forgetting the temporary directory takes the lock that is held.
        drop(held);
        old.keep();
        return Err(Error::invalid(target, message));
    }
    drop(held);
    folder.keep();
    replace_permissions(&aside, target)
}

/// Exchanges two names atomically, so that there is a hierarchy at all times. Returns `false` if
/// that is not possible.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn exchange(one: &Path, other: &Path) -> bool {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    // Not every file system supports the exchange.
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn exchange(_: &Path, _: &Path) -> bool {
    false
}
