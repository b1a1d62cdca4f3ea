//! The traits between file formats and SQL: tables as blocks of rows, and dense arrays as grids.
//!
//! A [`BlockSource`] is a table as a lazily enumerated list of blocks. The scan, its metrics, its
//! partitions and its pruning work on block sources only. A block source that is a dense array also
//! returns a [`GridSource`] from [`BlockSource::as_grid`].
//!
//! [`GridTable`](crate::provider::scan::grid_table::GridTable) turns any [`GridSource`] into a
//! block source, so a dense format implements only [`GridSource`].

pub mod container;

use std::collections::HashSet;
use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{Add, Range};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, BooleanArray, UInt64Array};
use arrow::compute::{TakeOptions, take};
use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::{ColumnStatistics, Result, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;

use crate::grid::reduce::CellType;
use crate::grid::{Axis, ChunkGrid, IndexSet, Selection, Window};
use crate::provider::catalog::description::{
    AttributeDescription, ChunkDescription, TableDescription,
};
use crate::provider::catalog::settings::options::ReadOptions;

/// The name of the value column, unless a dimension has this name.
pub(super) const VALUE: &str = "value";
/// The field metadata key that marks a dimension column.
pub(super) const DIMENSION: &str = "tet:dimension";
/// The field metadata key that marks a value column. Its value is the name of the dataset.
pub(super) const DATASET: &str = "tet:dataset";

/// A table as a list of blocks of rows.
///
/// [`select`](Self::select) applies the filters that can be answered without reading values. The
/// selected blocks are then pruned, cut into partitions, and read, with one reader per partition:
///
/// ```text
/// BlockSource   select(filters, columns)     evaluates filters on dimensions
///      |
///      v
/// SelectedBlocks { blocks, residual }        residual: filters left to the scan
///      |
///      v
/// BlockList     block_statistics, contained  prune blocks by value, cut partitions
///      |        reader(columns)
///      v
/// BlockReader   open(block), next(max_rows)  returns the selected rows of one block
/// ```
pub trait BlockSource: Debug + Send + Sync {
    /// The short name of the format, as EXPLAIN shows it: `tet`.
    fn format(&self) -> &'static str;

    /// The name of the table within its file.
    fn name(&self) -> &str;

    /// The columns. For a grid, the dimensions in order, then the attributes.
    fn schema(&self) -> &SchemaRef;

    /// Returns the grid if the table is a dense array.
    fn as_grid(&self) -> Option<&dyn GridSource>;

    /// The grids that hold the rows, one per file, in row order. Empty if the table is not made of
    /// grids.
    fn grids(&self) -> Vec<Arc<dyn GridSource>>;

    /// The names of the columns whose values are known without reading blocks. [`Self::select`]
    /// answers a deterministic predicate over one of them exactly.
    fn dimensions(&self) -> Vec<&str>;

    /// Returns the blocks that may hold a row satisfying the filters, judged by the dimensions
    /// only. The filters are deterministic and refer to the table's columns. The blocks are cut to
    /// suit a scan that reads `columns`.
    fn select(
        &self,
        filters: &[Arc<dyn PhysicalExpr>],
        columns: &[usize],
    ) -> Result<SelectedBlocks>;

    /// Describes the table for introspection. May look up the index entry of every block.
    fn describe(&self) -> Result<TableDescription>;
}

/// The result of [`BlockSource::select`].
#[derive(Debug)]
pub struct SelectedBlocks {
    /// The selected blocks.
    pub blocks: Arc<dyn BlockList>,
    /// Filters without columns or over one dimension that could not be evaluated here. The scan
    /// must apply them to its rows.
    pub residual: Vec<Arc<dyn PhysicalExpr>>,
}

/// Selected blocks of a table, identified by ordinals from zero.
///
/// Blocks are found on demand, since a list may have far more blocks than fit in memory.
pub trait BlockList: Debug + Send + Sync {
    /// The number of blocks in the whole table; `None` if 2^64 or more.
    fn total(&self) -> Option<u64>;

    /// The number of blocks in this list; `None` if 2^64 or more.
    fn count(&self) -> Option<u64>;

    /// The number of selected rows in all blocks; `None` if 2^64 or more.
    fn rows(&self) -> Option<u64>;

    /// The number of selected rows in one block.
    fn block_rows(&self, position: u64) -> Result<u64>;

    /// The number of selected rows in these blocks together; `None` if 2^64 or more.
    fn rows_of(&self, positions: &[u64]) -> Result<Option<u64>> {
        sum_rows(self, positions)
    }

    /// The number of rows in each of these blocks, selected or not; `None` if unknown.
    fn block_sizes(&self, positions: &[u64]) -> Result<Option<UInt64Array>>;

    /// The number of bytes that the whole block occupies in the file. Looks up the block's index
    /// entry.
    fn block_bytes(&self, position: u64, options: &ReadOptions) -> Result<u64>;

    /// The selection as EXPLAIN shows it: `[lat: 3 of 10, lon: all]`.
    fn slice(&self) -> Option<String>;

    /// Statistics of one column over the selected rows of all blocks. Reads no values.
    fn column_statistics(&self, column: usize, options: &ReadOptions) -> Result<ColumnStatistics>;

    /// The reason why existing statistics, such as zone maps, cannot be used to prune blocks, if
    /// any.
    fn unusable_statistics(&self, options: &ReadOptions) -> Option<String>;

    /// Returns `true` if [`Self::block_statistics`] or [`Self::contained`] may return a result for
    /// a column.
    fn has_statistics(&self, column: usize, options: &ReadOptions) -> bool;

    /// Statistics of one column in each of these blocks, without reading values.
    fn block_statistics(
        &self,
        column: usize,
        positions: &[u64],
        options: &ReadOptions,
    ) -> Result<Option<BlockStatistics>>;

    /// Compares one column with a set of values in each block: `true` if the block contains only
    /// these values, `false` if it contains none of them, null if unknown. `None` if unknown for
    /// every block.
    fn contained(
        &self,
        column: usize,
        positions: &[u64],
        values: &HashSet<ScalarValue>,
        options: &ReadOptions,
    ) -> Result<Option<BooleanArray>>;

    /// The longest list of columns by which the rows are sorted across all blocks, each with `true`
    /// if it is in descending order. Only the last of these columns may repeat a coordinate.
    fn ordering(&self) -> Vec<(usize, bool)>;

    /// The blocks as chunks of grids, one entry per grid; `None` if the blocks are not chunks.
    fn grid_selections(&self) -> Option<Vec<GridSelection>>;

    /// Creates a reader of these columns, with its own buffers.
    fn reader(&self, columns: &[usize], options: &ReadOptions) -> Result<Box<dyn BlockReader>>;
}

/// The selected cells of one grid among the blocks of a table.
#[derive(Debug, Clone)]
pub struct GridSelection {
    /// The grid. Its axes and attributes are the first columns of the table.
    pub grid: Arc<dyn GridSource>,
    /// The selected cells.
    pub selection: Selection,
    /// The chunks that may be needed, as ordinals among the chunks that the selection intersects,
    /// in row-major order. `None` keeps all of them.
    pub kept: Option<IndexSet>,
    /// The value of the table's file column for this grid, as an array of length one. `None` if the
    /// table has no file column, which would be its last column.
    pub file: Option<ArrayRef>,
}

/// Statistics of one column in several blocks. Each array has one value per block.
#[derive(Debug, Clone)]
pub struct BlockStatistics {
    /// A lower bound of the block's values, in the type of the column; null if unknown.
    pub min: ArrayRef,
    /// An upper bound of the block's values, in the type of the column; null if unknown.
    pub max: ArrayRef,
    /// The number of nulls in the whole block; null if unknown.
    pub nulls: UInt64Array,
    /// `true` if the statistics are exact for every block: both bounds occur as values, unless all
    /// values are null.
    pub is_exact: bool,
}

/// Implements [`BlockList::rows_of`] by adding up the rows of each block.
pub(super) fn sum_rows(
    blocks: &(impl BlockList + ?Sized),
    positions: &[u64],
) -> Result<Option<u64>> {
    let mut sum = Some(0u64);
    for position in positions {
        let rows = blocks.block_rows(*position)?;
        sum = sum.and_then(|sum| sum.checked_add(rows));
    }
    Ok(sum)
}

impl BlockStatistics {
    /// Returns the statistics of the blocks at these ordinals. `is_exact` is copied, so it may be
    /// `false` even if the statistics of these blocks happen to be exact.
    ///
    /// # Errors
    /// Returns an error if an ordinal is out of range.
    pub fn take(&self, numbers: Vec<u64>) -> Result<Self> {
        let first = numbers.first().map_or(0, |first| *first as usize);
        let follow = numbers
            .windows(2)
            .all(|two| two[0].wrapping_add(1) == two[1]);
        if follow && first + numbers.len() <= self.nulls.len() {
            return Ok(Self {
                min: self.min.slice(first, numbers.len()),
                max: self.max.slice(first, numbers.len()),
                nulls: self.nulls.slice(first, numbers.len()),
                is_exact: self.is_exact,
            });
        }
        let numbers = UInt64Array::from(numbers);
        let options = TakeOptions { check_bounds: true };
        let nulls = take(&self.nulls, &numbers, Some(options.clone()))?;
        Ok(Self {
            min: take(&self.min, &numbers, Some(options.clone()))?,
            max: take(&self.max, &numbers, Some(options))?,
            nulls: nulls.as_primitive().clone(),
            is_exact: self.is_exact,
        })
    }
}

/// Reads the selected rows of one block at a time into columns.
pub trait BlockReader: Send {
    /// Starts reading the block with this ordinal.
    fn open(&mut self, position: u64) -> Result<()>;

    /// Does a bounded amount of work on the current block.
    fn next(&mut self, max_rows: usize) -> Result<Progress>;

    /// Everything read since the reader was created.
    fn counts(&self) -> ReadCounts;
}

/// The result of one call of [`BlockReader::next`].
#[derive(Debug)]
pub enum Progress {
    /// No rows yet: call again. Returning in between lets a query be cancelled.
    Working,
    /// The next rows, in order.
    Rows {
        /// The columns that the reader was created for.
        columns: Vec<ArrayRef>,
        /// The number of rows, which matters if there are no columns.
        rows: usize,
    },
    /// The block has no more rows.
    Done,
}

/// Counters of what a reader has read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// The number of chunks whose values were read.
    pub chunks: u64,
    /// The number of bytes read: all stored bytes of compressed chunks, but only the bytes of the
    /// cells taken from raw chunks.
    pub bytes: u64,
    /// The time spent decompressing.
    pub decode_time: Duration,
}

