//! Computes zone maps and encodes them as `ZONE.json`.

use serde::Serialize;

use crate::format::array::ChunkSummary;
use crate::format::array::{Dtype, Fill};

/// The hash that the reference writes for a file outside a package.
const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Computes the zone of a chunk from its cells.
pub(in crate::format::tet) fn zone(dtype: Dtype, fill: Option<Fill>, cells: &[u8]) -> ChunkSummary {
    let size = dtype.size() as usize;
    let fill = fill.map(Fill::bits);
    let mut nulls = 0;
    let mut range: Option<(u64, u64)> = None;
    for cell in cells.chunks_exact(size) {
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(cell);
        let bits = u64::from_le_bytes(bytes);
        if dtype.is_nan(bits) || fill == Some(bits) {
            nulls += 1;
            continue;
        }
        range = Some(match range {
            None => (bits, bits),
            Some((min, max)) => {
                let order = dtype.order(bits);
                if order < dtype.order(min) {
                    (bits, max)
                } else if order > dtype.order(max) {
                    (min, bits)
                } else {
                    (min, max)
                }
            }
        });
    }
    ChunkSummary {
        elements: (cells.len() / size) as u64,
        nulls,
        range,
    }
}

#[derive(Serialize)]
struct Document {
    version: u32,
    generation: u64,
    packed_sha256: &'static str,
    chunks: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    dataset_id: u64,
    chunk_index: Vec<u64>,
    element_count: u64,
    null_count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_le: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_le: Option<String>,
}

/// Encodes zones, which must be in the order of the index. Each comes with its dataset id, its
/// dtype and the indices of its chunk in the chunk grid.
pub(in crate::format::tet) fn encode(
    zones: impl Iterator<Item = (u64, Dtype, Vec<u64>, ChunkSummary)>,
) -> serde_json::Result<Vec<u8>> {
    let chunks = zones.map(|(dataset_id, dtype, chunk_index, zone)| Entry {
        dataset_id,
        chunk_index,
        element_count: zone.elements,
        null_count: zone.nulls,
        min_le: zone.range.map(|(min, _)| hex(dtype, min)),
        max_le: zone.range.map(|(_, max)| hex(dtype, max)),
    });
    let document = Document {
        version: 1,
        generation: 0,
        packed_sha256: NO_HASH,
        chunks: chunks.collect(),
    };
    let mut bytes = serde_json::to_vec_pretty(&document)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Returns the little-endian bytes of a value in hexadecimal.
fn hex(dtype: Dtype, bits: u64) -> String {
    let bytes = bits.to_le_bytes();
    let bytes = bytes[..dtype.size() as usize].iter();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_are_not_part_of_the_range() {
        let cells: Vec<u8> = [3.0f32, f32::NAN, -0.0, 0.0, 1e20]
            .iter()
            .flat_map(|cell| cell.to_le_bytes())
            .collect();
        let mut metadata = crate::format::tet::DatasetMetadata::default();
        metadata.attrs.insert("_FillValue".into(), "1e20".into());
        let fill = Fill::of(&metadata, Dtype::F32);
        let zone = zone(Dtype::F32, fill, &cells);
        let bits = |value: f32| u64::from(value.to_bits());
        assert_eq!((zone.elements, zone.nulls), (5, 2));
        assert_eq!(zone.range, Some((bits(-0.0), bits(3.0))));
        assert_eq!(hex(Dtype::I16, 0xfffe), "feff");
    }
}
