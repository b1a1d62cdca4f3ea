//! A dataset of an open file: its layout, and the cells of its chunks.

#[cfg(feature = "remote")]
use std::ops::Range;
use std::path::Path;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::{
    BoxCopy, Dataset, DatasetMetadata, DecodeContext, Payload, StoredChunk, crop, fill,
};
use crate::format::hdf5::cached_tables::CachedTables;
use crate::format::hdf5::chunk_table::{ChunkLocation, ChunkTable};
use crate::format::hdf5::layout::{Chunked, Layout};
use crate::format::hdf5::metadata::element::{Element, ElementKind};
use crate::format::hdf5::source::Source;
use crate::format::io::storage::Storage;

/// A dataset of an open file.
#[derive(Debug)]
pub(super) struct Hdf5Array {
    /// The dataset as stored, which may be shorter than its unlimited dimensions.
    pub stored: Dataset,
    /// The extents up to which the stored dataset can grow.
    pub max_shape: Option<Vec<u64>>,
    pub element: Element,
    pub layout: Layout,
    /// The stored element that stands for elements that were never written.
    pub fill: Vec<u8>,
    /// The element for cells beyond the stored shape.
    pub beyond: Vec<u8>,
    pub metadata: DatasetMetadata,
    /// For strings, the code of each cell as a little-endian `i64`; otherwise empty.
    pub codes: Vec<u8>,
}

/// The location of the elements of a chunk.
enum Place<'a> {
    /// Nowhere: they were never written.
    Missing,
    /// In the object header.
    Header(&'a [u8]),
    /// One after another from this offset of the file on.
    Contiguous(u64),
    /// In a stored chunk.
    Chunk(&'a Chunked, ChunkLocation),
}

/// An open file, as far as the chunks of its datasets need it.
pub(super) struct Opened<'a> {
    pub path: &'a Path,
    pub source: &'a Source,
    pub storage: &'a Storage,
    /// The chunk tables in the cache directory, if there is one.
    pub tables: Option<&'a CachedTables>,
}

impl Hdf5Array {
    /// Returns `true` if the dataset is stored in chunks.
    pub fn has_chunks(&self) -> bool {
        matches!(self.layout, Layout::Chunked(_)) && !self.element.kind.is_text()
    }

    /// Returns `true` if any filter compresses.
    pub fn is_compressed(&self) -> bool {
        match &self.layout {
            Layout::Chunked(chunked) => chunked.filters.compresses(),
            Layout::Compact(_) | Layout::Contiguous(_) => false,
        }
    }

