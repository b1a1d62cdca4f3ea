//! Turns the files of array formats into containers, and their arrays into grids.

mod array;
mod auxiliary;
mod columns;
mod container;
mod coordinates;
mod dataset;
mod decoding;
#[cfg(feature = "remote")]
mod fetching;
mod formats;
mod names;
mod reader;
mod spacing;
mod statistics;
mod values;
mod wide;

#[cfg(feature = "cli")]
pub(in crate::provider) use array::StoredArray;
pub use container::ArrayContainer;
#[cfg(feature = "cli")]
pub(in crate::provider) use coordinates::COORDINATES;
pub use coordinates::named_datasets;
pub use dataset::ArrayDataset;
pub(in crate::provider) use decoding::{
    ARROW_TYPE, DATE, MEANINGFUL, NUMPY_TYPE, TIMESTAMP, UNPACK_ATTRIBUTES,
};
pub(in crate::provider) use formats::built_in;
#[cfg(feature = "cli")]
pub(in crate::provider) use names::RepeatedNames;
pub(in crate::provider) use names::{base, group};
#[cfg(feature = "cli")]
pub(in crate::provider) use reader::StoredWindowReader;
