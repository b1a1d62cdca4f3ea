//! Fragments: the cells of one write, or of several writes that were consolidated.

mod field;
pub(crate) mod footer;
mod rtree;
mod statistics;
mod summary;
mod tiles;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::error::{Error, ErrorLocation, Result};
#[cfg(feature = "remote")]
use crate::format::io::parallel::call_all;
use crate::format::io::place::Place;
use crate::format::io::storage::{Access, Storage};
use crate::format::tiledb::codecs::{Codecs, EncryptionKey};
use crate::format::tiledb::dense::Grid;
use crate::format::tiledb::directory::{Committed, Region, Stamp};
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::schema::{Interval, Schema};
use crate::format::tiledb::tile::{GENERIC_HEADER_BYTES, GenericHeader};
use footer::Footer;
use tiles::Slot;

pub(crate) use field::FieldFile;
pub use field::{Field, FieldKind};
pub use rtree::{Coordinates, TileBounds};
pub use statistics::{FieldStatistics, TileValues};
pub use summary::TileSummary;

/// Maximum length of a footer in bytes.
const MAX_FOOTER_BYTES: u64 = 1 << 28;
/// Length of the end of a metadata file that is read at once.
const TAIL_BYTES: u64 = 4096;
/// Maximum number of cells in a tile.
pub(crate) const MAX_TILE_CELLS: u64 = 1 << 31;

/// A fragment of an array. Opening reads its footer; all other metadata is read on first use.
#[derive(Debug)]
pub struct Fragment {
    name: String,
    stamp: Stamp,
    directory: Place,
    schema: Arc<Schema>,
    footer: Footer,
    metadata: Storage,
    access: Access,
    key: Option<EncryptionKey>,
    /// The number of data tiles.
    tiles: u64,
    /// The number of cells in a tile, except for the last tile of a sparse fragment.
    tile_cells: u64,
    slots: Vec<Slot>,
    bounds: OnceLock<Arc<TileBounds>>,
    processed: OnceLock<Vec<String>>,
}

/// Opens the metadata files of several fragments, and reads the ends of those in an object store, where the
/// footers are.
pub(crate) fn open_metadata(path: &Path, places: &[Place]) -> Result<Vec<Storage>> {
    #[cfg(feature = "remote")]
    if !places.iter().all(Place::is_local) {
        return call_all(path, places, |place| {
            let storage = place.open()?;
            let tail = storage.length().min(TAIL_BYTES);
            storage.read_range(Access::Pread, storage.length() - tail..storage.length())?;
            Ok(storage)
        });
    }
    let _ = path;
    places.iter().map(Place::open).collect()
}

impl Fragment {
    /// Opens a fragment with this metadata file. `schema` finds the schema with a name.
    pub(crate) fn open(
        committed: Committed,
        metadata: Storage,
        access: Access,
        key: Option<&EncryptionKey>,
        schema: impl FnOnce(&str) -> Result<Arc<Schema>>,
    ) -> Result<Self> {
        let path = metadata.path().to_path_buf();
        let at = |fault: Fault| fault.at(ErrorLocation::part(&path, "footer"));
        // Most footers are read together with their length, at the end of the file.
        let tail = metadata.length().min(TAIL_BYTES);
        let tail =
            metadata.read_range(Access::Pread, metadata.length() - tail..metadata.length())?;
        let Some((rest, length)) = tail.split_last_chunk::<8>() else {
            let found = format!("{} bytes", metadata.length());
            return Err(at(Fault::new("file length", found, "at least 8 bytes")));
        };
        let (end, length) = (metadata.length() - 8, u64::from_le_bytes(*length));
        if length > end.min(MAX_FOOTER_BYTES) {
            let expected = format!("at most {} bytes", end.min(MAX_FOOTER_BYTES));
            return Err(at(Fault::new("footer length", length, expected)));
        }
        let bytes = match rest.len().checked_sub(length as usize) {
            Some(start) => rest[start..].to_vec(),
            None => metadata.read_range(Access::Pread, end - length..end)?,
        };
        let schema = schema(&footer::schema_name(&bytes).map_err(at)?)?;
        let footer = Footer::parse(&bytes, &schema).map_err(at)?;
        let (tiles, tile_cells) = if schema.is_sparse {
            (footer.sparse_tiles, schema.capacity)
        } else {
            let grid = Grid::new(&schema).map_err(at)?;
            let tiles = match &footer.domain {
                Some(domain) => grid.tile_box(&grid.index_box(domain).map_err(at)?).cells(),
                None => Some(0),
            };
            let too_many = || at(Fault::new("non-empty domain", "too large", "fewer tiles"));
            (tiles.ok_or_else(too_many)?, grid.tile_cells())
        };
        let slots = std::iter::repeat_with(Slot::default).take(footer.file_sizes.len());
        Ok(Self {
            name: committed.name,
            stamp: committed.stamp,
            directory: committed.directory,
            slots: slots.collect(),
            schema,
            footer,
            metadata,
            access,
            key: key.cloned(),
            tiles,
            tile_cells,
            bounds: OnceLock::new(),
            processed: OnceLock::new(),
        })
    }

    /// The name of the fragment.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The directory of the fragment.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The first and the last timestamp of the writes, in milliseconds since 1970.
    pub fn timestamps(&self) -> (u64, u64) {
        (self.stamp.first, self.stamp.last)
    }

    /// The format version.
    pub fn version(&self) -> u32 {
        self.footer.version
    }

    /// The schema with which the fragment was written.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The smallest and largest coordinate of each dimension, or `None` if there are no cells. In a
    /// dense fragment, all cells of this box were written.
    pub fn domain(&self) -> Option<&[Interval]> {
        self.footer.domain.as_deref()
    }

