//! Dense arrays as grids.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};

use crate::error::{Error, Result as FormatResult};
#[cfg(feature = "remote")]
use crate::format::tiledb::TileDbArray;
use crate::format::tiledb::{Datatype, IndexBox, MAX_TILE_CELLS, Scalar};
use crate::grid::reduce::CellType;
use crate::grid::{
    Axis, AxisCoordinates, ChunkGrid, CoordinateReader, CoordinateSource, Steps, Window,
};
use crate::provider::adapters::tiledb::columns::{Column, converted};
use crate::provider::adapters::tiledb::dense::labels::open_grid;
use crate::provider::adapters::tiledb::dense::reader::DenseWindowReader;
#[cfg(feature = "remote")]
use crate::provider::adapters::tiledb::fetching;
use crate::provider::adapters::tiledb::options::Extent;
use crate::provider::adapters::tiledb::stored::{FORMAT, StoredArray, null_values};
use crate::provider::catalog::description::{
    AttributeDescription, ChunkDescription, DimensionDescription, TableDescription,
};
use crate::provider::catalog::settings::options::ReadOptions;
#[cfg(feature = "remote")]
use crate::provider::source::Fetch;
use crate::provider::source::recipe::Recipe;
use crate::provider::source::{Availability, CellFormat, ColumnBounds, GridSource, WindowReader};

/// The maximum length of an axis of years or months, whose coordinates are not evenly spaced.
const MAX_CALENDAR_LENGTH: u64 = 1 << 24;
/// The maximum number of boxes that are compared with fragments to find out whether fragments hold all cells,
/// which takes a few milliseconds.
const MAX_COMPARED: usize = 1 << 16;

/// A dense array as a grid. Each chunk is a space tile, in which newer fragments overwrite the
/// cells of older ones.
#[derive(Debug, Clone)]
pub(in crate::provider::adapters::tiledb) struct DenseGrid {
    pub(super) stored: Arc<StoredArray>,
    /// The cells of the grid, as indices in the domain of the array.
    pub(super) cells: IndexBox,
    axes: Vec<Axis>,
    /// The first coordinate of each axis, in stored ticks.
    first_coordinates: Vec<i128>,
    fields: Vec<FieldRef>,
    chunk_grid: ChunkGrid,
    pub(super) statistics: Arc<[KeptStatistics]>,
    /// For each attribute, `true` if fragments hold all cells of the grid; found on first use.
    covered: Arc<[OnceLock<bool>]>,
}

/// The statistics of one attribute in all chunks, for each combination of values read as null.
pub(super) type KeptStatistics = [OnceLock<Option<Arc<ColumnBounds>>>; 4];

impl DenseGrid {
    /// Creates the grid of a dense array.
    ///
    /// # Errors
    /// Returns an error if the tiles are too large to be decoded, if a coordinate does not fit into
    /// the SQL type of its dimension, or if an axis of years or months is too long.
    pub fn try_new(stored: Arc<StoredArray>) -> FormatResult<Self> {
        let array = stored.array();
        let grid = array.grid()?;
        if grid.tile_cells() > MAX_TILE_CELLS {
            let cells = grid.tile_cells();
            let message = format!("has tiles of {cells} cells, of {MAX_TILE_CELLS} at most");
            return Err(Error::invalid(array.path(), message));
        }
        let cells = match stored.extent() {
            Extent::Domain => grid.used().clone(),
            Extent::Written => match array.written_box() {
                Some(written) => written,
                None => IndexBox {
                    ranges: grid
                        .used()
                        .ranges
                        .iter()
                        .map(|range| range.start..range.start)
                        .collect(),
                },
            },
        };
        let lengths = cells.ranges.iter().map(|range| range.end - range.start);
        let phases = cells.ranges.iter().zip(grid.extents());
        let phases = phases.map(|(range, extent)| range.start % extent).collect();
        let chunk_grid = ChunkGrid::new(lengths.clone().collect(), grid.extents().to_vec());
        // Dense arrays have dimensions of integers only.
        let lows = grid.lows().iter().zip(&cells.ranges);
        let starts = lows.map(|(low, range)| low.integer().unwrap_or(0) + i128::from(range.start));
        let first_coordinates: Vec<i128> = starts.collect();
        let axes = lengths.enumerate().map(|(dimension, length)| {
            let column = &stored.dimensions()[dimension];
            let start = first_coordinates[dimension];
            axis(column, start, length).ok_or_else(|| {
                let (name, data_type) = (column.name(), column.data_type());
                let message = format!(
                    "the dimension {name:?} has {length} coordinates from {start} on, in the unit of {}, not all of \
                     which {data_type} can hold; the option extent 'written' leaves out cells that were never \
                     written",
                    column.datatype()
                );
                Error::invalid(array.path(), message)
            })
        });
        let axes = axes.collect::<FormatResult<_>>()?;
        let fields = stored.attributes().iter();
        Ok(Self {
            axes,
            first_coordinates,
            // Nullable in any case, so that no option changes the schema.
            fields: fields.map(|column| Arc::new(column.field(true))).collect(),
            chunk_grid: chunk_grid.with_phase(phases),
            statistics: stored
                .attributes()
                .iter()
                .map(|_| Default::default())
                .collect(),
            covered: vec![OnceLock::new(); stored.attributes().len()].into(),
            cells,
            stored,
        })
    }

