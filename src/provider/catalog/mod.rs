//! Sessions, schemas and tables over files: how they are registered, found by name, and configured.

pub mod description;
pub mod external;
pub(crate) mod location;
pub mod many_files;
pub(crate) mod names;
pub mod schema;
pub mod session;
pub mod settings;
pub mod table;
pub(crate) mod url_catalogs;
