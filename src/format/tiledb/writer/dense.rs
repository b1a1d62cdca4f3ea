//! Writes fragments of dense arrays.

use crate::error::Result;
use crate::format::tiledb::array::TileDbArray;
use crate::format::tiledb::buffers::TileBuffers;
use crate::format::tiledb::dense::{Grid, IndexBox};
use crate::format::tiledb::fault::Fault;
use crate::format::tiledb::fragment::Field;
use crate::format::tiledb::schema::{Attribute, Filter, Interval, Layout};
use crate::format::tiledb::writer::array::{ArrayWriter, WriteOptions, target_of};
use crate::format::tiledb::writer::fragment::{
    Extent, FragmentWriter, Target, TileStatistics, check_columns, r_tree,
};

/// Writes one fragment of a dense array: a box of cells, tile by tile.
///
/// The fragment counts once [`Self::finish`] has returned. Dropping the writer deletes its files. The
/// writer keeps one tile of one attribute in memory, and the buffers of its files.
///
/// ```text
/// let mut writer = DenseWriter::append(&array, cells, &WriteOptions::default())?;
/// while let Some(window) = writer.next_tile() {
///     // One column per attribute, with the cells of the window in row-major order.
///     writer.write(&columns)?;
/// }
/// writer.finish()?;
/// ```
#[derive(Debug)]
pub struct DenseWriter {
    fragment: FragmentWriter,
    grid: Grid,
    cells: IndexBox,
    tiles: IndexBox,
    /// The next tile to write.
    next: Option<Vec<u64>>,
}

/// The source of the cells of a tile, for cells outside of the box that is written.
const PADDING: u32 = u32::MAX;

impl DenseWriter {
    /// Starts a fragment of a new array.
    ///
    /// # Errors
    /// Fails if the array is sparse, the box is empty or not within the array's domain, or the directory
    /// of the fragment cannot be created.
    pub fn new(array: &ArrayWriter, cells: IndexBox) -> Result<Self> {
        Self::create(array.target().clone(), cells)
    }

    /// Starts a fragment that overwrites a box of cells of an array.
    ///
    /// # Errors
    /// Like [`Self::new`]; also if fragments of the array's format version are not written, or the key
    /// is not that of the array.
    pub fn append(array: &TileDbArray, cells: IndexBox, options: &WriteOptions) -> Result<Self> {
        Self::create(target_of(array, options)?, cells)
    }

    pub(super) fn create(target: Target, cells: IndexBox) -> Result<Self> {
        if target.schema.is_sparse {
            return Err(target.invalid("the array is sparse, expected a dense one"));
        }
        let grid = Grid::new(&target.schema).map_err(|fault| target.invalid(fault))?;
        let is_within = cells.ranges.len() == grid.shape().len() && grid.used().contains(&cells);
        if !is_within || cells.is_empty() {
            let expected = format!("cells within {:?}", grid.used().ranges);
            let fault = Fault::new("box", format!("{:?}", cells.ranges), expected);
            return Err(target.invalid(fault));
        }
        let tiles = grid.tile_box(&cells);
        Ok(Self {
            fragment: FragmentWriter::create(target)?,
            next: Some(tiles.ranges.iter().map(|range| range.start).collect()),
            grid,
            cells,
            tiles,
        })
    }

    /// The grid of the array's tiles.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Returns the cells that the next call of [`Self::write`] writes: those of the next space tile that
    /// are within the box. Returns `None` after the last tile.
    pub fn next_tile(&self) -> Option<IndexBox> {
        self.grid
            .tile(self.next.as_ref()?)?
            .intersection(&self.cells)
    }

    /// Writes the cells of [`Self::next_tile`] in row-major order, one column per attribute.
    ///
    /// # Errors
    /// Fails if the columns do not have these cells, a filter cannot store a value, all tiles are written
    /// already, or the files cannot be written.
    pub fn write(&mut self, columns: &[TileBuffers]) -> Result<()> {
        let (Some(window), Some(tile)) = (self.next_tile(), &mut self.next) else {
            return Err(self.fragment.target().invalid("all tiles are written"));
        };
        let schema = std::sync::Arc::clone(&self.fragment.target().schema);
        // A schema has no tiles of more cells than memory holds.
        let cells = window.cells().unwrap_or(u64::MAX) as usize;
        check_columns(self.fragment.fields(), columns, cells)
            .map_err(|fault| self.fragment.target().invalid(fault))?;
        let is_row_major = self.grid.cell_order() == Layout::RowMajor || tile.len() == 1;
        let is_whole = window.cells() == Some(self.grid.tile_cells());
        let sources = (!is_row_major || !is_whole).then(|| self.grid.tile_sources(tile, &window));
        if !self.grid.advance(tile, &self.tiles) {
            self.next = None;
        }
        for (index, (column, attribute)) in columns.iter().zip(&schema.attributes).enumerate() {
            let field = self.fragment.field(index);
            let statistics = TileStatistics::new(field, column);
            match &sources {
                Some(sources) => {
                    let padded = padded(field, attribute, column, sources);
                    self.fragment.write_tile(index, &padded, &statistics)?;
                }
                None => self.fragment.write_tile(index, column, &statistics)?,
            }
        }
        Ok(())
    }

