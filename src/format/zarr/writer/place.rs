//! What lies in the folder under construction, and how it gets the target's name.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::hold;
use crate::format::io::target::{TemporaryFolder, create_folder_beside};
use crate::format::zarr::walk::{DOCUMENTS, MAX_DEPTH, is_array, is_hierarchy};

/// Writes one file of the hierarchy, and the folders that it lies in.
pub(super) fn write(target: &Path, file: &Path, bytes: &[u8]) -> Result<()> {
    // The folders are made anew where they are missing, which must not undo that they were taken away.
    let _held = hold();
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
/// If it is anything but a Zarr hierarchy with nothing else in it: whatever else there is, nobody asked to have it removed.
pub(super) fn check_target(target: &Path) -> Result<bool> {
    let metadata = match std::fs::symlink_metadata(target) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(Error::io(target, "create")(error)),
    };
    if !metadata.is_dir() || !is_hierarchy(target) {
        return Err(Error::invalid(
            target,
            "exists and is no Zarr folder; it will not be replaced",
        ));
    }
    match foreign(target, MAX_DEPTH)? {
        None => Ok(true),
        Some(found) => Err(Error::invalid(
            target,
            format!(
                "exists, and {} in it is no part of a Zarr hierarchy; it will not be replaced",
                found.display()
            ),
        )),
    }
}

/// Something in a folder that is neither metadata nor of an array.
fn foreign(folder: &Path, depth: usize) -> Result<Option<PathBuf>> {
    if depth == 0 || is_array(folder) {
        return Ok((depth == 0).then(|| folder.to_path_buf()));
    }
    for entry in folder.read_dir().map_err(Error::io(folder, "list"))? {
        let entry = entry.map_err(Error::io(folder, "list"))?;
        let path = entry.path();
        let file_type = entry.file_type().map_err(Error::io(&path, "look at"))?;
        let found = if file_type.is_dir() {
            foreign(&path, depth - 1)?
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

/// Gives the folder the target's name, in the place of the hierarchy that has it.
pub(super) fn persist(folder: TemporaryFolder, target: &Path) -> Result<()> {
    let action = "rename the finished folder to";
    if !check_target(target)? {
        std::fs::rename(folder.path(), target).map_err(Error::io(target, action))?;
        // It has another name now, under which nothing removes it.
        folder.keep();
        return Ok(());
    }
    // What has the temporary name then is the old one, and removed with all that is in it.
    if exchange(folder.path(), target) {
        return Ok(());
    }
    let old = create_folder_beside(target)?;
    let aside = old.path().join("old");
    // Whoever ends the process waits until one of them has the name.
    let held = hold();
    std::fs::rename(target, &aside).map_err(Error::io(target, action))?;
    if let Err(error) = std::fs::rename(folder.path(), target) {
        if std::fs::rename(&aside, target).is_ok() {
            return Err(Error::io(target, action)(error));
        }
        let message = format!(
            "could not be replaced ({error}), nor put back: what was there is now {}",
            aside.display()
        );
        old.keep();
        return Err(Error::invalid(target, message));
    }
    drop(held);
    folder.keep();
    Ok(())
}

/// Exchanges two names at once, so that there is a hierarchy at any time; whether that was possible.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn exchange(one: &Path, other: &Path) -> bool {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    // Not every file system can.
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn exchange(_: &Path, _: &Path) -> bool {
    false
}
