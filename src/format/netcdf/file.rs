//! An open classic NetCDF file.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::{
    ArrayFile, Dataset, DatasetMetadata, DecodeContext, GroupAttributes, Listing, Payload,
    StoredChunk,
};
#[cfg(feature = "remote")]
use crate::format::array::{ChunkBytes, LocatedChunk};
use crate::format::io::identity::FileIdentity;
#[cfg(feature = "remote")]
use crate::format::io::remote::RemoteObject;
use crate::format::io::storage::{Access, Storage};
use crate::format::netcdf::attributes::{self, Encoding};
use crate::format::netcdf::cells::{self, Swapped};
use crate::format::netcdf::contents::{Broken, Contents};
use crate::format::netcdf::element::Element;
use crate::format::netcdf::header::{Header, Variable};
use crate::format::netcdf::layout::{Records, Runs, VariableLayout};
use crate::format::netcdf::text::{Budget, Codes, Exceeded, NewCodes};

/// An open classic NetCDF file, whose variables are datasets.
///
/// | NetCDF type | Dataset type |
/// | --- | --- |
/// | `byte` | `i8`; `u8` with the attribute `_Unsigned` |
/// | `char` | `i64` codes with [categories](crate::format::array::Categories) |
/// | `ubyte` | `u8` |
/// | other integers, `float`, `double` | the same type; unsigned with the attribute `_Unsigned` |
///
/// The last dimension of a variable of characters holds the characters of a string if only such
/// variables use the dimension, and use it last; otherwise each character is a string. This is the
/// rule of xarray.
///
/// Single bytes that lie together are used in place. All other cells are converted as they are
/// read. A file that is cut off after its header can be opened; reading the missing cells is an
/// error.
///
/// ```
/// use tet_sql::Access;
/// use tet_sql::format::array::ArrayFile;
/// use tet_sql::format::netcdf::NetcdfFile;
///
/// let word = |number: u32| number.to_be_bytes();
/// let header = [
///     *b"CDF\x01", word(0),                      // version 1, no records
///     word(10), word(1),                         // one dimension:
///     word(1), *b"x\0\0\0", word(3),             // x = 3
///     word(0), word(0),                          // no attributes
///     word(11), word(1),                         // one variable:
///     word(1), *b"v\0\0\0", word(1), word(0),    // v(x)
///     word(0), word(0), word(4), word(12),       // no attributes, type int, 12 bytes
///     word(80),                                  // at offset 80
/// ];
/// let cells = [word(7), word(8), word(9)];
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("small.nc");
/// std::fs::write(&path, [header.concat(), cells.concat()].concat())?;
///
/// let file = NetcdfFile::open(&path, Access::Pread)?;
/// let dataset = file.dataset("v").expect("the variable");
/// assert_eq!(dataset.shape(), [3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct NetcdfFile {
    listing: Listing,
    storage: Arc<Storage>,
    version: u8,
    /// The attributes of the file, which has no groups.
    groups: GroupAttributes,
    arrays: Vec<Array>,
}

/// A variable of the file.
#[derive(Debug)]
struct Array {
    metadata: DatasetMetadata,
    element: Element,
    layout: VariableLayout,
    /// The codes of strings.
    codes: Option<Codes>,
}

impl NetcdfFile {
    /// Opens a file, and reads its header and its strings.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or its header is cut off or malformed. Variables that
    /// cannot be read are left out with a warning.
    pub fn open(path: impl AsRef<Path>, access: Access) -> Result<Self> {
        let path = path.as_ref();
        Self::read(path, Arc::new(Storage::open(path)?), access)
    }

    /// Opens a file in an object store.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    #[cfg(feature = "remote")]
    pub fn open_remote(object: Arc<RemoteObject>) -> Result<Self> {
        let path = object.path().to_path_buf();
        Self::read(&path, Arc::new(Storage::remote(object)), Access::Pread)
    }

    fn read(path: &Path, storage: Arc<Storage>, access: Access) -> Result<Self> {
        let header = Header::read(&storage)?;
        let Some(records) = Records::of(&header, storage.length()) else {
            let location = ErrorLocation::file(path);
            let expected = "a size below 2^64 bytes";
            return Err(Error::malformed(
                location,
                "record size",
                "too large",
                expected,
            ));
        };
        let mut listing = Listing::new(path, access);
        let mut leave_out = |what| listing.warn([format!("{}: {what}", path.display())]);
        let attributes = attributes::of_file(&header.attributes, &mut leave_out);
        let mut file = Self {
            listing,
            version: header.version,
            groups: GroupAttributes::from([(String::new(), attributes)]),
            arrays: Vec::new(),
            storage,
        };
        let contents = Contents::new(&header, records);
        let mut budget = Budget::default();
        let mut end = 0;
        for variable in &header.variables {
            match file.push(&contents, variable, &mut budget) {
                Ok(end_of_variable) => end = end_of_variable.max(end),
                Err(error) => {
                    let warning = format!("{error}; the variable is left out");
                    file.listing.warn([warning]);
                }
            }
        }
        let length = file.storage.length();
        if end > length {
            file.listing.warn_of_damage(format!(
                "{}: the file has {length} bytes, but its variables end at byte {end}; the missing \
                 cells cannot be read",
                path.display()
            ));
        }
        Ok(file)
    }

