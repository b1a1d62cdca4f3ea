//! Open arrays.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::place::Place;
use crate::format::io::storage::Access;
use crate::format::tiledb::codecs::EncryptionKey;
use crate::format::tiledb::dense::{Grid, IndexBox, Window};
use crate::format::tiledb::directory::{
    Commits, Committed, Delete, MetadataValue, Stamp, TimeWindow, files, metadata, now,
};
use crate::format::tiledb::fault::Fault;
use crate::format::tiledb::fragment::{Field, FieldKind, Fragment, open_metadata};
use crate::format::tiledb::schema::{DimensionLabel, Enumeration, Schema};
use crate::format::tiledb::sparse::any_meet;

/// The file with the schema of versions before 10.
const OLD_SCHEMA: &str = "__array_schema.tdb";

/// Options for opening an array or a group.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// The first timestamp to read, in milliseconds since 1970.
    pub timestamp_start: u64,
    /// The last timestamp to read, in milliseconds since 1970; by default, the current time.
    pub timestamp_end: Option<u64>,
    /// The key of an encrypted array or group. Other arrays are read without it.
    pub key: Option<EncryptionKey>,
}

impl OpenOptions {
    /// The window of time to read.
    pub(crate) fn window(&self) -> TimeWindow {
        TimeWindow {
            start: self.timestamp_start,
            end: self.timestamp_end.unwrap_or_else(now),
        }
    }
}

/// An open array.
///
/// Opening reads the schemas, the commits and the footers of fragments. All other metadata is read
/// on first use.
#[derive(Debug)]
pub struct TileDbArray {
    place: Place,
    window: TimeWindow,
    key: Option<EncryptionKey>,
    schema_name: String,
    schema: Arc<Schema>,
    fragments: Vec<Fragment>,
    deletes: Vec<Delete>,
    grid: Option<Grid>,
    /// The cells of each fragment of a dense array.
    boxes: Vec<Option<IndexBox>>,
    enumerations: OnceLock<BTreeMap<String, Arc<Enumeration>>>,
    /// The result of [`Self::sparse_cells`], which scans ask for once per block.
    sparse_cells: OnceLock<Option<u64>>,
}

/// Finds schemas by name, and reads each once.
struct Schemas<'a> {
    directory: Place,
    key: Option<&'a EncryptionKey>,
    known: HashMap<String, Arc<Schema>>,
}

impl Schemas<'_> {
    fn get(&mut self, name: &str) -> Result<Arc<Schema>> {
        if let Some(schema) = self.known.get(name) {
            return Ok(Arc::clone(schema));
        }
        if !files::is_entry_name(name) {
            let location = ErrorLocation::file(self.directory.path());
            let expected = "the name of a file";
            return Err(Error::malformed(
                location,
                "schema name",
                format!("{name:?}"),
                expected,
            ));
        }
        let path = self.directory.join(name);
        let payload = files::read_generic(&path, self.key)?;
        let schema = Schema::parse(&payload);
        let schema = schema.map_err(|fault| fault.at(ErrorLocation::file(path.path())))?;
        let schema = Arc::new(schema);
        self.known.insert(name.to_string(), Arc::clone(&schema));
        Ok(schema)
    }
}

impl TileDbArray {
    /// Returns `true` if a directory is that of an array.
    pub fn recognises(place: impl Into<Place>) -> bool {
        match place.into() {
            Place::Local(path) => path.join("__schema").is_dir() || path.join(OLD_SCHEMA).is_file(),
            #[cfg(feature = "remote")]
            // Errors are reported when the array is opened.
            place => place
                .list()
                .is_ok_and(|names| names.contains("__schema") || names.contains(OLD_SCHEMA)),
        }
    }

