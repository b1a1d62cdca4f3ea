//! Which format a file has.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use datafusion::config::ConfigOptions;

use crate::error::Error;
use crate::format::array::ArrayFile;
use crate::format::npy::NpyFile;
use crate::format::tet::{TetFile, is_package};
use crate::provider::options::TetOptions;

/// What the names of array files end in.
const EXTENSIONS: [&str; 4] = ["tet", "tet.d", "npy", "npz"];
/// What NumPy's files start with: `.npy`, `.npz`, and a `.npz` without arrays.
const NUMPY: [&[u8]; 3] = [b"\x93NUM", b"PK\x03\x04", b"PK\x05\x06"];

/// Opens a file of arrays; its first bytes tell which format it has. `session` is what an unset access mode follows.
///
/// # Errors
/// If it cannot be opened.
pub(crate) fn open_file(
    path: &Path,
    options: &TetOptions,
    session: &ConfigOptions,
) -> Result<Arc<dyn ArrayFile>, Error> {
    let options = options.open_options(session);
    if NUMPY.contains(&start(path).as_slice()) {
        return Ok(Arc::new(NpyFile::open(path, options.access)?));
    }
    Ok(Arc::new(TetFile::open(path, options)?))
}

/// The first bytes of a file, as many as there are; none of a folder. What cannot be read is told where it is opened.
fn start(path: &Path) -> Vec<u8> {
    let mut start = Vec::new();
    if let Ok(file) = File::open(path) {
        file.take(4).read_to_end(&mut start).ok();
    }
    start
}

/// Whether a folder is read as one file: a package.
pub fn is_array_folder(path: &Path) -> bool {
    is_package(path)
}

/// Whether a name is one of an array file.
pub(crate) fn is_array_name(name: &str) -> bool {
    let name = name.trim_end_matches('/').to_ascii_lowercase();
    EXTENSIONS.iter().any(|extension| {
        name.strip_suffix(extension)
            .is_some_and(|rest| rest.ends_with('.'))
    })
}
