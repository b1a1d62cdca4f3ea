//! Opens arbitrary bytes as a classic NetCDF file, and reads all of it in both access modes.

#![no_main]

#[path = "../../tests/integration/formats/netcdf/exercise.rs"]
mod exercise;

use libfuzzer_sys::fuzz_target;
use tet_sql::Access;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let read = [("a.nc", Access::Mmap), ("b.nc", Access::Pread)].map(|(name, access)| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("room for a file");
        exercise::exercise(&path, access)
    });
    assert_eq!(read[0], read[1], "the access modes differ");
});
