//! The traits between file formats and SQL: tables as blocks of rows, and dense arrays as grids.
//!
//! A [`BlockSource`] is a table as a lazily enumerated list of blocks. The scan, its metrics, its
//! partitions and its pruning work on block sources only. A block source that is made of dense
//! arrays also returns them as [`GridSource`]s from [`BlockSource::grids`].
//!
//! [`GridTable`](crate::provider::scan::grid::table::GridTable) turns any [`GridSource`] into a
//! block source, so a dense format implements only [`GridSource`].

mod block;
pub mod container;
mod grid;
pub mod recipe;
pub(in crate::provider) mod shared_chunks;
mod statistics;
mod windows;

pub use block::{
    Availability, BlockGroups, BlockList, BlockReader, BlockSource, ColumnKind, EvaluatedRows,
    Fetch, FetchedBlock, PruningLabels, ReadCounts, SelectedBlocks,
};
pub(crate) use grid::for_columns;
pub(in crate::provider) use grid::runs_of;
pub use grid::{CellFormat, GridSelection, GridSource, ReplaceGrid, WindowReader};
pub use shared_chunks::SharedChunks;
pub(in crate::provider) use statistics::sum_of_integers;
pub use statistics::{BlockStatistics, ColumnBounds, RowCount};
pub use windows::Windows;

/// The name of the value column, unless a dimension has this name.
pub(super) const VALUE: &str = "value";
/// The field metadata key that marks a dimension column.
pub const DIMENSION: &str = "tet:dimension";
/// The field metadata key that marks a value column. Its value is the name of the dataset.
pub(super) const DATASET: &str = "tet:dataset";
