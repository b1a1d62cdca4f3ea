//! The demo files: a small weather data set, and reports about the weather.

#[cfg(feature = "tatami")]
mod reports;
mod weather;

use crate::failure::Failure;
use crate::session::shutdown;
use std::path::PathBuf;
use tempfile::TempDir;

/// The demo files, which are deleted when this is dropped.
pub struct Demo {
    paths: Vec<PathBuf>,
    /// Deletes the directory when dropped.
    _folder: TempDir,
}

impl Demo {
    /// Writes the files to a temporary directory.
    pub fn create() -> Result<Self, Failure> {
        let folder = shutdown::temporary_directory()?;
        let mut paths = vec![folder.path().join("demo.tet")];
        let mut written = weather::write(&paths[0]);
        #[cfg(feature = "tatami")]
        {
            let path = folder.path().join("reports.tatami");
            written = written.and_then(|()| Ok(reports::write(&path)?));
            paths.push(path);
        }
        written.map_err(|error| Failure::message(format!("the demo files: {error}")))?;
        Ok(Self {
            paths,
            _folder: folder,
        })
    }

    /// Returns the paths of the files.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }
}
