//! Reads the tiles of fragments.

use std::ops::Range;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::tiledb::buffers::TileBuffers;
use crate::format::tiledb::bytes::u64s;
use crate::format::tiledb::codecs::{Codecs, Steps};
use crate::format::tiledb::directory::Region;
use crate::format::tiledb::fault::Fault;
#[cfg(feature = "remote")]
use crate::format::tiledb::fetch::FetchedTiles;
use crate::format::tiledb::fragment::{Field, FieldFile, Fragment, MAX_TILE_CELLS};
use crate::format::tiledb::schema::CellValues;
use crate::format::tiledb::tile;

/// Reads tiles. Buffers and decompression contexts are reused from tile to tile, so that each thread
/// keeps one reader.
#[derive(Default)]
pub struct TileReader {
    codecs: Codecs,
    region: Region,
    offsets: Vec<u8>,
    bytes_read: u64,
    #[cfg(feature = "remote")]
    fetched: FetchedTiles,
}

/// The positions in a tile of the first bytes of a part of it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Starts {
    pub values: usize,
    pub validity: usize,
}

impl TileReader {
    /// Reads tiles from these bytes, if they have them, until other bytes are set.
    #[cfg(feature = "remote")]
    pub(crate) fn set_fetched(&mut self, fetched: FetchedTiles) {
        self.fetched = fetched;
    }

    /// The number of stored bytes that were read since the reader was created.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Reads all cells of a field in a tile, in the order in which they are stored.
    ///
    /// Dense tiles include their padding: cells outside of the fragment's domain, whose values have
    /// no meaning.
    ///
    /// # Errors
    /// Fails if the tile cannot be read or decoded. `buffers` then hold no useful cells.
    pub fn read(
        &mut self,
        fragment: &Fragment,
        field: &Field,
        tile: u64,
        buffers: &mut TileBuffers,
    ) -> Result<()> {
        let all = 0..usize::MAX;
        self.read_cells(fragment, field, tile, all, buffers)
            .map(drop)
    }

    /// Reads the chunks of a tile that hold some of its cells. Cells of variable length are all read.
    pub(crate) fn read_cells(
        &mut self,
        fragment: &Fragment,
        field: &Field,
        tile: u64,
        needed: Range<usize>,
        buffers: &mut TileBuffers,
    ) -> Result<Starts> {
        let cells = fragment.cells(tile);
        if cells > MAX_TILE_CELLS {
            let message = format!("has tiles of {cells} cells, of {MAX_TILE_CELLS} at most");
            return Err(Error::invalid(fragment.directory(), message));
        }
        let cells = cells as usize;
        buffers.cells = cells;
        buffers.offsets.clear();
        let mut starts = Starts::default();
        let needed = match field.cell_values {
            CellValues::Fixed(_) => needed,
            CellValues::Variable => 0..usize::MAX,
        };
        if let Some(variable) = &field.variable {
            let bytes = fragment.variable_bytes(field, tile)?;
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            if let Some(steps) = &field.fixed {
                let length = cells.saturating_mul(8);
                let mut offsets = std::mem::take(&mut self.offsets);
                let file = FieldFile::Fixed;
                self.decode(
                    fragment,
                    field,
                    (file, steps),
                    tile,
                    (length, 0..length),
                    &mut offsets,
                    None,
                )?;
                let (starts, _) = offsets.as_chunks::<8>();
                buffers.offsets.reserve(cells + 1);
                buffers
                    .offsets
                    .extend(starts.iter().map(|start| u64::from_le_bytes(*start)));
                buffers.offsets.push(bytes as u64);
                self.offsets = offsets;
                if !buffers.offsets.is_sorted() || buffers.offsets.first() != Some(&0) {
                    let fault = Fault::new("cell offsets", "out of order", "increasing from 0");
                    return Err(fault.at(self.location(
                        fragment,
                        field,
                        tile,
                        FieldFile::Fixed,
                    )?));
                }
            }
            let offsets = &mut buffers.offsets;
            let texts = variable.texts.map(|_| (cells, offsets));
            let (file, values) = (FieldFile::Variable, &mut buffers.values);
            self.decode(
                fragment,
                field,
                (file, variable),
                tile,
                (bytes, 0..bytes),
                values,
                texts,
            )?;
        } else if let Some(steps) = &field.fixed {
            let length = cells.saturating_mul(field.cell_bytes);
            let (file, values) = (FieldFile::Fixed, &mut buffers.values);
            let bytes = |cells: usize| cells.saturating_mul(field.cell_bytes).min(length);
            let range = (length, bytes(needed.start)..bytes(needed.end));
            starts.values =
                self.decode(fragment, field, (file, steps), tile, range, values, None)?;
        }
        match &field.validity {
            Some(steps) => {
                let (file, validity) = (FieldFile::Validity, &mut buffers.validity);
                let range = (cells, needed.start..needed.end.min(cells));
                starts.validity =
                    self.decode(fragment, field, (file, steps), tile, range, validity, None)?;
            }
            None => buffers.validity.clear(),
        }
        Ok(starts)
    }

    /// Reads a field of eight bytes per cell, such as timestamps.
    pub(crate) fn read_u64s(
        &mut self,
        fragment: &Fragment,
        field: &Field,
        tile: u64,
    ) -> Result<Vec<u64>> {
        let mut buffers = TileBuffers::default();
        self.read(fragment, field, tile, &mut buffers)?;
        Ok(u64s(&buffers.values))
    }

    #[allow(clippy::too_many_arguments)]
    fn decode(
        &mut self,
        fragment: &Fragment,
        field: &Field,
        (file, steps): (FieldFile, &Steps),
        tile: u64,
        (length, needed): (usize, Range<usize>),
        output: &mut Vec<u8>,
        texts: Option<(usize, &mut Vec<u64>)>,
    ) -> Result<usize> {
        let (storage, range) = fragment.tile_range(field, file, tile)?;
        self.bytes_read += range.end.saturating_sub(range.start);
        #[cfg(feature = "remote")]
        let fetched = self.fetched.find(storage, &range);
        #[cfg(not(feature = "remote"))]
        let fetched: Option<&Vec<u8>> = None;
        let stored: &[u8] = match fetched {
            Some(fetched) => fetched,
            None => self.region.read(storage, fragment.access(), range)?,
        };
        let key = fragment.key();
        let codecs = &mut self.codecs;
        match tile::decode(codecs, steps, key, stored, length, needed, output, texts) {
            Ok(start) => Ok(start),
            Err(fault) => Err(fault.at(self.location(fragment, field, tile, file)?)),
        }
    }

    fn location(
        &self,
        fragment: &Fragment,
        field: &Field,
        tile: u64,
        file: FieldFile,
    ) -> Result<ErrorLocation> {
        let (storage, _) = fragment.tile_range(field, file, tile)?;
        let part = format!("field {:?}, tile {tile}", field.name);
        Ok(ErrorLocation::part(storage.path(), part))
    }
}

impl std::fmt::Debug for TileReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TileReader")
    }
}
