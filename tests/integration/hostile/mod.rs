//! Hostile files, statements and circumstances.

pub mod budget;
pub mod files;
pub mod mutations;
pub mod row_files;
pub mod short_memory;
pub mod statements;
pub mod trust;
