//! An open `.npy` or `.npz` file.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::{
    ArrayFile, Categories, Dataset, DatasetMetadata, DecodeContext, Listing, Payload, StoredChunk,
    Warnings, checked_product,
};
#[cfg(feature = "remote")]
use crate::format::array::{ChunkBytes, LocatedChunk};
use crate::format::io::identity::FileIdentity;
#[cfg(feature = "remote")]
use crate::format::io::remote::RemoteObject;
use crate::format::io::storage::{Access, Storage};
use crate::format::npy::element::{Element, NpyKind};
use crate::format::npy::header::{Header, MAX_HEADER};
use crate::format::npy::layout::{chunk_shape, transposed};
use crate::format::npy::members::{self, MAX_MEMBERS, Member};

/// Maximum number of strings in an array, since their codes are kept in memory.
const MAX_TEXTS: u64 = 1 << 16;
/// Maximum length of a string in bytes.
const MAX_TEXT: usize = 1024;
/// Fields of errors about arrays that are not supported. Other errors mean damage.
const UNSUPPORTED: [&str; 4] = ["descr", "npy version", "number of strings", "element"];
/// The code for null. No element has it, since NumPy strings are never null.
const MISSING_TEXT: i64 = -1;

/// An open NumPy file.
///
/// A `.npy` file holds one array, named after the file's stem. A `.npz` file holds any number of
/// arrays, named after the archive's members.
///
/// | NumPy type | Dataset type |
/// | --- | --- |
/// | bool | `u8` |
/// | `datetime64`, `timedelta64` | `i64` with CF time units; NaT is the fill value |
/// | strings (`S`, `U`) | `i64` codes with [categories](crate::format::array::Categories) |
/// | other integers, floats up to 64 bits | the same type |
///
/// Arrays of other types are left out of a `.npz` file with a warning; a `.npy` file of one is an
/// error.
///
/// Cells are used in place if their bytes and their order are those of a dataset. Otherwise they
/// are transposed, widened or converted as they are read. An array in a compressed member is
/// decompressed to a temporary file on the first read.
///
/// ```
/// use tet_sql::Access;
/// use tet_sql::format::array::ArrayFile;
/// use tet_sql::format::npy::NpyFile;
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("small.npy");
/// let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }\n";
/// let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
/// bytes.extend((header.len() as u16).to_le_bytes());
/// bytes.extend(header.bytes());
/// bytes.extend([1, 2, 3, 4, 5, 6]);
/// std::fs::write(&path, bytes)?;
///
/// let file = NpyFile::open(&path, Access::Pread)?;
/// let dataset = file.dataset("small").expect("named after the file");
/// assert_eq!(dataset.shape(), [2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct NpyFile {
    listing: Listing,
    file: Arc<Storage>,
    arrays: Vec<Array>,
    /// The members that are not compressed. Reads do not verify their CRC-32.
    stored: Vec<Member>,
}

/// An array of the file.
#[derive(Debug)]
struct Array {
    source: Source,
    metadata: DatasetMetadata,
    element: Element,
    fortran_order: bool,
    cells_offset: u64,
    /// For strings, the code of each element in file order; otherwise empty.
    codes: Vec<i64>,
}

/// The location of an array's bytes.
#[derive(Debug)]
enum Source {
    /// In the opened file itself.
    InFile(Arc<Storage>),
    /// In a temporary file that is created on the first read.
    Compressed(Member, Mutex<Option<(tempfile::TempPath, Arc<Storage>)>>),
}