    /// Adds a variable. Returns the end of its last cell in the file.
    fn push(
        &mut self,
        contents: &Contents<'_>,
        variable: &Variable,
        budget: &mut Budget,
    ) -> Result<u64> {
        let malformed = |(field, found, expected): Broken| {
            let location = ErrorLocation::dataset(self.listing.path(), &variable.name);
            Error::malformed(location, field, found, expected)
        };
        let (shape, names, width) = contents.shape(variable).map_err(malformed)?;
        let is_unsigned = attributes::unsigned(&variable.attributes);
        let element = Element::of(variable.nc_type, is_unsigned, width);
        let layout = VariableLayout {
            begin: variable.begin,
            cell: element.stored_size(),
            record: contents
                .has_records(variable)
                .then_some(contents.records.size),
        };
        let dtype = element.dtype();
        let chunk_shape = layout.chunk_shape(&shape, dtype.size());
        let number = self.arrays.len();
        let dataset = Dataset::new(number, &variable.name, dtype, &shape, &chunk_shape);
        dataset.check(self.listing.path())?;
        let runs = all_cells(&dataset, layout);
        let Some((runs, end)) = runs.and_then(|runs| Some((runs, runs.end()?))) else {
            let found = format!("{} for cells of shape {shape:?}", variable.begin);
            let expected = "an end below 2^64 bytes".to_string();
            return Err(malformed(("begin", found, expected)));
        };
        let has_cells = !shape.contains(&0);
        if has_cells && variable.begin < contents.header.length {
            let expected = format!("at least {}, the end of the header", contents.header.length);
            return Err(malformed(("begin", variable.begin.to_string(), expected)));
        }
        // The NetCDF library has written this value to cells that were never written. Coordinates
        // have no such cells.
        let is_coordinate = matches!(names.as_slice(), [only] if *only == variable.name);
        let default_fill = attributes::default_fill(&variable.attributes, variable.nc_type);
        let mut warnings = Vec::new();
        let attrs = attributes::of_variable(&variable.attributes, element, &mut |what| {
            let location = ErrorLocation::dataset(self.listing.path(), &variable.name);
            warnings.push(format!("{location}: {what}"));
        });
        let mut metadata = DatasetMetadata {
            attrs,
            dim_names: names,
            default_fill: default_fill.filter(|_| !is_coordinate),
            ..DatasetMetadata::default()
        };
        let mut codes = None;
        if let Element::Text(width) = element {
            let (of_variable, attributes) = self.read_texts(variable, width, runs, budget)?;
            metadata.attrs.extend(attributes);
            codes = Some(of_variable);
        }
        self.listing.warn(warnings);
        self.listing.push(dataset);
        self.arrays.push(Array {
            metadata,
            element,
            layout,
            codes,
        });
        Ok(if has_cells { end } else { 0 })
    }

    /// Reads the strings of a variable, as far as the file has them, and assigns a code to each.
    fn read_texts(
        &self,
        variable: &Variable,
        width: u64,
        runs: Runs,
        budget: &mut Budget,
    ) -> Result<(Codes, Vec<(String, String)>)> {
        let malformed = |exceeded: Exceeded| {
            let location = ErrorLocation::dataset(self.listing.path(), &variable.name);
            let Exceeded { field, found, most } = exceeded;
            Error::malformed(location, field, found, format!("at most {most}"))
        };
        let encoding = Encoding::of(&variable.attributes);
        let nulls = attributes::null_texts(&variable.attributes, encoding);
        let mut codes = NewCodes::new(width, encoding, &nulls).map_err(malformed)?;
        let runs = runs.within(self.storage.length(), width);
        let bytes = runs.length.saturating_mul(runs.count);
        if codes.must_read(bytes, budget).map_err(malformed)? {
            cells::visit(&self.storage, runs, width, &mut Vec::new(), |stored| {
                let mut texts = stored.chunks_exact(width as usize);
                texts
                    .try_for_each(|text| codes.add(text))
                    .map_err(malformed)
            })?;
        }
        Ok(codes.finish())
    }

    fn array(&self, dataset: &Dataset) -> Result<&Array> {
        self.listing.of(dataset, &self.arrays)
    }

    /// Returns the byte ranges of a chunk, checked against the length of the file.
    fn runs(&self, dataset: &Dataset, array: &Array, chunk: &[u64]) -> Result<Runs> {
        self.listing.check_chunk(dataset, chunk)?;
        let runs = array.layout.runs(dataset, chunk);
        let end = runs.and_then(|runs| runs.end()).unwrap_or(u64::MAX);
        match runs {
            Some(runs) if end <= self.storage.length() => Ok(runs),
            _ => Err(Error::malformed(
                ErrorLocation::chunk(self.listing.path(), &dataset.name, chunk),
                "file length",
                format!("{} bytes", self.storage.length()),
                format!("at least {end} bytes, the end of this chunk"),
            )),
        }
    }
}

