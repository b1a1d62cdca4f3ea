//! Adapters of file formats to block sources and grids, and the detection of a file's format.

pub mod arrays;
pub(crate) mod file_kind;