    /// Opens the array in a directory.
    ///
    /// # Errors
    /// Fails if there is no array, if its schema, a commit or the footer of a fragment cannot be
    /// read, if the key is wrong or missing, and if the format version is not supported.
    pub fn open(place: impl Into<Place>, options: &OpenOptions, access: Access) -> Result<Self> {
        let place = place.into();
        let path = place.path();
        let window = options.window();
        let key = options.key.as_ref();
        let at = |fault: Fault| fault.at(ErrorLocation::file(path));
        let directory = place.join("__schema");
        let mut names = directory.list()?;
        names.retain(|name| Stamp::parse(name).is_some());
        let is_past =
            |name: &&String| Stamp::parse(name).is_some_and(|stamp| stamp.last <= window.end);
        // Before its first schema, an array has the first one.
        let Some(schema_name) = names.iter().rfind(is_past).or(names.first()).cloned() else {
            let fault = match place.list()?.contains(OLD_SCHEMA) {
                true => Fault::new("format version", "less than 10", "10 to 23"),
                false => Fault::new("path", "no TileDB array", "a directory with __schema"),
            };
            return Err(at(fault));
        };
        // An array that is not encrypted needs no key.
        let key = match key {
            Some(key) => files::is_encrypted(&directory.join(&schema_name))?.then_some(key),
            None => None,
        };
        let mut schemas = Schemas {
            directory,
            key,
            known: HashMap::new(),
        };
        let schema = schemas.get(&schema_name)?;
        let commits = Commits::read(&place, window, schema.is_sparse, key)?;
        let mut fragments = Vec::with_capacity(commits.fragments.len());
        let metadata: Vec<_> = commits.fragments.iter().map(Committed::metadata).collect();
        let metadata = open_metadata(path, &metadata)?;
        for (committed, metadata) in commits.fragments.into_iter().zip(metadata) {
            let fragment = Fragment::open(committed, metadata, access, key, |name| {
                let of_fragment = schemas.get(name)?;
                match has_same_space(&schema, &of_fragment) {
                    true => Ok(of_fragment),
                    false => Err(at(Fault::new(
                        "schema of a fragment",
                        format!("{name} with other dimensions"),
                        format!("the dimensions of {schema_name}"),
                    ))),
                }
            })?;
            fragments.push(fragment);
        }
        let mut array = Self {
            place: place.clone(),
            window,
            key: key.cloned(),
            schema_name,
            fragments,
            deletes: commits.deletes,
            grid: None,
            boxes: Vec::new(),
            enumerations: OnceLock::new(),
            sparse_cells: OnceLock::new(),
            schema,
        };
        if !array.schema.is_sparse {
            let grid = Grid::new(&array.schema).map_err(at)?;
            for fragment in &array.fragments {
                let bounds = fragment.domain().map(|domain| grid.index_box(domain));
                array.boxes.push(bounds.transpose().map_err(at)?);
            }
            array.grid = Some(grid);
        }
        Ok(array)
    }

    /// The path as given to [`Self::open`].
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// Returns `true` if the array is in the file system.
    pub(crate) fn is_local(&self) -> bool {
        self.place.is_local()
    }

    /// The key with which the array was opened.
    pub(crate) fn key(&self) -> Option<&EncryptionKey> {
        self.key.as_ref()
    }

    /// The window of time that is read.
    pub fn window_of_time(&self) -> TimeWindow {
        self.window
    }

    /// The schema at the end of the window of time.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The name of the file of [`Self::schema`].
    pub fn schema_name(&self) -> &str {
        &self.schema_name
    }

    /// The fragments in the window of time, in the order in which they overwrite each other.
    pub fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    /// The deletes in the window of time, in order.
    pub fn deletes(&self) -> &[Delete] {
        &self.deletes
    }

    /// Returns the grid of a dense array.
    pub fn grid(&self) -> Result<&Grid> {
        let sparse = || Error::invalid(self.path(), "a sparse array has no grid of cells");
        self.grid.as_ref().ok_or_else(sparse)
    }

    /// The cells of each fragment of a dense array; `None` for fragments without cells.
    pub fn fragment_boxes(&self) -> &[Option<IndexBox>] {
        &self.boxes
    }

    /// Returns the box that all cells of a dense array lie in that were ever written, or `None` if
    /// there are none.
    pub fn written_box(&self) -> Option<IndexBox> {
        let union = |a: IndexBox, b: &IndexBox| IndexBox {
            ranges: a
                .ranges
                .iter()
                .zip(&b.ranges)
                .map(|(a, b)| a.start.min(b.start)..a.end.max(b.end))
                .collect(),
        };
        let mut boxes = self.boxes.iter().flatten();
        let first = boxes.next()?.clone();
        Some(boxes.fold(first, union))
    }

    /// Finds the sources of a box of cells of a dense array, which must be within one space tile.
    pub fn window(&self, cells: IndexBox) -> Result<Window> {
        Window::new(self, cells)
    }

    /// Returns an attribute of the array's schema in a fragment, or `None` if the fragment has no
    /// such attribute, or one of another kind. Its cells then have the fill value.
    pub fn attribute_in(&self, fragment: usize, attribute: usize) -> Result<Option<Field>> {
        let (Some(fragment), Some(wanted)) = (
            self.fragments.get(fragment),
            self.schema.attributes.get(attribute),
        ) else {
            let message = format!("has no attribute {attribute} in fragment {fragment}");
            return Err(Error::invalid(self.path(), message));
        };
        let Some(index) = fragment.schema().attribute_index(&wanted.name) else {
            return Ok(None);
        };
        let found = &fragment.schema().attributes[index];
        let is_same = found.datatype == wanted.datatype
            && found.cell_values == wanted.cell_values
            && (wanted.is_nullable || !found.is_nullable);
        match is_same {
            true => fragment.field(FieldKind::Attribute(index)).map(Some),
            false => Ok(None),
        }
    }

    /// Returns the number of cells of a sparse array that count, if it follows from the footers of
    /// fragments: no cell is deleted, outside of the window of time, or possibly overwritten.
    pub fn sparse_cells(&self) -> Option<u64> {
        *self.sparse_cells.get_or_init(|| self.count_sparse_cells())
    }