impl Add for ReadCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            chunks: self.chunks + other.chunks,
            bytes: self.bytes + other.bytes,
            decode_time: self.decode_time + other.decode_time,
        }
    }
}

impl Sum for ReadCounts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), Add::add)
    }
}

/// The storage format of an attribute whose cells are plain numbers: little-endian and contiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellFormat {
    /// The type of the numbers.
    pub cell_type: CellType,
    /// The bit pattern of the fill value.
    pub fill: Option<u64>,
    /// `true` if NaN cells are null.
    pub nan_is_null: bool,
}

/// A dense array: axes, chunks, and one or more attributes with a value per cell.
///
/// Cells are read by [`Window`], a box of cells that is usually one chunk. A 4 x 6 array in chunks
/// of 2 x 3, with the selection `lat IN (1, 2) AND lon BETWEEN 2 AND 4` marked by `#`:
///
/// ```text
///     lon  0 1 2   3 4 5
/// lat 0    . . . | . . .
///     1    . . # | # # .    Chunk [0, 1] is the window [0..2, 3..6].
///          ------+------    Its selected cells are 3..5 in the row-major order of the window:
///     2    . . # | # # .        reader.open(&window)?;
///     3    . . . | . . .        reader.read(&[3..5])?;
/// ```
///
/// [`GridTable`](crate::provider::scan::grid_table::GridTable) turns a grid into a table with one
/// column per axis, then one column per attribute.
pub trait GridSource: Debug + Send + Sync {
    /// The short name of the format, as EXPLAIN shows it: `tet`.
    fn format(&self) -> &'static str;

