//! Takes a sound file apart so that targets can change one of its regions, and exercises the reader
//! on the result.

// Each target uses only some of these items.
#![allow(dead_code)]

#[path = "../../tests/integration/hostile/mutations/exercise.rs"]
mod exercise;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tet_sql::Access;
use tet_sql::error::Result;
use tet_sql::format::array::{ArrayFile, ChunkStatistics, ChunkSummary, StoredChunk, ValueIndex};
use tet_sql::format::tet::{
    ChunkReader, Compression, Dataset, DatasetSpec, Dtype, OpenOptions, TetFile, TetWriter,
};

/// The size of the header of the chunk index.
const HEADER_BYTES: usize = 32;
/// The size of a row of the chunk index.
pub const ROW_BYTES: usize = 104;
/// The offset of the payload offset within a row.
pub const ROW_OFFSET: usize = 72;
/// The number of chunks to read along each dimension of a dataset, besides the last one.
const MAX_CHUNKS: u64 = 3;
/// The number of dimensions along which more than one chunk is read.
const MAX_DIMENSIONS: usize = 2;

/// The regions of a file without a footer.
pub struct FileRegions {
    /// Superblock, directory and header of the chunk index.
    head: Vec<u8>,
    /// Rows of the chunk index. Payload offsets are relative to the first payload.
    pub rows: Vec<u8>,
    pub payloads: Vec<u8>,
}

impl FileRegions {
    /// Writes a file with the given datasets and cells, without a footer, and takes it apart.
    pub fn of(datasets: Vec<DatasetSpec>, cells: &[Vec<u8>]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("f.tet");
        let mut writer = TetWriter::create(&path, datasets).expect("sound datasets");
        for (dataset, cells) in cells.iter().enumerate() {
            writer.write_dataset(dataset, cells).expect("sound cells");
        }
        writer.finish().expect("room for a file");
        let bytes = std::fs::read(&path).expect("the file just written");
        let index = word(&bytes, 16) as usize;
        let (head, rest) = bytes.split_at(index + HEADER_BYTES);
        let (rows, payloads) = rest.split_at(word(&bytes, 24) as usize - HEADER_BYTES);
        let mut rows = rows.to_vec();
        let start = (bytes.len() - payloads.len()) as u64;
        for row in rows.chunks_exact_mut(ROW_BYTES) {
            set_word(row, ROW_OFFSET, word(row, ROW_OFFSET) - start);
        }
        Self {
            head: head.to_vec(),
            rows,
            payloads: payloads.to_vec(),
        }
    }

    /// Builds a file with the given rows and payloads. A truncated last row is left out.
    pub fn assemble(&self, rows: &[u8], payloads: &[u8]) -> Vec<u8> {
        let count = rows.len() / ROW_BYTES;
        let rows = &rows[..count * ROW_BYTES];
        let mut bytes = self.head.clone();
        let index = bytes.len() - HEADER_BYTES;
        set_word(&mut bytes, 24, (HEADER_BYTES + rows.len()) as u64);
        set_word(&mut bytes, index + 8, count as u64);
        let start = bytes.len() + rows.len();
        for row in rows.chunks_exact(ROW_BYTES) {
            let offset = word(row, ROW_OFFSET).wrapping_add(start as u64);
            bytes.extend_from_slice(row);
            let copied = bytes.len() - ROW_BYTES;
            set_word(&mut bytes, copied + ROW_OFFSET, offset);
        }
        bytes.extend_from_slice(payloads);
        bytes
    }

    /// Sets the shape and the chunk shape of the last dataset, which must have a single dimension.
    pub fn with_last_extent(&self, extent: u64) -> Self {
        let mut head = self.head.clone();
        let end = head.len() - HEADER_BYTES;
        set_word(&mut head, end - 16, extent);
        set_word(&mut head, end - 8, extent);
        Self {
            head,
            rows: self.rows.clone(),
            payloads: self.payloads.clone(),
        }
    }
}

