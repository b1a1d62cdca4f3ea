//! Tables, their columns and their coordinates.

pub mod attributes;
pub mod changed_rows;
pub mod coarse_times;
pub mod coordinates;
pub mod corrections;
pub mod dataframes;
pub mod exploded;
pub mod functions;
pub mod introspection;
pub mod many_files;
pub mod prepared;
pub mod times;
pub mod wide;
