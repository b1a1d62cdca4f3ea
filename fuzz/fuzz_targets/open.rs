//! Opens arbitrary bytes as a file, describes its tables and reads as much of them as possible.

#![no_main]

// Each target uses only some of the items shared with the mutation tests.
#[allow(dead_code)]
#[path = "../../tests/integration/hostile/mutations/exercise.rs"]
mod exercise;

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use tet_sql::Access;

fuzz_target!(|bytes: &[u8]| {
    // Use a new file each time: a map of the last one may still be open.
    let mut file = tempfile::NamedTempFile::with_suffix(".tet").expect("a temporary file");
    file.write_all(bytes).expect("room for a file");
    for access in [Access::Mmap, Access::Pread] {
        exercise::read(file.path(), access);
    }
});