    /// The number of data tiles.
    pub fn tiles(&self) -> u64 {
        self.tiles
    }

    /// Returns the number of cells in a tile, with the padding of dense tiles.
    pub fn cells(&self, tile: u64) -> u64 {
        if self.schema.is_sparse && self.tiles.checked_sub(1) == Some(tile) {
            self.footer.last_tile_cells
        } else {
            self.tile_cells
        }
    }

    /// The number of cells of a sparse fragment, including duplicates and deleted cells.
    ///
    /// Saturates at `u64::MAX`.
    pub fn sparse_cells(&self) -> u64 {
        match self.tiles {
            0 => 0,
            tiles => (tiles - 1)
                .saturating_mul(self.tile_cells)
                .saturating_add(self.footer.last_tile_cells),
        }
    }

    /// Returns `true` if each cell has its own timestamp.
    pub fn has_timestamps(&self) -> bool {
        self.footer.has_timestamps
    }

    /// Returns `true` if each cell has the time at which it was deleted.
    pub fn has_deletes(&self) -> bool {
        self.footer.has_deletes
    }

    /// Returns the total size of the data files in bytes, as the footer states it.
    pub fn stored_bytes(&self) -> u64 {
        let footer = &self.footer;
        let files = [
            &footer.file_sizes,
            &footer.variable_file_sizes,
            &footer.validity_file_sizes,
        ];
        files
            .into_iter()
            .flatten()
            .fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Returns the attribute or, in a sparse fragment, the dimension with a name.
    ///
    /// # Errors
    /// Fails if the field has a filter that cannot be decoded.
    pub fn field_named(&self, name: &str) -> Result<Option<Field>> {
        if let Some(index) = self.schema.attribute_index(name) {
            return self.field(FieldKind::Attribute(index)).map(Some);
        }
        match self.schema.dimension_index(name) {
            Some(index) if self.schema.is_sparse => {
                self.field(FieldKind::Dimension(index)).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Returns a field, ready to be read.
    ///
    /// # Errors
    /// Fails if the fragment has no such field, or if the field has a filter that cannot be decoded.
    pub fn field(&self, kind: FieldKind) -> Result<Field> {
        let missing = || Error::invalid(self.directory(), format!("the fragment has no {kind:?}"));
        let schema = &self.schema;
        let first = 1 + schema.attributes.len() + schema.dimensions.len();
        let (exists, slot) = match kind {
            FieldKind::Attribute(index) => (index < schema.attributes.len(), index),
            FieldKind::Dimension(index) => (
                schema.is_sparse && index < schema.dimensions.len(),
                1 + schema.attributes.len() + index,
            ),
            FieldKind::Timestamps => (self.has_timestamps(), first),
            FieldKind::DeleteTimes => (
                self.has_deletes(),
                first + usize::from(self.has_timestamps()),
            ),
        };
        if !exists {
            return Err(missing());
        }
        let is_encrypted = self.key.is_some();
        Field::new(schema, kind, slot, self.footer.version, is_encrypted)
            .map_err(|fault| fault.at(ErrorLocation::file(self.directory())))
    }

    /// Returns the bounding boxes of the tiles of a sparse fragment.
    ///
    /// # Errors
    /// Fails if the fragment is dense, and if the R-tree cannot be read.
    pub fn bounds(&self) -> Result<&Arc<TileBounds>> {
        if !self.schema.is_sparse {
            return Err(Error::invalid(
                self.directory(),
                "a dense fragment has no R-tree",
            ));
        }
        if let Some(bounds) = self.bounds.get() {
            return Ok(bounds);
        }
        let bounds = self.generic(self.footer.r_tree, "R-tree", |payload| {
            TileBounds::parse(payload, &self.schema, self.tiles)
        })?;
        Ok(self.bounds.get_or_init(|| Arc::new(bounds)))
    }

    /// Returns `true` if the bounding boxes of tiles were read.
    #[cfg(test)]
    pub(crate) fn has_read_bounds(&self) -> bool {
        self.bounds.get().is_some()
    }

    /// Returns the paths of deletes, relative to the array, that were applied when the fragment was
    /// written.
    pub fn processed_deletes(&self) -> Result<&[String]> {
        if let Some(markers) = self.processed.get() {
            return Ok(markers);
        }
        let markers = match self.footer.processed_deletes {
            Some(offset) => {
                let part = "processed deletes";
                self.generic(offset, part, statistics::parse_processed_deletes)?
            }
            None => Vec::new(),
        };
        Ok(self.processed.get_or_init(|| markers))
    }

    /// Reads and parses a generic tile of the metadata file.
    fn generic<T>(
        &self,
        offset: u64,
        part: &str,
        parse: impl FnOnce(&[u8]) -> Decoded<T>,
    ) -> Result<T> {
        let location = || ErrorLocation::part(self.metadata.path(), part);
        let header_end = offset.saturating_add(GENERIC_HEADER_BYTES as u64);
        let mut region = Region::default();
        let header = region.read(&self.metadata, self.access, offset..header_end)?;
        let header = GenericHeader::parse(header).map_err(|fault| fault.at(location()))?;
        let end = header_end.saturating_add(header.body_bytes());
        let body = region.read(&self.metadata, self.access, header_end..end)?;
        let payload = header.decode(&mut Codecs::default(), self.key.as_ref(), body);
        payload
            .and_then(|payload| parse(&payload))
            .map_err(|fault| fault.at(location()))
    }

    pub(crate) fn access(&self) -> Access {
        self.access
    }

    pub(crate) fn key(&self) -> Option<&EncryptionKey> {
        self.key.as_ref()
    }
}
