//! Reads windows of dense arrays.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::tiledb::array::TileDbArray;
use crate::format::tiledb::buffers::TileBuffers;
use crate::format::tiledb::dense::{Window, WindowSource};
#[cfg(feature = "remote")]
use crate::format::tiledb::fetch::FetchedTiles;
use crate::format::tiledb::fragment::Field;
use crate::format::tiledb::reader::{Starts, TileReader};
use crate::format::tiledb::schema::Attribute;
use crate::format::tiledb::tile::MAX_TILE_BYTES;

/// Reads the attributes of windows of a dense array, in row-major order. Each thread keeps one
/// reader, whose buffers are reused.
#[derive(Debug)]
pub struct DenseReader {
    array: Arc<TileDbArray>,
    tiles: TileReader,
    /// The decoded tiles of the sources of a window; `None` for fragments without the attribute.
    sources: Vec<Option<Part>>,
    spare: Vec<TileBuffers>,
    /// Fields of fragments, by fragment and attribute; `None` for fragments without the attribute.
    fields: HashMap<(usize, usize), Option<Arc<Field>>>,
}

impl DenseReader {
    /// Returns a reader of a dense array.
    pub fn new(array: Arc<TileDbArray>) -> Self {
        Self {
            array,
            tiles: TileReader::default(),
            sources: Vec::new(),
            spare: Vec::new(),
            fields: HashMap::new(),
        }
    }

    /// Reads tiles from these bytes, if they have them, until other bytes are set.
    #[cfg(feature = "remote")]
    pub(crate) fn set_fetched(&mut self, fetched: FetchedTiles) {
        self.tiles.set_fetched(fetched);
    }

    /// The number of stored bytes that were read since the reader was created.
    pub fn bytes_read(&self) -> u64 {
        self.tiles.bytes_read()
    }

    /// Reads an attribute of the array's schema in one of the array's windows. Cells that no fragment
    /// holds have the attribute's fill value, or are null.
    pub fn read(
        &mut self,
        window: &Window,
        attribute: usize,
        buffers: &mut TileBuffers,
    ) -> Result<()> {
        let array = Arc::clone(&self.array);
        let Some(description) = array.schema().attributes.get(attribute) else {
            return Err(Error::invalid(
                array.path(),
                format!("has no attribute {attribute}"),
            ));
        };
        if window.tile_cells != array.grid()?.tile_cells() {
            let message = "the window is one of another array";
            return Err(Error::invalid(array.path(), message));
        }
        if let (true, [source]) = (window.is_direct(), window.sources())
            && let Some(field) = self.field(*source, attribute)?
        {
            let fragment = &array.fragments()[source.fragment];
            self.tiles.read(fragment, &field, source.tile, buffers)?;
            if description.is_nullable && !field.is_nullable {
                buffers.validity.resize(buffers.cells, 1);
            }
            return Ok(());
        }
        let sources = self.sources.drain(..).flatten();
        self.spare.extend(sources.map(|(buffers, _)| buffers));
        for (index, source) in window.sources().iter().enumerate() {
            let tile = match self.field(*source, attribute)? {
                Some(field) => {
                    let fragment = &array.fragments()[source.fragment];
                    let mut tile = self.spare.pop().unwrap_or_default();
                    let needed = window.source_cells(index);
                    let starts =
                        self.tiles
                            .read_cells(fragment, &field, source.tile, needed, &mut tile)?;
                    if description.is_nullable && !field.is_nullable {
                        tile.validity.clear();
                        tile.validity.resize(tile.cells, 1);
                    }
                    Some((tile, starts))
                }
                None => None,
            };
            self.sources.push(tile);
        }
        buffers.cells = window.len();
        buffers.offsets.clear();
        match description.cell_bytes() {
            Some(bytes) => {
                let length = window
                    .len()
                    .checked_mul(bytes)
                    .filter(|all| *all <= MAX_TILE_BYTES);
                let Some(length) = length else {
                    let message = format!("windows are limited to {MAX_TILE_BYTES} bytes");
                    return Err(Error::invalid(array.path(), message));
                };
                buffers.values.resize(length, 0);
                self.gather(window, &description.fill, values_of, &mut buffers.values);
            }
            None => self.gather_variable(window, description, buffers),
        }
        buffers.validity.clear();
        if description.is_nullable {
            buffers.validity.resize(window.len(), 0);
            let fill = [u8::from(description.is_fill_valid)];
            self.gather(window, &fill, validity_of, &mut buffers.validity);
        }
        Ok(())
    }

