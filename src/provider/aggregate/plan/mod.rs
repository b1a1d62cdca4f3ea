//! Plans aggregates in array space: the groups along each axis, and how each aggregate is computed.

pub(crate) mod aggregation;
pub(crate) mod axis_filters;
pub(crate) mod axis_pairs;
pub(crate) mod columns;
pub(crate) mod conditional;
pub(crate) mod grid_classes;
pub(crate) mod group_axis;
pub(crate) mod group_columns;
pub(crate) mod group_keys;
pub(crate) mod groups;
pub(crate) mod order;
pub(crate) mod program;
pub(crate) mod reductions;
