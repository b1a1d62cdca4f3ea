//! Sample files for the tests of the format layer.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::format::tet::statistics::entry::EntryDataset;
use crate::format::tet::{ChunkReader, DatasetSpec, Dtype, Fill, OpenOptions, TetFile, TetWriter};

/// Returns the path of a file in the test data.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// The file written by [`with_documents`], and its directory.
pub(crate) struct Sample {
    pub folder: TempDir,
    pub path: PathBuf,
}

impl Sample {
    pub fn open(&self) -> TetFile {
        TetFile::open(&self.path, OpenOptions::default()).unwrap()
    }
}

/// Writes a file that embeds the given documents and has these datasets:
///
/// | name | type | shape | chunk shape | cells |
/// | --- | --- | --- | --- | --- |
/// | `a` | `u8` | 3 x 4 | 2 x 3 | 0 to 11 |
/// | `b` | `i16` | 4 | 2 | -1, 5, -1, -1, with fill value -1 |
/// | `c` | `f32` | 3 | 3 | NaN, -0, 1.5 |
pub(crate) fn with_documents(zone_maps: Option<&str>, index: Option<&str>) -> Sample {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sample.tet");
    let datasets = vec![
        DatasetSpec::new("a", Dtype::U8, &[3, 4], &[2, 3]),
        DatasetSpec::new("b", Dtype::I16, &[4], &[2]),
        DatasetSpec::new("c", Dtype::F32, &[3], &[3]),
    ];
    let mut writer = TetWriter::create(&path, datasets).unwrap();
    writer
        .write_dataset(0, &(0..12).collect::<Vec<u8>>())
        .unwrap();
    let cells: Vec<u8> = [-1i16, 5, -1, -1].map(i16::to_le_bytes).concat();
    writer.write_dataset(1, &cells).unwrap();
    let cells: Vec<u8> = [f32::NAN, -0.0, 1.5].map(f32::to_le_bytes).concat();
    writer.write_dataset(2, &cells).unwrap();
    writer.finish().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let mut keys = vec![
        r#""history":[],"metadata":{"datasets":{"b":{"attrs":{"_FillValue":"-1"}}}}"#.to_string(),
    ];
    for (key, document) in [("zone_maps_ref", zone_maps), ("secondary_index_ref", index)] {
        if let Some(document) = document {
            let (offset, length) = (bytes.len(), document.len());
            keys.push(format!(r#""{key}":{{"offset":{offset},"len":{length}}}"#));
            bytes.extend_from_slice(document.as_bytes());
        }
    }
    append_footer(&mut bytes, &format!("{{{}}}", keys.join(",")));
    std::fs::write(&path, bytes).unwrap();
    Sample { folder, path }
}

/// Returns the bit patterns of all cells of a chunk that are not null, and the number of nulls.
pub(crate) fn cells(
    chunks: &mut ChunkReader,
    subject: &EntryDataset<'_>,
    chunk: &[u64],
) -> (Vec<u64>, u64) {
    let row = chunks.open(subject.dataset, chunk).unwrap();
    while !chunks.advance().unwrap() {}
    let mut bytes = vec![0; row.raw_bytes as usize];
    let all = 0..bytes.len();
    chunks
        .gather(std::slice::from_ref(&all), &mut bytes)
        .unwrap();
    let mut cells: Vec<u64> = bytes
        .chunks_exact(subject.dtype.size() as usize)
        .map(|cell| {
            cell.iter()
                .rfold(0, |bits, byte| bits << 8 | u64::from(*byte))
        })
        .collect();
    let count = cells.len();
    let fill = subject.fill.map(Fill::bits);
    cells.retain(|bits| !subject.dtype.is_nan(*bits) && fill != Some(*bits));
    let nulls = (count - cells.len()) as u64;
    (cells, nulls)
}

/// Appends a version 2 footer to a file that has none.
pub(crate) fn append_footer(bytes: &mut Vec<u8>, json: &str) {
    // Set the footer bit in the flags of the superblock.
    bytes[12] |= 1;
    bytes.extend_from_slice(json.as_bytes());
    bytes.extend_from_slice(&(json.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&2u32.to_le_bytes());
    bytes.extend_from_slice(b"THST");
}
