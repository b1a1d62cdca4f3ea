//! Opens arbitrary bytes as a file, describes its tables and reads what can be read of them.

#![no_main]

// Each target uses a part of what the mutation tests share.
#[allow(dead_code)]
#[path = "../../tests/integration/hostile/mutations/exercise.rs"]
mod exercise;

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use tet_sql::Access;

fuzz_target!(|bytes: &[u8]| {
    // A new file each time: a map of the last one may still be open.
    let mut file = tempfile::NamedTempFile::with_suffix(".tet").expect("a temporary file");
    file.write_all(bytes).expect("room for a file");
    for access in [Access::Mmap, Access::Pread] {
        exercise::read(file.path(), access);
    }
});
