//! Codecs of chunks, shards among them, decoded within the size of a chunk.

pub(crate) mod bounded;
pub(crate) mod chain;
pub(crate) mod shard;
