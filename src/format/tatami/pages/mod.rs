//! The pages of columns: where they are, and how their values are decompressed and decoded.

#[cfg(feature = "remote")]
pub(super) mod ahead;
pub(super) mod bitmap;
pub(super) mod decode;
pub(super) mod page;
pub(super) mod page_index;
pub(super) mod payload;
pub(super) mod reader;
pub(super) mod strings;
pub(super) mod values;
