//! Opens a hierarchy, and reads the chunks of its arrays.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::{DecodeContext, Payload};
use crate::format::io::handles::Identity;
use crate::format::io::identity::FileIdentity;
use crate::format::io::storage::Storage;
use crate::format::zarr::array::ZarrArray;
use crate::format::zarr::chunk_files::{ChunkLocation, MappedFiles};
use crate::format::zarr::codecs::chain::{ChunkLayout, PlainChunk};
use crate::format::zarr::codecs::shard::{ShardIndex, Shards};
use crate::format::zarr::metadata::Description;
use crate::format::zarr::metadata::element::{CellKind, TextKind};
use crate::format::zarr::root::{OutwardLinks, Root, Source};
use crate::format::zarr::text::{self, Codes};
use crate::format::zarr::walk::{self, Node};
use crate::format::zarr::{MAX_CHUNK_BYTES, cells};

/// Maximum number of strings in all arrays of a hierarchy, since their codes are kept in memory.
const MAX_ALL_TEXTS: u64 = 4 << 20;
/// Minimum length of a memory-mapped file. Reading a shorter file takes no longer than mapping it.
const MIN_MAPPED_BYTES: u64 = 256 << 10;
/// Maximum size in bytes of the shard indexes in the cache.
const MAX_INDEX_BYTES: usize = 64 << 20;

/// A Zarr hierarchy in a directory, opened for reading. Several threads can read chunks at once.
#[derive(Debug)]
pub struct ZarrHierarchy {
    root: Root,
    arrays: Vec<ZarrArray>,
    /// For each array, the directory of its chunks and the files of its metadata documents.
    folders: Vec<(PathBuf, Vec<Source>)>,
    warnings: Vec<String>,
    indexes: Mutex<ShardIndexCache>,
    mapped_files: MappedFiles,
}

/// A cache of shard indexes, by array and shard.
///
/// Each index is kept with the identity of the file that it was read from, to detect replaced
/// files.
#[derive(Debug, Default)]
struct ShardIndexCache {
    kept: HashMap<(usize, Vec<u64>), (Identity, Arc<ShardIndex>)>,
    bytes: usize,
}