    /// Finds the elements of a chunk.
    ///
    /// # Errors
    /// Fails if the chunk index is malformed, or the chunk lies outside of the file.
    fn place(&self, file: &Opened<'_>, dataset: &Dataset, chunk: &[u64]) -> Result<Place<'_>> {
        // A chunk divides only the slowest axes and spans all others, so it is contiguous.
        let start = || {
            let axes = chunk
                .iter()
                .zip(dataset.shape().iter().zip(dataset.chunk_shape()));
            axes.fold(0, |start, (index, (extent, size))| {
                start * extent + index * size
            })
        };
        match &self.layout {
            Layout::Compact(bytes) => {
                let start = (start() * self.element.size) as usize;
                let length = (dataset.chunk_cells(chunk) * self.element.size) as usize;
                // The layout was checked against the shape.
                Ok(Place::Header(
                    bytes.get(start..start + length).unwrap_or_default(),
                ))
            }
            Layout::Contiguous(None) => Ok(Place::Missing),
            Layout::Contiguous(Some(offset)) => {
                Ok(Place::Contiguous(offset + start() * self.element.size))
            }
            Layout::Chunked(chunked) => {
                let Some(ordinal) = self.stored.chunk_ordinal(chunk) else {
                    return Ok(Place::Missing);
                };
                let table = self.table(file, chunked)?;
                let Some(location) = table.find(chunk, ordinal) else {
                    return Ok(Place::Missing);
                };
                let end = location.offset.checked_add(location.size);
                if end.is_none_or(|end| end > file.storage.length()) {
                    return Err(Error::malformed(
                        ErrorLocation::chunk(file.path, dataset.name(), chunk),
                        "location",
                        format!("{} bytes at offset {}", location.size, location.offset),
                        format!("a range within the file's {} bytes", file.storage.length()),
                    ));
                }
                Ok(Place::Chunk(chunked, location))
            }
        }
    }

    fn table<'a>(&'a self, file: &Opened<'_>, chunked: &'a Chunked) -> Result<&'a ChunkTable> {
        let table = chunked.table.get_or_init(|| {
            let shape = self.stored.shape();
            if let Some(table) = file.tables.and_then(|tables| tables.get(chunked, shape)) {
                return Ok(table);
            }
            let max_shape = self.max_shape.as_deref();
            let table = ChunkTable::read(file.source, chunked, shape, max_shape)?;
            if let Some(tables) = file.tables {
                tables.put(chunked, shape, &table);
            }
            Ok(table)
        });
        table.as_ref().map_err(|found| {
            Error::malformed(
                ErrorLocation::dataset(file.path, self.stored.name()),
                "chunk index",
                format!("unreadable ({found})"),
                "the location of each chunk",
            )
        })
    }

    /// Returns the filters that were not applied to a chunk, as a mask.
    fn filter_mask(&self, chunked: &Chunked, location: &ChunkLocation, chunk: &[u64]) -> u32 {
        let is_whole = self.stored.chunk_bounds(chunk).1 == self.stored.chunk_shape();
        match chunked.unfiltered_border && !is_whole {
            true => u32::MAX,
            false => location.filter_mask,
        }
    }

    /// Returns how a chunk is stored.
    ///
    /// # Errors
    /// Returns the errors of [`Self::place`].
    pub fn chunk(
        &self,
        file: &Opened<'_>,
        dataset: &Dataset,
        chunk: &[u64],
    ) -> Result<StoredChunk> {
        let dtype = self.element.dtype;
        let raw_bytes = dataset.chunk_bytes(dtype, chunk);
        let is_plain = self.element.kind == ElementKind::Plain;
        let (stored_bytes, raw) = match self.place(file, dataset, chunk)? {
            Place::Missing => (0, None),
            Place::Header(bytes) => (bytes.len() as u64, None),
            Place::Contiguous(offset) => {
                let stored = dataset.chunk_cells(chunk) * self.element.size;
                (stored, is_plain.then_some(offset))
            }
            Place::Chunk(chunked, location) => {
                let extents = dataset.chunk_bounds(chunk).1;
                let is_raw = is_plain
                    && chunked.filters.is_empty(self.filter_mask(chunked, &location, chunk))
                    && location.size == chunked.chunk_bytes
                    // The cells of a clipped chunk follow one another only if the first axis is clipped.
                    && extents.get(1..) == dataset.chunk_shape().get(1..)
                    && extents == self.stored.chunk_bounds(chunk).1;
                (location.size, is_raw.then_some(location.offset))
            }
        };
        Ok(match raw {
            Some(offset) => StoredChunk {
                raw_bytes,
                stored_bytes: raw_bytes,
                payload: Payload::Raw(offset),
            },
            None => StoredChunk {
                raw_bytes,
                stored_bytes,
                payload: Payload::Encoded("hdf5"),
            },
        })
    }

    /// Returns the range of a chunk's elements in the file; `None` if they are not in the file, or in an
    /// object header.
    ///
    /// # Errors
    /// Returns the errors of [`Self::place`].
    #[cfg(feature = "remote")]
    pub fn range(
        &self,
        file: &Opened<'_>,
        dataset: &Dataset,
        chunk: &[u64],
    ) -> Result<Option<Range<u64>>> {
        Ok(match self.place(file, dataset, chunk)? {
            Place::Missing | Place::Header(_) => None,
            Place::Contiguous(offset) => {
                Some(offset..offset + dataset.chunk_cells(chunk) * self.element.size)
            }
            Place::Chunk(_, location) => Some(location.offset..location.offset + location.size),
        })
    }

    /// Decodes a chunk, and leaves its cells in `context`. `fetched` are its stored bytes, if they have
    /// been read.
    ///
    /// # Errors
    /// Fails if the chunk cannot be read or decoded.
    pub fn decode(
        &self,
        file: &Opened<'_>,
        dataset: &Dataset,
        chunk: &[u64],
        fetched: Option<&[u8]>,
        context: &mut DecodeContext,
    ) -> Result<()> {
        self.read(file, dataset, chunk, fetched, context)?;
        let DecodeContext { cells, stored, .. } = context;
        self.element.convert(cells, stored);
        Ok(())
    }

    /// Reads the elements of a chunk as stored, clipped to the shape.
    pub fn read(
        &self,
        file: &Opened<'_>,
        dataset: &Dataset,
        chunk: &[u64],
        fetched: Option<&[u8]>,
        context: &mut DecodeContext,
    ) -> Result<()> {
        let located = || ErrorLocation::chunk(file.path, dataset.name(), chunk);
        let read = |offset, buffer: &mut Vec<u8>| match fetched {
            Some(bytes) => {
                buffer.clear();
                buffer.extend_from_slice(bytes);
                Ok(())
            }
            None => {
                let read = file.storage.read_at(offset, buffer);
                read.map_err(|error| error.at(&located()))
            }
        };
        let size = self.element.size;
        let extents = dataset.chunk_bounds(chunk).1;
        // Cannot overflow: the size of the dataset was checked.
        let bytes = extents.iter().product::<u64>() * size;
        match self.place(file, dataset, chunk)? {
            Place::Missing if self.stored.chunk_ordinal(chunk).is_none() => {
                fill(&mut context.cells, &self.beyond, bytes);
            }
            Place::Missing => {
                let written = self.stored.chunk_bounds(chunk).1;
                let bytes = written.iter().product::<u64>() * size;
                fill(&mut context.cells, &self.fill, bytes);
                self.extend(&written, &extents, context);
            }
            Place::Header(stored) => {
                context.cells.clear();
                context.cells.extend_from_slice(stored);
            }
            Place::Contiguous(offset) => {
                context.cells.resize(bytes as usize, 0);
                read(offset, &mut context.cells)?;
            }
            Place::Chunk(chunked, location) => {
                // The range lies within the file.
                context.stored.resize(location.size as usize, 0);
                read(location.offset, &mut context.stored)?;
                let mask = self.filter_mask(chunked, &location, chunk);
                let decoded = chunked
                    .filters
                    .decode(context, mask, chunked.chunk_bytes as usize);
                decoded.map_err(|found| {
                    let expected = match chunked.filters.names().as_str() {
                        "" => format!("{} bytes", chunked.chunk_bytes),
                        names => format!("a chunk encoded with the filters ({names})"),
                    };
                    Error::malformed(
                        located(),
                        "chunk",
                        format!("undecodable ({found})"),
                        expected,
                    )
                })?;
                self.clip(dataset, chunk, &extents, context);
            }
        }
        Ok(())
    }

    /// Clips the elements of a whole chunk to the shape.
    fn clip(&self, dataset: &Dataset, chunk: &[u64], extents: &[u64], context: &mut DecodeContext) {
        let size = self.element.size;
        let DecodeContext { cells, stored, .. } = context;
        let written = self.stored.chunk_bounds(chunk).1;
        crop(cells, dataset.chunk_shape(), &written, size, stored);
        self.extend(&written, extents, context);
    }

    /// Extends the elements of a chunk from the stored shape to the shape of the dataset.
    fn extend(&self, written: &[u64], extents: &[u64], context: &mut DecodeContext) {
        if written == extents {
            return;
        }
        let size = self.element.size;
        let DecodeContext { cells, stored, .. } = context;
        fill(stored, &self.beyond, extents.iter().product::<u64>() * size);
        let origin = vec![0; extents.len()];
        let copy = BoxCopy {
            source_shape: written,
            from: &origin,
            target_shape: extents,
            to: &origin,
            extents: written,
            size,
        };
        copy.run(cells, stored);
        std::mem::swap(cells, stored);
    }
}
