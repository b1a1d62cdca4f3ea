//! The locations of the chunks of a dataset.

use hdf5_reader::btree_v1::{BTreeV1Key, collect_btree_v1_leaves_storage};
use hdf5_reader::chunk_index::{ChunkEntry, collect_v2_chunk_entries_storage, single_chunk_entry};
use hdf5_reader::extensible_array::collect_extensible_array_chunk_entries_storage;
use hdf5_reader::fixed_array::collect_fixed_array_chunk_entries_storage;
use hdf5_reader::messages::layout::ChunkIndexing;

use crate::format::hdf5::chunk_checksums::{check_extensible_array, check_fixed_array};
use crate::format::hdf5::layout::Chunked;
use crate::format::hdf5::source::{Found, Source};

/// The location of a chunk in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkLocation {
    /// The offset in the file.
    pub offset: u64,
    /// The number of stored bytes.
    pub size: u64,
    /// One bit for each filter that was not applied, the lowest for the first filter.
    pub filter_mask: u32,
}

/// The locations of all chunks that were written, by their ordinals in the chunk grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChunkTable {
    /// The chunks in ascending order.
    Listed(Vec<(u64, ChunkLocation)>),
    /// All chunks follow one another, in the order of a grid that may be larger than that of the
    /// dataset.
    Consecutive {
        offset: u64,
        chunk_bytes: u64,
        /// The number of chunks along each dimension.
        grid: Vec<u64>,
    },
}

impl ChunkTable {
    /// Reads the chunk index of a dataset. `max_shape` are the extents up to which it can grow.
    ///
    /// # Errors
    /// Returns a message if the index is malformed.
    pub fn read(
        source: &Source,
        chunked: &Chunked,
        shape: &[u64],
        max_shape: Option<&[u64]>,
    ) -> Found<Self> {
        let Some(address) = chunked.address else {
            return Ok(Self::Listed(Vec::new()));
        };
        let (offset_size, length_size) = (source.offset_size, source.length_size);
        let dims = &chunked.chunk_shape;
        let rank = shape.len();
        let text = |error: hdf5_reader::error::Error| error.to_string();
        // Chunks are numbered in the grid of the largest shape.
        let largest = max_shape.filter(|max| max.len() == rank && !max.contains(&u64::MAX));
        let largest = largest.unwrap_or(shape);
        let entries = match &chunked.index {
            None => {
                let leaves = collect_btree_v1_leaves_storage(
                    source.bytes(),
                    address,
                    offset_size,
                    length_size,
                    Some(rank as u32),
                    dims,
                    None,
                );
                let leaves = leaves.map_err(text)?.into_iter();
                leaves
                    .filter_map(|(key, address)| entry_of_version_1(key, address, rank))
                    .collect()
            }
            Some(ChunkIndexing::SingleChunk {
                filtered_size,
                filters,
            }) => {
                vec![single_chunk_entry(address, *filtered_size, *filters, rank)]
            }
            Some(ChunkIndexing::Implicit) => {
                let grid = largest.iter().zip(dims);
                return Ok(Self::Consecutive {
                    offset: source.base.saturating_add(address),
                    chunk_bytes: chunked.chunk_bytes,
                    grid: grid
                        .map(|(extent, size)| extent.div_ceil(u64::from(*size)))
                        .collect(),
                });
            }
            Some(ChunkIndexing::FixedArray { .. }) => {
                check_fixed_array(source, address)?;
                collect_fixed_array_chunk_entries_storage(
                    source.bytes(),
                    address,
                    offset_size,
                    length_size,
                    largest,
                    dims,
                    None,
                )
                .map_err(text)?
            }
            Some(ChunkIndexing::ExtensibleArray { .. }) => {
                check_extensible_array(source, address)?;
                collect_extensible_array_chunk_entries_storage(
                    source.bytes(),
                    address,
                    offset_size,
                    length_size,
                    shape,
                    max_shape,
                    dims,
                    None,
                )
                .map_err(text)?
            }
            Some(ChunkIndexing::BTreeV2) => collect_v2_chunk_entries_storage(
                source.bytes(),
                address,
                offset_size,
                length_size,
                rank as u32,
                dims,
                None,
            )
            .map_err(text)?,
        };
        Self::of(source, chunked, shape, entries)
    }

