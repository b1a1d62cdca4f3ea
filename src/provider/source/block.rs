//! Tables as blocks of rows.

use std::any::Any;
use std::collections::HashSet;
use std::fmt::{self, Debug, Formatter};
use std::iter::Sum;
use std::ops::{Add, Range};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::SchemaRef;
use datafusion::common::{ColumnStatistics, Result, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use futures::future::BoxFuture;

use crate::grid::{IndexSet, KeptRows};
use crate::provider::catalog::description::TableDescription;
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::source::recipe::Recipe;
use crate::provider::source::{
    BlockStatistics, GridSelection, GridSource, ReplaceGrid, RowCount, SharedChunks,
};

/// A table as a list of blocks of rows.
///
/// [`select`](Self::select) applies the filters that can be answered without reading values. The
/// selected blocks are then pruned, cut into partitions, and read, with one reader per partition:
///
/// ```text
/// BlockSource   select(filters, columns)     evaluates filters on known columns
///      |
///      v
/// SelectedBlocks { blocks, kept, residual }  residual: filters left to the scan
///      |
///      v
/// BlockList     statistics, contained        prune blocks by bounds, cut partitions
///      |        fetch(block, columns)        gets the bytes of a block, if they are remote
///      v
/// BlockReader   open(block), advance()       decodes the block
///               read(rows, kept)             returns the columns of some of its rows
/// ```
pub trait BlockSource: Any + Debug + Send + Sync {
    /// The short name of the format, as EXPLAIN shows it: `tet`.
    fn format(&self) -> &'static str;

    /// The name of the table within its file.
    fn name(&self) -> &str;

    /// The path or URL of the file, if the table is in one. The [grids](Self::grids) of a table
    /// have paths of their own.
    fn location(&self) -> Option<&str> {
        None
    }

    /// The columns. For a grid, the dimensions in order, then the attributes.
    fn schema(&self) -> &SchemaRef;

    /// Returns the kind of a column.
    fn column_kind(&self, _column: usize) -> ColumnKind {
        ColumnKind::Stored
    }

    /// The names of the [known](ColumnKind::Known) columns.
    fn dimensions(&self) -> Vec<&str> {
        let fields = self.schema().fields().iter().enumerate();
        fields
            .filter(|(column, _)| self.column_kind(*column) == ColumnKind::Known)
            .map(|(_, field)| field.name().as_str())
            .collect()
    }

    /// The grids that hold the rows, one per file, in row order. Empty if the table is not made of
    /// grids.
    fn grids(&self) -> Vec<Arc<dyn GridSource>> {
        Vec::new()
    }

    /// Returns the table with each of its grids replaced; `None` if the table is not made of grids, or if
    /// its rows depend on more than the grids, such as the name of the file.
    fn with_grids(&self, _replace: ReplaceGrid<'_>) -> Result<Option<Arc<dyn BlockSource>>> {
        Ok(None)
    }

    /// Returns the blocks that may hold a row satisfying the filters, judged by the known columns
    /// only. The filters are deterministic and refer to the table's columns. The blocks are cut to
    /// suit a scan that reads `columns` with `options`.
    fn select(
        &self,
        filters: &[Arc<dyn PhysicalExpr>],
        columns: &[usize],
        options: &ReadOptions,
    ) -> Result<SelectedBlocks>;

    /// Returns how to open the table again in another process; `None` if that is impossible. Plans
    /// that scan the table can then be encoded.
    fn recipe(&self) -> Result<Option<Recipe>> {
        Ok(None)
    }

    /// Returns the table as of now, if this process has changed it since it was opened, for example by
    /// `INSERT INTO`; `None` if the table is up to date, or was opened as of a given time.
    fn renewed(&self) -> Result<Option<Arc<dyn BlockSource>>> {
        Ok(None)
    }

    /// Describes the table for introspection. May look up the index entry of every block.
    fn describe(&self) -> Result<TableDescription>;
}

impl dyn BlockSource {
    /// Returns the source as a `T`; `None` if the source is of another type.
    pub fn downcast_ref<T: BlockSource>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// The kind of a column: where its values come from, and so how a filter on the column is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// The values are known without reading blocks, as the coordinates of an axis are.
    /// [`BlockSource::select`] answers a deterministic predicate over one known column exactly.
    Known,
    /// Each block has bounds of the values, as an index of bounding boxes or of sorted pages has.
    /// The bounds prune blocks, and the rows are filtered.
    Located,
    /// The values are stored in the blocks. There may be statistics, such as zone maps.
    Stored,
}

/// The result of [`BlockSource::select`].
#[derive(Debug)]
pub struct SelectedBlocks {
    /// The selected blocks.
    pub blocks: Arc<dyn BlockList>,
    /// The blocks that may hold a row satisfying the filters; `None` if all of `blocks` may.
    pub kept: Option<IndexSet>,
    /// Filters without columns or over one known column that could not be evaluated without
    /// reading. The scan must apply them to its rows. Sources without grids need not return filters
    /// without columns.
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

    /// The number of selected rows in all blocks.
    fn rows(&self) -> RowCount;

    /// The number of selected rows in these blocks together.
    fn rows_in(&self, blocks: &[u64]) -> Result<RowCount>;

    /// Returns `true` if the columns cannot be read without opening blocks. If `false`, the scan only
    /// counts the selected rows.
    fn is_read(&self, _columns: &[usize]) -> bool {
        true
    }

    /// The number of bytes that the whole block occupies in the file. Looks up the block's index
    /// entry.
    fn block_bytes(&self, block: u64, options: &ReadOptions) -> Result<u64>;

    /// The cost of reading the whole block, in decoded bytes, by which blocks are divided among
    /// partitions.
    fn block_cost(&self, block: u64, options: &ReadOptions) -> Result<u64> {
        self.block_bytes(block, options)
    }

    /// The selection as EXPLAIN shows it: `[lat: 3 of 10, lon: all]`.
    fn slice(&self) -> Option<String> {
        None
    }

    /// The parts of the table that hold the blocks, as EXPLAIN shows them: their name, the number of
    /// them that may have a selected row, and the number of all. `None` for a table without parts.
    fn parts(&self) -> Option<(&'static str, usize, usize)> {
        None
    }

    /// The groups into which consecutive blocks fall; `None` if there are none. Statistics of groups are
    /// evaluated first, and rule out all blocks of a group at once.
    fn groups(&self) -> Option<BlockGroups> {
        None
    }

    /// The names of what prunes blocks, in EXPLAIN and in metrics.
    fn pruning_labels(&self) -> PruningLabels {
        PruningLabels::default()
    }

    /// Statistics of one column over the selected rows of all blocks. Reads no values.
    fn column_statistics(
        &self,
        _column: usize,
        _options: &ReadOptions,
    ) -> Result<ColumnStatistics> {
        Ok(ColumnStatistics::new_unknown())
    }

    /// Returns the availability of a column's statistics to [`Self::statistics`] and
    /// [`Self::contained`].
    fn availability(&self, _column: usize, _options: &ReadOptions) -> Availability {
        Availability::default()
    }

    /// Statistics of these columns in each of these blocks, without reading values.
    fn statistics(
        &self,
        columns: &[usize],
        blocks: &[u64],
        _options: &ReadOptions,
    ) -> Result<BlockStatistics> {
        Ok(BlockStatistics::unknown(columns.len(), blocks.len()))
    }

    /// Compares one column with a set of values in each block: `true` if the block contains only
    /// these values, `false` if it contains none of them, null if unknown. `None` if unknown for
    /// every block. Bloom filters and indexes of values answer this.
    fn contained(
        &self,
        _column: usize,
        _blocks: &[u64],
        _values: &HashSet<ScalarValue>,
        _options: &ReadOptions,
    ) -> Result<Option<BooleanArray>> {
        Ok(None)
    }

    /// The longest list of columns by which the rows are sorted across all blocks, each with `true`
    /// if it is in descending order. Only the last of these columns may repeat a coordinate.
    fn ordering(&self) -> Vec<(usize, bool)> {
        Vec::new()
    }

    /// The blocks as chunks of grids, one entry per grid; `None` if the blocks are not chunks.
    fn grid_selections(&self) -> Option<Vec<GridSelection>> {
        None
    }

    /// Returns a fetch of the bytes that are needed to read these columns of a block; `None` if the
    /// block is read in place, as from a local file.
    fn fetch(&self, _block: u64, _columns: &[usize], _options: &ReadOptions) -> Option<Fetch> {
        None
    }

    /// Returns the number of rows of a batch of these columns: at most `rows`, and fewer if the values
    /// are large.
    fn batch_rows(&self, _columns: &[usize], rows: usize) -> usize {
        rows
    }

    /// Creates a reader of these columns, with its own buffers. At most `max_rows` rows of a batch are kept.
    fn reader(
        &self,
        columns: &[usize],
        max_rows: usize,
        options: &ReadOptions,
    ) -> Result<Box<dyn BlockReader>>;
}

/// Groups of consecutive blocks, such as row groups whose pages are blocks.
#[derive(Debug, Clone)]
pub struct BlockGroups {
    /// The groups as blocks, for their statistics.
    pub blocks: Arc<dyn BlockList>,
    /// The ordinal after the last block of each group.
    pub ends: Arc<[u64]>,
}

/// The names of what prunes blocks, in EXPLAIN; metrics have them with `chunks_` in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PruningLabels {
    /// [`SelectedBlocks::kept`]. `None` if the selection shows in [`BlockList::slice`].
    pub selected: Option<&'static str>,
    /// The bounds of [located](ColumnKind::Located) columns.
    pub bounds: &'static str,
    /// The statistics of [stored](ColumnKind::Stored) columns.
    pub zone_map: &'static str,
    /// [`BlockList::contained`].
    pub value_index: &'static str,
}

