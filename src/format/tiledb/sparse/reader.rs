//! Reads the data tiles of sparse arrays, and finds which of their cells count.

use std::collections::HashMap;
use std::sync::Arc;

use lru::LruCache;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::tiledb::array::TileDbArray;
use crate::format::tiledb::buffers::TileBuffers;
use crate::format::tiledb::directory::{Cells, Condition};
#[cfg(feature = "remote")]
use crate::format::tiledb::fetch::FetchedTiles;
use crate::format::tiledb::fragment::{Field, FieldKind, Fragment};
use crate::format::tiledb::reader::TileReader;
use crate::format::tiledb::sparse::checks::{Checks, fragment_of};
use crate::format::tiledb::sparse::keys::{KeyTable, Seed, TileKeys};

/// Maximum size of the coordinates that are kept. A tile that overlaps many others is compared with each of them.
const MAX_CACHED_BYTES: usize = 16 << 20;

/// Reads data tiles of a sparse array. Each thread keeps one reader, whose buffers are reused.
///
/// A cell of a tile counts unless
/// - its timestamp is outside of the window of time, or it was deleted before the window's end;
/// - the array has no duplicates, and a cell with the same coordinates is newer: its timestamp is
///   greater, or it is equal and the cell is in a later fragment;
/// - it meets the predicate of a delete that applies to it. An older cell with the same coordinates
///   does not come back.
#[derive(Debug)]
pub struct SparseReader {
    array: Arc<TileDbArray>,
    tiles: TileReader,
    coordinates: LruCache<(usize, u64), Arc<TileKeys>>,
    /// The size of these coordinates in bytes.
    cached_bytes: usize,
    seed: Seed,
}

/// The order of cells with the same coordinates, of which the maximum counts.
type Version = (u64, usize, u64, usize);