    fn of(
        source: &Source,
        chunked: &Chunked,
        shape: &[u64],
        entries: Vec<ChunkEntry>,
    ) -> Found<Self> {
        let mut listed = Vec::with_capacity(entries.len());
        for entry in entries {
            // A dataset that was made smaller may have chunks outside of its shape.
            let Some(ordinal) = ordinal(&entry.offsets, shape, &chunked.chunk_shape)? else {
                continue;
            };
            if source.is_undefined(entry.address) {
                continue;
            }
            let size = match entry.size {
                // Indexes of unfiltered chunks do not record sizes.
                0 => chunked.chunk_bytes,
                size => size,
            };
            listed.push((
                ordinal,
                ChunkLocation {
                    offset: source.base.saturating_add(entry.address),
                    size,
                    filter_mask: entry.filter_mask,
                },
            ));
        }
        listed.sort_unstable_by_key(|(ordinal, _)| *ordinal);
        if let Some(pair) = listed.array_windows().find(|[a, b]| a.0 == b.0) {
            return Err(format!(
                "two locations of the chunk with the ordinal {}",
                pair[0].0
            ));
        }
        listed.shrink_to_fit();
        Ok(Self::Listed(listed))
    }

    /// Returns the location of a chunk, or `None` if the chunk was never written. `ordinal` is that of
    /// `chunk` in the grid of the dataset's stored shape.
    pub fn find(&self, chunk: &[u64], ordinal: u64) -> Option<ChunkLocation> {
        match self {
            Self::Listed(listed) => {
                // Without missing chunks, the ordinal is the index.
                let guess = usize::try_from(ordinal)
                    .ok()
                    .and_then(|index| listed.get(index));
                if let Some((found, location)) = guess
                    && *found == ordinal
                {
                    return Some(*location);
                }
                let found = listed.binary_search_by_key(&ordinal, |(ordinal, _)| *ordinal);
                found.ok().map(|index| listed[index].1)
            }
            Self::Consecutive {
                offset,
                chunk_bytes,
                grid,
            } => {
                let mut number = 0u64;
                for (index, count) in chunk.iter().zip(grid) {
                    number = number.checked_mul(*count)?.checked_add(*index)?;
                }
                Some(ChunkLocation {
                    offset: number.checked_mul(*chunk_bytes)?.checked_add(*offset)?,
                    size: *chunk_bytes,
                    filter_mask: 0,
                })
            }
        }
    }
}

/// Converts an entry of a B-tree of version 1.
fn entry_of_version_1(key: BTreeV1Key, address: u64, rank: usize) -> Option<ChunkEntry> {
    let BTreeV1Key::RawData {
        chunk_size,
        filter_mask,
        mut offsets,
    } = key
    else {
        return None;
    };
    // The last offset is within an element.
    offsets.truncate(rank);
    Some(ChunkEntry {
        address,
        size: u64::from(chunk_size),
        filter_mask,
        offsets,
    })
}

/// Returns the ordinal of the chunk that starts at these offsets; `None` if it is outside of the shape.
fn ordinal(offsets: &[u64], shape: &[u64], chunk_shape: &[u32]) -> Found<Option<u64>> {
    let malformed = || format!("a chunk at {offsets:?}, for chunks of the shape {chunk_shape:?}");
    if offsets.len() != shape.len() {
        return Err(malformed());
    }
    let mut ordinal = 0u64;
    for ((offset, extent), size) in offsets.iter().zip(shape).zip(chunk_shape) {
        let size = u64::from(*size);
        if offset % size != 0 {
            return Err(malformed());
        }
        if offset >= extent {
            return Ok(None);
        }
        let count = extent.div_ceil(size);
        let next = ordinal
            .checked_mul(count)
            .and_then(|ordinal| ordinal.checked_add(offset / size));
        ordinal = next.ok_or_else(malformed)?;
    }
    Ok(Some(ordinal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinals_are_row_major() {
        let of = |offsets: &[u64]| ordinal(offsets, &[5, 7], &[3, 3]);
        assert_eq!(of(&[3, 6]), Ok(Some(5)));
        assert_eq!(of(&[0, 3]), Ok(Some(1)));
        assert_eq!(of(&[6, 0]), Ok(None));
        of(&[1, 0]).unwrap_err();
        of(&[0]).unwrap_err();
    }

    #[test]
    fn chunks_are_found_with_and_without_gaps() {
        let location = |offset| ChunkLocation {
            offset,
            size: 1,
            filter_mask: 0,
        };
        let table = ChunkTable::Listed(vec![(0, location(7)), (1, location(8)), (9, location(9))]);
        assert_eq!(table.find(&[1], 1), Some(location(8)));
        assert_eq!(table.find(&[2], 2), None);
        assert_eq!(table.find(&[9], 9), Some(location(9)));
        let table = ChunkTable::Consecutive {
            offset: 100,
            chunk_bytes: 8,
            grid: vec![2, 5],
        };
        assert_eq!(table.find(&[1, 2], 0).map(|found| found.offset), Some(156));
    }
}
