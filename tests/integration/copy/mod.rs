//! COPY and `convert`: from rows and from other formats to arrays.

pub mod arrays;
pub mod axes;
pub mod carried;
pub mod convert;
pub mod odd_names;
pub mod row_files;