    /// The name of the array within its file.
    fn name(&self) -> &str;

    /// The path of the file, as the user gave it.
    fn path(&self) -> &Path;

    /// The arrays in the file that store the attributes, each with one attribute and its own chunk
    /// grid.
    fn parts(&self) -> Vec<Arc<dyn GridSource>>;

    /// The axes in storage order. The last axis varies fastest within a chunk.
    fn axes(&self) -> &[Axis];

    /// The value columns.
    fn attributes(&self) -> &[FieldRef];

    /// The chunk grid that divides the work.
    fn chunk_grid(&self) -> &ChunkGrid;

    /// Returns the same array with a chunk grid that suits reading only these attributes; `None` if
    /// the current chunk grid already does.
    fn for_attributes(&self, _attributes: &[usize]) -> Option<Arc<dyn GridSource>> {
        None
    }

    /// The number of bytes that a chunk occupies in the file.
    fn stored_bytes(&self, chunk: &[u64], options: &ReadOptions) -> Result<u64>;

    /// Returns `true` if an attribute may have nulls under these options.
    fn may_have_nulls(&self, attribute: usize, options: &ReadOptions) -> bool;

    /// The storage format of an attribute whose stored numbers are the values of its column; `None`
    /// if cells have to be decoded.
    fn cell_format(&self, _attribute: usize, _options: &ReadOptions) -> Option<CellFormat> {
        None
    }

