//! Hierarchies in object stores: their metadata documents, and the places of their chunks.

mod chunks;
mod images;
mod walk;

pub(super) use chunks::RemoteFiles;
pub(super) use walk::find;
