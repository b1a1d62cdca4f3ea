//! `tet_files()`: the files that are registered as schemas.

use std::cell::OnceCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::common::Result;

use crate::error::Error;
use crate::provider::introspection::catalogs::ListedSchema;
use crate::provider::introspection::column::Column;
use crate::provider::introspection::listing::Listing;
use crate::provider::introspection::tables::history::instant;
use crate::provider::source::container::{Container, ContainerSummary};

/// Lists one row per file.
pub(crate) struct Files;

/// A file. Its size and modification time are read from the file system on first use.
pub(crate) struct Row {
    container: Arc<dyn Container>,
    path: Option<PathBuf>,
    tables: u64,
    summary: OnceCell<ContainerSummary>,
    on_disk: OnceCell<Result<Option<FileStat>, Error>>,
}

/// The size and modification time of a file, or of all files in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStat {
    bytes: u64,
    /// The latest modification time.
    modified: SystemTime,
}

impl Listing for Files {
    type Row = Row;
    const NAME: &'static str = "tet_files";
    const COLUMNS: &'static [Column<Row>] = &[
        Column::text("path", |row| Ok(Some(row.container.location().to_string()))),
        Column::text("format", |row| Ok(Some(row.container.format().to_string()))),
        Column::number("layout_version", |row| {
            Ok(row.summary().version.map(u64::from))
        }),
        Column::number("generation", |row| Ok(row.summary().generation)),
        Column::number("datasets", |row| Ok(row.summary().datasets)),
        Column::number("tables", |row| Ok(Some(row.tables))),
        Column::number("chunks", |row| Ok(row.summary().chunks)),
        Column::number("stored_bytes", |row| {
            Ok(row.on_disk().ok().flatten().map(|disk| disk.bytes))
        }),
        Column::time("modified", |row| {
            let disk = row.on_disk().ok().flatten();
            Ok(disk.and_then(|disk| micros(disk.modified)))
        }),
        Column::flag("has_zone_maps", |row| Ok(row.summary().has_statistics)),
        Column::text("tool", |row| Ok(row.summary().written_by.tool.clone())),
        Column::text("tool_version", |row| {
            Ok(row.summary().written_by.library_version.clone())
        }),
        Column::time("created", |row| {
            let created = row.summary().written_by.created_at.as_deref();
            Ok(created.and_then(instant))
        }),
        Column::texts("warnings", |row| {
            Ok(Some(row.container.warnings().to_vec()))
        }),
        Column::text("problem", |row| {
            Ok(row.on_disk().err().map(ToString::to_string))
        }),
    ];

    fn rows(schema: &ListedSchema) -> Vec<Row> {
        let containers = schema.container.iter();
        let rows = containers.map(|container| Row {
            container: Arc::clone(container),
            path: schema.path.clone(),
            tables: schema.tables.len() as u64,
            summary: OnceCell::new(),
            on_disk: OnceCell::new(),
        });
        rows.collect()
    }
}

impl Row {
    fn summary(&self) -> &ContainerSummary {
        self.summary.get_or_init(|| self.container.summary())
    }

    /// Returns the size and time in the file system; `None` for a container elsewhere.
    fn on_disk(&self) -> Result<Option<&FileStat>, &Error> {
        let found = self.on_disk.get_or_init(|| {
            let location = Path::new(self.container.location());
            let found = self
                .path
                .as_deref()
                .map(|path| on_disk(path).map_err(Error::io(location, "read the metadata")));
            found.transpose()
        });
        found.as_ref().map(Option::as_ref)
    }
}

/// Reads the size and modification time at a path. Symbolic links inside a directory are counted
/// themselves and not followed.
fn on_disk(path: &Path) -> io::Result<FileStat> {
    let whole = path.metadata()?;
    let mut found = FileStat {
        bytes: 0,
        modified: whole.modified()?,
    };
    if !whole.is_dir() {
        found.bytes = whole.len();
        return Ok(found);
    }
    let mut folders = vec![path.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir()? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                found.bytes = found.bytes.saturating_add(metadata.len());
                found.modified = found.modified.max(metadata.modified()?);
            }
        }
    }
    Ok(found)
}

fn micros(time: SystemTime) -> Option<i64> {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).ok(),
        Err(before) => Some(-i64::try_from(before.duration().as_micros()).ok()?),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_directory_is_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir_all(path.join("a/b")).unwrap();
        fs::write(path.join("one"), [0; 3]).unwrap();
        fs::write(path.join("a/b/two"), [0; 4]).unwrap();
        assert_eq!(on_disk(path).unwrap().bytes, 7);
        assert_eq!(on_disk(&path.join("one")).unwrap().bytes, 3);
        assert!(on_disk(&path.join("none")).is_err());
    }

    #[test]
    fn times_before_1970_are_negative() {
        let second = std::time::Duration::from_secs(1);
        assert_eq!(micros(UNIX_EPOCH + second), Some(1_000_000));
        assert_eq!(micros(UNIX_EPOCH - second), Some(-1_000_000));
    }
}
