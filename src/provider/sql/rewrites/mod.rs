//! Changes of statements, as written, to forms that DataFusion plans.

pub(super) mod column_lists;
pub(super) mod grouping_sets;
pub(super) mod named_arguments;
pub(super) mod row_subqueries;
