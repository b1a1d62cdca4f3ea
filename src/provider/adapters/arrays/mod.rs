//! Turns the arrays of a file into grids, whatever the file's format.

mod array;
mod columns;
mod coordinates;
mod dataset;
mod decoding;
mod formats;
mod open;
mod reader;
mod statistics;
mod tables;
mod values;
mod wide;

pub(in crate::provider) use array::StoredArray;
pub(in crate::provider) use coordinates::{base, group};
pub use dataset::ArrayDataset;
pub(in crate::provider) use decoding::{
    ARROW_TYPE, DATE, MEANINGFUL, TIMESTAMP, UNPACK_ATTRIBUTES,
};
pub(in crate::provider) use formats::{WriteOptions, create_file};
pub use formats::{is_array_directory, is_array_file};
pub(in crate::provider) use formats::{is_array_name, member_of_hierarchy, open_file};
pub(in crate::provider) use open::open;
pub(in crate::provider) use reader::StoredWindowReader;
pub use tables::FileTables;