    /// Returns the first coordinate of an axis, in stored ticks.
    pub(super) fn first_coordinate(&self, axis: usize) -> i128 {
        self.first_coordinates[axis]
    }

    /// Returns the cells of a window as indices in the domain of the array.
    pub(super) fn cells_of(&self, window: &Window) -> IndexBox {
        let ranges = window.ranges().iter().zip(&self.cells.ranges);
        let ranges = ranges.map(|(range, all)| range.start + all.start..range.end + all.start);
        IndexBox {
            ranges: ranges.collect(),
        }
    }

    /// Returns the cells of a window that are in a chunk, as indices in the domain of the array.
    pub(in crate::provider::adapters::tiledb) fn cells_in_chunk(
        &self,
        window: &Window,
        chunk: &[u64],
    ) -> IndexBox {
        let tile = self.chunk_grid.window(chunk);
        let common = tile.ranges().iter().zip(window.ranges());
        let common = common.map(|(a, b)| a.start.max(b.start)..a.end.min(b.end));
        self.cells_of(&Window::new(common.collect()))
    }

    /// The open array.
    #[cfg(feature = "remote")]
    pub(in crate::provider::adapters::tiledb) fn array(&self) -> &Arc<TileDbArray> {
        self.stored.array()
    }

    /// Returns `true` if missing cells of an attribute are null, and some cells may be missing.
    fn has_missing_cells(&self, attribute: usize, options: &ReadOptions) -> bool {
        let column = self.stored.attributes().get(attribute);
        options.fill_as_null
            && column.is_some_and(Column::is_null_where_missing)
            && !*self.covered[attribute].get_or_init(|| self.covers(attribute).unwrap_or(false))
    }

    /// Returns `true` if fragments hold all cells of the grid. Returns `false` if that is unknown
    /// because too many boxes would be compared.
    fn covers(&self, attribute: usize) -> FormatResult<bool> {
        let array = self.stored.array();
        let mut uncovered = vec![self.cells.clone()];
        uncovered.retain(|cells| !cells.is_empty());
        let mut compared = 0;
        // The newest fragments come last.
        for (fragment, bounds) in array.fragment_boxes().iter().enumerate().rev() {
            let Some(bounds) = bounds else { continue };
            compared += uncovered.len();
            if compared > MAX_COMPARED {
                return Ok(false);
            }
            let (within, outside) = bounds.divide(uncovered);
            // The cells of a fragment without the attribute have no value, whatever older fragments hold.
            if !within.is_empty() && array.attribute_in(fragment, attribute)?.is_none() {
                return Ok(false);
            }
            uncovered = outside;
        }
        Ok(uncovered.is_empty())
    }

