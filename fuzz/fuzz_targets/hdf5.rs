//! Opens arbitrary bytes as an HDF5 file, and reads some chunks of each dataset in both access modes.

#![no_main]

#[path = "../../tests/integration/formats/hdf5/exercise.rs"]
mod exercise;

use libfuzzer_sys::fuzz_target;
use tet_sql::Access;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().expect("a temporary directory");
    for (name, access) in [("a.h5", Access::Mmap), ("b.h5", Access::Pread)] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("room for a file");
        exercise::exercise(&path, access);
    }
});
