//! Fragments under construction: data files, metadata, and the commit.

mod field;
mod rtree;
mod statistics;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::hold_removal;
use crate::format::io::target::{TemporaryDirectory, create_directory, sync_name};
use crate::format::tiledb::buffers::TileBuffers;
use crate::format::tiledb::codecs::{Encoder, EncryptionKey};
use crate::format::tiledb::fault::Decoded;
use crate::format::tiledb::fragment::{Field, FieldKind};
use crate::format::tiledb::schema::{Interval, Schema};
use crate::format::tiledb::writer::bytes::Append;
use crate::format::tiledb::writer::schema::WRITTEN_VERSION;
use crate::format::tiledb::writer::tile::put_generic;
use field::{FieldWriter, TileFile};
use statistics::list;

pub(super) use field::check_columns;
pub(super) use rtree::{hull, r_tree};
pub(super) use statistics::TileStatistics;

/// An array that fragments are added to.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// The path of the array, which errors name.
    pub path: PathBuf,
    /// The directory of the array: the path, or the temporary directory of a new array.
    pub root: PathBuf,
    pub schema: Arc<Schema>,
    pub schema_name: String,
    pub key: Option<EncryptionKey>,
    /// The timestamp of new fragments, in milliseconds since 1970.
    pub timestamp: u64,
    pub sort_memory: usize,
}

impl Target {
    /// Returns an error about the array.
    pub fn invalid(&self, fault: impl ToString) -> Error {
        Error::invalid(&self.path, fault.to_string())
    }

    /// Makes an error about a file of a temporary directory an error about the array.
    pub fn locate(&self, error: Error) -> Error {
        match self.path == self.root {
            true => error,
            false => error.at(&ErrorLocation::file(&self.path)),
        }
    }
}

/// Returns a new name with a timestamp. Names of one process are in the order in which they are made.
pub(super) fn new_name(timestamp: u64) -> std::io::Result<String> {
    Ok(format!("__{timestamp}_{timestamp}_{}", unique()?))
}

/// Returns a number of 32 hexadecimal digits that no other name has.
pub(super) fn unique() -> std::io::Result<String> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let mut random = [0; 12];
    getrandom::getrandom(&mut random).map_err(std::io::Error::from)?;
    let mut digits = format!("{:08x}", COUNTER.fetch_add(1, Ordering::Relaxed));
    for byte in random {
        digits.push_str(&format!("{byte:02x}"));
    }
    Ok(digits)
}

/// A fragment under construction. It does not count before [`Self::finish`] has committed it; dropping
/// it deletes its files.
#[derive(Debug)]
pub(super) struct FragmentWriter {
    target: Target,
    name: String,
    directory: TemporaryDirectory,
    encoder: Encoder,
    /// The attributes, followed by the dimensions of a sparse array.
    fields: Vec<FieldWriter>,
    tiles: u64,
}

/// The domain, the R-tree and the last tile of a finished fragment.
pub(super) struct Extent {
    /// The smallest and largest coordinate of each dimension.
    pub domain: Vec<Interval>,
    /// The number of cells in the last tile of a sparse fragment, otherwise 0.
    pub last_tile_cells: u64,
    /// The payload of the R-tree.
    pub r_tree: Vec<u8>,
}

