//! Sessions, schemas and tables over files: registration, lookup by name, and configuration.

pub mod description;
pub mod external;
#[cfg(feature = "files")]
pub mod files;
pub(crate) mod groups;
pub(crate) mod location;
pub mod many_files;
pub(crate) mod names;
pub(crate) mod open;
#[cfg(any(feature = "proto", feature = "tiledb"))]
pub(crate) mod open_tables;
pub mod opening_warnings;
#[cfg(any(feature = "proto", feature = "tiledb"))]
pub(crate) mod reopen;
pub mod schema;
pub mod session;
pub mod settings;
pub mod table;
pub(crate) mod url_catalogs;
