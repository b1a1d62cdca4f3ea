//! Writes fragments of dense arrays from cells in any order.

use crate::error::Result;
use crate::format::tiledb::array::TileDbArray;
use crate::format::tiledb::buffers::TileBuffers;
use crate::format::tiledb::bytes::Fields;
use crate::format::tiledb::dense::{Grid, IndexBox};
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::fragment::{Field, FieldKind};
use crate::format::tiledb::schema::{Layout, Scalar};
use crate::format::tiledb::writer::array::{ArrayWriter, WriteOptions, target_of};
use crate::format::tiledb::writer::cells::{Sorter, record};
use crate::format::tiledb::writer::dense::DenseWriter;
use crate::format::tiledb::writer::fragment::{Target, check_columns};
use crate::format::tiledb::writer::schema::WRITTEN_VERSION;

/// Writes one fragment of a dense array from cells in any order. The fragment is the smallest box with
/// all cells.
///
/// Cells are sorted in [`WriteOptions::sort_memory`], or with temporary files in the array's directory.
/// Apart from that, the writer keeps one space tile in memory.
#[derive(Debug)]
pub struct DenseCellWriter {
    target: Target,
    grid: Grid,
    /// The dimensions, followed by the attributes.
    fields: Vec<Field>,
    sorter: Sorter,
    /// The smallest box with all cells, if there are any.
    bounds: Option<IndexBox>,
    cells: u64,
}

impl DenseCellWriter {
    /// Starts a fragment of a new array.
    ///
    /// # Errors
    /// Fails if the array is sparse.
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
        let schema = &target.schema;
        if schema.is_sparse {
            return Err(target.invalid("the array is sparse, expected a dense one"));
        }
        let dimensions = (0..schema.dimensions.len()).map(FieldKind::Dimension);
        let attributes = (0..schema.attributes.len()).map(FieldKind::Attribute);
        let fields = dimensions
            .chain(attributes)
            .map(|kind| Field::new(schema, kind, 0, WRITTEN_VERSION, false));
        let fault = |fault: Fault| target.invalid(fault);
        Ok(Self {
            grid: Grid::new(schema).map_err(fault)?,
            fields: fields.collect::<Decoded<_>>().map_err(fault)?,
            sorter: Sorter::new(&target.root, target.sort_memory),
            target,
            bounds: None,
            cells: 0,
        })
    }

    /// Adds cells, one column per dimension and then one per attribute, in the order of the schema.
    ///
    /// # Errors
    /// Fails if the columns do not all have this number of cells, a coordinate is outside of the domain,
    /// or a temporary file cannot be written.
    pub fn write(&mut self, cells: usize, columns: &[TileBuffers]) -> Result<()> {
        let fault = |fault: Fault| self.target.invalid(fault);
        check_columns(self.fields.iter(), columns, cells).map_err(fault)?;
        let dimensions = self.target.schema.dimensions.len();
        let (mut index, mut key, mut value) = (Vec::new(), Vec::new(), Vec::new());
        for cell in 0..cells {
            key.clear();
            value.clear();
            self.index(cell, columns, &mut index).map_err(fault)?;
            self.put_key(&index, &mut key);
            let attributes = self.fields.iter().zip(columns).skip(dimensions);
            record::put(attributes, cell, &mut value).map_err(fault)?;
            let bounds = self.bounds.get_or_insert_with(|| IndexBox {
                ranges: index.iter().map(|index| *index..index + 1).collect(),
            });
            for (range, index) in bounds.ranges.iter_mut().zip(&index) {
                *range = range.start.min(*index)..range.end.max(index + 1);
            }
            self.sorter.push(&key, &value)?;
        }
        self.cells += cells as u64;
        Ok(())
    }

    /// Sets `index` to the index of a cell along each dimension.
    fn index(&self, cell: usize, columns: &[TileBuffers], index: &mut Vec<u64>) -> Decoded<()> {
        index.clear();
        let dimensions = self.grid.lows().iter().zip(&self.grid.used().ranges);
        for (axis, (low, used)) in dimensions.enumerate() {
            let field = &self.fields[axis];
            let bytes = record::cell(field, &columns[axis], cell);
            let value = Scalar::from_bytes(field.datatype, bytes);
            let found = value.as_ref().and_then(|value| value.distance_from(low));
            let Some(found) = found.filter(|found| used.contains(found)) else {
                let value = value.map(|value| value.to_string()).unwrap_or_default();
                let (first, last) = (low.offset_by(used.start), low.offset_by(used.end - 1));
                let found = format!("{value}, of dimension {:?}", field.name);
                return Err(Fault::new(
                    "coordinate",
                    found,
                    format!("{first} to {last}"),
                ));
            };
            index.push(found);
        }
        Ok(())
    }

    /// Appends the tile and the place in the tile of a cell, in the order in which tiles are written.
    fn put_key(&self, index: &[u64], key: &mut Vec<u8>) {
        let tile = |axis: usize| (index[axis] / self.grid.extents()[axis]).to_be_bytes();
        let axes = 0..index.len();
        match self.target.schema.tile_order {
            Layout::ColumnMajor => axes.rev().for_each(|axis| key.extend(tile(axis))),
            _ => axes.for_each(|axis| key.extend(tile(axis))),
        }
        key.extend(index.iter().flat_map(|index| index.to_be_bytes()));
    }

    /// Writes and commits the fragment, and returns its name. Without cells, there is no fragment.
    ///
    /// Cells of the box that were not added get the fill value, or null. If `is_complete`, such cells are
    /// an error, as they would overwrite cells of older fragments.
    ///
    /// # Errors
    /// Fails if two cells have the same coordinates, a filter cannot store a value, or the files cannot be
    /// written.
    pub fn finish(self, is_complete: bool) -> Result<Option<String>> {
        let Some(bounds) = self.bounds else {
            return Ok(None);
        };
        let all = bounds.cells().unwrap_or(u64::MAX);
        if is_complete && self.cells < all {
            let intervals = bounds.ranges.iter().zip(self.grid.lows());
            let intervals = intervals.map(|(range, low)| {
                let (first, last) = (low.offset_by(range.start), low.offset_by(range.end - 1));
                format!("{first} to {last}")
            });
            return Err(self.target.invalid(format!(
                "{} cells are given of the {all} cells in the box [{}]; a write to a dense array \
                 overwrites a whole box",
                self.cells,
                intervals.collect::<Vec<_>>().join(", ")
            )));
        }
        let dimensions = self.target.schema.dimensions.len();
        let mut windows = Windows {
            writer: DenseWriter::create(self.target.clone(), bounds)?,
            target: self.target,
            fields: self.fields.split_at(dimensions).1.to_vec(),
            window: None,
            columns: Vec::new(),
            lows: self.grid.lows().to_vec(),
        };
        self.sorter.finish(|key, value| windows.push(key, value))?;
        windows.finish().map(Some)
    }
}

