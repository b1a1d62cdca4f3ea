//! The codecs of chunks and shards, with output bounded by the size of a chunk.

pub(crate) mod bounded;
pub(crate) mod chain;
pub(crate) mod shard;
