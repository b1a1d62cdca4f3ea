//! The arrays of a file as grids, whatever its format.

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

pub(super) use array::StoredArray;
pub(super) use coordinates::{base, group};
pub use dataset::ArrayDataset;
pub(super) use decoding::{ARROW_TYPE, DATE, OF_PACKED, TIMESTAMP};
pub(super) use formats::{Writing, create_file};
pub use formats::{is_array_file, is_array_folder};
pub(crate) use formats::{is_array_name, member_of_hierarchy, open_file};
pub(crate) use open::open;
pub(super) use reader::StoredWindowReader;
pub use tables::FileTables;
