//! Reductions of stored cells to sums, extremes and deviations per group, where the group of a cell follows from its
//! position. Rows are never spelled out, and neither are coordinates.
//!
//! A [`Layout`] says which cells of a chunk go to which groups: rows of cells, told apart by what becomes of them.
//! [`Reduction`] keeps the results of all groups and adds chunks to them; of what is known of a chunk without reading it,
//! [`GroupCounts`] tells how many of its cells go to which groups.

// Loops over lanes, which the compiler turns into vectors, read best by their number.
#![allow(clippy::needless_range_loop)]

mod cell;
mod deviations;
mod extremes;
mod group_counts;
mod layout;
mod moments;
mod piece;
mod reduction;
mod short_rows;
mod sums;
#[cfg(test)]
mod tests;

pub use group_counts::GroupCounts;
pub use layout::{AxisGroups, Layout};
pub use moments::{SumKind, Wanted};
pub use reduction::{CellType, Counts, Reduction, Results};
