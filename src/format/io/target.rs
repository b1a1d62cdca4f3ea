//! Temporary files and directories that are built beside their target and then renamed to it.

use std::borrow::Cow;
use std::fs::File;
use std::path::Path;

use tempfile::{Builder, NamedTempFile, TempDir};

use crate::error::{Error, Result};
use crate::format::io::unfinished::Unfinished;

/// A new file that has not been renamed to its target yet.
pub(crate) type TemporaryFile = Unfinished<NamedTempFile>;
/// A new directory that has not been renamed to its target yet.
pub(crate) type TemporaryDirectory = Unfinished<TempDir>;

/// Creates a temporary file beside `target`, named `.tet-writing-*.tmp`.
pub(crate) fn create_beside(target: &Path) -> Result<TemporaryFile> {
    let mut builder = builder();
    // Temporary files are private by default. A data file gets the permissions of any new file
    // instead, to which the process's umask applies.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    Unfinished::create(
        || builder.tempfile_in(parent_directory(&resolved(target))),
        NamedTempFile::path,
    )
    .map_err(Error::io(target, "create"))
}

/// Creates a temporary directory beside `target`, named `.tet-writing-*.tmp`.
#[cfg(any(feature = "tiledb", feature = "zarr"))]
pub(crate) fn create_directory_beside(target: &Path) -> Result<TemporaryDirectory> {
    let mut builder = builder();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    Unfinished::create(
        || builder.tempdir_in(parent_directory(&resolved(target))),
        TempDir::path,
    )
    .map_err(Error::io(target, "create"))
}

/// Creates the temporary directory `path`. Errors name `target`, which the directory is for.
pub(crate) fn create_directory(path: &Path, target: &Path) -> Result<TemporaryDirectory> {
    let mut builder = Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
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

/// Follows a symbolic link, so that a write replaces the linked file and not the link.
pub(crate) fn resolved(target: &Path) -> Cow<'_, Path> {
    match target.is_symlink().then(|| target.canonicalize()) {
        Some(Ok(path)) => Cow::Owned(path),
        _ => Cow::Borrowed(target),
    }
}

fn parent_directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
