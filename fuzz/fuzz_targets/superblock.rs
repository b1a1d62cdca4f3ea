//! The input is the start of a file: superblock, dataset directory and header of the chunk index.
//! Rows, payloads and a footer follow. A flag that readers ignore decides whether the footer is
//! broken.

#![no_main]

mod container;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tet_sql::Access;
use tet_sql::format::array::ArrayFile;
use tet_sql::format::tet::TetFile;

use container::{
    append_footer, both, check, is_checked, open, positions, read_chunks, told, with_file,
};

/// The size of the superblock in bytes.
const SUPERBLOCK_BYTES: usize = 32;
/// The number of index rows that follow: the first chunks along the first dimension of the first
/// dataset.
const ROWS: u64 = 8;
/// The size of each of these chunks in bytes.
const CHUNK_BYTES: u64 = 8;
/// The maximum number of datasets that are examined.
const MAX_DATASETS: usize = 12;
/// A footer with metadata for dataset names that inputs are likely to have.
const FOOTER: &str =
    r#"{"history":[],"metadata":{"datasets":{"a":{"dim_names":["x"]},"a/b":{"attrs":{"u":"K"}}}}}"#;

/// Index rows and payloads. The offset at which they end up depends on the input, so the rows refer
/// to the first bytes of the file as payloads.
static REST: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut rest = Vec::new();
    for position in 0..ROWS {
        let chunk = [position, 0, 0, 0, 0, 0, 0, 0];
        let row = [[0].as_slice(), &chunk, &[0, CHUNK_BYTES, CHUNK_BYTES, 0]].concat();
        rest.extend(row.into_iter().flat_map(u64::to_le_bytes));
    }
    rest
});

/// Describes a file as text.
fn describe(file: &TetFile) -> String {
    let mut told = String::new();
    for dataset in file.datasets().iter().take(MAX_DATASETS) {
        let dtype = dataset.check(file.path()).ok();
        let grid = dtype.map(|_| dataset.chunk_grid());
        let found = file.dataset(dataset.name()).map(|found| found.id());
        told += &format!("{dataset:?} {dtype:?} {grid:?} {found:?}");
        told += &format!("{:?}", file.metadata(dataset));
    }
    told += &file.no_such_dataset("none").to_string();
    told += &format!(
        "{} {} {:?}",
        file.length(),
        file.chunk_rows(),
        file.warnings()
    );
    told + &format!("{}", file.memory_budget().resolve(1 << 40))
}

fuzz_target!(|bytes: &[u8]| {
    let mut file = [bytes, &REST].concat();
    let payload_end = file.len();
    // If the input is shorter than a superblock, the rows supply the rest.
    append_footer(&mut file, 1, FOOTER.as_bytes());
    // The input decides whether there is a footer, and whether it is broken.
    file[12] = bytes.get(12).copied().unwrap_or(0);
    let is_broken = file[13] & 1 != 0;
    let kept = match is_broken {
        true => SUPERBLOCK_BYTES,
        false => payload_end,
    };
    if is_broken {
        file.pop();
    }
    with_file(&file, |path| {
        let with_footer = [false, true].map(|ignore_footer| {
            both(|access| {
                let file = told(open(path, access, ignore_footer))?;
                let mut rows = Vec::new();
                told(file.stored_rows(access, 100, |number, row| rows.push((number, *row))))?;
                assert_eq!(rows.len() as u64, file.chunk_rows().min(100));
                assert!(told(file.zone_maps(access))?.is_none());
                assert!(told(file.value_postings(access))?.is_none());
                let are_few = file.datasets().len() <= MAX_DATASETS;
                let chunks = are_few.then(|| read_chunks(&file, access));
                Ok::<_, String>((describe(&file), rows, chunks))
            })
        });
        if !is_checked(bytes) {
            return;
        }
        let access = match bytes.len() % 2 {
            0 => Access::Mmap,
            _ => Access::Pread,
        };
        let errors = check(path, access, &file, kept);
        let [as_it_is, without_footer] = &with_footer;
        assert!(as_it_is.is_err() || without_footer.is_ok());
        assert!(errors > 0 || as_it_is.is_ok());
        let mended = open(path, access, false);
        assert_eq!(mended.is_ok(), without_footer.is_ok());
        if errors == 0
            && let Ok(file) = mended
            && let Ok((_, _, Some(chunks))) = as_it_is
        {
            // The last chunk index tried for each dataset lies outside its grid.
            let mut chunks = chunks.iter();
            for dataset in file.datasets() {
                let count = positions(dataset, path).len();
                for (number, chunk) in chunks.by_ref().take(count).enumerate() {
                    assert_eq!(chunk.is_ok(), number + 1 < count, "{chunk:?}");
                }
            }
        }
    });
});
