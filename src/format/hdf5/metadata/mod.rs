//! Groups, object headers, attributes, element types and dimensions.

pub(super) mod attributes;
pub(super) mod dimensions;
pub(super) mod element;
pub(super) mod header;
mod heap_blocks;
pub(super) mod heaps;
pub(super) mod links;
pub(super) mod soft_links;
pub(super) mod tree;
