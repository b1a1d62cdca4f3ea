//! Changed bytes: every array is opened and read, or refused, within bounded memory.
//!
//! `TET_SQL_MUTATIONS` sets the number of changes of all arrays together.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use tet_sql::format::io::storage::Access;
use tet_sql::format::tiledb::{EncryptionKey, TileDbArray};

use super::exercise::read;
use super::refusals::{copy, files, generic, options, payload};
use super::{arrays, key};
use crate::support::memory::measure;

/// Small arrays that have every part of the format between them.
const ARRAYS: [&str; 27] = [
    "array_metadata",
    "consolidated_commits_then_fragments",
    "current_domain_dense",
    "deletes_nodups_consolidated",
    "deletes_on_dims",
    "deletes_on_enumeration",
    "dense_4d_colmajor",
    "dense_var_fragments",
    "dimension_labels",
    "encrypted_sparse",
    "enumerations",
    "evolved_dense",
    "filter_bitshuffle_md5_sha256_gzip",
    "filter_bwr_bitshuffle_gzip",
    "filter_dd_bwr_zstd",
    "filter_delta_bwr_lz4",
    "filter_positive_delta",
    "filter_xor_bitshuffle_zstd",
    "filter_zstd_gzip_bzip2",
    "filters_float",
    "group_of_two",
    "nullable_sparse",
    "offsets_filters",
    "sparse_consolidated_kept",
    "sparse_mixed_dims_hil",
    "strings_dict",
    "strings_rle",
];
/// The number of changes by default.
const MUTATIONS: usize = 21_600;
/// Maximum number of bytes that reading a changed array holds.
const MAX_HELD: usize = 1 << 30;

/// A linear congruential generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % end.max(1)
    }
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    let position = random.below(bytes.len());
    let extremes = [
        0,
        1,
        7,
        255,
        65_536,
        u64::from(u32::MAX),
        1 << 40,
        u64::MAX / 8,
        u64::MAX,
    ];
    match random.below(8) {
        0 | 1 => bytes[position] ^= 1 << random.below(8),
        2 => bytes[position] = [0, 1, 127, 128, 255][random.below(5)],
        3 => {
            let value = extremes[random.below(extremes.len())].to_le_bytes();
            let width = [1, 2, 4, 8][random.below(4)].min(bytes.len() - position);
            bytes[position..position + width].copy_from_slice(&value[..width]);
        }
        4 => bytes.truncate(position),
        5 => {
            let count = 1 + random.below(9);
            let value = random.below(256) as u8;
            bytes.splice(position..position, std::iter::repeat_n(value, count));
        }
        6 => {
            let end = (position + 1 + random.below(9)).min(bytes.len());
            bytes.drain(position..end);
        }
        _ => {
            let from = random.below(bytes.len());
            let count = 8.min(bytes.len() - position.max(from));
            bytes.copy_within(from..from + count, position);
        }
    }
}

fn key_of(is_encrypted: bool) -> Option<EncryptionKey> {
    is_encrypted.then(key)
}

/// Replaces compressed generic tiles by uncompressed ones, so that mutations reach the metadata
/// behind the checksums of zlib.
fn uncompress(directory: &Path, slots: usize) {
    for path in files(directory) {
        let text = path.to_string_lossy();
        let is_generic = ["/__schema/", "/__meta/", "/__group/"]
            .iter()
            .any(|part| text.contains(part))
            || text.ends_with(".del");
        let bytes = std::fs::read(&path).unwrap();
        if is_generic {
            std::fs::write(&path, generic(&payload(&bytes).0)).unwrap();
        }
        if !text.ends_with("__fragment_metadata.tdb") || text.contains("/__labels/") {
            continue;
        }
        let end = bytes.len() - 8;
        let length = u64::from_le_bytes(bytes[end..].try_into().unwrap()) as usize;
        let (mut new, mut positions) = (Vec::new(), vec![0usize; bytes.len()]);
        let mut at = 0;
        while at < end - length {
            positions[at] = new.len();
            let (payload, length) = payload(&bytes[at..]);
            new.extend(generic(&payload));
            at += length;
        }
        // The footer ends with the position of the R-tree, eight lists, and two positions.
        let mut footer = bytes[end - length..end].to_vec();
        let start = footer.len() - 8 * (1 + 8 * slots + 2);
        for position in footer[start..].chunks_exact_mut(8) {
            let old = u64::from_le_bytes(position.try_into().unwrap()) as usize;
            position.copy_from_slice(&(positions[old] as u64).to_le_bytes());
        }
        new.extend(&footer);
        new.extend((footer.len() as u64).to_le_bytes());
        std::fs::write(&path, new).unwrap();
    }
}

