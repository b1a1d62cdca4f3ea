//! New arrays, and metadata of arrays.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::hold_removal;
use crate::format::io::target::{TemporaryDirectory, create_directory_beside, sync_name};
use crate::format::tiledb::array::TileDbArray;
use crate::format::tiledb::codecs::{Encoder, EncryptionKey};
use crate::format::tiledb::directory::{MetadataValue, now};
use crate::format::tiledb::fault::Fault;
use crate::format::tiledb::schema::{Enumeration, Schema};
use crate::format::tiledb::writer::bytes::Append;
use crate::format::tiledb::writer::fragment::{Target, new_name, unique, write_synced};
use crate::format::tiledb::writer::schema::{self, WRITTEN_VERSION};
use crate::format::tiledb::writer::tile::put_generic;

/// Directories of a new array. Other writers expect them.
const DIRECTORIES: [&str; 6] = [
    "__schema",
    "__fragments",
    "__commits",
    "__fragment_meta",
    "__meta",
    "__labels",
];

/// Options for writing arrays and fragments.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// The timestamp of the write, in milliseconds since 1970; by default, the current time.
    pub timestamp: Option<u64>,
    /// The key that encrypts a new array. Fragments of an existing array have the key with which it was
    /// opened.
    pub key: Option<EncryptionKey>,
    /// Memory in bytes in which the cells of a sparse fragment are sorted. More cells are sorted with
    /// temporary files.
    pub sort_memory: usize,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            timestamp: None,
            key: None,
            sort_memory: 64 << 20,
        }
    }
}

/// A new array under construction.
///
/// The array is built beside its path under a temporary name. [`Self::finish`] renames it. Dropping the
/// writer deletes the array.
#[derive(Debug)]
pub struct ArrayWriter {
    directory: TemporaryDirectory,
    target: Target,
}

impl ArrayWriter {
    /// Starts an array without cells. `enumerations` are those that attributes of the schema name; the
    /// list in the schema itself is replaced.
    ///
    /// # Errors
    /// Fails if the path exists, if the schema is not one of format version [`Self::VERSION`] that can
    /// be written, or if the directory cannot be created.
    pub fn create(
        path: &Path,
        mut schema: Schema,
        enumerations: &[Enumeration],
        options: &WriteOptions,
    ) -> Result<Self> {
        if path.symlink_metadata().is_ok() {
            return Err(Error::invalid(path, "exists already"));
        }
        let io = |action| Error::io(path, action);
        schema.enumerations.clear();
        for enumeration in enumerations {
            let file = format!("__{}_0", unique().map_err(io("name an enumeration"))?);
            schema.enumerations.push((enumeration.name.clone(), file));
        }
        for dimension in &mut schema.dimensions {
            if dimension.filters.filters().is_empty() {
                dimension.filters = schema.coordinate_filters.clone();
            }
        }
        schema.check_new(path)?;
        let directory = create_directory_beside(path)?;
        let root = directory.path();
        for name in DIRECTORIES {
            std::fs::create_dir(root.join(name)).map_err(io("create"))?;
        }
        let timestamp = options.timestamp.unwrap_or_else(now);
        let target = Target {
            path: path.to_path_buf(),
            root: root.to_path_buf(),
            schema_name: new_name(timestamp).map_err(io("name a schema"))?,
            key: options.key.clone(),
            timestamp,
            sort_memory: options.sort_memory,
            schema: Arc::new(schema),
        };
        let files = root.join("__schema").join("__enumerations");
        if !enumerations.is_empty() {
            std::fs::create_dir(&files).map_err(io("create"))?;
        }
        for (enumeration, (_, file)) in enumerations.iter().zip(&target.schema.enumerations) {
            let payload = schema::encode_enumeration(enumeration, file);
            target.write_generic(&files.join(file), &payload)?;
        }
        let file = root.join("__schema").join(&target.schema_name);
        target.write_generic(&file, &schema::encode(&target.schema))?;
        Ok(Self { directory, target })
    }