impl Default for PruningLabels {
    fn default() -> Self {
        Self {
            selected: None,
            bounds: "pruned_by_bounds",
            zone_map: "pruned_by_zone_map",
            value_index: "pruned_by_value_index",
        }
    }
}

/// The availability of a column's statistics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Availability {
    /// `true` if there are statistics that can be used.
    pub is_known: bool,
    /// The reason why existing statistics, such as zone maps, cannot be used.
    pub unusable: Option<String>,
}

/// A fetch of the bytes of one block, which has not started yet.
pub struct Fetch {
    /// The number of bytes, which are accounted for while the block is in flight.
    pub bytes: usize,
    /// Gets the bytes.
    pub fetched: BoxFuture<'static, Result<FetchedBlock>>,
}

impl Debug for Fetch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Fetch({} bytes)", self.bytes)
    }
}

/// The fetched bytes of a block, in a type that only the source knows.
pub type FetchedBlock = Box<dyn Any + Send>;

/// Reads the selected rows of one block at a time into columns.
///
/// ```text
/// reader.open(block, fetched)?;
/// while !reader.advance()? {}                      decodes
/// let rows = reader.batch(0);                      0..8192
/// let columns = reader.read(rows, Some(&kept))?;   one array per column, without the other rows
/// ```
pub trait BlockReader: Send {
    /// Takes chunks that other operators of the plan have decoded, and adds those that this reader
    /// decodes. Called before the first block. Readers that cannot share ignore it.
    fn share_decoded(&mut self, _chunks: &Arc<SharedChunks>) -> Result<()> {
        Ok(())
    }

