//! Opens arbitrary bytes as a file and runs a query over its tables. The last two bytes are not
//! part of the file: they select the tables and the query.

#![no_main]

// Each target uses only some of the items shared with the mutation tests.
#[allow(dead_code)]
#[path = "../../tests/integration/hostile/mutations/exercise.rs"]
mod exercise;

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use tet_sql::Access;

fuzz_target!(|bytes: &[u8]| {
    let Some((bytes, selector)) = bytes.split_last_chunk::<2>() else {
        return;
    };
    // Use a new file each time: a map of the last one may still be open.
    let mut file = tempfile::NamedTempFile::with_suffix(".tet").expect("a temporary file");
    file.write_all(bytes).expect("room for a file");
    let selector = u16::from_le_bytes(*selector);
    exercise::query(file.path(), Access::Pread, selector.into()).ok();
});
