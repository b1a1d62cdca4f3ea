//! File formats as block sources and grids, and the choice of the format of a file.

pub mod arrays;
pub(crate) mod file_kind;
