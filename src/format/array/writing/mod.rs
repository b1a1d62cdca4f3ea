//! Descriptions of datasets to be written, and writers of array files.

pub mod chunks;
pub mod spec;
pub mod writer;