impl SparseReader {
    /// Returns a reader of a sparse array.
    ///
    /// # Errors
    /// Fails if the array is dense.
    pub fn new(array: Arc<TileDbArray>) -> Result<Self> {
        if !array.schema().is_sparse {
            return Err(Error::invalid(
                array.path(),
                "the array is dense, expected a sparse one",
            ));
        }
        Ok(Self {
            array,
            tiles: TileReader::default(),
            coordinates: LruCache::unbounded(),
            cached_bytes: 0,
            seed: Seed::random(),
        })
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

    /// Reads the coordinates of all cells of a tile in one dimension.
    pub fn dimension(
        &mut self,
        fragment: usize,
        tile: u64,
        dimension: usize,
        buffers: &mut TileBuffers,
    ) -> Result<()> {
        let array = Arc::clone(&self.array);
        let fragment = fragment_of(&array, fragment)?;
        let field = fragment.field(FieldKind::Dimension(dimension))?;
        self.tiles.read(fragment, &field, tile, buffers)
    }

    /// Reads an attribute of the array's schema of all cells of a tile. If the fragment does not have
    /// the attribute, all cells have the fill value, or are null.
    pub fn attribute(
        &mut self,
        fragment: usize,
        tile: u64,
        attribute: usize,
        buffers: &mut TileBuffers,
    ) -> Result<()> {
        let array = Arc::clone(&self.array);
        let field = array.attribute_in(fragment, attribute)?;
        let fragment = fragment_of(&array, fragment)?;
        // `attribute_in` checks the attribute.
        let description = &array.schema().attributes[attribute];
        match field {
            Some(field) => {
                self.tiles.read(fragment, &field, tile, buffers)?;
                if description.is_nullable && !field.is_nullable {
                    buffers.validity.resize(buffers.cells, 1);
                }
                Ok(())
            }
            None => {
                let cells = self.cells(fragment, tile)?;
                let fill = description.fill.as_slice();
                buffers.cells = cells;
                buffers.values.clear();
                buffers
                    .values
                    .extend(std::iter::repeat_n(fill, cells).flatten());
                buffers.offsets.clear();
                if description.cell_values.is_variable() {
                    buffers
                        .offsets
                        .extend((0..=cells).map(|cell| (cell * fill.len()) as u64));
                }
                buffers.validity.clear();
                if description.is_nullable {
                    buffers
                        .validity
                        .resize(cells, u8::from(description.is_fill_valid));
                }
                Ok(())
            }
        }
    }

    /// Returns the number of cells of a tile. Decodes the first dimension, so that the number is not
    /// only stated by the footer.
    fn cells(&mut self, fragment: &Fragment, tile: u64) -> Result<usize> {
        let mut buffers = TileBuffers::default();
        let field = fragment.field(FieldKind::Dimension(0))?;
        self.tiles.read(fragment, &field, tile, &mut buffers)?;
        Ok(buffers.cells)
    }

    /// Returns `true` for each cell of a tile that counts, or `None` if all of them do.
    pub fn selection(&mut self, fragment: usize, tile: u64) -> Result<Option<Vec<bool>>> {
        let array = Arc::clone(&self.array);
        let Some(checks) = Checks::of(&array, fragment)? else {
            return Ok(None);
        };
        let (window, this) = (array.window_of_time(), checks.fragment);
        let (_, last) = this.timestamps();
        let mut selection = None;
        if checks.is_partial {
            let timestamps = self.timestamps(this, tile)?;
            let is_inside = |time: &u64| (window.start..=window.end).contains(time);
            selection = Some(timestamps.iter().map(is_inside).collect());
        }
        if let Some(rivals) = checks.rivals(&array, tile)? {
            self.drop_older((fragment, tile), rivals, &mut selection)?;
        }
        if this.has_deletes() {
            let field = this.field(FieldKind::DeleteTimes)?;
            let times = self.tiles.read_u64s(this, &field, tile)?;
            let selection = selection.get_or_insert_with(|| vec![true; times.len()]);
            for (is_selected, time) in selection.iter_mut().zip(times) {
                *is_selected &= time > window.end || time == u64::MAX;
            }
        }
        for delete in checks.deletes {
            let survives = self.evaluate(this, tile, &delete.condition)?;
            let mut applies = None;
            if this.has_timestamps() && delete.timestamp <= last {
                applies = Some(self.timestamps(this, tile)?);
            }
            let selection = selection.get_or_insert_with(|| vec![true; survives.len()]);
            for (cell, (is_selected, survives)) in selection.iter_mut().zip(survives).enumerate() {
                let applies = applies
                    .as_ref()
                    .is_none_or(|times| times[cell] <= delete.timestamp);
                *is_selected &= survives || !applies;
            }
        }
        Ok(selection.filter(|selection| selection.contains(&false)))
    }

    /// Reads the fields of a delete's condition, and returns `true` for the cells that survive.
    fn evaluate(
        &mut self,
        fragment: &Fragment,
        tile: u64,
        condition: &Condition,
    ) -> Result<Vec<bool>> {
        let mut names = Vec::new();
        condition.for_each_field(&mut |name| names.push(name.to_string()));
        names.sort();
        names.dedup();
        let mut fields: HashMap<String, (Field, TileBuffers)> = HashMap::new();
        for name in names {
            if let Some(field) = fragment.field_named(&name)? {
                let mut buffers = TileBuffers::default();
                self.tiles.read(fragment, &field, tile, &mut buffers)?;
                fields.insert(name, (field, buffers));
            }
        }
        let cells = match fields.values().next() {
            Some((_, buffers)) => buffers.cells,
            None => self.cells(fragment, tile)?,
        };
        let find = |name: &str| {
            let (field, buffers) = fields.get(name)?;
            Some(Cells {
                datatype: field.datatype,
                cell_values: field.cell_values,
                buffers,
            })
        };
        let part = || ErrorLocation::part(fragment.directory(), format!("delete, tile {tile}"));
        condition
            .evaluate(cells, &find)
            .map_err(|fault| fault.at(part()))
    }

    fn timestamps(&mut self, fragment: &Fragment, tile: u64) -> Result<Vec<u64>> {
        let field = fragment.field(FieldKind::Timestamps)?;
        self.tiles.read_u64s(fragment, &field, tile)
    }

    /// Deselects each cell that has a newer version within the time range that is read.
    fn drop_older(
        &mut self,
        own: (usize, u64),
        rivals: Vec<(usize, u64)>,
        selection: &mut Option<Vec<bool>>,
    ) -> Result<()> {
        let array = Arc::clone(&self.array);
        let window = array.window_of_time();
        let keys = self.keys(own.0, own.1)?;
        let version = |keys: &TileKeys, (fragment, tile): (usize, u64), cell: usize| -> Version {
            let time = match &keys.timestamps {
                Some(timestamps) => timestamps[cell],
                None => array.fragments()[fragment].timestamps().0,
            };
            (time, fragment, tile, cell)
        };
        let is_inside = |version: &Version, keys: &TileKeys| {
            keys.timestamps.is_none() || (window.start..=window.end).contains(&version.0)
        };
        // The newest version of each key, at the first cell with the key.
        let table = KeyTable::new(&keys);
        let mut newest: Vec<Option<Version>> = vec![None; keys.len()];
        for (cell, first) in table.first.iter().enumerate() {
            let version = version(&keys, own, cell);
            if is_inside(&version, &keys) {
                let newest = &mut newest[*first as usize];
                *newest = Some(version).max(*newest);
            }
        }
        for rival in rivals.into_iter().filter(|rival| *rival != own) {
            let others = self.keys(rival.0, rival.1)?;
            for cell in 0..others.len() {
                if let Some(first) = table.find(&others, cell) {
                    let version = version(&others, rival, cell);
                    if is_inside(&version, &others) {
                        newest[first] = Some(version).max(newest[first]);
                    }
                }
            }
        }
        let selection = selection.get_or_insert_with(|| vec![true; keys.len()]);
        for (cell, (is_selected, first)) in selection.iter_mut().zip(&table.first).enumerate() {
            let version = version(&keys, own, cell);
            *is_selected &= newest[*first as usize] == Some(version);
        }
        Ok(())
    }

    /// Returns the coordinates of a tile as keys.
    fn keys(&mut self, fragment: usize, tile: u64) -> Result<Arc<TileKeys>> {
        if let Some(keys) = self.coordinates.get(&(fragment, tile)) {
            return Ok(Arc::clone(keys));
        }
        let array = Arc::clone(&self.array);
        let this = fragment_of(&array, fragment)?;
        let mut dimensions = Vec::new();
        for dimension in 0..array.schema().dimensions.len() {
            let mut buffers = TileBuffers::default();
            let field = this.field(FieldKind::Dimension(dimension))?;
            self.tiles.read(this, &field, tile, &mut buffers)?;
            dimensions.push((field, buffers));
        }
        let timestamps = match this.has_timestamps() {
            true => Some(self.timestamps(this, tile)?),
            false => None,
        };
        let keys = Arc::new(TileKeys::new(&mut dimensions, timestamps, self.seed));
        self.cached_bytes += keys.bytes();
        self.coordinates.put((fragment, tile), Arc::clone(&keys));
        while self.cached_bytes > MAX_CACHED_BYTES
            && let Some((_, oldest)) = self.coordinates.pop_lru()
        {
            self.cached_bytes -= oldest.bytes();
        }
        Ok(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::io::storage::Access;
    use crate::format::tiledb::{
        ArrayWriter, Attribute, CellValues, DataOrder, Datatype, Dimension, Interval, Layout,
        OpenOptions, Pipeline, Scalar, Schema, SparseWriter, WriteOptions, default_fill,
    };

    fn integers(values: [i32; 2]) -> TileBuffers {
        TileBuffers {
            cells: 2,
            values: values.into_iter().flat_map(i32::to_le_bytes).collect(),
            ..TileBuffers::default()
        }
    }

    /// Creates an array of fragments with the cells `10 * number` and `10 * number + width` each.
    fn create(path: &std::path::Path, fragments: i32, width: i32) -> Arc<TileDbArray> {
        let schema = Schema {
            version: ArrayWriter::VERSION,
            allows_duplicates: false,
            is_sparse: true,
            tile_order: Layout::RowMajor,
            cell_order: Layout::RowMajor,
            capacity: 4,
            coordinate_filters: Pipeline::default(),
            offset_filters: Pipeline::default(),
            validity_filters: Pipeline::default(),
            dimensions: vec![Dimension {
                name: "d".to_string(),
                datatype: Datatype::Int32,
                cell_values: CellValues::Fixed(1),
                filters: Pipeline::default(),
                domain: Some(Interval {
                    low: Scalar::Signed(0),
                    high: Scalar::Signed(9999),
                }),
                extent: Some(Scalar::Signed(10)),
            }],
            attributes: vec![Attribute {
                name: "a".to_string(),
                datatype: Datatype::Int32,
                cell_values: CellValues::Fixed(1),
                filters: Pipeline::default(),
                fill: default_fill(Datatype::Int32),
                is_nullable: false,
                is_fill_valid: false,
                order: DataOrder::Unordered,
                enumeration: None,
            }],
            labels: Vec::new(),
            enumerations: Vec::new(),
            current_domain: None,
        };
        let open = || TileDbArray::open(path, &OpenOptions::default(), Access::Mmap).unwrap();
        let options = WriteOptions::default();
        let writer = ArrayWriter::create(path, schema, &[], &options).unwrap();
        writer.finish().unwrap();
        let array = open();
        for number in 0..fragments {
            let mut writer = SparseWriter::append(&array, &options).unwrap();
            let cells = integers([10 * number, 10 * number + width]);
            writer
                .write(2, &[cells, integers([number, number])])
                .unwrap();
            writer.finish().unwrap();
        }
        Arc::new(open())
    }

    #[test]
    fn bounds_are_read_only_of_fragments_that_meet_a_tile() {
        let folder = tempfile::tempdir().unwrap();
        let read = |array: &TileDbArray| {
            let fragments = array.fragments().iter();
            fragments
                .filter(|fragment| fragment.has_read_bounds())
                .count()
        };

        let array = create(&folder.path().join("disjoint"), 300, 9);
        assert_eq!(array.sparse_cells(), Some(600));
        let mut reader = SparseReader::new(Arc::clone(&array)).unwrap();
        for fragment in 0..300 {
            assert_eq!(reader.selection(fragment, 0).unwrap(), None);
        }
        assert_eq!(read(&array), 0);

        // The last cell of each fragment is the first one of the next fragment.
        let array = create(&folder.path().join("overlapping"), 60, 10);
        assert_eq!(array.sparse_cells(), None);
        let mut reader = SparseReader::new(Arc::clone(&array)).unwrap();
        let selection = reader.selection(30, 0).unwrap();
        assert_eq!(selection, Some(vec![true, false]));
        assert!(read(&array) <= 3, "{}", read(&array));
    }

    #[test]
    fn coordinates_of_small_tiles_are_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let array = create(&folder.path().join("array"), 200, 5000);
        let mut reader = SparseReader::new(Arc::clone(&array)).unwrap();
        // The first tile meets all others.
        reader.selection(0, 0).unwrap();
        let read = reader.bytes_read();
        assert!(read > 0);
        for fragment in 0..200 {
            reader.selection(fragment, 0).unwrap();
        }
        assert_eq!(reader.bytes_read(), read);
    }
}