/// Returns a directory for temporary files, in memory where there is one.
fn temporary() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// Returns the numbers of mutations of an array and of those that are refused, and the maximum number of
/// bytes that reading one held.
fn run(
    name: &str,
    is_uncompressed: bool,
    count: usize,
    mut random: Random,
) -> (usize, usize, usize) {
    let is_encrypted = name.starts_with("encrypted");
    let folder = temporary();
    copy(&arrays().join(name), folder.path());
    // Fragments of one array with different numbers of fields stay as they are.
    let is_even = !name.starts_with("evolved") && !name.contains("consolidated");
    if is_uncompressed && !is_encrypted && !name.starts_with("group") && is_even {
        let array = TileDbArray::open(folder.path(), &options(None), Access::Pread).unwrap();
        let schema = array.schema();
        uncompress(
            folder.path(),
            1 + schema.attributes.len() + schema.dimensions.len(),
        );
    }
    read(folder.path(), Access::Pread, key_of(is_encrypted).as_ref())
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut files = files(folder.path());
    files.retain(|path| path.metadata().unwrap().len() > 0);
    let (mut errors, mut most) = (0, 0);
    for _ in 0..count {
        let path = &files[random.below(files.len())];
        let bytes = std::fs::read(path).unwrap();
        let mut changed = bytes.clone();
        for _ in 0..1 + random.below(2) {
            if !changed.is_empty() {
                mutate(&mut changed, &mut random);
            }
        }
        std::fs::write(path, &changed).unwrap();
        let (found, allocated) =
            measure(|| read(folder.path(), Access::Pread, key_of(is_encrypted).as_ref()));
        let held = allocated.most_held;
        assert!(
            held <= MAX_HELD,
            "{name}, {}: {allocated:?}",
            path.display()
        );
        errors += usize::from(found.is_err());
        most = most.max(held);
        std::fs::write(path, &bytes).unwrap();
    }
    (count, errors, most)
}

#[test]
fn changed_bytes_give_cells_or_errors() {
    let wanted = std::env::var("TET_SQL_MUTATIONS");
    let wanted = wanted.map_or(MUTATIONS, |text| text.parse().expect("a number"));
    // Each array is changed with and without compressed metadata.
    let count = wanted.div_ceil(2 * ARRAYS.len());
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut total = (0, 0, 0);
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            let Some(name) = ARRAYS.get(job / 2) else {
                return total;
            };
            let (cases, errors, most) = run(name, job % 2 == 1, count, Random(job as u64));
            total = (total.0 + cases, total.1 + errors, total.2.max(most));
        }
    };
    let totals = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(worker)).collect();
        let totals = workers.into_iter().map(|worker| worker.join().unwrap());
        totals.collect::<Vec<_>>()
    });
    let cases: usize = totals.iter().map(|total| total.0).sum();
    let errors: usize = totals.iter().map(|total| total.1).sum();
    let most = totals.iter().map(|total| total.2).max().unwrap_or(0);
    println!("{errors} of {cases} cases are refused; at most {most} bytes are held");
    assert!(errors > cases / 4 && errors < cases);
}
