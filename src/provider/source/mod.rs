//! What a table is made of, whatever its file format: blocks of rows, and for dense arrays a grid.
//!
//! A [`BlockSource`] is a table as a lazily enumerated sequence of blocks. The scan, its metrics, its partitions and its
//! pruning are written against it, once. A block source that is a dense array also answers
//! [`BlockSource::as_grid`]: axes, attributes, and windows of cells.
//! [`GridTable`](crate::provider::scan::grid_table::GridTable) turns any [`GridSource`] into a block source, so that a
//! dense format implements only the latter.

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
use datafusion::catalog::Session;
use datafusion::common::{ColumnStatistics, Result, ScalarValue};
use datafusion::logical_expr::Expr;

use crate::grid::reduce::CellType;
use crate::grid::{Axis, ChunkGrid, IndexSet, Selection, Window};
use crate::provider::catalog::description::{
    AttributeDescription, ChunkDescription, TableDescription,
};
use crate::provider::catalog::settings::options::ReadOptions;

/// The name of the column of values, where no dimension is called so.
pub(super) const VALUE: &str = "value";
/// The key of field metadata by which a column says that it is a dimension.
pub(super) const DIMENSION: &str = "tet:dimension";
/// The key of field metadata by which a column says that it holds the values of a dataset, and of which one.
pub(super) const DATASET: &str = "tet:dataset";

/// A table as a sequence of blocks of rows.
pub trait BlockSource: Debug + Send + Sync {
    /// Short name of the format, as EXPLAIN shows it: `tet`.
    fn format(&self) -> &'static str;

    /// Name of the table within its file.
    fn name(&self) -> &str;

    /// The columns; for a grid the dimensions in order, then the attributes.
    fn schema(&self) -> &SchemaRef;

    /// The grid, if the table is a dense array.
    fn as_grid(&self) -> Option<&dyn GridSource>;

    /// The grids that the rows come from, one after another, each of a file; none if the table is made of no grids.
    fn grids(&self) -> Vec<Arc<dyn GridSource>>;

    /// The names of the columns whose values are known without reading blocks. A deterministic predicate over one of
    /// them is answered exactly by [`Self::select`].
    fn dimensions(&self) -> Vec<&str>;

    /// The blocks that hold a row satisfying the filters, as far as dimensions tell, cut as suits reading these
    /// columns.
    fn select(
        &self,
        session: &dyn Session,
        filters: &[Expr],
        columns: &[usize],
    ) -> Result<SelectedBlocks>;

    /// Everything a person may want to know about the table. May look at every block's index entry.
    fn describe(&self) -> Result<TableDescription>;
}

/// What filters leave of a table.
#[derive(Debug)]
pub struct SelectedBlocks {
    /// The blocks.
    pub blocks: Arc<dyn BlockList>,
    /// Filters over one dimension that could not be answered. The scan must apply them to its rows.
    pub residual: Vec<Expr>,
}

/// Some blocks of a table, numbered from zero and found on demand: there may be far more of them than fit in memory.
pub trait BlockList: Debug + Send + Sync {
    /// Blocks of the whole table; `None` if there are 2^64 or more.
    fn total(&self) -> Option<u64>;

    /// Blocks of this list; `None` if there are 2^64 or more.
    fn count(&self) -> Option<u64>;

    /// Selected rows in all; `None` if there are 2^64 or more.
    fn rows(&self) -> Option<u64>;

    /// Selected rows of one block.
    fn block_rows(&self, position: u64) -> Result<u64>;

    /// Selected rows of all of these blocks; `None` if there are 2^64 or more.
    fn rows_of(&self, positions: &[u64]) -> Result<Option<u64>> {
        sum_rows(self, positions)
    }

    /// Rows of each of these blocks as a whole, selected or not; `None` if that is not known.
    fn block_sizes(&self, positions: &[u64]) -> Result<Option<UInt64Array>>;

    /// Bytes that one block takes in the file, as a whole. Looks its index entry up.
    fn block_bytes(&self, position: u64, options: &ReadOptions) -> Result<u64>;

    /// The selected part, as EXPLAIN shows it: `[lat: 3 of 10, lon: all]`.
    fn slice(&self) -> Option<String>;

    /// Statistics of one column over the selected rows of all blocks. Reads no values.
    fn column_statistics(&self, column: usize, options: &ReadOptions) -> Result<ColumnStatistics>;

    /// Why something that is there to rule out blocks cannot be used.
    fn unusable_statistics(&self, options: &ReadOptions) -> Option<String>;

    /// Whether [`Self::block_statistics`] or [`Self::contained`] may have something to say on a column.
    fn has_statistics(&self, column: usize, options: &ReadOptions) -> bool;

