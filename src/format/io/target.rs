//! Temporary files and directories that are built beside their target and then renamed to it.

use std::borrow::Cow;
use std::fs::File;
use std::path::Path;

use tempfile::{Builder, NamedTempFile, TempDir};

use crate::error::{Error, Result};
use crate::format::io::unfinished::Unfinished;

/// The permissions of an owner to read, write and search a directory.
const OWNER: u32 = 0o700;
/// Maximum number of symbolic links that are followed one after the other, as in Linux.
const MAX_LINKS: usize = 40;

/// A new file that has not been renamed to its target yet.
pub(crate) type TemporaryFile = Unfinished<NamedTempFile>;
/// A new directory that has not been renamed to its target yet.
pub(crate) type TemporaryDirectory = Unfinished<TempDir>;

/// Creates a temporary file beside `target`, named `.tet-writing-*.tmp`, with the permissions of `target` if
/// that exists.
pub(crate) fn create_beside(target: &Path) -> Result<TemporaryFile> {
    let mut builder = builder();
    // Temporary files are private by default. A data file gets the permissions of any new file
    // instead, to which the process's umask applies.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    Unfinished::create(
        || {
            let file = builder.tempfile_in(parent_directory(&resolved(target)))?;
            keep_permissions(target, file.path()).map(|()| file)
        },
        NamedTempFile::path,
    )
    .map_err(Error::io(target, "create"))
}

/// Gives `new` the permissions of the file or directory that it replaces.
pub(crate) fn keep_permissions(replaced: &Path, new: &Path) -> std::io::Result<()> {
    add_permissions(replaced, new, 0)
}

/// Gives `new` the permissions of the directory `old`, which it has replaced, and lets the owner of `old`
/// delete it.
#[cfg(feature = "zarr")]
pub(crate) fn replace_permissions(old: &Path, new: &Path) -> Result<()> {
    keep_permissions(old, new).map_err(Error::io(new, "set the permissions"))?;
    // The directory may belong to another user. Deleting it may still succeed.
    let _ = add_permissions(old, old, OWNER);
    Ok(())
}

/// Gives `new` the permissions of `old`, and those in `mode`, if both are files or both are directories.
#[cfg(unix)]
fn add_permissions(old: &Path, new: &Path, mode: u32) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    match old.metadata() {
        Ok(old) if old.is_dir() == new.is_dir() => {
            let mode = old.permissions().mode() | mode;
            std::fs::set_permissions(new, PermissionsExt::from_mode(mode))
        }
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn add_permissions(_: &Path, _: &Path, _: u32) -> std::io::Result<()> {
    Ok(())
}

/// Creates a temporary directory beside `target`, named `.tet-writing-*.tmp`. If `target` is a directory, the
/// new one has its permissions, and its owner can also write. Call [`replace_permissions`] when the directory
/// has replaced `target`.
#[cfg(any(feature = "tiledb", feature = "zarr"))]
pub(crate) fn create_directory_beside(target: &Path) -> Result<TemporaryDirectory> {
    let mut builder = builder();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    Unfinished::create(
        || {
            let directory = builder.tempdir_in(parent_directory(&resolved(target)))?;
            add_permissions(target, directory.path(), OWNER).map(|()| directory)
        },
        TempDir::path,
    )
    .map_err(Error::io(target, "create"))
}

/// Creates the temporary directory `path`. Errors name `target`, which the directory is for.
#[cfg(feature = "tiledb")]
pub(crate) fn create_directory(path: &Path, target: &Path) -> Result<TemporaryDirectory> {
    create_with_mode(path, target, 0o777)
}

/// Creates the temporary directory `path`, to which only its owner has access, because the files that it
/// will contain may replace private ones. Errors name `target`, which the directory is for.
pub(crate) fn create_private_directory(path: &Path, target: &Path) -> Result<TemporaryDirectory> {
    create_with_mode(path, target, OWNER)
}

fn create_with_mode(path: &Path, target: &Path, mode: u32) -> Result<TemporaryDirectory> {
    let mut builder = Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    let _ = mode;
    let name = path.file_name().unwrap_or_default();
    builder.prefix(name).rand_bytes(0);
    Unfinished::create(|| builder.tempdir_in(parent_directory(path)), TempDir::path)
        .map_err(Error::io(target, "create"))
}

fn builder() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(".tet-writing-").suffix(".tmp");
    builder
}

/// Syncs the file and renames it to `target`.
pub(crate) fn persist(temporary: TemporaryFile, target: &Path) -> Result<()> {
    temporary
        .as_file()
        .sync_all()
        .map_err(Error::io(target, "sync"))?;
    temporary
        .persist(&resolved(target))
        .map_err(Error::io(target, "move the finished file into place"))?;
    sync_name(target);
    Ok(())
}

/// Syncs the directory of `target`, so that the new name survives a crash. Errors are ignored: not
/// every platform can sync a directory, and the file's contents are already synced.
pub(crate) fn sync_name(target: &Path) {
    if let Ok(folder) = File::open(parent_directory(&resolved(target))) {
        let _ = folder.sync_all();
    }
}

/// Follows symbolic links, so that a write creates or replaces the linked file and not a link.
pub(crate) fn resolved(target: &Path) -> Cow<'_, Path> {
    let mut path = Cow::Borrowed(target);
    for _ in 0..MAX_LINKS {
        let Ok(link) = path.read_link() else {
            break;
        };
        path = Cow::Owned(parent_directory(&path).join(link));
    }
    path
}

fn parent_directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
