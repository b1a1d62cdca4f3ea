//! Writes fragments of sparse arrays.

use crate::error::{Error, Result};
use crate::format::tiledb::array::TileDbArray;
use crate::format::tiledb::buffers::TileBuffers;
use crate::format::tiledb::bytes::Fields;
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::fragment::Field;
use crate::format::tiledb::schema::{Interval, Scalar};
use crate::format::tiledb::writer::array::{ArrayWriter, WriteOptions, target_of};
use crate::format::tiledb::writer::cells::{CellOrder, Sorter, record};
use crate::format::tiledb::writer::fragment::{
    Extent, FragmentWriter, Target, TileStatistics, check_columns, hull, r_tree,
};

/// Writes one fragment of a sparse array, from cells in any order.
///
/// The fragment counts once [`Self::finish`] has returned. Dropping the writer deletes its files. Cells
/// are sorted in [`WriteOptions::sort_memory`], or with temporary files in the array's directory. Apart
/// from that, the writer keeps one data tile in memory, and the buffers of its files.
#[derive(Debug)]
pub struct SparseWriter {
    fragment: FragmentWriter,
    order: CellOrder,
    sorter: Sorter,
    /// The ordinals of the fields in the fragment, in the order of columns.
    columns: Vec<usize>,
    cells: u64,
}

impl SparseWriter {
    /// Starts a fragment of a new array.
    ///
    /// # Errors
    /// Fails if the array is dense, or the directory of the fragment cannot be created.
    pub fn new(array: &ArrayWriter) -> Result<Self> {
        Self::create(array.target().clone())
    }

    /// Starts a fragment that is added to an array.
    ///
    /// # Errors
    /// Like [`Self::new`]; also if fragments of the array's format version are not written.
    pub fn append(array: &TileDbArray, options: &WriteOptions) -> Result<Self> {
        Self::create(target_of(array, options)?)
    }

    fn create(target: Target) -> Result<Self> {
        if !target.schema.is_sparse {
            return Err(target.invalid("the array is dense, expected a sparse one"));
        }
        let (attributes, dimensions) = (
            target.schema.attributes.len(),
            target.schema.dimensions.len(),
        );
        Ok(Self {
            order: CellOrder::new(&target.schema),
            sorter: Sorter::new(&target.root, target.sort_memory),
            columns: (attributes..attributes + dimensions)
                .chain(0..attributes)
                .collect(),
            fragment: FragmentWriter::create(target)?,
            cells: 0,
        })
    }

    /// The number of cells added so far.
    pub fn cells(&self) -> u64 {
        self.cells
    }

    /// Adds cells, one column per dimension and then one per attribute, in the order of the schema.
    ///
    /// # Errors
    /// Fails if the columns do not all have this number of cells, a coordinate is outside of the domain,
    /// or a temporary file cannot be written.
    pub fn write(&mut self, cells: usize, columns: &[TileBuffers]) -> Result<()> {
        let fields = self.columns.iter().map(|index| self.fragment.field(*index));
        let fields: Vec<&Field> = fields.collect();
        let target = self.fragment.target();
        let fault = |fault: Fault| target.invalid(fault);
        check_columns(fields.iter().copied(), columns, cells).map_err(fault)?;
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for cell in 0..cells {
            key.clear();
            value.clear();
            let coordinate = |index: usize| record::cell(fields[index], &columns[index], cell);
            self.order.put_key(coordinate, &mut key).map_err(fault)?;
            let columns = fields.iter().copied().zip(columns);
            record::put(columns, cell, &mut value).map_err(fault)?;
            self.sorter.push(&key, &value)?;
        }
        self.cells += cells as u64;
        Ok(())
    }

    /// Writes the cells in the array's order, commits the fragment, and returns its name. Without cells,
    /// there is no fragment.
    ///
    /// # Errors
    /// Fails if two cells of an array without duplicates have the same coordinates, a filter cannot store
    /// a value, or the files cannot be written.
    pub fn finish(self) -> Result<Option<String>> {
        if self.cells == 0 {
            return Ok(None);
        }
        let fields: Vec<Field> = self.fragment.fields().cloned().collect();
        let mut tiles = Tiles {
            buffers: fields.iter().map(record::empty).collect(),
            fragment: self.fragment,
            fields,
            columns: self.columns,
            cells: 0,
            last_tile_cells: 0,
            bounds: Vec::new(),
            last_key: Vec::new(),
        };
        self.sorter.finish(|key, value| tiles.push(key, value))?;
        tiles.finish().map(Some)
    }
}

