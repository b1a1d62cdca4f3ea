//! The history file of the prompt.

use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Creates the history file if necessary and returns its path, or `None` if there is no home
/// directory.
pub fn prepare() -> Option<io::Result<PathBuf>> {
    let folder = Xdg::new().ok()?.state_dir()?.join("tet-sql");
    Some(create(&folder))
}

/// Creates the history file. Only the owner may read it, because statements may contain
/// confidential data.
fn create(folder: &Path) -> io::Result<PathBuf> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        builder.mode(0o700);
        options.mode(0o600);
    }
    builder.create(folder)?;
    let path = folder.join("history");
    let file = options.open(&path)?;
    // Opening does not change the mode of an existing file.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    drop(file);
    Ok(path)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_the_owner_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("a").join("b");
        let path = create(&state).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        create(&state).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
