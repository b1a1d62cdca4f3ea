//! The input is the zstd payload of a chunk. Its first two bytes choose how many bytes the index promises.

#![no_main]

mod container;

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use tet_sql::Access;
use tet_sql::format::tet::{ChunkReader, Compression, DatasetSpec, Dtype, TetFile};

use container::{Parts, ROW_BYTES, both, check, open, read_chunk, set_word, told, with_file};

/// Bytes of the chunk, to which the input adds up to 255: around the sizes of zstd's blocks and of a step of decompression,
/// and beyond the size from which it is done step by step.
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
/// Files with larger chunks are not checked as a whole, which reads them several times more.
const MAX_CHECKED: u64 = 64 << 10;

/// A raw dataset, and one of a single compressed chunk.
static PARTS: LazyLock<Parts> = LazyLock::new(|| {
    let zstd = Compression::Zstd { level: 1 };
    let datasets = vec![
        DatasetSpec::new("plain", Dtype::U8, &[4], &[4]),
        DatasetSpec::new("packed", Dtype::U8, &[1], &[1]).with_compression(zstd),
    ];
    Parts::of(datasets, &[vec![1, 2, 3, 4], vec![5]])
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
            // Not read to its end, and not open any more.
            if reader.open(packed, &[0]).is_ok() {
                assert!(reader.cells(0..1).is_err());
                assert!(reader.gather(&[], &mut []).is_err());
                reader.advance().ok();
            }
            let cells = told(read_chunk(&mut reader, packed, &[0]));
            // What was read before changes nothing.
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