    /// Marks the cells of a window that no fragment holds as null, in the cells that [`Self::read`] has
    /// returned for an attribute that is not nullable.
    pub fn mark_missing(
        &mut self,
        window: &Window,
        attribute: usize,
        buffers: &mut TileBuffers,
    ) -> Result<()> {
        for region in window.regions() {
            let source = region.source.map(|source| window.sources()[source]);
            let field = source.map(|source| self.field(source, attribute));
            if field.transpose()?.flatten().is_some() {
                continue;
            }
            buffers.validity.resize(window.len(), 1);
            window.for_each_run(region, |run| {
                buffers.validity[run.window_cell..][..run.length].fill(0);
            });
        }
        Ok(())
    }

    /// Returns the attribute in the fragment of a source, if the fragment has it.
    fn field(&mut self, source: WindowSource, attribute: usize) -> Result<Option<Arc<Field>>> {
        let key = (source.fragment, attribute);
        if let Some(field) = self.fields.get(&key) {
            return Ok(field.clone());
        }
        let field = self
            .array
            .attribute_in(source.fragment, attribute)?
            .map(Arc::new);
        self.fields.insert(key, field.clone());
        Ok(field)
    }

    /// Copies cells of fixed size from the sources, or the fill value. `cells` returns the bytes of a
    /// source, and the position of the first of them in the tile.
    fn gather(
        &self,
        window: &Window,
        fill: &[u8],
        cells: fn(&Part) -> (&[u8], usize),
        output: &mut [u8],
    ) {
        let size = fill.len();
        for region in window.regions() {
            let tile = region
                .source
                .and_then(|source| self.sources[source].as_ref());
            window.for_each_run(region, |run| {
                let output = &mut output[run.window_cell * size..][..run.length * size];
                let Some(tile) = tile else {
                    output
                        .chunks_exact_mut(size)
                        .for_each(|cell| cell.copy_from_slice(fill));
                    return;
                };
                let (bytes, start) = cells(tile);
                let source = &bytes[run.source_cell * size - start..];
                match (run.stride, size) {
                    (1, _) => output.copy_from_slice(&source[..run.length * size]),
                    (stride, 1) => copy_strided::<1>(source, stride, output),
                    (stride, 2) => copy_strided::<2>(source, stride, output),
                    (stride, 4) => copy_strided::<4>(source, stride, output),
                    (stride, 8) => copy_strided::<8>(source, stride, output),
                    (stride, _) => {
                        let cells = source.chunks(stride * size);
                        for (cell, source) in output.chunks_exact_mut(size).zip(cells) {
                            cell.copy_from_slice(&source[..size]);
                        }
                    }
                }
            });
        }
    }

    /// Copies cells of variable length from the sources, or the fill value.
    fn gather_variable(&self, window: &Window, description: &Attribute, buffers: &mut TileBuffers) {
        const FILL: u32 = u32::MAX;
        let mut cells = vec![(FILL, 0u32); window.len()];
        for region in window.regions() {
            let source = region
                .source
                .filter(|source| self.sources[*source].is_some());
            let Some(source) = source else { continue };
            window.for_each_run(region, |run| {
                let run_cells = &mut cells[run.window_cell..][..run.length];
                for (index, cell) in run_cells.iter_mut().enumerate() {
                    // Tiles have at most `MAX_TILE_CELLS` cells, which is less than 2^32.
                    *cell = (source as u32, (run.source_cell + index * run.stride) as u32);
                }
            });
        }
        buffers.values.clear();
        buffers.offsets.reserve(cells.len() + 1);
        buffers.offsets.push(0);
        for (source, cell) in cells {
            let values = match self.sources.get(source as usize) {
                Some(Some((tile, _))) => tile.cell(cell as usize, description.cell_values, 1),
                _ => &description.fill,
            };
            buffers.values.extend_from_slice(values);
            buffers.offsets.push(buffers.values.len() as u64);
        }
    }
}

/// A part of a tile, and the positions of its first bytes in the tile.
type Part = (TileBuffers, Starts);

fn values_of((buffers, starts): &Part) -> (&[u8], usize) {
    (&buffers.values, starts.values)
}

fn validity_of((buffers, starts): &Part) -> (&[u8], usize) {
    (&buffers.validity, starts.validity)
}

/// Copies every `stride`-th cell.
fn copy_strided<const SIZE: usize>(source: &[u8], stride: usize, output: &mut [u8]) {
    let (source, _) = source.as_chunks::<SIZE>();
    let (output, _) = output.as_chunks_mut::<SIZE>();
    for (cell, source) in output.iter_mut().zip(source.iter().step_by(stride)) {
        *cell = *source;
    }
}
