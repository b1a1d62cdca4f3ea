//! URLs in place of paths: the object stores of a session, and how they are created.
//!
//! ```text
//! 's3://bucket/era5.zarr#t2m'
//!      |
//!      v
//! RemoteStores    of the session: finds the store of a URL, keeps the secrets of URLs
//!      |
//!      v
//! the RuntimeEnv's ObjectStoreRegistry      stores that the program has registered
//!      |  (in sessions of the command: LazyStores)
//!      v
//! create          a store from the environment and OPTIONS, on first use
//! ```
//!
//! DataFusion reads files of rows; `rows` adds patterns and clear errors.

mod aws;
mod checked;
mod connector;
mod create;
mod lazy;
mod location;
mod options;
mod rows;
mod signed;
mod stores;
mod target_check;

pub use lazy::LazyStores;
pub(crate) use location::locate;
pub(crate) use options::{StoreOptions, register, register_for_copy};
pub(crate) use rows::{create_rows, open_rows};
pub use stores::RemoteStores;
pub(crate) use stores::{admitted, place, shown};
pub(in crate::provider) use target_check::TargetCheck;