    /// What is known of one column in each of these blocks, without reading values.
    fn block_statistics(
        &self,
        column: usize,
        positions: &[u64],
        options: &ReadOptions,
    ) -> Result<Option<BlockStatistics>>;

    /// For each of these blocks whether one column has only (true) or none (false) of some values there; null where that
    /// is not known. `None` if it is known of no block.
    fn contained(
        &self,
        column: usize,
        positions: &[u64],
        values: &HashSet<ScalarValue>,
        options: &ReadOptions,
    ) -> Result<Option<BooleanArray>>;

    /// The longest list of columns by which the rows, block after block, are sorted, each with whether it
    /// descends. No coordinate repeats along any but the last of them.
    fn ordering(&self) -> Vec<(usize, bool)>;

    /// The blocks as chunks of grids, if that is what they are, one grid after another.
    fn grid_parts(&self) -> Option<Vec<GridPart>>;

    /// A reader of these columns, with buffers of its own.
    fn reader(&self, columns: &[usize], options: &ReadOptions) -> Result<Box<dyn BlockReader>>;
}

/// The selected cells of one grid among the blocks of a table.
#[derive(Debug, Clone)]
pub struct GridPart {
    /// The grid, whose axes and attributes are the table's first columns.
    pub grid: Arc<dyn GridSource>,
    /// The selected cells.
    pub selection: Selection,
    /// Of the chunks that hold one, in row-major order, the positions of those that may be needed; `None` for all.
    pub kept: Option<IndexSet>,
    /// The value of the table's last column, if it is one with the grid's file: an array of one.
    pub file: Option<ArrayRef>,
}

/// What is known of one column in each of some blocks. All arrays have a value per block.
#[derive(Debug, Clone)]
pub struct BlockStatistics {
    /// A value of the column's type that none of the block is less than; null where there is none known.
    pub least: ArrayRef,
    /// A value of the column's type that none of the block is greater than; null where there is none known.
    pub greatest: ArrayRef,
    /// Nulls in the whole block; null where that is not known.
    pub nulls: UInt64Array,
    /// Whether the above is exact for every block: least and greatest values occur, unless all are null.
    pub is_exact: bool,
}

/// [`BlockList::rows_of`], one block after another.
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
    /// Those of some of the blocks, by their numbers. Where those of all blocks are not exact, those of some may be, all the same.
    ///
    /// # Errors
    /// If there is no such block.
    pub fn take(&self, numbers: Vec<u64>) -> Result<Self> {
        let first = numbers.first().map_or(0, |first| *first as usize);
        let follow = numbers
            .windows(2)
            .all(|two| two[0].wrapping_add(1) == two[1]);
        if follow && first + numbers.len() <= self.nulls.len() {
            return Ok(Self {
                least: self.least.slice(first, numbers.len()),
                greatest: self.greatest.slice(first, numbers.len()),
                nulls: self.nulls.slice(first, numbers.len()),
                is_exact: self.is_exact,
            });
        }
        let numbers = UInt64Array::from(numbers);
        let options = TakeOptions { check_bounds: true };
        let nulls = take(&self.nulls, &numbers, Some(options.clone()))?;
        Ok(Self {
            least: take(&self.least, &numbers, Some(options.clone()))?,
            greatest: take(&self.greatest, &numbers, Some(options))?,
            nulls: nulls.as_primitive().clone(),
            is_exact: self.is_exact,
        })
    }
}

/// Reads the selected rows of one block after another, into columns.
pub trait BlockReader: Send {
    /// Starts on the block at a position of the list.
    fn open(&mut self, position: u64) -> Result<()>;

    /// Does a bounded piece of work on the open block.
    fn next(&mut self, max_rows: usize) -> Result<Progress>;

    /// What has been read since the reader was made.
    fn counts(&self) -> ReadCounts;
}

/// What [`BlockReader::next`] came to.
#[derive(Debug)]
pub enum Progress {
    /// Nothing yet: call again. A query can be cancelled in between.
    Working,
    /// Some more rows, in order.
    Rows {
        /// The columns that the reader was made for.
        columns: Vec<ArrayRef>,
        /// Their length, which they cannot tell if there are none.
        rows: usize,
    },
    /// The block has no more rows.
    Done,
}

/// What a reader has read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Chunks whose values were read.
    pub chunks: u64,
    /// Bytes of them: stored bytes of compressed chunks, those of the cells taken from raw ones.
    pub bytes: u64,
    /// Time spent decompressing.
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

/// How the cells of an attribute are stored: as numbers, little-endian, one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellFormat {
    /// The type of the numbers.
    pub cell_type: CellType,
    /// The bits of the number that marks missing cells.
    pub fill: Option<u64>,
    /// Whether cells that are not numbers are missing.
    pub nan_is_null: bool,
}

