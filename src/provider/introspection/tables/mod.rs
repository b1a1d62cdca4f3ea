//! The table functions, one per module.

pub(crate) mod attributes;
pub(crate) mod block_rows;
pub(crate) mod chunk_rows;
pub(crate) mod chunks;
pub(crate) mod datasets;
pub(crate) mod dimensions;
pub(crate) mod files;
pub(crate) mod functions;
pub(crate) mod history;
