//! The plan of an operator as a value.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::physical_expr::PhysicalExpr;

use crate::grid::Selection;
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::source::GridSource;
use crate::provider::window::plan::tiles::Tiles;

/// The minimum number of planes that are read at a time if the cells of a plane are scattered over the
/// chunk.
pub(in crate::provider::window) const MIN_PLANES: u64 = 16;

/// Everything that an [`ArrayWindowExec`](crate::provider::window::ArrayWindowExec) computes.
///
/// Planes are numbered along the order axis in *walking order*, which is ascending or descending by the
/// indices of the axis, whichever needs fewer planes in memory.
#[derive(Debug, Clone)]
pub(in crate::provider::window) struct WindowSpec {
    pub grid: Arc<dyn GridSource>,
    pub selection: Selection,
    pub options: ReadOptions,
    /// The axis that the windows are ordered by.
    pub axis: usize,
    /// The number of selected indices along the axis.
    pub count: usize,
    /// `true` if the walk goes from the last index of the axis to the first.
    pub is_descending: bool,
    /// The expressions over cells that windows and output columns use.
    pub planes: Vec<PlaneExpr>,
    /// The columns of the table that the planes use, ascending.
    pub columns: Vec<usize>,
    /// The schema of these columns.
    pub read_schema: SchemaRef,
    pub aggregates: Vec<SeriesAggregate>,
    pub outputs: Vec<OutputColumn>,
    pub schema: SchemaRef,
    /// The tiles across the other axes, and their partitions.
    pub tiles: Tiles,
    /// The number of planes that take memory while they are read.
    pub planes_being_read: usize,
    /// `true` if the totals are computed before the walk, because it would keep the whole axis in
    /// memory to output them.
    pub totals_first: bool,
    /// The windows, as EXPLAIN shows them.
    pub descriptions: Vec<String>,
    /// The order, as EXPLAIN shows it.
    pub order: String,
}

/// An expression that is evaluated once per cell.
#[derive(Debug, Clone)]
pub(in crate::provider::window) struct PlaneExpr {
    /// The expression, over the columns that are read.
    pub expr: Arc<dyn PhysicalExpr>,
    pub data_type: DataType,
}

/// An aggregate over a frame.
#[derive(Debug, Clone)]
pub(in crate::provider::window) struct SeriesAggregate {
    /// The index of the plane expression.
    pub plane: usize,
    /// The frame of each plane.
    pub frames: Arc<[Range<u32>]>,
    pub function: SeriesFunction,
}

impl SeriesAggregate {
    /// Returns the bytes per series that each of its states takes.
    pub fn state_bytes(&self) -> usize {
        let counts = size_of::<u32>();
        match self.function {
            SeriesFunction::Count => counts,
            SeriesFunction::Deviation { .. } => 2 * size_of::<f64>() + counts,
            _ => size_of::<f64>() + counts,
        }
    }

    /// Returns `true` if all frames are the same.
    pub fn is_total(&self) -> bool {
        let first = self.frames.first();
        first.is_some_and(|first| self.frames.iter().all(|frame| frame == first))
    }
}

/// The function of an aggregate, by the type of its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::provider::window) enum SeriesFunction {
    Count,
    FloatSum,
    IntegerSum,
    UnsignedSum,
    Mean,
    Min,
    Max,
    /// A variance or standard deviation.
    Deviation {
        is_sample: bool,
        is_root: bool,
    },
}

/// The source of an output column.
#[derive(Debug, Clone)]
pub(in crate::provider::window) enum OutputColumn {
    /// The coordinates of an axis.
    Axis(usize),
    /// One value per plane, the same for all series.
    Values(ArrayRef),
    /// The cells themselves.
    Plane(usize),
    /// The cells of another plane, or a default value.
    Pick {
        plane: usize,
        /// For each plane, the plane to take the cells from.
        planes: Arc<[Option<u32>]>,
        default: ScalarValue,
    },
    /// An aggregate, by its index.
    Aggregate(usize),
    /// The rank of the cells among those of the partition.
    Rank(SeriesRank),
}

