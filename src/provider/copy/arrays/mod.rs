//! Writes the rows of a query as arrays.
//!
//! Rows may arrive in any order, and cells without a row are missing. The shape of the arrays is
//! known only after the last row, so writing takes three stages:
//!
//! ```text
//! rows ──encode──> blocks ──spool──> memory, then a temporary file ──assemble──> chunks
//! ```
//!
//! 1. Each coordinate is encoded as a code, numbered by first appearance, and each value in the
//!    type of its dataset.
//! 2. The encoded rows are spooled. Rows that do not fit in memory spill to a temporary file.
//! 3. After the last row the axes are complete, and with them the chunk of each row is known.
//!    Chunks are assembled from their rows, a few at a time.

mod assembly;
pub(super) mod axes;
mod chunk_lookup;
pub(super) mod columns;
mod dataset_metadata;
mod measure;
mod runs;
pub(super) mod sink;
mod spool;
pub(super) mod target;