    fn count_sparse_cells(&self) -> Option<u64> {
        let is_whole = |fragment: &Fragment| {
            let (first, last) = fragment.timestamps();
            let is_inside = self.window.start <= first && last <= self.window.end;
            let keeps_versions = fragment.has_timestamps() && !self.schema.allows_duplicates;
            !fragment.has_deletes() && !keeps_versions && (is_inside || !fragment.has_timestamps())
        };
        if !self.schema.is_sparse
            || !self.deletes.is_empty()
            || !self.fragments.iter().all(is_whole)
        {
            return None;
        }
        if !self.schema.allows_duplicates {
            let boxes = self.fragments.iter().filter_map(Fragment::domain);
            if any_meet(boxes.collect()) {
                return None;
            }
        }
        let cells = self.fragments.iter().map(Fragment::sparse_cells);
        cells.into_iter().try_fold(0u64, u64::checked_add)
    }

    /// Returns the enumeration of an attribute, if it has one.
    pub fn enumeration(&self, attribute: usize) -> Result<Option<Arc<Enumeration>>> {
        let attribute = self.schema.attributes.get(attribute);
        let Some(name) = attribute.and_then(|attribute| attribute.enumeration.as_ref()) else {
            return Ok(None);
        };
        let enumerations = match self.enumerations.get() {
            Some(enumerations) => enumerations,
            None => {
                let read = self.read_enumerations()?;
                self.enumerations.get_or_init(|| read)
            }
        };
        match enumerations.get(name) {
            Some(enumeration) => Ok(Some(Arc::clone(enumeration))),
            None => {
                let location =
                    ErrorLocation::part(self.path(), format!("schema {}", self.schema_name));
                let expected = "an enumeration of the schema";
                Err(Error::malformed(
                    location,
                    "enumeration name",
                    format!("{name:?}"),
                    expected,
                ))
            }
        }
    }

    fn read_enumerations(&self) -> Result<BTreeMap<String, Arc<Enumeration>>> {
        let directory = self.place.join("__schema").join("__enumerations");
        let mut enumerations = BTreeMap::new();
        for (name, file) in &self.schema.enumerations {
            let path = directory.join(file);
            let at = |fault: Fault| fault.at(ErrorLocation::file(path.path()));
            if !files::is_entry_name(file) {
                let expected = "the name of a file";
                return Err(at(Fault::new(
                    "enumeration file",
                    format!("{file:?}"),
                    expected,
                )));
            }
            let payload = files::read_generic(&path, self.key.as_ref())?;
            let enumeration = Enumeration::parse(&payload).map_err(at)?;
            enumerations.insert(name.clone(), Arc::new(enumeration));
        }
        Ok(enumerations)
    }

    /// Reads the metadata of the array as of the end of the window of time.
    pub fn metadata(&self) -> Result<BTreeMap<String, MetadataValue>> {
        metadata::read(&self.place, self.window, self.key.as_ref())
    }

    /// Opens the array of a dimension label, with the window of time and the key of this array.
    ///
    /// # Errors
    /// Like [`Self::open`]; also if the label is stored outside of the array's directory.
    pub fn open_label(&self, label: &DimensionLabel, access: Access) -> Result<Self> {
        let Some(place) = self.label_place(label) else {
            let (name, location) = (&label.name, &label.location);
            let message = format!(
                "the label {name:?} is stored in {location}, which is outside of the array"
            );
            return Err(Error::invalid(self.path(), message));
        };
        let options = OpenOptions {
            timestamp_start: self.window.start,
            timestamp_end: Some(self.window.end),
            key: self.key.clone(),
        };
        Self::open(place, &options, access)
    }

    /// Returns the path of the array of a dimension label, or `None` if it is not below the array's
    /// directory.
    pub fn label_path(&self, label: &DimensionLabel) -> Option<PathBuf> {
        let place = self.label_place(label)?;
        Some(place.path().to_path_buf())
    }

    fn label_place(&self, label: &DimensionLabel) -> Option<Place> {
        match label.is_relative {
            true => files::place_below(&self.place, &label.location),
            false => None,
        }
    }
}

/// Returns `true` if cells of both schemas have the same coordinates and the same place.
fn has_same_space(a: &Schema, b: &Schema) -> bool {
    let is_same_order = a.tile_order == b.tile_order && a.cell_order == b.cell_order;
    let is_sparse = a.is_sparse;
    is_sparse == b.is_sparse
        && (is_sparse || is_same_order)
        && a.dimensions.len() == b.dimensions.len()
        && a.dimensions.iter().zip(&b.dimensions).all(|(a, b)| {
            a.name == b.name
                && a.datatype == b.datatype
                && a.domain == b.domain
                // libtiledb adds extents to sparse dimensions without one when a schema evolves.
                && (is_sparse || a.extent == b.extent)
        })
}