    /// The average size of the decoded attributes of a cell in bytes, roughly.
    fn row_bytes(&self) -> u64 {
        let bytes = self.stored.attributes().iter().map(Column::cell_bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// Estimates the number of bytes that a chunk occupies: the average stored size of a tile,
    /// summed over the fragments that the chunk is read from.
    fn average_bytes(&self, chunk: &[u64]) -> FormatResult<u64> {
        let array = self.stored.array();
        let cells = self.cells_of(&self.chunk_grid.window(chunk));
        if cells.is_empty() {
            return Ok(0);
        }
        let sources = array.window(cells)?;
        let bytes = sources.sources().iter().map(|source| {
            let fragment = &array.fragments()[source.fragment];
            fragment.stored_bytes() / fragment.tiles().max(1)
        });
        Ok(bytes.fold(0, u64::saturating_add))
    }
}

/// Returns the axis of a dimension, given its first coordinate in stored ticks. Returns `None` if
/// the SQL type cannot hold a coordinate, or if an axis of years or months is too long.
fn axis(column: &Column, start: i128, length: u64) -> Option<Axis> {
    let (name, data_type) = (column.name(), column.data_type().clone());
    let step = match column.datatype() {
        Datatype::DatetimeYear | Datatype::DatetimeMonth => {
            let last = start + i128::from(length.saturating_sub(1));
            let (first, last) = (i64::try_from(start).ok()?, i64::try_from(last).ok()?);
            converted(column.datatype(), first)?;
            converted(column.datatype(), last)?;
            if length > MAX_CALENDAR_LENGTH {
                return None;
            }
            let coordinates = AxisCoordinates::deferred(CalendarCoordinates {
                column: column.clone(),
                first,
                length,
            });
            let coordinates = Arc::new(coordinates);
            let source = CoordinateSource::Index;
            return Some(Axis::with_coordinates(name, length, coordinates, source));
        }
        Datatype::DatetimeWeek => 7,
        Datatype::DatetimeHour | Datatype::TimeHour => 3600,
        Datatype::DatetimeMinute | Datatype::TimeMinute => 60,
        _ => 1,
    };
    let steps = Steps::try_new(data_type, start.checked_mul(step)?, step, length).ok()?;
    Some(Axis::stepped(name, steps))
}

/// The coordinates of an axis of years or months: the first day of each.
#[derive(Debug)]
struct CalendarCoordinates {
    column: Column,
    first: i64,
    length: u64,
}

impl CoordinateReader for CalendarCoordinates {
    fn data_type(&self) -> DataType {
        self.column.data_type().clone()
    }

    fn read(&self) -> FormatResult<ArrayRef> {
        // The last coordinate was checked to be a date, so the ticks do not overflow.
        let ticks = (self.first..)
            .take(self.length as usize)
            .map(Scalar::Signed);
        let ticks: Vec<Scalar> = ticks.collect();
        self.column.scalars(ticks.iter().map(Some))
    }
}

impl GridSource for DenseGrid {
    fn format(&self) -> &'static str {
        FORMAT
    }

    fn name(&self) -> &str {
        self.stored.name()
    }

    fn path(&self) -> &Path {
        self.stored.array().path()
    }

    fn parts(&self) -> Vec<Arc<dyn GridSource>> {
        vec![Arc::new(self.clone())]
    }

    fn axes(&self) -> &[Axis] {
        &self.axes
    }

    fn attributes(&self) -> &[FieldRef] {
        &self.fields
    }

    fn chunk_grid(&self) -> &ChunkGrid {
        &self.chunk_grid
    }

    fn stored_bytes(&self, chunk: &[u64], _options: &ReadOptions) -> Result<u64> {
        Ok(self.average_bytes(chunk)?)
    }

    fn chunk_cost(&self, chunk: &[u64], _options: &ReadOptions) -> Result<u64> {
        let cells = self.chunk_grid.window(chunk).cells();
        Ok(cells.saturating_mul(self.row_bytes()))
    }

    fn may_have_nulls(&self, attribute: usize, options: &ReadOptions) -> bool {
        let column = self.stored.attributes().get(attribute);
        column.is_none_or(|column| column.may_have_nulls(null_values(options)))
            || self.has_missing_cells(attribute, options)
    }

    fn cell_format(&self, attribute: usize, options: &ReadOptions) -> Option<CellFormat> {
        let column = self.stored.attributes().get(attribute)?;
        let cell_type = match column.data_type() {
            _ if !column.is_plain_number() || column.has_not_a_time() => return None,
            _ if self.has_missing_cells(attribute, options) => return None,
            DataType::Float32 => CellType::F32,
            DataType::Float64 => CellType::F64,
            DataType::Int8 => CellType::I8,
            DataType::Int16 => CellType::I16,
            DataType::Int32 => CellType::I32,
            DataType::Int64 => CellType::I64,
            DataType::UInt8 => CellType::U8,
            DataType::UInt16 => CellType::U16,
            DataType::UInt32 => CellType::U32,
            DataType::UInt64 => CellType::U64,
            _ => return None,
        };
        let fill = column.fill().filter(|_| options.fill_as_null);
        let fill = fill.map(|fill| {
            let mut word = [0; 8];
            word[..fill.len()].copy_from_slice(fill);
            u64::from_le_bytes(word)
        });
        Some(CellFormat {
            cell_type,
            fill,
            nan_is_null: options.nan_as_null,
        })
    }

    fn availability(&self, attribute: usize, options: &ReadOptions) -> Availability {
        Availability {
            is_known: options.zone_maps && self.has_statistics(attribute),
            unusable: None,
        }
    }

    fn window_statistics(
        &self,
        attribute: usize,
        windows: &[Window],
        options: &ReadOptions,
    ) -> Result<Option<ColumnBounds>> {
        if !options.zone_maps || !self.has_bounds(attribute) {
            return Ok(None);
        }
        Ok(Some(self.bounds(
            attribute,
            windows.iter(),
            null_values(options),
            false,
        )?))
    }

    fn chunk_statistics(
        &self,
        attribute: usize,
        options: &ReadOptions,
    ) -> Result<Option<Arc<ColumnBounds>>> {
        if !options.zone_maps || !self.has_bounds(attribute) {
            return Ok(None);
        }
        Ok(self.all_bounds(attribute, null_values(options))?)
    }

    fn contained(
        &self,
        attribute: usize,
        windows: &[Window],
        values: &HashSet<ScalarValue>,
        options: &ReadOptions,
    ) -> Result<Option<BooleanArray>> {
        match options.zone_maps {
            true => self.contain_indices(attribute, windows, values),
            false => Ok(None),
        }
    }

    #[cfg(feature = "remote")]
    fn fetch(
        &self,
        window: &Window,
        attributes: &[usize],
        _options: &ReadOptions,
    ) -> Option<Fetch> {
        fetching::of_window(self, window, attributes)
    }

    fn window_reader(
        &self,
        attributes: &[usize],
        options: &ReadOptions,
    ) -> Result<Box<dyn WindowReader>> {
        let reader = DenseWindowReader::new(self.clone(), attributes, null_values(options));
        Ok(Box::new(reader))
    }

    fn recipe(&self) -> Result<Option<Recipe>> {
        Ok(Some(self.stored.recipe()?))
    }

    fn renewed(&self) -> Result<Option<Arc<dyn GridSource>>> {
        Ok(match self.stored.renewed()? {
            Some(stored) => Some(open_grid(Arc::new(stored))?),
            None => None,
        })
    }

    fn describe_attributes(&self) -> Vec<AttributeDescription> {
        self.stored.describe_attributes()
    }

    fn describe_chunk(&self, chunk: &[u64], options: &ReadOptions) -> Result<ChunkDescription> {
        Ok(ChunkDescription {
            codec: FORMAT.to_string(),
            offset: None,
            stored_bytes: self.average_bytes(chunk)?,
            raw_bytes: self.chunk_cost(chunk, options)?,
        })
    }

    fn describe(&self) -> Result<TableDescription> {
        let mut description = self.stored.describe();
        for axis in &self.axes {
            let dimension = DimensionDescription::of(axis, &mut description.problems);
            description.dimensions.push(dimension);
        }
        description.chunk_shape = self.chunk_grid.chunk_shape().to_vec();
        description.chunks = self.chunk_grid.count();
        let cells = self.cells.cells();
        description.raw_bytes = cells.and_then(|cells| cells.checked_mul(self.row_bytes()));
        Ok(description)
    }
}