    /// The format version of arrays that are written.
    pub const VERSION: u32 = WRITTEN_VERSION;

    /// The schema.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.target.schema
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Sets values of the array's metadata, or deletes them.
    pub fn put_metadata(&self, values: &BTreeMap<String, Option<MetadataValue>>) -> Result<()> {
        self.target.put_metadata(values)
    }

    /// Gives the array its name.
    ///
    /// # Errors
    /// Fails if the name is taken, or the directory cannot be renamed.
    pub fn finish(self) -> Result<()> {
        let path = &self.target.path;
        for name in DIRECTORIES {
            sync_name(&self.directory.path().join(name).join("file"));
        }
        // Shutdown must not be deleting the directory while it becomes the target.
        let held = hold_removal();
        let renamed = std::fs::rename(self.directory.path(), path);
        renamed.map_err(Error::io(path, "move the finished array into place"))?;
        drop(held);
        sync_name(path);
        // The directory is the array now, and no longer temporary.
        self.directory.keep();
        Ok(())
    }
}

impl Schema {
    /// Checks that the schema is one of a new array that can be written. Errors name the path.
    ///
    /// # Errors
    /// Like [`ArrayWriter::create`].
    pub fn check_new(&self, path: &Path) -> Result<()> {
        schema::check(self).map_err(|fault| Error::invalid(path, fault.to_string()))
    }
}

impl TileDbArray {
    /// Sets values of the array's metadata, or deletes them, at a time.
    pub fn put_metadata(
        &self,
        values: &BTreeMap<String, Option<MetadataValue>>,
        options: &WriteOptions,
    ) -> Result<()> {
        target_of(self, options)?.put_metadata(values)
    }
}

/// Returns an existing array to write to.
pub(super) fn target_of(array: &TileDbArray, options: &WriteOptions) -> Result<Target> {
    let version = array.schema().version;
    if version < WRITTEN_VERSION {
        let message = format!(
            "has format version {version}, of which no fragments are written; expected at least \
             {WRITTEN_VERSION}"
        );
        return Err(Error::invalid(array.path(), message));
    }
    Ok(Target {
        path: array.path().to_path_buf(),
        root: array.path().to_path_buf(),
        schema: Arc::clone(array.schema()),
        schema_name: array.schema_name().to_string(),
        key: array.key().cloned(),
        timestamp: options.timestamp.unwrap_or_else(now),
        sort_memory: options.sort_memory,
    })
}

impl Target {
    /// Writes a file that is one generic tile.
    fn write_generic(&self, path: &Path, payload: &[u8]) -> Result<()> {
        let mut bytes = Vec::new();
        put_generic(
            &mut Encoder::default(),
            self.key.as_ref(),
            payload,
            &mut bytes,
        )
        .map_err(|fault| self.invalid(fault))?;
        write_synced(path, &bytes).map_err(|error| self.locate(error))?;
        sync_name(path);
        Ok(())
    }

    fn put_metadata(&self, values: &BTreeMap<String, Option<MetadataValue>>) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        let mut payload = Vec::new();
        for (key, value) in values {
            payload.put_text(key);
            payload.push(u8::from(value.is_none()));
            if let Some(MetadataValue { datatype, bytes }) = value {
                let count = bytes.len() / datatype.size();
                if !bytes.len().is_multiple_of(datatype.size()) || u32::try_from(count).is_err() {
                    let found = format!("{} bytes, for {key:?}", bytes.len());
                    let expected = format!("whole values of {datatype}, less than 2^32");
                    return Err(self.invalid(Fault::new("metadata value", found, expected)));
                }
                payload.push(*datatype as u8);
                payload.put_u32(count as u32);
                payload.put(bytes);
            }
        }
        let directory = self.root.join("__meta");
        std::fs::create_dir_all(&directory).map_err(Error::io(&self.path, "create __meta"))?;
        let name = new_name(self.timestamp).map_err(Error::io(&self.path, "name metadata"))?;
        self.write_generic(&directory.join(name), &payload)
    }
}
