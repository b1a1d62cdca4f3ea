//! Changed bytes in blocks of metadata with checksums, and in global heaps, which have none, are found.

use std::path::Path;
use std::sync::Arc;

use tet_sql::Access;
use tet_sql::format::array::ArrayFile;
use tet_sql::format::hdf5::Hdf5File;
use tet_sql::format::tet::verify::{VerifyOptions, verify_arrays};

use super::stored::path;

/// Returns `true` if the file is sound.
fn is_sound(path: &Path) -> bool {
    let Ok(file) = Hdf5File::open(path, Access::Pread) else {
        return false;
    };
    let file: Arc<dyn ArrayFile> = Arc::new(file);
    let options = VerifyOptions {
        deep: true,
        ..VerifyOptions::default()
    };
    verify_arrays(&file, options, &|_, _| {}).ok
}

/// Returns the positions at which a file has a signature.
fn positions(bytes: &[u8], signature: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(signature.len()).enumerate();
    let found = windows.filter(|(_, window)| *window == signature);
    found.map(|(position, _)| position).collect()
}

/// Changes the byte `offset` bytes after each of the signatures, one at a time. Returns the number of changes.
fn change_each(name: &str, signature: &str, offset: usize) -> usize {
    let original = std::fs::read(path(name)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let changed = folder.path().join(name);
    let positions = positions(&original, signature.as_bytes());
    for position in &positions {
        let mut bytes = original.clone();
        bytes[position + offset] ^= 1;
        std::fs::write(&changed, bytes).unwrap();
        assert!(!is_sound(&changed), "{name}: {signature} at {position}");
    }
    positions.len()
}

#[test]
fn changed_chunk_indexes_are_found() {
    let name = "layouts_latest.h5";
    assert!(is_sound(&path(name)));
    // Offset 6 is in a block's address of the header, or a header's size of entries; offset 16 is behind them.
    for offset in [6, 16] {
        for signature in ["EAHD", "EAIB", "EASB", "EADB", "FAHD", "FADB"] {
            assert!(change_each(name, signature, offset) > 0, "{signature}");
        }
    }
    // A page has no signature, but a checksum. The bitmap of this block has two pages.
    let original = std::fs::read(path(name)).unwrap();
    let blocks = positions(&original, b"FADB");
    let mut paged = blocks.iter().filter(|block| original[*block + 14] == 0xc0);
    let pages = paged.next().unwrap() + 19;
    let folder = tempfile::tempdir().unwrap();
    let changed = folder.path().join(name);
    // The second page follows 1,024 addresses and their checksum.
    for position in [pages + 8, pages + 1024 * 8 + 4 + 8] {
        let mut bytes = original.clone();
        bytes[position] ^= 1;
        std::fs::write(&changed, bytes).unwrap();
        assert!(!is_sound(&changed), "{position}");
    }
}

#[test]
fn changed_heaps_are_found() {
    assert!(is_sound(&path("groups_latest.h5")));
    // In fractal heaps, the offset of the block: only the checksum reveals the change. In the global heap,
    // the id of an object.
    for (signature, offset) in [("FHIB", 13), ("FHDB", 13), ("GCOL", 16)] {
        let changed = change_each("groups_latest.h5", signature, offset);
        assert!(changed > 0, "{signature}");
    }
}
