//! Classic NetCDF files: CDF-1, CDF-2 (64-bit offsets) and CDF-5 (64-bit data). NetCDF-4 files are
//! HDF5, and are not read by this module.
//!
//! A file is a header followed by big-endian cells. The header lists dimensions, attributes and
//! variables. A variable whose first dimension is the record dimension has a slab in each record;
//! the slabs of all such variables alternate:
//!
//! ```text
//! header | lat | lon | record 0: time t2m | record 1: time t2m | ...
//! ```
//!
//! [`NetcdfFile`] opens a file and reads chunks. As in the other formats, attributes are text, and
//! strings are codes whose categories are an attribute. Only as much of the conventions is applied
//! as determines the cells: `_Unsigned`, fill values, and strings as arrays of characters.

mod attributes;
mod cells;
mod contents;
mod element;
mod file;
mod header;
mod layout;
mod reader;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod text;

pub use file::NetcdfFile;

/// The first bytes of each version of the format.
pub(crate) const MAGICS: [&[u8]; 3] = [b"CDF\x01", b"CDF\x02", b"CDF\x05"];
/// Maximum number of dimensions of a variable, as in NumPy.
const MAX_DIMENSIONS: usize = 64;
