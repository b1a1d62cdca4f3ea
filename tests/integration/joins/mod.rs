//! Joins of tables whose columns have the same names, and of tables of unknown size.

mod generated;
mod same_names;
mod unknown_sizes;
mod zip;