impl NpyFile {
    /// Opens a file, and reads the headers of its arrays and the elements of string arrays.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is not a NumPy file. An array of a `.npz` file that
    /// cannot be read, or whose header is unusable, is left out with a warning.
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
        let mut file = Self {
            listing: Listing::new(path, access),
            file: Arc::clone(&storage),
            arrays: Vec::new(),
            stored: Vec::new(),
        };
        if !members::is_archive(&storage)? {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let length = storage.length().min(MAX_HEADER as u64);
            let start = storage.read_range(Access::Pread, 0..length)?;
            let length = storage.length();
            file.push(&stem, &start, 0, length, Source::InFile(storage))?;
            return Ok(file);
        }
        let mut warnings = Warnings::default();
        let listed = members::list(&storage, MAX_MEMBERS, &mut warnings)?;
        file.listing.set_warnings(warnings);
        for (member, start) in listed {
            let name = member.dataset.clone();
            let (offset, length) = (member.offset, member.length);
            let (source, offset) = match member.is_compressed {
                false => {
                    file.stored.push(member);
                    (Source::InFile(Arc::clone(&storage)), offset)
                }
                true => (Source::Compressed(member, Mutex::new(None)), 0),
            };
            if let Err(error) = file.push(&name, &start, offset, length, source) {
                let warning = format!("{error}; the array is left out");
                match error {
                    Error::Malformed { field, .. } if UNSUPPORTED.contains(&field) => {
                        file.listing.warn([warning]);
                    }
                    _ => file.listing.warn_of_damage(warning),
                }
            }
        }
        Ok(file)
    }

    /// Adds the array whose `.npy` file has `length` bytes at `offset` of its source, and begins
    /// with the bytes `start`.
    fn push(
        &mut self,
        name: &str,
        start: &[u8],
        offset: u64,
        length: u64,
        source: Source,
    ) -> Result<()> {
        let header = Header::parse(self.listing.path(), name, start)?;
        let malformed = |field, found: String, expected: String| {
            let location = ErrorLocation::dataset(self.listing.path(), name);
            Err(Error::malformed(location, field, found, expected))
        };
        let Some((element, size)) =
            Element::parse(&header.descr).and_then(|element| Some((element, element.size()?)))
        else {
            return malformed(
                "descr",
                format!("{:?}", header.descr),
                "numbers, booleans, strings, or times in a unit from weeks to nanoseconds"
                    .to_string(),
            );
        };
        let cells = checked_product(&header.shape);
        let bytes = cells.and_then(|cells| cells.checked_mul(size));
        let end = bytes.and_then(|bytes| bytes.checked_add(header.cells_offset));
        if end.is_none_or(|end| end > length) {
            return malformed(
                "shape",
                format!("{:?} of {size} bytes each", header.shape),
                format!("at most {} bytes in all", length - header.cells_offset),
            );
        }
        let mut array = Array {
            source,
            metadata: DatasetMetadata::default(),
            element,
            fortran_order: header.fortran_order,
            cells_offset: offset + header.cells_offset,
            codes: Vec::new(),
        };
        let attributes = &mut array.metadata.attrs;
        let mut add = |key: &str, value: String| attributes.insert(key.to_string(), value);
        match element.kind {
            NpyKind::Instant(unit) => {
                let is_date = unit == "days";
                add("units", format!("{unit} since 1970-01-01 00:00:00"));
                add("calendar", "proleptic_gregorian".to_string());
                let kind = if is_date { "date32" } else { "timestamp" };
                add("arrow_type", kind.to_string());
                add("_FillValue", i64::MIN.to_string());
            }
            NpyKind::Duration(unit) => {
                add("units", unit.to_string());
                add("_FillValue", i64::MIN.to_string());
            }
            _ => {}
        }
        if element.is_text() {
            let cells = cells.unwrap_or(u64::MAX);
            if cells > MAX_TEXTS {
                return malformed(
                    "number of strings",
                    cells.to_string(),
                    format!("at most {MAX_TEXTS}"),
                );
            }
            self.read_texts(name, cells, size, &mut array)?;
        }
        let dtype = element.dtype();
        let number = self.arrays.len();
        let chunk = chunk_shape(&header.shape, dtype.size(), header.fortran_order);
        let dataset = Dataset::new(number, name, dtype, &header.shape, &chunk);
        self.listing.push(dataset);
        self.arrays.push(array);
        Ok(())
    }

    /// Reads an array of strings, and assigns each string a code in the order of first appearance.
    fn read_texts(&self, name: &str, cells: u64, size: u64, array: &mut Array) -> Result<()> {
        let storage = self.storage_of(array)?;
        let range = array.cells_offset..array.cells_offset + cells * size;
        let bytes = storage.read_range(Access::Pread, range)?;
        let mut texts = BTreeMap::new();
        for number in 0..cells as usize {
            let bytes = &bytes[number * size as usize..][..size as usize];
            let text = array
                .element
                .text(bytes)
                .filter(|text| text.len() <= MAX_TEXT);
            let Some(text) = text else {
                return Err(Error::malformed(
                    ErrorLocation::dataset(self.listing.path(), name),
                    "element",
                    format!("invalid at index {number}"),
                    format!("a string of valid characters, of at most {MAX_TEXT} bytes"),
                ));
            };
            let next = texts.len() as i64;
            array.codes.push(*texts.entry(text).or_insert(next));
        }
        let attributes = Categories::encode(&texts, MISSING_TEXT, MAX_TEXT);
        array.metadata.attrs.extend(attributes);
        Ok(())
    }

    fn array(&self, dataset: &Dataset) -> Result<&Array> {
        self.listing.of(dataset, &self.arrays)
    }

    fn storage_of(&self, array: &Array) -> Result<Arc<Storage>> {
        match &array.source {
            Source::InFile(storage) => Ok(Arc::clone(storage)),
            Source::Compressed(member, decompressed) => {
                // Concurrent readers wait for the lock, so that the member is decompressed only
                // once. A panic while decompressing leaves `None`, so a poisoned lock can still be
                // used.
                let mut decompressed = decompressed.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((_, storage)) = decompressed.as_ref() {
                    return Ok(Arc::clone(storage));
                }
                let temporary = member.decompress(&self.file)?;
                let storage = Arc::new(Storage::open(&temporary)?);
                *decompressed = Some((temporary, Arc::clone(&storage)));
                Ok(storage)
            }
        }
    }

    /// Returns the elements of a chunk as a range of the array's elements, in file order.
    fn elements(dataset: &Dataset, array: &Array, chunk: &[u64]) -> Range<u64> {
        let axes: Vec<usize> = match array.fortran_order {
            false => (0..chunk.len()).collect(),
            true => (0..chunk.len()).rev().collect(),
        };
        // A chunk divides only the slowest axes and spans all others, so it is contiguous.
        let start = axes.iter().fold(0, |start, axis| {
            start * dataset.shape[*axis] + chunk[*axis] * dataset.chunk_shape[*axis]
        });
        start..start + dataset.chunk_cells(chunk)
    }
}

