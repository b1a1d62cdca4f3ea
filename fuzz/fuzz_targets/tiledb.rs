//! Replaces a file of a small TileDB array or group by arbitrary bytes, and reads all of the array. The first byte
//! selects the array and the file: it is the ordinal of the file among those of all arrays in [`ARRAYS`].

#![no_main]

#[path = "../../tests/integration/formats/tiledb/exercise.rs"]
mod exercise;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tet_sql::Access;

/// Arrays in `tests/data/tiledb/arrays` that have every part of the format between them. `seeds.py` has the same
/// list.
const ARRAYS: [&str; 8] = [
    "array_metadata",
    "deletes_nodups_raw",
    "dense_var_fragments",
    "dimension_labels",
    "enumerations",
    "group_of_two",
    "nullable_sparse",
    "sparse_mixed_dims_hil",
];

/// A file of an array.
struct Part {
    array: &'static str,
    /// The path within the array.
    path: PathBuf,
    bytes: Vec<u8>,
}

/// The files of all arrays, in the order of their paths.
static PARTS: LazyLock<Vec<Part>> = LazyLock::new(|| {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/tiledb/arrays");
    let mut parts = Vec::new();
    for array in ARRAYS {
        let root = data.join(array);
        let mut paths = vec![root.clone()];
        let mut files = Vec::new();
        while let Some(path) = paths.pop() {
            match fs::read_dir(&path) {
                Ok(entries) => paths.extend(entries.map(|entry| entry.expect("an entry").path())),
                Err(_) => files.push(path),
            }
        }
        files.sort();
        parts.extend(files.into_iter().map(|file| Part {
            array,
            path: file.strip_prefix(&root).expect("a file of the array").to_path_buf(),
            bytes: fs::read(&file).expect("a file of the repository"),
        }));
    }
    parts
});

fuzz_target!(|input: &[u8]| {
    let Some((selector, bytes)) = input.split_first() else {
        return;
    };
    let replaced = usize::from(*selector) % PARTS.len();
    let folder = tempfile::tempdir().expect("a temporary directory");
    for (number, part) in PARTS.iter().enumerate() {
        if part.array != PARTS[replaced].array {
            continue;
        }
        let path = folder.path().join(&part.path);
        let directory = path.parent().expect("the directory of a file");
        fs::create_dir_all(directory).expect("room for a directory");
        let bytes = if number == replaced { bytes } else { &part.bytes };
        fs::write(&path, bytes).expect("room for a file");
    }
    // Errors are expected.
    let _ = exercise::read(folder.path(), Access::Pread, None);
});