impl ArrayFile for NetcdfFile {
    fn format(&self) -> &'static str {
        "netcdf"
    }

    fn listing(&self) -> &Listing {
        &self.listing
    }

    fn metadata(&self, dataset: &Dataset) -> Option<&DatasetMetadata> {
        self.array(dataset).ok().map(|array| &array.metadata)
    }

    fn groups(&self) -> Option<&GroupAttributes> {
        Some(&self.groups)
    }

    fn attributes_describe_cells(&self) -> bool {
        true
    }

    fn layout_version(&self) -> Option<u32> {
        Some(self.version.into())
    }

    fn has_chunks(&self, _dataset: &Dataset) -> bool {
        false
    }

    fn identity(&self, _dataset: &Dataset) -> Result<FileIdentity> {
        self.storage.identity()
    }

    fn chunk(&self, dataset: &Dataset, chunk: &[u64], _access: Access) -> Result<StoredChunk> {
        let array = self.array(dataset)?;
        let runs = self.runs(dataset, array, chunk)?;
        let payload = match runs.count == 1 && array.element.is_stored_as_cells() {
            true => Payload::Raw(runs.start),
            false => Payload::Encoded("big-endian"),
        };
        Ok(StoredChunk {
            raw_bytes: dataset.chunk_bytes(array.element.dtype(), chunk),
            stored_bytes: runs.length * runs.count,
            payload,
        })
    }

    fn storage(&self, _dataset: &Dataset) -> Result<Arc<Storage>> {
        Ok(Arc::clone(&self.storage))
    }

    #[cfg(feature = "remote")]
    fn is_remote(&self) -> bool {
        self.storage.object().is_some()
    }

    #[cfg(feature = "remote")]
    fn locate(&self, dataset: &Dataset, chunk: &[u64]) -> Result<LocatedChunk> {
        let stored = self.chunk(dataset, chunk, Access::Pread)?;
        let array = self.array(dataset)?;
        let runs = self.runs(dataset, array, chunk)?;
        let bytes = match self.storage.object() {
            Some(object) if runs.count == 1 => {
                let range = runs.start..runs.start + runs.length;
                ChunkBytes::InFile(Arc::clone(object), range)
            }
            // Records of several variables are interleaved.
            Some(object) if runs.length > 0 => {
                let ranges = (0..runs.count).map(|run| {
                    let start = runs.start + run * runs.stride;
                    start..start + runs.length
                });
                ChunkBytes::Ranges(Arc::clone(object), ranges.collect())
            }
            _ => ChunkBytes::None,
        };
        Ok(LocatedChunk { stored, bytes })
    }

    #[cfg(feature = "remote")]
    fn decode_fetched(
        &self,
        dataset: &Dataset,
        chunk: &[u64],
        bytes: Option<&[u8]>,
        context: &mut DecodeContext,
    ) -> Result<()> {
        let Some(bytes) = bytes else {
            return self.decode(dataset, chunk, context);
        };
        let array = self.array(dataset)?;
        let cells = &mut context.cells;
        if let (Element::Text(width), Some(codes)) = (array.element, &array.codes) {
            cells.clear();
            let location = || ErrorLocation::chunk(self.listing.path(), &dataset.name, chunk);
            return codes.push(bytes, width, cells, location);
        }
        let mut swapped = Swapped::new(cells, array.layout.cell);
        swapped.push(bytes);
        swapped.finish();
        Ok(())
    }

    fn decode(&self, dataset: &Dataset, chunk: &[u64], context: &mut DecodeContext) -> Result<()> {
        let array = self.array(dataset)?;
        let runs = self.runs(dataset, array, chunk)?;
        let location = || ErrorLocation::chunk(self.listing.path(), &dataset.name, chunk);
        let DecodeContext { cells, stored, .. } = context;
        let unit = array.layout.cell;
        let mut visit = |take: &mut dyn FnMut(&[u8]) -> Result<()>| {
            let visited = cells::visit(&self.storage, runs, unit, stored, take);
            visited.map_err(|error| error.at(&location()))
        };
        match (array.element, &array.codes) {
            (Element::Text(width), Some(codes)) => {
                cells.clear();
                visit(&mut |stored| codes.push(stored, width, cells, location))
            }
            _ if runs.count == 1 => {
                let Runs { start, length, .. } = runs;
                let read = cells::read_swapped(&self.storage, start, length, unit, cells);
                read.map_err(|error| error.at(&location()))
            }
            _ => {
                let mut swapped = Swapped::new(cells, unit);
                visit(&mut |stored| {
                    swapped.push(stored);
                    Ok(())
                })?;
                swapped.finish();
                Ok(())
            }
        }
    }
}

/// Returns the byte ranges of all cells of a dataset. Returns `None` if offsets overflow.
fn all_cells(dataset: &Dataset, layout: VariableLayout) -> Option<Runs> {
    if dataset.shape.contains(&0) {
        return Some(Runs {
            start: 0,
            length: 0,
            count: 0,
            stride: 0,
        });
    }
    let whole = Dataset {
        chunk_shape: dataset.shape.clone(),
        ..dataset.clone()
    };
    layout.runs(&whole, &vec![0; dataset.shape.len()])
}