impl ArrayFile for NpyFile {
    fn format(&self) -> &'static str {
        "npy"
    }

    fn listing(&self) -> &Listing {
        &self.listing
    }

    fn metadata(&self, dataset: &Dataset) -> Option<&DatasetMetadata> {
        self.array(dataset).ok().map(|array| &array.metadata)
    }

    fn has_chunks(&self, _dataset: &Dataset) -> bool {
        false
    }

    fn chunk(&self, dataset: &Dataset, chunk: &[u64], _access: Access) -> Result<StoredChunk> {
        let array = self.array(dataset)?;
        self.listing.check_chunk(dataset, chunk)?;
        let elements = Self::elements(dataset, array, chunk);
        let count = elements.end - elements.start;
        let stored_bytes = count * array.element.size().unwrap_or(0);
        let payload = match array.element.is_stored_as_cells() && !array.fortran_order {
            true => Payload::Raw(array.cells_offset + elements.start * bytes_per_cell(dataset)),
            false => Payload::Encoded("npy"),
        };
        Ok(StoredChunk {
            raw_bytes: count * bytes_per_cell(dataset),
            stored_bytes,
            payload,
        })
    }

    fn identity(&self, _dataset: &Dataset) -> Result<FileIdentity> {
        self.file.identity()
    }

    fn verify_checksums(&self) -> Vec<Error> {
        // An `.npy` file has no members, and is no archive.
        if self.stored.is_empty() {
            return Vec::new();
        }
        members::verify_checksums(&self.file, &self.stored)
    }

    fn storage(&self, dataset: &Dataset) -> Result<Arc<Storage>> {
        self.storage_of(self.array(dataset)?)
    }

    #[cfg(feature = "remote")]
    fn is_remote(&self) -> bool {
        self.file.object().is_some()
    }

    #[cfg(feature = "remote")]
    fn locate(&self, dataset: &Dataset, chunk: &[u64]) -> Result<LocatedChunk> {
        let stored = self.chunk(dataset, chunk, Access::Pread)?;
        let array = self.array(dataset)?;
        let bytes = match (&array.source, self.file.object()) {
            // A decompressed member is in a local file, and texts are in memory.
            (Source::InFile(_), Some(object)) if !array.element.is_text() => {
                ChunkBytes::InFile(Arc::clone(object), Self::bytes_of(dataset, array, chunk))
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
        match bytes {
            Some(bytes) => self.decode_elements(dataset, chunk, bytes, &mut context.cells),
            None => self.decode(dataset, chunk, context),
        }
    }

    fn decode(&self, dataset: &Dataset, chunk: &[u64], context: &mut DecodeContext) -> Result<()> {
        let array = self.array(dataset)?;
        if array.element.is_text() {
            return self.decode_elements(dataset, chunk, &[], &mut context.cells);
        }
        let range = Self::bytes_of(dataset, array, chunk);
        let bytes = self.storage_of(array)?.read_range(Access::Pread, range);
        let bytes = bytes.map_err(|error| {
            error.at(&ErrorLocation::chunk(
                self.listing.path(),
                dataset.name(),
                chunk,
            ))
        })?;
        self.decode_elements(dataset, chunk, &bytes, &mut context.cells)
    }
}

impl NpyFile {
    /// Returns the range of a chunk's stored bytes in the source of its array.
    fn bytes_of(dataset: &Dataset, array: &Array, chunk: &[u64]) -> Range<u64> {
        let elements = Self::elements(dataset, array, chunk);
        // `push` has checked that all elements lie within the file, so nothing here overflows.
        let size = array.element.size().unwrap_or(0);
        let start = array.cells_offset + elements.start * size;
        start..array.cells_offset + elements.end * size
    }

    /// Decodes the stored bytes of a chunk, which texts do not need.
    fn decode_elements(
        &self,
        dataset: &Dataset,
        chunk: &[u64],
        bytes: &[u8],
        cells: &mut Vec<u8>,
    ) -> Result<()> {
        let array = self.array(dataset)?;
        let elements = Self::elements(dataset, array, chunk);
        cells.clear();
        if array.element.is_text() {
            let codes = &array.codes[elements.start as usize..elements.end as usize];
            cells.extend(codes.iter().flat_map(|code| code.to_le_bytes()));
        } else {
            let size = array.element.size().unwrap_or(0);
            cells.reserve(
                (elements.end - elements.start) as usize * bytes_per_cell(dataset) as usize,
            );
            for element in bytes.chunks_exact(size as usize) {
                array.element.push_cell(element, cells);
            }
        }
        if array.fortran_order {
            let (_, extents) = dataset.chunk_bounds(chunk);
            *cells = transposed(cells, &extents, bytes_per_cell(dataset));
        }
        Ok(())
    }
}

/// Returns the number of bytes per cell.
fn bytes_per_cell(dataset: &Dataset) -> u64 {
    dataset.dtype.map_or(1, |dtype| dtype.size())
}
