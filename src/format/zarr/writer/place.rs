//! What lies in the folder under construction, and how it gets the target's name.

use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::format::hold;
use crate::format::target::{TemporaryFolder, create_folder_beside};
use crate::format::zarr::walk::is_hierarchy;

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
        let _ = std::fs::rename(&aside, target);
        return Err(Error::io(target, action)(error));
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
