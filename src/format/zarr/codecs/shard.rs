//! Shards: files of several chunks, with an index of their offsets.
//!
//! ```text
//! +---------+---------+-----+------------------------------------+
//! | chunk 0 | chunk 1 | ... | index: offset and length per chunk |
//! +---------+---------+-----+------------------------------------+
//! ```
//!
//! The index is at the end of the shard, or at the start if `index_location` says so.

use std::fmt;

use serde_json::{Value, json};

use crate::format::array::{DecodeContext, next_indices};
use crate::format::zarr::codecs::chain::{Chain, ChunkLayout, codec_name, fixed_size};
use crate::format::zarr::{MAX_CHUNK_BYTES, MAX_DIMENSIONS, cells};

/// The offset and the length of an absent chunk.
const ABSENT: u64 = u64::MAX;
/// Bytes per entry of the index: offset and length.
const ENTRY_BYTES: u64 = 16;

/// The sharding codec of an array.
pub(crate) struct Shards {
    /// Cells per chunk of a shard along each dimension; none is zero.
    pub chunk_shape: Vec<u64>,
    /// The codecs of each chunk in a shard.
    pub chain: Chain,
    index_chain: Chain,
    is_index_big_endian: bool,
    /// Bytes of the checksum in the stored index.
    checksum_bytes: u64,
    is_index_first: bool,
}

impl fmt::Debug for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shards").field(&self.chunk_shape).finish()
    }
}

/// The index of one shard, with the locations of its chunks.
#[derive(Debug)]
pub(crate) struct ShardIndex {
    /// Offset and length of each chunk, row-major.
    entries: Vec<(u64, u64)>,
}

impl ShardIndex {
    /// Returns the offset and the length of a chunk, or `None` if the shard does not contain it.
    ///
    /// # Errors
    /// Returns a message if the chunk does not lie within the `length` bytes of the shard.
    pub fn range(&self, ordinal: usize, length: u64) -> Result<Option<(u64, u64)>, String> {
        let (offset, size) = *self
            .entries
            .get(ordinal)
            .ok_or("no such chunk in the shard")?;
        if (offset, size) == (ABSENT, ABSENT) {
            return Ok(None);
        }
        match offset.checked_add(size) {
            Some(end) if end <= length => Ok(Some((offset, size))),
            _ => Err(format!(
                "{size} bytes at {offset} of a shard of {length} bytes"
            )),
        }
    }

    /// Returns the number of bytes of memory that the index takes.
    pub fn bytes(&self) -> usize {
        self.entries.len() * ENTRY_BYTES as usize
    }
}

impl Shards {
    /// Parses the codec's configuration. `count` counts the codecs in all lists of the array.
    ///
    /// # Errors
    /// Returns a message if the configuration is malformed or not supported.
    pub fn of(configuration: &Value, is_text: bool, count: &mut usize) -> Result<Self, String> {
        let chunk_shape = configuration
            .get("chunk_shape")
            .and_then(|shape| cells::extents(shape, MAX_DIMENSIONS))
            .filter(|shape| !shape.contains(&0))
            .ok_or("sharding without a chunk_shape of whole numbers above zero")?;
        let list = configuration.get("codecs").unwrap_or(&Value::Null);
        let chain = Chain::of_list(list, is_text, count)?;
        let default = json!([{"name": "bytes", "configuration": {"endian": "little"}}, "crc32c"]);
        let index_codecs = configuration.get("index_codecs").unwrap_or(&default);
        let (mut checksum_bytes, mut is_index_big_endian) = (0, false);
        for codec in index_codecs.as_array().into_iter().flatten() {
            match codec_name(codec) {
                Some("crc32c") => checksum_bytes += 4,
                Some("bytes" | "endian") => {
                    let endian = codec
                        .pointer("/configuration/endian")
                        .and_then(Value::as_str);
                    is_index_big_endian = endian == Some("big");
                }
                name => {
                    return Err(format!(
                        "codec {name:?} is not supported for the index of a shard"
                    ));
                }
            }
        }
        Ok(Self {
            chunk_shape,
            chain,
            index_chain: Chain::of_list(index_codecs, true, count)?,
            is_index_big_endian,
            checksum_bytes,
            is_index_first: match configuration.get("index_location").map(Value::as_str) {
                None | Some(Some("end")) => false,
                Some(Some("start")) => true,
                _ => return Err("index_location is neither start nor end".to_string()),
            },
        })
    }

