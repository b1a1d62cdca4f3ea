//! `tet_files()`: the files that are registered as schemas.

use std::cell::OnceCell;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::common::Result;

use crate::error::Error;
use crate::format::array::ArrayFile;
use crate::format::array::FileMetadata;
use crate::provider::introspection::catalogs::ListedSchema;
use crate::provider::introspection::column::Column;
use crate::provider::introspection::listing::Listing;
use crate::provider::introspection::tables::history::instant;

/// Lists one row per file.
pub(crate) struct Files;

/// A file. Its size and modification time are read from the file system on first use.
pub(crate) struct Row {
    file: Arc<dyn ArrayFile>,
    tables: u64,
    warnings: Vec<String>,
    on_disk: OnceCell<Result<FileStat, Error>>,
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
        Column::text("path", |row| Ok(Some(row.path().display().to_string()))),
        Column::text("format", |row| Ok(Some(row.file.format().to_string()))),
        Column::number("layout_version", |row| {
            Ok(row.file.layout_version().map(u64::from))
        }),
        Column::number("generation", |row| Ok(row.file.generation())),
        Column::number("datasets", |row| Ok(Some(row.file.datasets().len() as u64))),
        Column::number("tables", |row| Ok(Some(row.tables))),
        Column::number("chunks", |row| Ok(row.file.listed_chunks())),
        Column::number("stored_bytes", |row| {
            Ok(row.on_disk().ok().map(|disk| disk.bytes))
        }),
        Column::time("modified", |row| {
            Ok(row.on_disk().ok().and_then(|disk| micros(disk.modified)))
        }),
        Column::flag("has_zone_maps", |row| Ok(row.file.has_chunk_statistics())),
        Column::text("tool", |row| Ok(row.about(|about| about.tool.clone()))),
        Column::text("tool_version", |row| {
            Ok(row.about(|about| about.library_version.clone()))
        }),
        Column::time("created", |row| {
            Ok(row.about(|about| instant(about.created_at.as_deref()?)))
        }),
        Column::texts("warnings", |row| Ok(Some(row.warnings.clone()))),
        Column::text("problem", |row| {
            Ok(row.on_disk().err().map(ToString::to_string))
        }),
    ];

    fn rows(schema: &ListedSchema) -> Vec<Row> {
        let files = schema.file.iter();
        let rows = files.map(|(file, warnings)| Row {
            file: Arc::clone(file),
            tables: schema.tables.len() as u64,
            warnings: warnings.clone(),
            on_disk: OnceCell::new(),
        });
        rows.collect()
    }
}

impl Row {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn on_disk(&self) -> Result<&FileStat, &Error> {
        let found = self.on_disk.get_or_init(|| {
            let path = self.path();
            on_disk(path).map_err(Error::io(path, "read the metadata"))
        });
        found.as_ref()
    }

    fn about<T>(&self, of: impl FnOnce(&FileMetadata) -> Option<T>) -> Option<T> {
        of(self.file.file_metadata()?)
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
