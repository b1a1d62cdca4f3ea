//! Reductions of stored cells to sums, minima, maxima and deviations per group.
//!
//! The group index of a cell is the sum of one term per axis, so neither rows nor coordinates are
//! materialized. A [`Layout`] describes which cells of a chunk go to which groups. A [`Reduction`]
//! holds the accumulators of all groups, and adds chunks to them. [`GroupCounts`] counts the cells
//! of a chunk per group, so that a chunk answered by statistics is added without being read.
//!
//! The max of a chunk of 2 x 3 cells, grouped by the second axis, whose terms are 0, 1 and 2:
//!
//! ```text
//! cells           group index     max per group
//!  1   2   3      0   1   2
//! 10  20  30      0   1   2       10  20  30
//! ```
//!
//! ```
//! use arrow::array::AsArray;
//! use arrow::datatypes::UInt8Type;
//! use tet_sql::grid::IndexSet;
//! use tet_sql::grid::reduce::{AxisGroups, CellType, Counts, Layout, Reduction, RequestedAggregates};
//!
//! let axes = [
//!     AxisGroups { selected: IndexSet::all(2), terms: None },
//!     AxisGroups { selected: IndexSet::all(3), terms: Some([0, 1, 2].into()) },
//! ];
//! let layout = Layout::new(&axes, 0);
//!
//! let wanted = RequestedAggregates { max: true, ..RequestedAggregates::default() };
//! let mut reduction = Reduction::new(CellType::U8, 3, wanted, None, None);
//! let chunk = [1u8, 2, 3, 10, 20, 30];
//! reduction.add(&[&chunk[..]], &layout);
//!
//! let max = reduction.results(&Counts::Same(2)).max.unwrap();
//! assert_eq!(max.as_primitive::<UInt8Type>().values(), &[10, 20, 30]);
//! ```

// Loops over lanes, which the compiler vectorizes, read best with an index.
#![allow(clippy::needless_range_loop)]

pub(super) mod cell;
mod deviations;
mod extremes;
mod group_counts;
pub(super) mod kernel_input;
mod layout;
mod mask;
mod moments;
mod reduction;
mod short_rows;
mod sums;
#[cfg(test)]
mod tests;

pub use cell::KnownSum;
pub use group_counts::{GroupCounts, IndexCounts, index_counts};
pub use layout::{AxisGroups, Layout};
pub use mask::MaskedCells;
pub use moments::{RequestedAggregates, SumKind};
pub use reduction::{CellType, Counts, Reduction, Results};
