//! Statistics of chunks: zone maps and value postings.

pub(crate) mod document;
pub(crate) mod entry;
pub(crate) mod postings;
pub(crate) mod zone_maps;
