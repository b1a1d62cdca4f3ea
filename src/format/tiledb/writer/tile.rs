//! Tiles as bytes: cells cut into chunks, and generic tiles of metadata.

use crate::format::tiledb::codecs::{Encoder, EncryptionKey, Steps};
use crate::format::tiledb::fault::Decoded;
use crate::format::tiledb::schema::{Datatype, Filter, Pipeline};
use crate::format::tiledb::writer::bytes::Append;
use crate::format::tiledb::writer::schema::{WRITTEN_VERSION, put_pipeline};

/// Length of a chunk of cells of fixed size in bytes, as far as cells fit in it.
pub(super) const MAX_CHUNK_BYTES: usize = 1 << 16;
/// Length in bytes of the fixed tile of texts that hold their offsets: a tile without chunks.
pub(super) const NO_CHUNKS: [u8; 8] = [0; 8];

/// Appends a tile of cells of fixed size.
pub(super) fn put_fixed(
    encoder: &mut Encoder,
    steps: &Steps,
    key: Option<&EncryptionKey>,
    (values, cell_bytes): (&[u8], usize),
    tile: &mut Vec<u8>,
) -> Decoded<()> {
    let cells = (MAX_CHUNK_BYTES / cell_bytes.max(1)).max(1);
    let chunks = values.chunks(cells * cell_bytes.max(1));
    tile.put_u64(chunks.len() as u64);
    for chunk in chunks {
        encoder.encode(steps, key, chunk, tile)?;
    }
    Ok(())
}

/// Appends a tile of cells of variable length, given the start of each and the end of the last.
pub(super) fn put_variable(
    encoder: &mut Encoder,
    steps: &Steps,
    key: Option<&EncryptionKey>,
    (values, offsets): (&[u8], &[u64]),
    tile: &mut Vec<u8>,
) -> Decoded<()> {
    if steps.texts.is_some() {
        tile.put_u64(1);
        return encoder.encode_texts(steps, key, (values, offsets), tile);
    }
    let ends = chunk_ends(offsets);
    tile.put_u64(ends.len() as u64);
    let mut start = 0;
    for end in ends {
        encoder.encode(steps, key, &values[start..end], tile)?;
        start = end;
    }
    Ok(())
}

/// Returns the ends of the chunks of cells of variable length, at least one. A cell that exceeds
/// [`MAX_CHUNK_BYTES`] is the last of its chunk, if the chunk is short without it or with it, and
/// otherwise starts the next one.
fn chunk_ends(offsets: &[u64]) -> Vec<usize> {
    let (mut ends, mut start, mut end) = (Vec::new(), 0, 0);
    for cell in offsets.windows(2) {
        let length = (cell[1] - cell[0]) as usize;
        let (current, extended) = (end - start, end - start + length);
        let fits = current <= MAX_CHUNK_BYTES / 2 || extended <= MAX_CHUNK_BYTES / 2 * 3;
        if extended > MAX_CHUNK_BYTES && !fits {
            ends.push(end);
            start = end;
        }
        end += length;
        if end - start > MAX_CHUNK_BYTES {
            ends.push(end);
            start = end;
        }
    }
    if end > start || ends.is_empty() {
        ends.push(end);
    }
    ends
}

/// Appends metadata as a generic tile.
pub(super) fn put_generic(
    encoder: &mut Encoder,
    key: Option<&EncryptionKey>,
    payload: &[u8],
    bytes: &mut Vec<u8>,
) -> Decoded<()> {
    let mut filters = vec![Filter::Gzip { level: 1 }];
    filters.extend(key.map(|_| Filter::Aes256Gcm));
    let pipeline = Pipeline::new(filters);
    let steps = Steps::new(&pipeline, Datatype::Char, 1, false, WRITTEN_VERSION)?;
    let (mut stored_pipeline, mut tile) = (Vec::new(), Vec::new());
    put_pipeline(&mut stored_pipeline, &pipeline);
    put_fixed(encoder, &steps, key, (payload, 1), &mut tile)?;
    bytes.put_u32(WRITTEN_VERSION);
    bytes.put_u64(tile.len() as u64);
    bytes.put_u64(payload.len() as u64);
    bytes.push(Datatype::Char as u8);
    bytes.put_u64(1);
    bytes.push(u8::from(key.is_some()));
    bytes.put_u32(stored_pipeline.len() as u32);
    bytes.put(&stored_pipeline);
    bytes.put(&tile);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_cells_of_variable_length() {
        let ends = |lengths: &[u64]| {
            let mut offsets = vec![0];
            for length in lengths {
                offsets.push(offsets[offsets.len() - 1] + length);
            }
            chunk_ends(&offsets)
        };
        assert_eq!(ends(&[]), [0]);
        assert_eq!(ends(&[0, 0]), [0]);
        assert_eq!(ends(&[40_000, 30_000, 5]), [70_000, 70_005]);
        assert_eq!(ends(&[65_536, 1]), [65_537]);
        assert_eq!(ends(&[5, 200_000, 5]), [200_005, 200_010]);
        assert_eq!(ends(&[40_000, 200_000, 5]), [40_000, 240_000, 240_005]);
    }
}