    /// Returns the names of the codecs of the chunks, separated by commas.
    pub fn codecs(&self) -> String {
        self.chain.names()
    }

    /// Returns the number of chunks of a shard along each dimension.
    ///
    /// Returns `None` if the shape of the shard is not one of whole chunks.
    pub fn grid(&self, shard_shape: &[u64]) -> Option<Vec<u64>> {
        if shard_shape.len() != self.chunk_shape.len() {
            return None;
        }
        let pairs = shard_shape.iter().zip(&self.chunk_shape);
        pairs
            .map(|(shard, chunk)| shard.is_multiple_of(*chunk).then_some(shard / chunk))
            .collect()
    }

    /// Returns the offset and the length of the index in a shard of `length` bytes.
    ///
    /// # Errors
    /// Returns a message if the shard is too short for an index of this grid.
    pub fn index_range(&self, grid: &[u64], length: u64) -> Result<(u64, u64), String> {
        let size = cells::byte_count(grid, ENTRY_BYTES)
            .and_then(|size| size.checked_add(self.checksum_bytes))
            .filter(|size| *size <= length)
            .ok_or_else(|| {
                format!("a shard of {length} bytes is too short for its index of {grid:?} chunks")
            })?;
        let offset = if self.is_index_first {
            0
        } else {
            length - size
        };
        Ok((offset, size))
    }

    /// Returns the length of the index in a shard of this grid, and `true` if the index is at the
    /// start of the shard.
    ///
    /// # Errors
    /// Returns a message if the index is too large.
    #[cfg(feature = "remote")]
    pub fn index_length(&self, grid: &[u64]) -> Result<(u64, bool), String> {
        let (_, length) = self.index_range(grid, MAX_CHUNK_BYTES)?;
        Ok((length, self.is_index_first))
    }

    /// Decodes the index from its stored bytes.
    ///
    /// # Errors
    /// Returns a message if the checksum does not match.
    pub fn index(&self, bytes: Vec<u8>) -> Result<ShardIndex, String> {
        let length = bytes.len() as u64 - self.checksum_bytes.min(bytes.len() as u64);
        let bytes = self.index_chain.decode_bytes(bytes, length)?;
        let number = |bytes: &[u8]| {
            let mut number = [0; 8];
            number.copy_from_slice(bytes);
            if self.is_index_big_endian {
                u64::from_be_bytes(number)
            } else {
                u64::from_le_bytes(number)
            }
        };
        let entries = bytes
            .chunks_exact(ENTRY_BYTES as usize)
            .map(|entry| (number(&entry[..8]), number(&entry[8..])));
        Ok(ShardIndex {
            entries: entries.collect(),
        })
    }

    /// Decodes all cells of a shard, row-major. Absent chunks have the fill value.
    ///
    /// # Errors
    /// Returns a message if the bytes are malformed, or the shard is too large.
    pub fn decode(&self, bytes: &[u8], whole: &ChunkLayout<'_>) -> Result<Vec<u8>, String> {
        let size = fixed_size(whole.data_type)?;
        let length = bytes.len() as u64;
        let grid = self
            .grid(whole.shape)
            .ok_or("a shard whose shape is not a multiple of the chunk shape")?;
        let (start, index_length) = self.index_range(&grid, length)?;
        let index = self.index(bytes[start as usize..(start + index_length) as usize].to_vec())?;
        let total = cells::byte_count(whole.shape, size).filter(|total| *total <= MAX_CHUNK_BYTES);
        let total = total.ok_or("a shard that is too large")?;
        let mut output = cells::repeated(whole.fill.as_ne_bytes(), total);
        let mut position = vec![0; grid.len()];
        let mut context = DecodeContext::default();
        for ordinal in 0.. {
            if let Some((offset, size_stored)) = index.range(ordinal, length)? {
                let stored = &bytes[offset as usize..(offset + size_stored) as usize];
                context.stored.clear();
                context.stored.extend_from_slice(stored);
                let chunk = ChunkLayout {
                    shape: &self.chunk_shape,
                    ..*whole
                };
                self.chain.decode(&mut context, &chunk)?;
                let origin: Vec<u64> = position
                    .iter()
                    .zip(&self.chunk_shape)
                    .map(|(position, extent)| position * extent)
                    .collect();
                cells::place(
                    &context.cells,
                    &self.chunk_shape,
                    &mut output,
                    whole.shape,
                    &origin,
                    size,
                );
            }
            if !next_indices(&mut position, &grid) {
                break;
            }
        }
        Ok(output)
    }
}
