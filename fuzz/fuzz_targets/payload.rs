//! The input is the zstd payload of a chunk. Its first two bytes select the decompressed size that
//! the index declares.

#![no_main]

mod container;

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use tet_sql::Access;
use tet_sql::format::tet::{ChunkReader, Compression, DatasetSpec, Dtype, TetFile};

use container::{FileRegions, ROW_BYTES, both, check, open, read_chunk, set_word, told, with_file};

/// Declared sizes in bytes, to which the input adds up to 255: around the sizes of zstd's blocks
/// and of a decompression step, and around the size from which chunks are decompressed in steps.
const SIZES: [u64; 16] = [
    1,
    1,
    1,
    300,
    300,
    4096,
    4096,
    (64 << 10) - 100,
    (128 << 10) - 100,
    (256 << 10) - 100,
    (1 << 20) - 100,
    (2 << 20) - 100,
    (32 << 20) - 100,
    (32 << 20) + 1,
    (33 << 20) - 100,
    (40 << 20) - 100,
];
/// Files with larger chunks skip the check of the whole file, which reads them several more times.
const MAX_CHECKED: u64 = 64 << 10;

/// A raw dataset, and one of a single compressed chunk.
static PARTS: LazyLock<FileRegions> = LazyLock::new(|| {
    let zstd = Compression::Zstd { level: 1 };
    let datasets = vec![
        DatasetSpec::new("plain", Dtype::U8, &[4], &[4]),
        DatasetSpec::new("packed", Dtype::U8, &[1], &[1]).with_compression(zstd),
    ];
    FileRegions::of(datasets, &[vec![1, 2, 3, 4], vec![5]])
});

fuzz_target!(|bytes: &[u8]| {
    let Some(([size, more], payload)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let raw_bytes = SIZES[usize::from(size & 15)] + u64::from(*more);
    let parts = PARTS.with_last_extent(raw_bytes);
    let mut rows = parts.rows.clone();
    set_word(&mut rows, ROW_BYTES + 80, raw_bytes);
    set_word(&mut rows, ROW_BYTES + 88, payload.len() as u64);
    let file = parts.assemble(&rows, &[&parts.payloads[..4], payload].concat());
    let access = match size & 16 {
        0 => Access::Mmap,
        _ => Access::Pread,
    };
    with_file(&file, |path| {
        let cells = both(|access| {
            let file = open(path, access, false).expect("a sound file but for a payload");
            let [plain, packed] = file.datasets() else {
                panic!("two datasets");
            };
            let mut reader = ChunkReader::new(Arc::<TetFile>::clone(&file), access);
            // A chunk that is not fully decompressed cannot be read, and its reader can be reused.
            if reader.open(packed, &[0]).is_ok() {
                assert!(reader.cells(0..1).is_err());
                assert!(reader.gather(&[], &mut []).is_err());
                reader.advance().ok();
            }
            let cells = told(read_chunk(&mut reader, packed, &[0]));
            // A failed read must not affect the reads that follow.
            let (_, plain) = read_chunk(&mut reader, plain, &[0]).expect("a sound chunk");
            assert_eq!(plain, [1, 2, 3, 4]);
            let again = told(read_chunk(&mut reader, packed, &[0]));
            assert!(cells == again);
            cells
        });
        if raw_bytes <= MAX_CHECKED {
            let errors = check(path, access, &file, file.len());
            assert_eq!(errors == 0, cells.is_ok());
        }
    });
});
