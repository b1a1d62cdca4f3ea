//! Joins of arrays in array space, joins of tables that share column names, and joins with tables of
//! unknown size.

mod aggregates;
mod conditions;
mod generated;
mod generated_conditions;
mod lookup;
mod many_files;
mod polygons;
mod reindexed;
mod same_names;
mod unknown_sizes;
mod values;
mod zip;