/// Several datasets of various types, in one and two dimensions, raw and compressed.
pub fn sample() -> FileRegions {
    let zstd = Compression::Zstd { level: 1 };
    let datasets = vec![
        DatasetSpec::new("a", Dtype::U8, &[3, 4], &[2, 3]),
        DatasetSpec::new("b", Dtype::I16, &[4], &[2]),
        DatasetSpec::new("c", Dtype::F32, &[3], &[3]).with_compression(zstd),
        DatasetSpec::new("d", Dtype::F64, &[3], &[2]),
        DatasetSpec::new("e", Dtype::F16, &[2], &[1]).with_compression(zstd),
        DatasetSpec::new("f", Dtype::I64, &[4], &[3]),
    ];
    let cells = [
        (0..12).collect(),
        [-1i16, 5, -1, -1].map(i16::to_le_bytes).concat(),
        [f32::NAN, -0.0, 1.5].map(f32::to_le_bytes).concat(),
        [1.0, f64::NEG_INFINITY, f64::NAN]
            .map(f64::to_le_bytes)
            .concat(),
        [0x3c00u16, 0xfc00].map(u16::to_le_bytes).concat(),
        [0i64, 2, -1, 1].map(i64::to_le_bytes).concat(),
    ];
    FileRegions::of(datasets, &cells)
}

/// Metadata of the sample, including the fill value that its zone maps assume.
pub const METADATA: &str = r#"{"datasets":{
    "a":{"dim_names":["y","x"],"coords":{"y":{"labels":["p","q","r"]}}},
    "b":{"attrs":{"_FillValue":"-1","units":"K"},"dim_names":["x"]}}}"#;
/// Zone maps of the sample.
pub const ZONE_MAPS: &str = r#"{"version":1,"generation":0,"packed_sha256":"00","chunks":[
    {"dataset_id":0,"chunk_index":[0,0],"element_count":6,"null_count":0,"min_le":"00","max_le":"06"},
    {"dataset_id":0,"chunk_index":[0,1],"element_count":2,"null_count":0,"min_le":"03","max_le":"07"},
    {"dataset_id":0,"chunk_index":[1,0],"element_count":3,"null_count":0,"min_le":"08","max_le":"0a"},
    {"dataset_id":0,"chunk_index":[1,1],"element_count":1,"null_count":0,"min_le":"0b","max_le":"0b"},
    {"dataset_id":1,"chunk_index":[0],"element_count":2,"null_count":1,"min_le":"0500","max_le":"0500"},
    {"dataset_id":1,"chunk_index":[1],"element_count":2,"null_count":2},
    {"dataset_id":2,"chunk_index":[0],"element_count":3,"null_count":1,"min_le":"00000080","max_le":"0000c03f"},
    {"dataset_id":3,"chunk_index":[0],"element_count":2,"null_count":0,
     "min_le":"000000000000f0ff","max_le":"000000000000f03f"},
    {"dataset_id":3,"chunk_index":[1],"element_count":1,"null_count":1},
    {"dataset_id":4,"chunk_index":[0],"element_count":1,"null_count":0,"min_le":"003c","max_le":"003c"},
    {"dataset_id":4,"chunk_index":[1],"element_count":1,"null_count":0,"min_le":"00fc","max_le":"00fc"},
    {"dataset_id":5,"chunk_index":[0],"element_count":3,"null_count":0,
     "min_le":"ffffffffffffffff","max_le":"0200000000000000"},
    {"dataset_id":5,"chunk_index":[1],"element_count":1,"null_count":0,
     "min_le":"0100000000000000","max_le":"0100000000000000"}]}"#;
/// A secondary index of the sample.
pub const SECONDARY_INDEX: &str = r#"{"version":1,"generation":0,"packed_sha256":"00","indexes":[
    {"kind":"value_postings","dataset_id":1,"dtype":7,"postings":[{"value_le":"0500","chunks":[[0]]}]},
    {"kind":"coord_label_postings","dataset_id":0,"axis":0,"postings":[{"label":"p","chunks":[[0,0],[0,1]]}]},
    {"kind":"value_postings","dataset_id":2,"dtype":1,"postings":[
     {"value_le":"0000c03f","chunks":[[0]]},{"value_le":"00000080","chunks":[[0]]}]}]}"#;