/// A function that numbers the cells of each series in the order of their values.
#[derive(Debug, Clone)]
pub(in crate::provider::window) struct SeriesRank {
    pub function: RankFunction,
    /// The index of the plane expression that cells are ordered by.
    pub plane: usize,
    pub is_descending: bool,
    pub nulls_first: bool,
    /// `true` if cells with equal values have the same rank; otherwise their order is that of `partitions`.
    pub has_peers: bool,
    /// The planes of each partition along the axis.
    pub partitions: Arc<[Vec<u32>]>,
    /// The maximum rank to output; `None` if all cells are output.
    pub max_rank: Option<u32>,
}

impl SeriesRank {
    /// The number of bytes that the rank of a cell takes.
    pub const BYTES: usize = size_of::<u32>();
    /// The number of bytes per cell of the series that are sorted together.
    pub const SORTED_BYTES: usize = 44;
    /// The maximum number of cells that are sorted together, unless a series has more.
    const SORTED_CELLS: usize = 1 << 16;
    /// The maximum number of series that are sorted together, so that neighbouring cells of a plane are read
    /// together.
    const BLOCK: usize = 64;

    /// Returns the number of planes.
    pub fn count(&self) -> usize {
        self.partitions.iter().map(Vec::len).sum()
    }

    /// Returns the length of the longest partition.
    pub fn longest(&self) -> usize {
        self.partitions.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Returns the number of series that are sorted together.
    pub fn block(&self) -> usize {
        (Self::SORTED_CELLS / self.longest().max(1)).clamp(1, Self::BLOCK)
    }
}

/// The function of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::provider::window) enum RankFunction {
    RowNumber,
    Rank,
    DenseRank,
    /// `percent_rank`: the rank from 0 to 1.
    PercentRank,
    /// `cume_dist`: the fraction of cells up to the last one with the same value.
    CumulativeDistribution,
    /// `ntile` with this number of tiles.
    Tile(u64),
}

impl OutputColumn {
    /// Returns the rank that the column holds.
    pub fn rank(&self) -> Option<&SeriesRank> {
        match self {
            Self::Rank(rank) => Some(rank),
            _ => None,
        }
    }

    /// Returns `true` if the cells of one plane are the value of all planes.
    pub fn is_total(&self) -> bool {
        match self {
            Self::Pick { planes, .. } => {
                planes.first().is_some_and(Option::is_some)
                    && planes.iter().all(|plane| *plane == planes[0])
            }
            _ => false,
        }
    }
}

impl WindowSpec {
    /// Returns the ranks of cells by their values.
    pub fn ranks(&self) -> impl Iterator<Item = &SeriesRank> {
        self.outputs.iter().filter_map(OutputColumn::rank)
    }

    /// Returns the rank, among the selected indices of the axis, of a plane.
    pub fn rank(&self, plane: usize) -> u64 {
        match self.is_descending {
            true => (self.count - 1 - plane) as u64,
            false => plane as u64,
        }
    }

    /// Returns the attributes that are read, as indices of the grid's attributes.
    pub fn attributes(&self) -> Vec<usize> {
        let axes = self.grid.axes().len();
        let columns = self.columns.iter();
        columns
            .filter_map(|column| column.checked_sub(axes))
            .collect()
    }
}

/// Returns the number of planes to account for while a tile is read: each counts twice, once in the
/// cells of the chunk and once in the order of planes.
pub(in crate::provider::window) fn planes_being_read(is_scattered: bool) -> usize {
    2 * if is_scattered { MIN_PLANES as usize } else { 1 }
}

/// Returns the approximate number of bytes of one value of a type.
pub(in crate::provider::window) fn width(data_type: &DataType) -> usize {
    data_type.primitive_width().unwrap_or(32).max(1)
}
