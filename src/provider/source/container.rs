//! Opened files, directories and groups, as named tables.

use std::any::Any;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use crate::error::Error;
use crate::format::array::{FileMetadata, HistoryRow, MemoryBudget};
use crate::provider::source::BlockSource;

/// An opened file, directory or group: named tables and metadata.
///
/// A [`Format`](crate::provider::adapters::registry::Format) opens containers. A container becomes
/// a schema, with one table per entry of [`Self::tables`]:
///
/// ```text
/// Format::open("ocean.zarr")
///      |
///      v
/// Container   tables()            time, lat, lon, t2m, deep/salinity, time_lat_lon
///      |      table("t2m")
///      v
/// BlockSource
/// ```
///
/// The tables of nested groups have names with slashes: `deep/salinity`.
pub trait Container: Any + Debug + Send + Sync {
    /// The short name of the format, as EXPLAIN and `tet_files()` show it: `tet`.
    fn format(&self) -> &'static str;

    /// The path or URL, as the user gave it.
    fn location(&self) -> &str;

    /// The path of the file or directory; `None` if the container is not in the file system.
    fn path(&self) -> Option<&Path>;

    /// The tables, in the order of the file. Each name occurs once.
    fn tables(&self) -> &[TableEntry];

    /// Opens the table with this exact name; `None` if there is none. Repeated calls should be
    /// cheap, since every query that names the table calls this method.
    ///
    /// # Errors
    /// Returns the reason why a table that the file contains is left out of [`Self::tables`].
    fn table(&self, name: &str) -> Result<Option<Arc<dyn BlockSource>>, Error>;

    /// Problems found on opening that do not prevent reading, such as repeated names and tables
    /// that are left out.
    fn warnings(&self) -> &[String] {
        &[]
    }

    /// The attributes of the container itself, in the order in which `tet_attributes()` shows them.
    fn attributes(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// The metadata that `tet_files()` shows.
    fn summary(&self) -> ContainerSummary {
        ContainerSummary::default()
    }

    /// The steps of the provenance, oldest first.
    fn history(&self) -> &[HistoryRow] {
        &[]
    }

    /// The memory budget that the writer suggests for queries.
    fn memory_budget(&self) -> MemoryBudget {
        MemoryBudget::default()
    }
}

impl dyn Container {
    /// Returns the container as a `T`; `None` if the container is of another type.
    pub fn downcast_ref<T: Container>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// One table of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableEntry {
    /// The name, with the names of nested groups in front: `deep/salinity`.
    pub name: String,
    /// The content of the table.
    pub role: TableRole,
}

impl TableEntry {
    /// Creates the entry of a table with data of its own.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            role: TableRole::Data,
        }
    }
}

/// The content of a table. A container with a single table of the role [`Data`](Self::Data) can be
/// opened without naming that table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableRole {
    /// Data of its own.
    Data,
    /// The coordinates of other tables.
    Coordinates,
    /// Other tables of the container, joined on their dimensions.
    Wide,
}

/// The metadata of a container that `tet_files()` shows. Every field is optional.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContainerSummary {
    /// The version of the format, if the file states one.
    pub version: Option<u32>,
    /// The generation, if the file is replaced by new generations of itself.
    pub generation: Option<u64>,
    /// The number of stored datasets, including unreadable ones.
    pub datasets: Option<u64>,
    /// The number of chunks or other blocks that the file lists.
    pub chunks: Option<u64>,
    /// `true` if the file holds statistics of its chunks or blocks; `None` if the format has none.
    pub has_statistics: Option<bool>,
    /// The program that wrote the file.
    pub written_by: FileMetadata,
}
