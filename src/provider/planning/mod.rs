//! Turns filters into a plan of what to read: the selection of a grid, the blocks that survive
//! pruning, their order, and their partitions.

pub(crate) mod axis_bounds;
pub(crate) mod axis_filter;
pub(crate) mod cell_predicate;
pub(crate) mod dynamic;
pub(crate) mod mask;
pub(crate) mod partitions;
pub(crate) mod planned_blocks;
pub(crate) mod product_mask;
pub(crate) mod pruning;
pub(crate) mod pushdown;
pub(crate) mod sorted_blocks;
pub(crate) mod unions;
pub(crate) mod value_range;
pub(crate) mod value_set;
