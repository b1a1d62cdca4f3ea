//! Files and directories in object stores and on HTTP servers, read by ranges.
//!
//! ```text
//! RemotePlace      a store, a path in it, and the URL that messages show; keeps parts of objects in
//!      |           the cache directory of a session
//!      +--> RemoteObject      one object, pinned to its size and entity tag; caches its headers
//!      +--> RemoteDirectory   the objects below a path: metadata documents and chunks
//!      |
//!      v
//! RemoteStore      bounds the requests in flight
//!      |
//!      v
//! runtime          one thread that runs all requests, so that any thread can wait for them
//! ```

// Only Zarr has directories.
#![cfg_attr(not(feature = "zarr"), allow(dead_code, unused_imports))]

mod directory;
mod failure;
mod object;
mod part;
pub(crate) mod runtime;
mod store;
mod upload;
mod urls;
mod version;

pub use directory::RemoteDirectory;
pub(crate) use directory::partitions::{
    METADATA, PartitionRow, PartitionRows, PlaceOf, ReferencePartitions,
};
pub use directory::references::ReferenceDocument;
pub(crate) use directory::references::References;
pub(crate) use directory::{Found, fetch};
pub(crate) use failure::refused;
pub use object::RemoteObject;
pub(crate) use object::ranges::{FetchedRanges, fetch_ranges, merged};
pub(crate) use part::Part;
pub use store::{RemotePlace, RemoteStore};
pub(crate) use upload::upload;
pub use urls::{credentials, is_url, redacted, without_secrets};
pub(crate) use version::Version;
