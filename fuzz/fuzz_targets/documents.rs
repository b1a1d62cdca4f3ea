//! Opens arbitrary bytes as a `.tatami` file, and reads, verifies and searches all of it. The first byte selects
//! whether checksums are corrected first: 0 leaves them as they are, any other value corrects those of the header,
//! the footer and, if the file can then be opened, all records.

#![no_main]

#[path = "../../tests/integration/formats/tatami/exercise.rs"]
mod exercise;

use libfuzzer_sys::fuzz_target;
use tet_sql::Access;
use tet_sql::format::tatami::TatamiFile;

fuzz_target!(|input: &[u8]| {
    let Some((selector, bytes)) = input.split_first() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary directory");
    // Use a new file each time: a map of the last one may still be open.
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("room for a file");
        path
    };
    let mut bytes = bytes.to_vec();
    if *selector != 0 {
        // The trailer: the length of the footer, its checksum, and the magic.
        let end = bytes.len().saturating_sub(12);
        let length = bytes.get(end..).and_then(|trailer| trailer.first_chunk());
        let length = length.map_or(0, |length| u32::from_le_bytes(*length)) as usize;
        let footer = end.saturating_sub(length);
        exercise::seal(&mut bytes, footer, &[]);
        let path = write("sealed.tatami", &bytes);
        let regions = TatamiFile::open(&path, Access::Pread).and_then(|file| file.regions());
        if let Ok(regions) = regions {
            exercise::seal(&mut bytes, footer, &regions);
        }
    }
    exercise::exercise(&write("f.tatami", &bytes), Access::Pread);
});