impl FragmentWriter {
    /// Starts a fragment of an array.
    pub fn create(target: Target) -> Result<Self> {
        let io = |action| Error::io(&target.path, action);
        let name = new_name(target.timestamp).map_err(io("name a fragment"))?;
        let name = format!("{name}_{WRITTEN_VERSION}");
        let fragments = target.root.join("__fragments");
        std::fs::create_dir_all(&fragments).map_err(io("create __fragments"))?;
        let directory = create_directory(&fragments.join(&name), &target.path)?;
        let schema = &target.schema;
        let attributes = (0..schema.attributes.len()).map(FieldKind::Attribute);
        let dimensions = (0..schema.dimensions.len()).map(FieldKind::Dimension);
        let dimensions = dimensions.filter(|_| schema.is_sparse);
        let mut fields = Vec::new();
        for kind in attributes.chain(dimensions) {
            let slot = match kind {
                FieldKind::Dimension(index) => 1 + schema.attributes.len() + index,
                _ => fields.len(),
            };
            let is_encrypted = target.key.is_some();
            let field = Field::new(schema, kind, slot, WRITTEN_VERSION, is_encrypted)
                .map_err(|fault| target.invalid(fault))?;
            fields.push(FieldWriter::new(directory.path(), field));
        }
        Ok(Self {
            target,
            name,
            directory,
            encoder: Encoder::default(),
            fields,
            tiles: 0,
        })
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns a field: an attribute, or a dimension behind the attributes.
    pub fn field(&self, index: usize) -> &Field {
        &self.fields[index].field
    }

    /// Returns all fields in the order of [`Self::write_tile`].
    pub fn fields(&self) -> impl ExactSizeIterator<Item = &Field> {
        self.fields.iter().map(|writer| &writer.field)
    }

    /// Appends the next tile of a field.
    pub fn write_tile(
        &mut self,
        index: usize,
        cells: &TileBuffers,
        statistics: &TileStatistics,
    ) -> Result<()> {
        let (target, writer) = (&self.target, &mut self.fields[index]);
        let key = target.key.as_ref();
        writer
            .encode_tile(&mut self.encoder, key, cells, statistics)
            .map_err(|fault| target.invalid(format!("field {:?}: {fault}", writer.field.name)))?;
        writer.flush().map_err(|error| target.locate(error))?;
        self.tiles = self.tiles.max(writer.fixed.offsets.len() as u64);
        Ok(())
    }

    /// Writes the metadata and commits the fragment. Returns its name.
    pub fn finish(mut self, extent: &Extent) -> Result<String> {
        let finished = self.fields.iter_mut().try_for_each(FieldWriter::finish);
        finished.map_err(|error| self.target.locate(error))?;
        let path = self.directory.path().join("__fragment_metadata.tdb");
        let metadata = self.metadata(extent);
        let metadata = metadata.map_err(|fault| self.target.invalid(fault))?;
        write_synced(&path, &metadata).map_err(|error| self.target.locate(error))?;
        sync_name(&path);
        sync_name(self.directory.path());
        commit(self.target, self.directory, self.name)
    }

    /// Returns the metadata file.
    fn metadata(&mut self, extent: &Extent) -> Decoded<Vec<u8>> {
        let target = &self.target;
        let schema = &target.schema;
        let slots = 1 + schema.attributes.len() + schema.dimensions.len();
        let mut by_slot: Vec<Option<&FieldWriter>> = vec![None; slots];
        for writer in &self.fields {
            by_slot[writer.field.slot] = Some(writer);
        }
        let zeros = vec![0; self.tiles as usize];
        let of_file = |file: Option<&TileFile>| list(file.map_or(&zeros, |file| &file.offsets));
        let (mut bytes, mut positions) = (Vec::new(), Vec::new());
        let encoder = &mut self.encoder;
        let mut put = |payload: &[u8]| {
            positions.push(bytes.len() as u64);
            put_generic(encoder, target.key.as_ref(), payload, &mut bytes)
        };
        put(&extent.r_tree)?;
        for slot in &by_slot {
            put(&of_file(slot.map(|writer| &writer.fixed)))?;
        }
        for slot in &by_slot {
            put(&of_file(slot.and_then(|writer| writer.variable.as_ref())))?;
        }
        for slot in &by_slot {
            let sizes = slot.map(|writer| &writer.variable_sizes);
            put(&list(
                sizes.filter(|sizes| !sizes.is_empty()).unwrap_or(&zeros),
            ))?;
        }
        for slot in &by_slot {
            put(&of_file(slot.and_then(|writer| writer.validity.as_ref())))?;
        }
        let statistics: Vec<_> = by_slot
            .iter()
            .map(|slot| match slot {
                Some(writer) => writer.statistics.payloads(),
                // Two lengths of zero, or the number of an empty list.
                None => [vec![0; 16], vec![0; 16], vec![0; 8], vec![0; 8]],
            })
            .collect();
        for kind in 0..4 {
            for slot in &statistics {
                put(&slot[kind])?;
            }
        }
        let mut all = Vec::new();
        for slot in &by_slot {
            match slot {
                Some(writer) => writer.statistics.put_all(&mut all),
                None => all.put(&[0; 32]),
            }
        }
        put(&all)?;
        // The number of deletes that were applied.
        put(&[0; 8])?;
        let footer = self.footer(extent, &by_slot, &positions);
        bytes.put(&footer);
        bytes.put_u64(footer.len() as u64);
        Ok(bytes)
    }

    /// Returns the footer. `positions` are those of the generic tiles, in the order of the footer.
    fn footer(
        &self,
        extent: &Extent,
        by_slot: &[Option<&FieldWriter>],
        positions: &[u64],
    ) -> Vec<u8> {
        let schema = &self.target.schema;
        let mut footer = Vec::new();
        footer.put_u32(WRITTEN_VERSION);
        footer.put_text_u64(&self.target.schema_name);
        footer.push(u8::from(!schema.is_sparse));
        // The domain is not empty.
        footer.push(0);
        for (dimension, interval) in schema.dimensions.iter().zip(&extent.domain) {
            footer.put_interval(dimension, interval);
        }
        footer.put_u64(if schema.is_sparse { self.tiles } else { 0 });
        footer.put_u64(extent.last_tile_cells);
        // Neither timestamps nor deletes of cells.
        footer.put(&[0, 0]);
        let length = |file: Option<&TileFile>| file.map_or(0, TileFile::length);
        for slot in by_slot {
            footer.put_u64(length(slot.map(|writer| &writer.fixed)));
        }
        for slot in by_slot {
            footer.put_u64(length(slot.and_then(|writer| writer.variable.as_ref())));
        }
        for slot in by_slot {
            footer.put_u64(length(slot.and_then(|writer| writer.validity.as_ref())));
        }
        footer.put_u64s(positions);
        footer
    }
}

/// Writes and syncs a new file.
pub(super) fn write_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    let _held = hold_removal();
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let written = file.and_then(|mut file: File| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(Error::io(path, "write"))
}

/// Makes a finished fragment count.
fn commit(target: Target, directory: TemporaryDirectory, name: String) -> Result<String> {
    let commits = target.root.join("__commits");
    std::fs::create_dir_all(&commits).map_err(Error::io(&commits, "create"))?;
    // The fragment is kept before it counts: a process that ends in between leaves a directory that
    // readers ignore.
    directory.keep();
    let path = commits.join(format!("{name}.wrt"));
    write_synced(&path, &[]).map_err(|error| target.locate(error))?;
    sync_name(&path);
    Ok(name)
}