impl ZarrHierarchy {
    /// Opens the hierarchy in a directory.
    ///
    /// The directory must contain `zarr.json`, `.zgroup`, `.zarray` or `.zmetadata`. The last is
    /// used only if none of the others exists. Groups are searched up to 32 levels deep. No chunks
    /// are read, except those of strings.
    ///
    /// Arrays that cannot be read are left out, each with a warning.
    ///
    /// # Errors
    /// Fails if the directory is not a hierarchy, if its own metadata is broken, if it is a single
    /// array that cannot be read, or if there are more than 100,000 arrays or 200,000 directories.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, OutwardLinks::Follow)
    }

    /// Opens a hierarchy, with a choice of how to treat links that lead out of it.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    pub fn open_with(path: impl AsRef<Path>, links: OutwardLinks) -> Result<Self> {
        let mut warnings = Vec::new();
        let root = Root::open(path.as_ref(), links)?;
        let nodes = walk::find(&root, &mut warnings)?;
        let mut folder = Self {
            root,
            arrays: Vec::new(),
            folders: Vec::new(),
            warnings,
            indexes: Mutex::default(),
            mapped_files: MappedFiles::default(),
        };
        let mut texts = 0;
        for node in nodes {
            folder.add(node, &mut texts)?;
        }
        Ok(folder)
    }

    /// Returns the path as the caller gave it.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// Returns the arrays, sorted by name.
    pub fn arrays(&self) -> &[ZarrArray] {
        &self.arrays
    }

    /// Returns the warnings raised on opening: mainly the arrays that were left out, and why.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn add(&mut self, node: Node, texts: &mut u64) -> Result<()> {
        let is_root = node.name.is_empty();
        let name = if is_root { self.stem() } else { node.name };
        let described = Description::of(&node.documents);
        let (description, metadata) = match described {
            Ok(described) => described,
            Err(found) if is_root => {
                let place = ErrorLocation::dataset(self.root.path(), &name);
                return Err(Error::malformed(
                    place,
                    "metadata",
                    format!("unusable ({found})"),
                    "valid metadata of an array",
                ));
            }
            Err(found) => {
                self.warnings
                    .push(format!("array {name:?} is left out: {found}"));
                return Ok(());
            }
        };
        let kind = description.element.kind.clone();
        self.folders.push((node.folder, node.sources));
        self.arrays.push(ZarrArray {
            name,
            metadata,
            description,
            codes: None,
        });
        if let CellKind::Text(kind) = kind {
            let number = self.arrays.len() - 1;
            match self.read_texts(number, kind, texts) {
                Ok((codes, attributes)) => {
                    let array = &mut self.arrays[number];
                    array.codes = Some(codes);
                    array.metadata.attrs.extend(attributes);
                }
                Err(found) => {
                    let name = &self.arrays[number].name;
                    let warning = format!("array {name:?} is left out: {found}");
                    if is_root {
                        return Err(Error::invalid(self.root.path(), warning));
                    }
                    self.warnings.push(warning);
                    self.arrays.pop();
                    self.folders.pop();
                }
            }
        }
        Ok(())
    }

    /// Returns the name of the directory without its extension.
    fn stem(&self) -> String {
        let stem = self.root.absolute().file_stem();
        stem.map_or("array".to_string(), |stem| {
            stem.to_string_lossy().into_owned()
        })
    }

    /// Reads an array of strings: the code of each cell, and the attributes that hold the strings.
    fn read_texts(
        &self,
        array: usize,
        kind: TextKind,
        total: &mut u64,
    ) -> Result<(Vec<i64>, BTreeMap<String, String>), String> {
        let described = &self.arrays[array].description;
        let (&[extent], &[size]) = (described.shape.as_slice(), described.chunk_shape.as_slice())
        else {
            return Err(format!(
                "strings in {} dimensions, expected one",
                described.shape.len()
            ));
        };
        if extent > text::MAX_TEXTS {
            return Err(format!("{extent} strings, more than {}", text::MAX_TEXTS));
        }
        *total += extent;
        if *total > MAX_ALL_TEXTS {
            return Err(format!(
                "more than {MAX_ALL_TEXTS} strings in the hierarchy"
            ));
        }
        let mut codes = Codes::default();
        let mut cells = Vec::with_capacity(extent as usize);
        let mut context = DecodeContext::default();
        for chunk in 0..extent.div_ceil(size) {
            let count = size.min(extent - chunk * size) as usize;
            let most_bytes = text::most_bytes(kind, size);
            let is_present = self
                .decode(array, &[chunk], Some(most_bytes), &mut context)
                .map_err(|error| error.to_string())?;
            if is_present {
                let texts = text::parse(kind, &context.cells, size)
                    .map_err(|found| format!("chunk [{chunk}] has {found}"))?;
                cells.extend(texts.iter().take(count).map(|text| codes.of(text)));
            } else {
                let code = codes.of(&described.fill_text);
                cells.extend(std::iter::repeat_n(code, count));
            }
        }
        Ok((cells, codes.attributes().into_iter().collect()))
    }

    /// Reads one chunk of the array at index `array`, replacing the contents of `cells`.
    ///
    /// The cells are clipped to the shape, row-major and little-endian, and have the type
    /// [`ZarrArray::dtype`]. The cells of an absent chunk have the array's fill value.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such array or chunk, or if the hierarchy was replaced or
    /// the array's metadata changed since the hierarchy was opened; [`Error::Malformed`] if the
    /// chunk's bytes are broken or larger than 2 GiB; [`Error::Io`] if they cannot be read.
    pub fn read_chunk(&self, array: usize, chunk: &[u64], cells: &mut Vec<u8>) -> Result<()> {
        let mut context = DecodeContext {
            cells: mem::take(cells),
            ..DecodeContext::default()
        };
        let read = self.read_chunk_in(array, chunk, &mut context);
        *cells = context.cells;
        read
    }

    /// Reads one chunk as [`Self::read_chunk`] does, into the cells of `context`.
    pub(super) fn read_chunk_in(
        &self,
        array: usize,
        chunk: &[u64],
        context: &mut DecodeContext,
    ) -> Result<()> {
        let described = &self.checked(array, chunk)?.description;
        let element = &described.element;
        let extents = cells::clipped(&described.shape, &described.chunk_shape, chunk);
        if let Some(codes) = &self.arrays[array].codes {
            let start = (chunk[0] * described.chunk_shape[0]) as usize;
            let codes = &codes[start..start + extents[0] as usize];
            let cells = codes.iter().flat_map(|code| code.to_le_bytes());
            context.cells.clear();
            context.cells.extend(cells);
            return Ok(());
        }
        let Some(stored_size) = element.stored_size() else {
            return Err(Error::invalid(self.root.path(), "texts without codes"));
        };
        let is_present = self.decode(array, chunk, None, context);
        // Checked after the read, since the bytes may belong to a hierarchy that replaced this one.
        self.root.check_unchanged(&self.folders[array].1)?;
        let is_present = is_present?;
        let DecodeContext {
            cells,
            stored: spare,
            ..
        } = context;
        if is_present {
            cells::crop(cells, &described.chunk_shape, &extents, stored_size, spare);
            cells::convert(&element.kind, element.dtype, cells);
        } else {
            let mut cell = described.zarrs.fill_value().as_ne_bytes().to_vec();
            cells::convert(&element.kind, element.dtype, &mut cell);
            let total = cells::byte_count(&extents, element.dtype.size());
            // Cannot overflow: `decode` has checked the size of the whole chunk for this type.
            cells::fill(cells, &cell, total.unwrap_or(0));
        }
        Ok(())
    }

    /// Returns the file, the offset and the length of a chunk that can be read through a memory
    /// map: one that is stored as plain cells or zstd frames, in a file that is large enough.
    ///
    /// # Errors
    /// Returns the errors of [`Self::read_chunk`], except errors in the chunk's own bytes.
    pub(super) fn mapped_chunk(
        &self,
        array: usize,
        chunk: &[u64],
    ) -> Result<Option<(Payload, u64, Arc<Storage>)>> {
        let described = &self.checked(array, chunk)?.description;
        let Some(plain) = described.plain else {
            return Ok(None);
        };
        if cells::clipped(&described.shape, &described.chunk_shape, chunk) != described.chunk_shape
        {
            return Ok(None);
        }
        let Some(stored) = self.locate(array, chunk)? else {
            return Ok(None);
        };
        if stored.file.length < MIN_MAPPED_BYTES {
            return Ok(None);
        }
        let payload = match plain {
            PlainChunk::Zstd => Payload::Zstd(stored.offset),
            // Decoding reports a wrong length, as for any other chunk.
            PlainChunk::Raw if Some(stored.length) != described.chunk_bytes() => return Ok(None),
            PlainChunk::Raw => Payload::Raw(stored.offset),
        };
        let place = || ErrorLocation::chunk(self.root.path(), &self.arrays[array].name, chunk);
        let storage = self
            .mapped_files
            .open(&stored)
            .map_err(|error| error.at(&place()))?;
        // Checked after the file is opened, since it may belong to a hierarchy that replaced this
        // one.
        self.root.check_unchanged(&self.folders[array].1)?;
        // The file may have been replaced by a shorter one since the chunk was located.
        let is_same = storage.length() == stored.file.length;
        Ok(is_same.then_some((payload, stored.length, storage)))
    }

    /// Returns the identity of an array's metadata documents.
    ///
    /// # Errors
    /// Fails if a document cannot be read, or has changed since the hierarchy was opened.
    pub(super) fn identity(&self, array: usize) -> Result<FileIdentity> {
        self.root.identity(&self.folders[array].1)
    }

    /// Returns the number of bytes that a chunk takes in its file; 0 for an absent chunk.
    ///
    /// # Errors
    /// Returns the errors of [`Self::read_chunk`], except errors in the chunk's own bytes.
    pub fn stored_bytes(&self, array: usize, chunk: &[u64]) -> Result<u64> {
        self.checked(array, chunk)?;
        Ok(self.locate(array, chunk)?.map_or(0, |stored| stored.length))
    }

    /// Returns an array, after checking that it has the given chunk.
    fn checked(&self, array: usize, chunk: &[u64]) -> Result<&ZarrArray> {
        let Some(found) = self.arrays.get(array) else {
            return Err(Error::invalid(
                self.root.path(),
                format!("no array with index {array}"),
            ));
        };
        let grid = found.chunk_grid();
        if chunk.len() != grid.len()
            || chunk
                .iter()
                .zip(&grid)
                .any(|(position, count)| position >= count)
        {
            return Err(Error::invalid(
                self.root.path(),
                format!(
                    "array {:?}, chunk {chunk:?}: outside the chunk grid {grid:?}",
                    found.name
                ),
            ));
        }
        Ok(found)
    }

    /// Decodes a whole chunk, not clipped, in the stored type. Returns `false` if the chunk is
    /// absent.
    ///
    /// For strings, decodes their encoded bytes, which are at most `text_bytes`.
    fn decode(
        &self,
        array: usize,
        chunk: &[u64],
        text_bytes: Option<u64>,
        context: &mut DecodeContext,
    ) -> Result<bool> {
        let found = &self.arrays[array];
        let described = &found.description;
        let place = || ErrorLocation::chunk(self.root.path(), &found.name, chunk);
        let bytes = text_bytes.or_else(|| described.chunk_bytes());
        if bytes.is_none_or(|bytes| bytes > MAX_CHUNK_BYTES) {
            return Err(Error::malformed(
                place(),
                "chunk shape",
                format!(
                    "{:?} cells of type {}",
                    described.chunk_shape, described.element.dtype
                ),
                format!("at most {MAX_CHUNK_BYTES} bytes"),
            ));
        }
        let Some(stored) = self.locate(array, chunk)? else {
            return Ok(false);
        };
        stored.read(place, &mut context.stored)?;
        let cells = ChunkLayout {
            shape: &described.chunk_shape,
            data_type: described.zarrs.data_type(),
            fill: described.zarrs.fill_value(),
            text_bytes,
        };
        let chain = match described.chain.shards() {
            Some(shards) => &shards.chain,
            None => &described.chain,
        };
        chain.decode(context, &cells).map_err(|found| {
            let expected = format!("a chunk encoded with the codecs ({})", described.codecs);
            Error::malformed(place(), "chunk", format!("undecodable ({found})"), expected)
        })?;
        Ok(true)
    }

    /// Returns the location of a chunk's bytes, or `None` if the chunk is absent.
    fn locate(&self, array: usize, chunk: &[u64]) -> Result<Option<ChunkLocation>> {
        let found = &self.arrays[array];
        let described = &found.description;
        let Some(shards) = described.chain.shards() else {
            let found = self.root.find(&self.file(array, chunk))?;
            return Ok(found.map(|(path, metadata)| ChunkLocation {
                path,
                offset: 0,
                length: metadata.len(),
                file: Identity::of(&metadata),
            }));
        };
        // Exact, since an array whose shards are not a whole number of chunks is left out.
        let extents = described.file_shape.iter().zip(&described.chunk_shape);
        let grid: Vec<u64> = extents.map(|(file, chunk)| file / chunk).collect();
        let indices = chunk.iter().zip(&grid);
        let shard: Vec<u64> = indices.map(|(index, count)| index / count).collect();
        let Some((path, metadata)) = self.root.find(&self.file(array, &shard))? else {
            return Ok(None);
        };
        let length = metadata.len();
        let identity = Identity::of(&metadata);
        let broken = |found: String| {
            let place = ErrorLocation::chunk(self.root.path(), &self.arrays[array].name, chunk);
            broken_index(place, &found)
        };
        let index = self.index(array, shards, &shard, &grid, &path, identity.clone())?;
        let mut ordinal = 0;
        for (position, count) in chunk.iter().zip(&grid) {
            ordinal = ordinal * count + position % count;
        }
        let range = index.range(ordinal as usize, length).map_err(broken)?;
        Ok(range.map(|(offset, size)| ChunkLocation {
            path,
            file: identity,
            offset,
            length: size,
        }))
    }

    fn index(
        &self,
        array: usize,
        shards: &Shards,
        shard: &[u64],
        grid: &[u64],
        path: &Path,
        identity: Identity,
    ) -> Result<Arc<ShardIndex>> {
        let length = identity.length;
        let key = (array, shard.to_vec());
        let lock = || self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, index)) = lock().kept.get(&key)
            && *of == identity
        {
            return Ok(Arc::clone(index));
        }
        let place = || ErrorLocation::dataset(path, &self.arrays[array].name);
        let broken = |found: String| broken_index(place(), &found);
        let (offset, size) = shards.index_range(grid, length).map_err(broken)?;
        let stored = ChunkLocation {
            path: path.to_path_buf(),
            file: identity.clone(),
            offset,
            length: size,
        };
        let mut bytes = Vec::new();
        stored.read(place, &mut bytes)?;
        let index = Arc::new(shards.index(bytes).map_err(broken)?);
        let mut indexes = lock();
        if indexes.bytes + index.bytes() > MAX_INDEX_BYTES {
            *indexes = ShardIndexCache::default();
        }
        indexes.bytes += index.bytes();
        let replaced = indexes.kept.insert(key, (identity, Arc::clone(&index)));
        indexes.bytes -= replaced.map_or(0, |(_, replaced)| replaced.bytes());
        Ok(index)
    }

    /// Returns the path of the file of a chunk or shard.
    fn file(&self, array: usize, chunk: &[u64]) -> PathBuf {
        let key = self.arrays[array].description.keys.key(chunk);
        self.folders[array].0.join(key)
    }
}

fn broken_index(place: ErrorLocation, found: &str) -> Error {
    let expected = "the offset and length of each chunk";
    Error::malformed(place, "shard index", format!("broken ({found})"), expected)
}