    /// Commits the fragment, and returns its name.
    ///
    /// # Errors
    /// Fails if a tile is missing, or the files cannot be written.
    pub fn finish(self) -> Result<String> {
        if let Some(tile) = &self.next {
            let message = format!("tile {tile:?} of the fragment is missing");
            return Err(self.fragment.target().invalid(message));
        }
        let ranges = self.cells.ranges.iter().zip(self.grid.lows());
        let domain = ranges.map(|(range, low)| Interval {
            low: low.offset_by(range.start),
            high: low.offset_by(range.end - 1),
        });
        let extent = Extent {
            domain: domain.collect(),
            last_tile_cells: 0,
            r_tree: r_tree(&[], &[]),
        };
        self.fragment.finish(&extent)
    }
}

impl Grid {
    /// Returns the cell of a window that each cell of a tile holds, in cell order.
    fn tile_sources(&self, tile: &[u64], window: &IndexBox) -> Vec<u32> {
        let mut sources = vec![PADDING; self.tile_cells() as usize];
        let strides = self.strides();
        let starts = window.ranges.iter().zip(tile).zip(self.extents());
        let starts: Vec<usize> = starts
            .map(|((range, tile), extent)| (range.start - tile * extent) as usize)
            .collect();
        let lengths = window.ranges.iter().map(|range| range.end - range.start);
        let lengths: Vec<usize> = lengths.map(|length| length as usize).collect();
        let mut index = vec![0; lengths.len()];
        let cells: usize = lengths.iter().product();
        for source in 0..cells {
            let places = index.iter().zip(&starts).zip(&strides);
            let cell: usize = places
                .map(|((index, start), stride)| (index + start) * stride)
                .sum();
            // Tiles have fewer cells than `PADDING`.
            sources[cell] = source as u32;
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                if index[axis] < lengths[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
        sources
    }
}

/// Returns the cells of a whole tile in cell order. The bytes of padding are zeros, or those of some
/// other cell if the filters cannot store every value.
fn padded(
    field: &Field,
    attribute: &Attribute,
    column: &TileBuffers,
    sources: &[u32],
) -> TileBuffers {
    let is_restricted = attribute.filters.filters().iter().any(|filter| {
        let scale = matches!(filter, Filter::FloatScale { .. });
        scale || matches!(filter, Filter::PositiveDelta { .. })
    });
    let repeated: Vec<u32>;
    let sources = match is_restricted {
        true => {
            let is_cell = |source: &&u32| **source != PADDING;
            let mut last = sources.iter().find(is_cell).copied().unwrap_or(PADDING);
            let repeat = |source: &u32| {
                if *source != PADDING {
                    last = *source;
                }
                last
            };
            repeated = sources.iter().map(repeat).collect();
            &repeated
        }
        false => sources,
    };
    let (size, zeros) = (field.datatype.size(), vec![0; attribute.fill.len()]);
    let mut tile = TileBuffers {
        cells: sources.len(),
        ..TileBuffers::default()
    };
    if field.cell_values.is_variable() {
        tile.offsets.reserve(sources.len() + 1);
        tile.offsets.push(0);
    } else {
        tile.values
            .reserve(sources.len().saturating_mul(field.cell_bytes));
    }
    for source in sources {
        let cell = match *source {
            PADDING => &zeros,
            source => column.cell(source as usize, field.cell_values, size),
        };
        tile.values.extend_from_slice(cell);
        if field.cell_values.is_variable() {
            tile.offsets.push(tile.values.len() as u64);
        }
    }
    if field.is_nullable {
        let valid = |source: &u32| column.validity.get(*source as usize).copied();
        tile.validity = sources
            .iter()
            .map(|source| valid(source).unwrap_or(0))
            .collect();
    }
    tile
}