/// Appends a footer of the given version to a file.
pub fn append_footer(bytes: &mut Vec<u8>, version: u32, json: &[u8]) {
    // The flags of the superblock.
    bytes[12] |= 1;
    bytes.extend_from_slice(json);
    bytes.extend_from_slice(&(json.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(b"THST");
}

/// Appends a region to a file. Returns the footer's entry for the region.
pub fn append_region(bytes: &mut Vec<u8>, key: &str, region: &[u8]) -> String {
    let (offset, length) = (bytes.len(), region.len());
    bytes.extend_from_slice(region);
    format!(r#""{key}":{{"offset":{offset},"len":{length}}}"#)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Writes a number at a byte offset.
pub fn set_word(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Writes a file to a directory of its own, since repairs leave what they remove there, and passes
/// its path to `give`.
pub fn with_file<T>(bytes: &[u8], give: impl FnOnce(&Path) -> T) -> T {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("f.tet");
    std::fs::write(&path, bytes).expect("room for a file");
    give(&path)
}

/// Opens a file.
pub fn open(path: &Path, access: Access, ignore_footer: bool) -> Result<Arc<TetFile>> {
    let options = OpenOptions {
        access,
        ignore_footer,
    };
    TetFile::open(path, options).map(Arc::new)
}

/// Runs `ask` under both access modes, which must return the same.
pub fn both<T: PartialEq>(ask: impl Fn(Access) -> T) -> T {
    let [mapped, read] = [Access::Mmap, Access::Pread].map(ask);
    assert!(mapped == read, "access modes differ");
    mapped
}

/// Converts the error to text, so that results can be compared.
pub fn told<T>(result: Result<T>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

/// Returns chunk indices within a dataset's grid: the first few, the last one, and one outside the
/// grid. For a dataset that cannot be read, a grid of one chunk is assumed.
pub fn positions(dataset: &Dataset, path: &Path) -> Vec<Vec<u64>> {
    let mut positions = vec![Vec::new()];
    let grid = match dataset.check(path) {
        Ok(_) => dataset.chunk_grid(),
        Err(_) => vec![1; dataset.shape().len()],
    };
    for (dimension, count) in grid.iter().enumerate() {
        let most = match dimension < MAX_DIMENSIONS {
            true => MAX_CHUNKS,
            false => 1,
        };
        let last = count.saturating_sub(1);
        let along = (0..most.min(*count)).chain((last >= most).then_some(last));
        let along: Vec<u64> = along.collect();
        positions = positions
            .iter()
            .flat_map(|position| {
                along
                    .iter()
                    .map(|next| [position.as_slice(), &[*next]].concat())
            })
            .collect();
    }
    positions.push(grid);
    positions
}

/// Reads all cells of a chunk, at once and in steps, which must return the same.
pub fn read_chunk(
    reader: &mut ChunkReader,
    dataset: &Dataset,
    chunk: &[u64],
) -> Result<(StoredChunk, Vec<u8>)> {
    let row = reader.open(dataset, chunk)?;
    reader.read_ahead();
    while !reader.advance()? {}
    assert!(reader.advance()?, "a chunk that is ready stays so");
    let length = row.raw_bytes as usize;
    let cells = reader.cells(0..length)?.to_vec();
    assert_eq!(cells.len(), length);
    if let Some((map, range)) = reader.mapped() {
        assert!(map[range] == cells);
    }
    let runs = [
        0..length / 5,
        length / 3..length / 2,
        length / 2..length / 2,
        length - length / 4..length,
    ];
    let mut gathered = vec![0; runs.iter().map(Range::len).sum()];
    reader.gather(&runs, &mut gathered)?;
    assert!(gathered == runs.clone().map(|run| &cells[run]).concat());
    for run in runs {
        assert!(reader.cells(run.clone())? == &cells[run]);
    }
    Ok((row, cells))
}

/// Looks up and reads chunks of all datasets with a single reader.
pub fn read_chunks(
    file: &Arc<TetFile>,
    access: Access,
) -> Vec<Result<(StoredChunk, Vec<u8>), String>> {
    let mut reader = ChunkReader::new(Arc::<TetFile>::clone(file), access);
    let mut results = Vec::new();
    for dataset in file.datasets() {
        for chunk in positions(dataset, file.path()) {
            let row = told(file.chunk(dataset, &chunk, access));
            let cells = told(read_chunk(&mut reader, dataset, &chunk));
            match (row, &cells) {
                (Ok(row), Ok((opened, _))) => assert_eq!(row, *opened),
                (Ok(_), Err(_)) => {}
                (Err(row), opened) => assert_eq!(opened, &Err(row)),
            }
            results.push(cells);
        }
    }
    results
}

/// Reads the zones of chunks of all datasets.
pub fn read_zones(
    file: &TetFile,
    access: Access,
) -> Result<Option<Vec<Option<ChunkSummary>>>, String> {
    let Some(zone_maps) = told(file.zone_maps(access))? else {
        return Ok(None);
    };
    let mut zones = Vec::new();
    for dataset in file.datasets() {
        let positions = positions(dataset, file.path());
        let of_dataset = positions
            .iter()
            .map(|chunk| zone_maps.summary(dataset, chunk));
        let of_dataset: Vec<_> = of_dataset.collect();
        assert_eq!(of_dataset.last(), Some(&None), "outside the grid");
        assert!(zone_maps.summary(dataset, &[]).is_none());
        for zone in of_dataset.iter().flatten() {
            assert!(zone.nulls <= zone.elements);
            assert_eq!(zone.range.is_some(), zone.nulls < zone.elements);
        }
        if zone_maps.is_complete(dataset) {
            let (_, inside) = of_dataset.split_last().expect("at least one position");
            assert!(inside.iter().all(Option::is_some));
        }
        zones.extend(of_dataset);
    }
    Ok(Some(zones))
}

/// The values of a dataset, each with the ordinals of chunks that hold it.
pub type Postings = Vec<(u64, Vec<u64>)>;

/// Reads the value postings of all datasets.
pub fn read_postings(
    file: &TetFile,
    access: Access,
) -> Result<Option<Vec<Option<Postings>>>, String> {
    let Some(postings) = told(file.value_postings(access))? else {
        return Ok(None);
    };
    let of_dataset = |dataset| {
        let postings = postings.of(dataset)?;
        assert!(postings.values().is_sorted_by(|one, next| one < next));
        let values = postings.values().iter().enumerate();
        let chunks = values.map(|(position, value)| {
            let ordinals = (0..6).chain([63, 64, u64::MAX]);
            let held: Vec<u64> = ordinals
                .filter(|ordinal| postings.contains_nth(position, *ordinal))
                .collect();
            assert!(
                held.iter()
                    .all(|ordinal| postings.contains(*value, *ordinal))
            );
            (*value, held)
        });
        Some(chunks.collect())
    };
    Ok(Some(file.datasets().iter().map(of_dataset).collect()))
}

/// Returns `true` for one in four inputs. The others skip the check of the whole file, which takes
/// longer than everything else.
pub fn is_checked(input: &[u8]) -> bool {
    let sum = input.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    sum.is_multiple_of(4)
}

/// Checks the whole file and repairs it, which must leave everything up to `payload_end` unchanged.
/// Returns the number of errors found before the repair.
pub fn check(path: &Path, access: Access, bytes: &[u8], payload_end: usize) -> usize {
    let errors = exercise::check(path, access);
    let mended = std::fs::read(path).expect("the file is still there");
    let is_kept = mended.len() >= payload_end
        && mended[..12] == bytes[..12]
        // The bytes between hold the flags, which tell whether there is a footer.
        && mended[16..payload_end] == bytes[16..payload_end];
    assert!(
        is_kept,
        "the repair changed bytes before the end of the payloads"
    );
    errors
}