    /// Returns `true` if there are statistics of an attribute. The first call may read them from
    /// the file.
    fn has_statistics(&self, _attribute: usize, _options: &ReadOptions) -> bool {
        false
    }

    /// The reason why existing statistics, such as zone maps, cannot be used to prune chunks, if
    /// any.
    fn unusable_statistics(&self, _options: &ReadOptions) -> Option<String> {
        None
    }

    /// Statistics of an attribute in each of these windows, without reading its values.
    fn window_statistics(
        &self,
        _attribute: usize,
        _windows: &[Window],
        _options: &ReadOptions,
    ) -> Result<Option<BlockStatistics>> {
        Ok(None)
    }

    /// Statistics of an attribute in all chunks of the chunk grid, in row-major order, if there are
    /// zone maps. The result is cached, so further calls are cheap. Exact for every chunk whose
    /// null count is known.
    fn chunk_statistics(
        &self,
        _attribute: usize,
        _options: &ReadOptions,
    ) -> Result<Option<Arc<BlockStatistics>>> {
        Ok(None)
    }

    /// Compares an attribute with a set of values in each window: `true` if the window contains
    /// only these values, `false` if it contains none of them, null if unknown. `None` if unknown
    /// for every window.
    fn contained(
        &self,
        _attribute: usize,
        _windows: &[Window],
        _values: &HashSet<ScalarValue>,
        _options: &ReadOptions,
    ) -> Result<Option<BooleanArray>> {
        Ok(None)
    }

    /// Creates a reader of windows of these attributes, with its own buffers.
    fn window_reader(
        &self,
        attributes: &[usize],
        options: &ReadOptions,
    ) -> Result<Box<dyn WindowReader>>;

    /// Describes the encoding and the meaning of the attributes. Reads nothing from the file.
    fn describe_attributes(&self) -> Vec<AttributeDescription>;

    /// Describes how a chunk is stored, by looking up its index entry. On a grid of several arrays,
    /// call this method on one of its [`Self::parts`].
    fn describe_chunk(&self, chunk: &[u64], options: &ReadOptions) -> Result<ChunkDescription>;

    /// Describes the array for introspection.
    fn describe(&self) -> Result<TableDescription>;

    /// Reads all cells of a window in row-major order, as one array per attribute. The window may
    /// span chunks.
    fn read_window(
        &self,
        window: &Window,
        attributes: &[usize],
        options: &ReadOptions,
    ) -> Result<Vec<ArrayRef>> {
        let mut reader = self.window_reader(attributes, options)?;
        reader.open(window)?;
        while !reader.advance()? {}
        reader.read(std::slice::from_ref(&(0..window.cells())))
    }
}

/// Returns the grid with the chunk grid that suits reading these columns of its table.
pub(super) fn for_columns(grid: &Arc<dyn GridSource>, columns: &[usize]) -> Arc<dyn GridSource> {
    let attributes = grid.axes().len()..grid.axes().len() + grid.attributes().len();
    let mut read: Vec<usize> = columns
        .iter()
        .copied()
        .filter(|column| attributes.contains(column))
        .map(|column| column - attributes.start)
        .collect();
    read.sort_unstable();
    read.dedup();
    grid.for_attributes(&read)
        .unwrap_or_else(|| Arc::clone(grid))
}

/// Reads windows of a grid. Windows that are exactly one chunk are fastest.
pub trait WindowReader: Send {
    /// Starts on a window, which must lie within the grid.
    fn open(&mut self, window: &Window) -> Result<()>;

    /// Announces that most cells of the current window will be read, so that the reader can
    /// prefetch them.
    fn read_ahead(&mut self) {}

    /// Does a bounded amount of the work that the current window needs. Returns `true` once the
    /// window can be read.
    fn advance(&mut self) -> Result<bool>;

    /// The stored bytes of a range of cells, numbered in the row-major order of the window. The
    /// attribute must have a [cell format](GridSource::cell_format), and [`Self::advance`] must
    /// have returned `true`.
    fn cells(&mut self, attribute: usize, range: Range<u64>) -> Result<&[u8]>;

    /// Reads cells of the window, as one array per attribute. `runs` are ranges of cells in the
    /// row-major order of the window, ascending and without overlaps.
    fn read(&mut self, runs: &[Range<u64>]) -> Result<Vec<ArrayRef>>;

    /// Everything read since the reader was created.
    fn counts(&self) -> ReadCounts;
}
