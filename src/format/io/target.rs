//! The file or folder under construction: a temporary one beside the target.

use std::borrow::Cow;
use std::fs::File;
use std::path::Path;

use tempfile::{Builder, NamedTempFile, TempDir};

use crate::error::{Error, Result};
use crate::format::io::unfinished::Unfinished;

/// A new file, until it gets its name.
pub(crate) type TemporaryFile = Unfinished<NamedTempFile>;
/// A new folder, until it gets its name.
pub(crate) type TemporaryFolder = Unfinished<TempDir>;

/// A new temporary file beside `target`, with a name that tells what it is.
pub(crate) fn create_beside(target: &Path) -> Result<TemporaryFile> {
    let mut builder = builder();
    // Temporary files are private by default; a data file should get the permissions of any new file. The process's
    // umask is applied to these.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    Unfinished::create(
        || builder.tempfile_in(folder_of(&resolved(target))),
        NamedTempFile::path,
    )
    .map_err(Error::io(target, "create"))
}

/// A new temporary folder beside `target`, likewise.
pub(crate) fn create_folder_beside(target: &Path) -> Result<TemporaryFolder> {
    let mut builder = builder();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    Unfinished::create(
        || builder.tempdir_in(folder_of(&resolved(target))),
        TempDir::path,
    )
    .map_err(Error::io(target, "create"))
}

/// A new temporary folder of this path, for what is to become `target`.
pub(crate) fn create_folder(path: &Path, target: &Path) -> Result<TemporaryFolder> {
    let mut builder = Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    let name = path.file_name().unwrap_or_default();
    builder.prefix(name).rand_bytes(0);
    Unfinished::create(|| builder.tempdir_in(folder_of(path)), TempDir::path)
        .map_err(Error::io(target, "create"))
}

fn builder() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(".tet-writing-").suffix(".tmp");
    builder
}

/// Syncs the file and gives it the target's name.
pub(crate) fn persist(temporary: TemporaryFile, target: &Path) -> Result<()> {
    temporary
        .as_file()
        .sync_all()
        .map_err(Error::io(target, "sync"))?;
    temporary
        .persist(&resolved(target))
        .map_err(Error::io(target, "rename the finished file to"))?;
    sync_name(target);
    Ok(())
}

/// Makes the new name survive a crash, where the platform can. The file itself is already safe.
pub(crate) fn sync_name(target: &Path) {
    if let Ok(folder) = File::open(folder_of(&resolved(target))) {
        let _ = folder.sync_all();
    }
}

/// Where a link leads: it is the file that is replaced, not the link to it.
pub(crate) fn resolved(target: &Path) -> Cow<'_, Path> {
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
