//! Dense arrays: axes, chunks, and readers of their cells.

use std::collections::HashSet;
use std::fmt::Debug;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::FieldRef;
use datafusion::common::{Result, ScalarValue};

use crate::grid::reduce::CellType;
use crate::grid::{Axis, ChunkGrid, IndexSet, Selection, Window};
use crate::provider::catalog::description::{
    AttributeDescription, ChunkDescription, TableDescription,
};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::source::recipe::Recipe;
use crate::provider::source::{
    Availability, ColumnBounds, Fetch, FetchedBlock, ReadCounts, SharedChunks, Windows,
};

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

impl CellFormat {
    /// Returns `true` if no value of the column is NaN, which DataFusion orders above all numbers.
    pub fn holds_numbers(self) -> bool {
        self.nan_is_null || !self.cell_type.is_float()
    }
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
///     2    . . # | # # .        reader.open(&window, None)?;
///     3    . . . | . . .        reader.read(&[3..5])?;
/// ```
///
/// [`GridTable`](crate::provider::scan::grid::table::GridTable) turns a grid into a table with one
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

    /// Returns the array that stores an attribute, and the windows of that array that are read for `windows` of this grid.
    /// Returns `None` if they are not known in advance.
    fn stored_windows(
        &self,
        attribute: usize,
        windows: &Windows,
    ) -> Result<Option<(Arc<dyn GridSource>, Windows)>> {
        let stored = self.parts().into_iter().nth(attribute);
        Ok(stored.map(|stored| (stored, windows.clone())))
    }

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

    /// The cost of reading a chunk, in decoded bytes, by which chunks are divided among partitions.
    fn chunk_cost(&self, chunk: &[u64], options: &ReadOptions) -> Result<u64> {
        self.stored_bytes(chunk, options)
    }

    /// Returns `true` if an attribute may have nulls under these options.
    fn may_have_nulls(&self, attribute: usize, options: &ReadOptions) -> bool;

    /// Returns `false` if the values of an attribute are computed from the indices of its cells, so that
    /// reading it reads nothing from the file.
    fn is_stored(&self, _attribute: usize) -> bool {
        true
    }

    /// The storage format of an attribute whose stored numbers are the values of its column; `None`
    /// if cells have to be decoded.
    fn cell_format(&self, _attribute: usize, _options: &ReadOptions) -> Option<CellFormat> {
        None
    }

    /// Returns the availability of an attribute's statistics. The first call may read them from the
    /// file.
    fn availability(&self, _attribute: usize, _options: &ReadOptions) -> Availability {
        Availability::default()
    }

    /// Statistics of an attribute in each of these windows, without reading its values.
    fn window_statistics(
        &self,
        _attribute: usize,
        _windows: &[Window],
        _options: &ReadOptions,
    ) -> Result<Option<ColumnBounds>> {
        Ok(None)
    }

    /// Statistics of an attribute in all chunks of the chunk grid, in row-major order, if there are
    /// zone maps. The result is cached, so further calls are cheap. Exact for every chunk whose
    /// null count is known.
    fn chunk_statistics(
        &self,
        _attribute: usize,
        _options: &ReadOptions,
    ) -> Result<Option<Arc<ColumnBounds>>> {
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

    /// Returns a fetch of the bytes that are needed to read these attributes of a window; `None` if
    /// the window is read in place, as from a local file.
    fn fetch(
        &self,
        _window: &Window,
        _attributes: &[usize],
        _options: &ReadOptions,
    ) -> Option<Fetch> {
        None
    }

    /// Creates a reader of windows of these attributes, with its own buffers.
    fn window_reader(
        &self,
        attributes: &[usize],
        options: &ReadOptions,
    ) -> Result<Box<dyn WindowReader>>;

    /// Returns how to open the array again in another process, as a table that consists of this
    /// grid; `None` if that is impossible.
    fn recipe(&self) -> Result<Option<Recipe>> {
        Ok(None)
    }

    /// Returns the array as of now, if this process has changed it since it was opened; see
    /// [`BlockSource::renewed`](crate::provider::source::BlockSource::renewed).
    fn renewed(&self) -> Result<Option<Arc<dyn GridSource>>> {
        Ok(None)
    }

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
        reader.open(window, None)?;
        while !reader.advance()? {}
        reader.read(std::slice::from_ref(&(0..window.cells())))
    }
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

/// A function that returns the replacement of a grid. See
/// [`BlockSource::with_grids`](super::BlockSource::with_grids).
pub type ReplaceGrid<'a> = &'a dyn Fn(&Arc<dyn GridSource>) -> Arc<dyn GridSource>;

impl GridSelection {
    /// Returns the number of selected cells of several grids; `None` if there are 2^64 or more.
    pub(in crate::provider) fn cells(grids: &[Self]) -> Option<u64> {
        let mut counts = grids.iter().map(|grid| grid.selection.count());
        counts.try_fold(0u64, |sum, count| sum.checked_add(count?))
    }
}

/// Returns the grid with the chunk grid that suits reading these columns of its table.
pub(crate) fn for_columns(grid: &Arc<dyn GridSource>, columns: &[usize]) -> Arc<dyn GridSource> {
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

/// Returns the runs of adjacent cells among strictly ascending cells.
pub(in crate::provider) fn runs_of(cells: &[u64]) -> Vec<Range<u64>> {
    let runs = cells.chunk_by(|one, next| one + 1 == *next);
    let runs = runs.map(|run| run[0]..run[0] + run.len() as u64);
    runs.collect()
}

/// Reads windows of a grid. Windows that are exactly one chunk are fastest.
pub trait WindowReader: Send {
    /// Starts reading a window, which must lie within the grid. `fetched` is the result of
    /// [`GridSource::fetch`], if that returned a fetch for this window and the attributes of the
    /// reader.
    fn open(&mut self, window: &Window, fetched: Option<FetchedBlock>) -> Result<()>;

    /// Takes chunks that other operators of the plan have decoded, and adds those that this reader
    /// decodes. Called before the first window. Readers that cannot share ignore it.
    fn share_decoded(&mut self, _chunks: &Arc<SharedChunks>) -> Result<()> {
        Ok(())
    }

    /// Announces that most cells of the current window will be read, so that the reader can
    /// prefetch them.
    fn read_ahead(&mut self) {}

    /// Does a bounded amount of the work that the current window needs. Returns `true` once the
    /// window can be read.
    fn advance(&mut self) -> Result<bool>;

    /// The stored bytes of a range of cells, numbered in the row-major order of the window.
    /// `attribute` is an index among the attributes of the reader. The attribute must have a [cell format](GridSource::cell_format), and [`Self::advance`] must
    /// have returned `true`.
    fn cells(&mut self, attribute: usize, range: Range<u64>) -> Result<&[u8]>;

    /// Reads cells of the window, as one array per attribute. `runs` are ranges of cells in the
    /// row-major order of the window, ascending and without overlaps.
    fn read(&mut self, runs: &[Range<u64>]) -> Result<Vec<ArrayRef>>;

    /// Gathers cells of the window, as one array per attribute. `cells` are offsets into the window in row-major
    /// order, strictly ascending.
    fn gather(&mut self, cells: &[u64]) -> Result<Vec<ArrayRef>> {
        self.read(&runs_of(cells))
    }

    /// Returns the counters of everything read since the reader was created.
    fn counts(&self) -> ReadCounts;
}
