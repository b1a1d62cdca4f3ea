//! The files to be changed, and the regions within each.

use std::ops::Range;
use std::path::{Path, PathBuf};

use tet_sql::format::tet::{Compression, DatasetSpec, Dtype, TetWriter};
use tetration::catalog::embed_indexes_in_tet;

use crate::support::cells::data;
use crate::tables::exploded::Random;

/// Small files of every kind: layouts, codecs, both footer versions, labels, and broken files.
const FILES: [&str; 8] = [
    "edge/ok.tet",
    "edge/zstd_two_frames.tet",
    "edge/full_size_edge_chunk.tet",
    "edge/history_triples.tet",
    "edge/meta_unknown_keys.tet",
    "dtypes/dtype_f32_zstd.tet",
    "specials_f64.tet",
    "weather_small_v1footer.tet",
];

/// A file to be changed.
pub struct Original {
    pub name: String,
    pub bytes: Vec<u8>,
    /// Header, dataset directory, chunk index, payloads, JSON documents, footer and tail.
    regions: Vec<Range<usize>>,
}

impl Original {
    fn read(name: &str, path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap();
        Self {
            name: name.to_string(),
            regions: regions(&bytes),
            bytes,
        }
    }

    /// Returns a random offset. All regions are equally likely, whatever their length.
    pub fn place(&self, random: &mut Random) -> usize {
        let region = random.pick(&self.regions);
        region.start + random.below(region.len())
    }
}

/// Returns all originals. Those with every feature of the format are written by this function.
pub fn originals() -> Vec<Original> {
    let mut all: Vec<_> = FILES
        .iter()
        .map(|name| Original::read(name, &data(name)))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    for (name, spills) in [("indexed", false), ("spilled", true)] {
        let path = write(folder.path(), name, spills);
        all.push(Original::read(name, &path));
    }
    all
}

/// Writes two datasets on the same axes with coordinates of every kind, a dataset of categories,
/// zone maps and value postings. If `spills`, the metadata is too long for the footer.
fn write(folder: &Path, name: &str, spills: bool) -> PathBuf {
    let path = folder.join(format!("{name}.tet"));
    let zstd = Compression::Zstd { level: 1 };
    let grid = |name: &str, dtype, chunks: &[u64]| {
        DatasetSpec::new(name, dtype, &[4, 3, 2], chunks)
            .with_dim_names(["time", "lat", "side"])
            .with_labels("side", ["left", "right"])
            .with_attribute("_FillValue", "9")
            .with_attribute("units", "K")
    };
    let categories = r#"{"codes":{"rain":0,"snow":1,"hail":2},"missing":-1}"#;
    let kind = DatasetSpec::new("kind", Dtype::I64, &[4], &[3])
        .with_dim_names(["time"])
        .with_attribute("tetration_categories", categories);
    // Attributes that make the metadata longer than 64 KiB.
    let notes = if spills { 35 } else { 0 };
    let with_notes = |spec| {
        (0..notes).fold(spec, |spec: DatasetSpec, number| {
            spec.with_attribute(&format!("note {number}"), &"long ".repeat(200))
        })
    };
    let specs = vec![
        with_notes(grid("warm", Dtype::F32, &[2, 3, 1])),
        grid("wet", Dtype::U8, &[3, 1, 2]).with_compression(zstd),
        DatasetSpec::new("time", Dtype::I32, &[4], &[4])
            .with_dim_names(["time"])
            .with_attribute("units", "hours since 2000-01-01"),
        DatasetSpec::new("lat", Dtype::F32, &[3], &[2])
            .with_dim_names(["lat"])
            .with_compression(zstd),
        with_notes(kind),
    ];
    let cells: [Vec<u8>; 5] = [
        (0..24)
            .flat_map(|n| (n as f32 / 2.0).to_le_bytes())
            .collect(),
        (0..24).map(|n| n % 10).collect(),
        (0..4i32).flat_map(|n| (n * 6).to_le_bytes()).collect(),
        [45.5f32, 0.1, -45.5]
            .iter()
            .flat_map(|n| n.to_le_bytes())
            .collect(),
        [0i64, 2, -1, 1]
            .iter()
            .flat_map(|n| n.to_le_bytes())
            .collect(),
    ];
    let mut writer = TetWriter::create(&path, specs).unwrap();
    for (dataset, cells) in cells.iter().enumerate() {
        writer.write_dataset(dataset, cells).unwrap();
    }
    writer.finish().unwrap();
    embed_indexes_in_tet(&path, 0).unwrap();
    path
}

fn regions(bytes: &[u8]) -> Vec<Range<usize>> {
    let word = |at: usize| {
        let bytes = bytes.get(at..at + 8).map(|bytes| bytes.try_into().unwrap());
        bytes.map_or(usize::MAX, |bytes| u64::from_le_bytes(bytes) as usize)
    };
    let end = bytes.len();
    let index = word(16).min(end)..word(16).saturating_add(word(24)).min(end);
    let mut regions = vec![0..40.min(end), 40.min(end)..index.start, index.clone()];
    let mut payload_end = end;
    if bytes.ends_with(b"THST") {
        let footer = end - 16 - word(end - 16).min(end - 16)..end - 16;
        let json: serde_json::Value = serde_json::from_slice(&bytes[footer.clone()]).unwrap();
        payload_end = footer.start;
        for reference in ["metadata_ref", "zone_maps_ref", "secondary_index_ref"] {
            let number = |key| json[reference][key].as_u64().map(|number| number as usize);
            if let (Some(offset), Some(length)) = (number("offset"), number("len")) {
                regions.push(offset..offset + length);
                payload_end = payload_end.min(offset);
            }
        }
        regions.extend([footer, end - 16..end]);
    }
    regions.push(index.end..payload_end);
    regions.retain(|region| !region.is_empty());
    regions
}