/// A dense array: axes, one or more attributes with a value per cell, and chunks.
pub trait GridSource: Debug + Send + Sync {
    /// Short name of the format, as EXPLAIN shows it: `tet`.
    fn format(&self) -> &'static str;

    /// Name of the array within its file.
    fn name(&self) -> &str;

    /// The file that it lies in, as it was given.
    fn path(&self) -> &Path;

    /// The arrays of the file that its attributes are read from, each with one attribute and chunks of its own.
    fn parts(&self) -> Vec<Arc<dyn GridSource>>;

    /// The axes, in storage order: the last one varies fastest within a chunk.
    fn axes(&self) -> &[Axis];

    /// The value columns.
    fn attributes(&self) -> &[FieldRef];

    /// The chunks by which work is cut.
    fn chunk_grid(&self) -> &ChunkGrid;

    /// The same array, cut as suits reading these of its attributes and no others; `None` if that is how it is cut.
    fn for_attributes(&self, _attributes: &[usize]) -> Option<Arc<dyn GridSource>> {
        None
    }

    /// Bytes that a chunk takes in the file.
    fn stored_bytes(&self, chunk: &[u64], options: &ReadOptions) -> Result<u64>;

    /// Whether an attribute may have nulls, under these options.
    fn may_have_nulls(&self, attribute: usize, options: &ReadOptions) -> bool;

    /// How an attribute's cells are stored, if they are plain numbers whose values are those of the column.
    fn cell_format(&self, _attribute: usize, _options: &ReadOptions) -> Option<CellFormat> {
        None
    }

    /// Whether anything is known of an attribute's values without reading them. The first call may read what is.
    fn has_statistics(&self, _attribute: usize, _options: &ReadOptions) -> bool {
        false
    }

    /// Why something that is there to rule out chunks cannot be used.
    fn unusable_statistics(&self, _options: &ReadOptions) -> Option<String> {
        None
    }

    /// What is known of an attribute's values in each of these windows, without reading them.
    fn window_statistics(
        &self,
        _attribute: usize,
        _windows: &[Window],
        _options: &ReadOptions,
    ) -> Result<Option<BlockStatistics>> {
        Ok(None)
    }

    /// The same of all chunks of the chunk grid, row-major, if they have zone maps: kept, so that it costs nothing to ask again.
    /// Exact of every chunk of which the number of nulls is known.
    fn chunk_statistics(
        &self,
        _attribute: usize,
        _options: &ReadOptions,
    ) -> Result<Option<Arc<BlockStatistics>>> {
        Ok(None)
    }

    /// For each of these windows whether an attribute has only (true) or none (false) of some values there; null where
    /// that is not known. `None` if it is known of no window.
    fn contained(
        &self,
        _attribute: usize,
        _windows: &[Window],
        _values: &HashSet<ScalarValue>,
        _options: &ReadOptions,
    ) -> Result<Option<BooleanArray>> {
        Ok(None)
    }

    /// A reader of windows of these attributes, with buffers of its own.
    fn window_reader(
        &self,
        attributes: &[usize],
        options: &ReadOptions,
    ) -> Result<Box<dyn WindowReader>>;

    /// How the attributes are stored, and what they mean. Reads nothing.
    fn describe_attributes(&self) -> Vec<AttributeDescription>;

    /// How a chunk is stored, one of [`Self::parts`]' own. Looks its index entry up.
    fn describe_chunk(&self, chunk: &[u64], options: &ReadOptions) -> Result<ChunkDescription>;

    /// Everything a person may want to know about the array.
    fn describe(&self) -> Result<TableDescription>;

    /// All cells of a window, row-major, as one array per attribute. The window may span chunks.
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

/// A grid, cut as suits reading some columns of its table.
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

/// Reads windows of a grid. Windows that are exactly a chunk are the fast case.
pub trait WindowReader: Send {
    /// Starts on a window, which must lie within the grid.
    fn open(&mut self, window: &Window) -> Result<()>;

    /// Says that most cells of the open window are going to be read, so that they can be fetched meanwhile.
    fn read_ahead(&mut self) {}

    /// Does a bounded piece of the work that the window still needs. Returns whether it can be read.
    fn advance(&mut self) -> Result<bool>;

    /// The stored cells of a range of the window's row-major order, of one of the reader's attributes, which must have a
    /// [cell format](GridSource::cell_format). The window must be ready.
    fn cells(&mut self, attribute: usize, range: Range<u64>) -> Result<&[u8]>;

    /// Some cells of the window, as one array per attribute. The runs are ranges of cell numbers in the window's
    /// row-major order; they ascend and do not overlap.
    fn read(&mut self, runs: &[Range<u64>]) -> Result<Vec<ArrayRef>>;

    /// What has been read since the reader was made.
    fn counts(&self) -> ReadCounts;
}
