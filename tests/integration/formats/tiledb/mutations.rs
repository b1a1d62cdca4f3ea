//! Changed bytes: every array is opened and read, or refused, within bounded memory.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tet_sql::Error;
use tet_sql::format::io::storage::Access;
use tet_sql::format::tiledb::{
    DenseReader, FieldKind, SparseReader, TileBuffers, TileDbArray, TileDbGroup, TileReader,
};

use super::refusals::{copy, files, generic, options, payload};
use super::{arrays, key};

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
/// Mutations of each array, with and without compressed metadata.
const MUTATIONS: usize = 400;
/// Tiles that are read of each fragment.
const MAX_TILES: u64 = 6;
/// Cells of the windows that are read: their size is up to the caller.
const MAX_CELLS: usize = 1 << 20;

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

/// Reads everything within the limits. Stops at the first error.
fn read(path: &Path, access: Access, is_encrypted: bool) -> Result<(), Error> {
    let options = options(is_encrypted.then(key));
    if TileDbGroup::recognises(path) {
        let group = TileDbGroup::open(path, &options)?;
        group.metadata()?;
        for member in group.members() {
            if let Some(path) = group.member_path(member) {
                read(&path, access, is_encrypted)?;
            }
        }
        return Ok(());
    }
    let array = Arc::new(TileDbArray::open(path, &options, access)?);
    array.metadata()?;
    for label in &array.schema().labels {
        if let Some(path) = array.label_path(label) {
            read(&path, access, is_encrypted)?;
        }
    }
    for attribute in 0..array.schema().attributes.len() {
        array.enumeration(attribute)?;
    }
    let mut buffers = TileBuffers::default();
    let mut tiles = TileReader::default();
    for (index, fragment) in array.fragments().iter().enumerate() {
        let mut kinds: Vec<_> = (0..fragment.schema().attributes.len())
            .map(FieldKind::Attribute)
            .collect();
        if fragment.schema().is_sparse {
            kinds.extend((0..fragment.schema().dimensions.len()).map(FieldKind::Dimension));
            fragment.bounds()?;
        }
        if fragment.has_timestamps() {
            kinds.push(FieldKind::Timestamps);
        }
        if fragment.has_deletes() {
            kinds.push(FieldKind::DeleteTimes);
        }
        fragment.statistics()?;
        fragment.processed_deletes()?;
        for attribute in 0..fragment.schema().attributes.len() {
            fragment.summaries(attribute)?;
            fragment.summary(attribute)?;
        }
        for kind in kinds {
            let field = fragment.field(kind)?;
            for tile in 0..fragment.tiles().min(MAX_TILES) {
                tiles.read(fragment, &field, tile, &mut buffers)?;
                assert_eq!(buffers.cells as u64, fragment.cells(tile));
            }
        }
        if array.schema().is_sparse {
            let mut reader = SparseReader::new(Arc::clone(&array))?;
            for tile in 0..fragment.tiles().min(MAX_TILES) {
                reader.selection(index, tile)?;
                for attribute in 0..array.schema().attributes.len() {
                    reader.attribute(index, tile, attribute, &mut buffers)?;
                }
            }
        }
    }
    if array.schema().is_sparse {
        return Ok(());
    }
    let grid = array.grid()?;
    let mut reader = DenseReader::new(Arc::clone(&array));
    let tiles = grid.tile_box(grid.used());
    for tile in 0..MAX_TILES {
        let tile = tiles
            .ranges
            .iter()
            .map(|range| (range.start + tile).min(range.end - 1));
        let Some(cells) = grid.tile(&tile.collect::<Vec<_>>()) else {
            continue;
        };
        if cells.cells().is_none_or(|cells| cells > MAX_CELLS as u64) {
            continue;
        }
        let window = array.window(cells)?;
        for attribute in 0..array.schema().attributes.len() {
            if array.schema().attributes[attribute].fill.len() < MAX_CELLS {
                reader.read(&window, attribute, &mut buffers)?;
                assert_eq!(buffers.cells, window.len());
            }
        }
    }
    Ok(())
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

/// Returns the numbers of mutations of an array, and of those that are refused.
fn run(name: &str, is_uncompressed: bool, count: usize, mut random: Random) -> (usize, usize) {
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
    read(folder.path(), Access::Pread, is_encrypted)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut files = files(folder.path());
    files.retain(|path| path.metadata().unwrap().len() > 0);
    let mut errors = 0;
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
        errors += usize::from(read(folder.path(), Access::Pread, is_encrypted).is_err());
        std::fs::write(path, &bytes).unwrap();
    }
    (count, errors)
}

#[test]
fn changed_bytes_give_cells_or_errors() {
    let count = std::env::var("TILEDB_MUTATIONS").ok();
    let count = count.map_or(MUTATIONS, |count| count.parse().unwrap());
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut total = (0, 0);
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            let Some(name) = ARRAYS.get(job / 2) else {
                return total;
            };
            let (cases, errors) = run(name, job % 2 == 1, count, Random(job as u64));
            total = (total.0 + cases, total.1 + errors);
        }
    };
    let totals = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(worker)).collect();
        let totals = workers.into_iter().map(|worker| worker.join().unwrap());
        totals.collect::<Vec<_>>()
    });
    let cases: usize = totals.iter().map(|total| total.0).sum();
    let errors: usize = totals.iter().map(|total| total.1).sum();
    println!("{errors} of {cases} cases are refused");
    assert!(errors > cases / 4 && errors < cases);
}