/// The windows of a fragment, filled from sorted cells.
struct Windows {
    writer: DenseWriter,
    target: Target,
    /// The attributes.
    fields: Vec<Field>,
    /// The open window.
    window: Option<IndexBox>,
    /// The first cells of the open window, by attribute.
    columns: Vec<TileBuffers>,
    lows: Vec<Scalar>,
}

impl Windows {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (words, _) = key.as_chunks::<8>();
        let index = words.iter().skip(self.lows.len());
        let index: Vec<u64> = index.map(|word| u64::from_be_bytes(*word)).collect();
        loop {
            let Some(window) = &self.window else {
                self.window = self.writer.next_tile();
                self.columns = self.fields.iter().map(record::empty).collect();
                if self.window.is_none() {
                    return Err(self.target.invalid("a cell is outside of its fragment"));
                }
                continue;
            };
            let mut axes = window.ranges.iter().zip(&index);
            if !axes.all(|(range, index)| range.contains(index)) {
                self.complete()?;
                continue;
            }
            let axes = window.ranges.iter().zip(&index);
            let cell = axes.fold(0, |cell, (range, index)| {
                cell * (range.end - range.start) + (index - range.start)
            });
            if self.filled() > cell as usize {
                let coordinates = self.lows.iter().zip(&index);
                let coordinates = coordinates.map(|(low, index)| low.offset_by(*index).to_string());
                let coordinates = coordinates.collect::<Vec<_>>().join(", ");
                let message = format!("two cells have the coordinates [{coordinates}]");
                return Err(self.target.invalid(message));
            }
            self.fill(cell as usize);
            let mut value = Fields::new(value);
            for (field, column) in self.fields.iter().zip(&mut self.columns) {
                let (bytes, is_valid) =
                    record::take(field, &mut value).map_err(|fault| self.target.invalid(fault))?;
                record::push(field, bytes, is_valid, column);
            }
            return Ok(());
        }
    }

    /// The number of cells in the open window so far.
    fn filled(&self) -> usize {
        self.columns.first().map_or(0, |column| column.cells)
    }

    /// Appends fill values up to a number of cells.
    fn fill(&mut self, cells: usize) {
        let attributes = self.target.schema.attributes.iter();
        let fields = self.fields.iter().zip(attributes);
        for ((field, attribute), column) in fields.zip(&mut self.columns) {
            while column.cells < cells {
                record::push(field, &attribute.fill, attribute.is_fill_valid, column);
            }
        }
    }

    /// Writes the open window.
    fn complete(&mut self) -> Result<()> {
        if let Some(window) = self.window.take() {
            self.fill(window.cells().unwrap_or(0) as usize);
            self.writer.write(&self.columns)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<String> {
        self.complete()?;
        while let Some(window) = self.writer.next_tile() {
            self.columns = self.fields.iter().map(record::empty).collect();
            self.window = Some(window);
            self.complete()?;
        }
        self.writer.finish()
    }
}
