//! Joins of tables whose columns have the same names.

mod generated;
mod same_names;