    /// Starts reading the block with this ordinal. `fetched` is the result of
    /// [`BlockList::fetch`], if that returned a fetch for this block and the columns of the reader.
    fn open(&mut self, block: u64, fetched: Option<FetchedBlock>) -> Result<()>;

    /// Does a bounded amount of the work that the current block needs. Returns `true` once its rows
    /// can be read. Returning in between lets a query be cancelled.
    fn advance(&mut self) -> Result<bool>;

    /// The number of selected rows in the current block, once [`Self::advance`] has returned
    /// `true`.
    fn rows(&self) -> u64;

    /// The rows of the batch that starts at this row of the current block, chosen to suit the
    /// reader.
    fn batch(&self, first: u64) -> Range<u64>;

    /// Evaluates a predicate over the columns of the reader on the stored values of some rows, as
    /// far as that is faster than on columns. `None` if it is not. Every call has the same
    /// predicate. The range of the result starts with the first of `rows`. It may have fewer rows,
    /// but at least one, or more.
    fn evaluate(
        &mut self,
        _rows: Range<u64>,
        _predicate: &Arc<dyn PhysicalExpr>,
    ) -> Result<Option<EvaluatedRows>> {
        Ok(None)
    }

    /// Reads a range of rows of the current block, as one array per column: one of [`Self::batch`],
    /// or that of the [`EvaluatedRows`]. `kept` covers this range. Rows that it does not keep are
    /// left out.
    fn read(&mut self, rows: Range<u64>, kept: Option<&KeptRows>) -> Result<Vec<ArrayRef>>;

    /// Returns the counters of everything read since the reader was created.
    fn counts(&self) -> ReadCounts;
}

/// The result of [`BlockReader::evaluate`].
#[derive(Debug)]
pub struct EvaluatedRows {
    /// The rows that satisfy the predicate, except `rest`.
    pub kept: KeptRows,
    /// The part of the predicate that was not evaluated; `None` if all of it was.
    pub rest: Option<Arc<dyn PhysicalExpr>>,
}

/// Counters of the chunks and bytes that a reader has read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// The number of chunks whose values were read.
    pub chunks: u64,
    /// The number of bytes read: all stored bytes of compressed chunks, but only the bytes of the
    /// cells taken from raw chunks.
    pub bytes: u64,
    /// The time spent decompressing.
    pub decode_time: Duration,
    /// The number of requests to object stores.
    pub requests: u64,
    /// The number of bytes that the requests fetched.
    pub bytes_fetched: u64,
}

impl Add for ReadCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            chunks: self.chunks + other.chunks,
            bytes: self.bytes + other.bytes,
            decode_time: self.decode_time + other.decode_time,
            requests: self.requests + other.requests,
            bytes_fetched: self.bytes_fetched + other.bytes_fetched,
        }
    }
}

impl Sum for ReadCounts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), Add::add)
    }
}