/// The tiles of a fragment, filled from sorted cells.
struct Tiles {
    fragment: FragmentWriter,
    fields: Vec<Field>,
    columns: Vec<usize>,
    /// The cells of the open tile, by field.
    buffers: Vec<TileBuffers>,
    cells: u64,
    last_tile_cells: u64,
    /// The smallest and largest coordinate of each tile and dimension.
    bounds: Vec<Vec<Interval>>,
    last_key: Vec<u8>,
}

impl Tiles {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let target = self.fragment.target();
        let (is_first, capacity) = (
            self.bounds.is_empty() && self.cells == 0,
            target.schema.capacity,
        );
        if !target.schema.allows_duplicates && !is_first && key == self.last_key {
            return Err(self.duplicate(value));
        }
        self.last_key.clear();
        self.last_key.extend(key);
        self.append(value)
            .map_err(|fault| self.fragment.target().invalid(fault))?;
        self.cells += 1;
        match self.cells == capacity {
            true => self.finish_tile(),
            false => Ok(()),
        }
    }

    /// Appends a cell to the open tile.
    fn append(&mut self, value: &[u8]) -> Decoded<()> {
        let mut value = Fields::new(value);
        for index in &self.columns {
            let (field, buffers) = (&self.fields[*index], &mut self.buffers[*index]);
            let (bytes, is_valid) = record::take(field, &mut value)?;
            record::push(field, bytes, is_valid, buffers);
        }
        Ok(())
    }

    /// Returns the error of a cell with the coordinates of the cell before.
    fn duplicate(&self, value: &[u8]) -> Error {
        let target = self.fragment.target();
        let mut value = Fields::new(value);
        let dimensions = self.columns.iter().take(target.schema.dimensions.len());
        let coordinates = dimensions.map(|index| {
            let field = &self.fields[*index];
            let (bytes, _) = record::take(field, &mut value)?;
            let value = Scalar::from_cell(field.datatype, field.cell_values, bytes);
            Ok(value.map(|value| value.to_string()).unwrap_or_default())
        });
        let coordinates = coordinates.collect::<Decoded<Vec<_>>>().unwrap_or_default();
        target.invalid(format!(
            "two cells have the coordinates [{}], in an array without duplicates",
            coordinates.join(", ")
        ))
    }

    fn finish_tile(&mut self) -> Result<()> {
        let schema = &self.fragment.target().schema;
        let attributes = schema.attributes.len();
        let coordinates = self.buffers.iter().skip(attributes);
        let dimensions = schema.dimensions.iter();
        let bounds = dimensions
            .zip(coordinates)
            .filter_map(|(dimension, cells)| {
                let coordinate = |cell| {
                    let size = dimension.datatype.size();
                    let bytes = cells.cell(cell, dimension.cell_values, size);
                    Scalar::from_cell(dimension.datatype, dimension.cell_values, bytes)
                };
                let point = |cell| coordinate(cell).map(Interval::point);
                (0..cells.cells).filter_map(point).reduce(Interval::hull)
            });
        self.bounds.push(bounds.collect());
        for (index, field) in self.fields.iter().enumerate() {
            let cells = std::mem::replace(&mut self.buffers[index], record::empty(field));
            let statistics = TileStatistics::new(field, &cells);
            self.fragment.write_tile(index, &cells, &statistics)?;
        }
        self.last_tile_cells = std::mem::take(&mut self.cells);
        Ok(())
    }

    fn finish(mut self) -> Result<String> {
        if self.cells > 0 {
            self.finish_tile()?;
        }
        let dimensions = &self.fragment.target().schema.dimensions;
        let extent = Extent {
            domain: hull(&self.bounds),
            last_tile_cells: self.last_tile_cells,
            r_tree: r_tree(dimensions, &self.bounds),
        };
        self.fragment.finish(&extent)
    }
}
