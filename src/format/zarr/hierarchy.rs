//! Opens a hierarchy, and reads the chunks of its arrays.

use std::mem;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorLocation, Result};
#[cfg(feature = "remote")]
use crate::format::array::ChunkBytes;
use crate::format::array::{
    Dataset, DecodeContext, Dtype, GroupAttributes, Payload, Warnings, copy_chunk,
};
use crate::format::io::identity::FileIdentity;
#[cfg(feature = "remote")]
use crate::format::io::remote::RemoteDirectory;
use crate::format::io::storage::Storage;
use crate::format::zarr::array::ZarrArray;
use crate::format::zarr::codecs::chain::{ChunkLayout, PlainChunk};
use crate::format::zarr::images;
use crate::format::zarr::local::LocalFiles;
use crate::format::zarr::metadata::Description;
use crate::format::zarr::metadata::element::CellKind;
#[cfg(feature = "remote")]
use crate::format::zarr::remote::{self, RemoteFiles};
use crate::format::zarr::root::{OutwardLinks, Root};
use crate::format::zarr::text;
use crate::format::zarr::walk::{self, Node, Nodes};
use crate::format::zarr::{MAX_CHUNK_BYTES, cells};

/// Minimum length of a memory-mapped file. Reading a shorter file takes no longer than mapping it.
const MIN_MAPPED_BYTES: u64 = 256 << 10;

/// A Zarr hierarchy in a directory or an object store, opened for reading. Several threads can read
/// chunks at once.
#[derive(Debug)]
pub struct ZarrHierarchy {
    files: Files,
    arrays: Vec<ZarrArray>,
    groups: GroupAttributes,
    warnings: Warnings,
}

/// The files of a hierarchy.
#[derive(Debug)]
enum Files {
    Local(LocalFiles),
    #[cfg(feature = "remote")]
    Remote(RemoteFiles),
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
        let mut warnings = Warnings::default();
        let root = Root::open(path.as_ref(), links)?;
        let nodes = walk::find(&root, &mut warnings)?;
        Self::with_arrays(Files::Local(LocalFiles::new(root)), nodes, warnings)
    }

    /// Opens a hierarchy in an object store. Consolidated metadata is used if there is any;
    /// otherwise, the store has to list directories, unless the hierarchy is a single array or an
    /// OME-Zarr image.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    #[cfg(feature = "remote")]
    pub fn open_remote(directory: RemoteDirectory) -> Result<Self> {
        let mut warnings = Warnings::default();
        let nodes = remote::find(&directory, &mut warnings)?;
        directory.forget_documents();
        Self::with_arrays(Files::Remote(RemoteFiles::new(directory)), nodes, warnings)
    }

    fn with_arrays(files: Files, nodes: Nodes, warnings: Warnings) -> Result<Self> {
        let mut folder = Self {
            files,
            arrays: Vec::new(),
            groups: nodes.groups,
            warnings,
        };
        let mut texts = 0;
        for node in nodes.arrays {
            folder.add(node, &mut texts)?;
        }
        let path = folder.path().to_path_buf();
        let (arrays, warnings) = (&mut folder.arrays, &mut folder.warnings);
        let enclosing = nodes.enclosing.as_ref();
        images::describe_axes(&path, arrays, &folder.groups, enclosing, warnings);
        Ok(folder)
    }

    /// Returns the path as the caller gave it, or the URL.
    pub fn path(&self) -> &Path {
        match &self.files {
            Files::Local(files) => files.path(),
            #[cfg(feature = "remote")]
            Files::Remote(files) => files.path(),
        }
    }

    /// Returns `true` if the hierarchy is in an object store.
    #[cfg(feature = "remote")]
    pub(super) fn is_remote(&self) -> bool {
        matches!(self.files, Files::Remote(_))
    }

    /// Returns the arrays, sorted by name.
    pub fn arrays(&self) -> &[ZarrArray] {
        &self.arrays
    }

    /// Returns the attributes of all groups as texts, by path, which is empty for the root.
    pub fn groups(&self) -> &GroupAttributes {
        &self.groups
    }

    /// Returns the warnings raised on opening: mainly the arrays that were left out, and why.
    pub fn warnings(&self) -> &[String] {
        self.warnings.texts()
    }

    /// Takes the warnings.
    pub(super) fn take_warnings(&mut self) -> Warnings {
        std::mem::take(&mut self.warnings)
    }

    fn add(&mut self, node: Node, texts: &mut u64) -> Result<()> {
        let is_root = node.name.is_empty();
        let name = match is_root {
            true => self.stem(),
            false => node.name.clone(),
        };
        let described = Description::of(&node.documents);
        let (description, metadata) = match described {
            Ok(described) => described,
            Err(found) if is_root => {
                let location = ErrorLocation::dataset(self.path(), &name);
                return Err(Error::malformed(
                    location,
                    "metadata",
                    format!("unusable ({found})"),
                    "valid metadata of an array",
                ));
            }
            Err(found) => {
                let warning = format!("array {name:?} is left out: {found}");
                self.warnings.push_if(node.documents.is_broken(), warning);
                return Ok(());
            }
        };
        let kind = description.element.kind.clone();
        match &mut self.files {
            Files::Local(files) => files.push(node.folder, node.sources),
            #[cfg(feature = "remote")]
            Files::Remote(files) => files.push(&node),
        }
        self.arrays.push(ZarrArray {
            name,
            metadata,
            axes: Vec::new(),
            description,
            codes: None,
        });
        if let CellKind::Text(kind) = kind {
            let number = self.arrays.len() - 1;
            match text::read(self, number, kind, texts) {
                Ok((codes, attributes)) => {
                    let array = &mut self.arrays[number];
                    array.codes = Some(codes);
                    array.metadata.attrs.extend(attributes);
                }
                Err(text::Unread { found, is_damage }) => {
                    let name = &self.arrays[number].name;
                    let warning = format!("array {name:?} is left out: {found}");
                    if is_root {
                        return Err(Error::invalid(self.path(), warning));
                    }
                    self.warnings.push_if(is_damage, warning);
                    self.arrays.pop();
                    match &mut self.files {
                        Files::Local(files) => files.pop(),
                        #[cfg(feature = "remote")]
                        Files::Remote(files) => files.pop(),
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the name of the directory without its extension.
    fn stem(&self) -> String {
        let path = match &self.files {
            Files::Local(files) => files.absolute(),
            #[cfg(feature = "remote")]
            Files::Remote(files) => files.path(),
        };
        let stem = path.file_stem();
        stem.map_or("array".to_string(), |stem| {
            stem.to_string_lossy().into_owned()
        })
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
        if let Some(codes) = &self.arrays[array].codes {
            let (shape, chunk_shape) = (&described.shape, &described.chunk_shape);
            let dataset = Dataset::new(array, "", Dtype::I64, shape, chunk_shape);
            copy_chunk(
                &dataset,
                Dtype::I64.size(),
                chunk,
                codes,
                &mut context.cells,
            );
            return Ok(());
        }
        let is_present = self.decode(array, chunk, None, context);
        // Checked after the read, since the bytes may belong to a hierarchy that replaced this one.
        match &self.files {
            Files::Local(files) => files.check_unchanged(array)?,
            #[cfg(feature = "remote")]
            Files::Remote(_) => {}
        }
        let is_present = is_present?;
        self.finish(array, chunk, is_present, context)
    }

    /// Turns the decoded cells of a whole chunk into those of the dataset.
    fn finish(
        &self,
        array: usize,
        chunk: &[u64],
        is_present: bool,
        context: &mut DecodeContext,
    ) -> Result<()> {
        let described = &self.arrays[array].description;
        let element = &described.element;
        let extents = cells::clipped(&described.shape, &described.chunk_shape, chunk);
        let Some(stored_size) = element.stored_size() else {
            return Err(Error::invalid(self.path(), "texts without codes"));
        };
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
        let files = match &self.files {
            Files::Local(files) => files,
            #[cfg(feature = "remote")]
            Files::Remote(_) => return Ok(None),
        };
        let Some(stored) = files.locate(array, &self.arrays[array], chunk)? else {
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
        let location = || ErrorLocation::chunk(self.path(), &self.arrays[array].name, chunk);
        let storage = files.map(&stored).map_err(|error| error.at(&location()))?;
        // Checked after the file is opened, since it may belong to a hierarchy that replaced this
        // one.
        files.check_unchanged(array)?;
        // The file may have been replaced by a shorter one since the chunk was located.
        let is_same = storage.length() == stored.file.length;
        Ok(is_same.then_some((payload, stored.length, storage)))
    }

    /// Returns the identity of an array's metadata documents.
    ///
    /// # Errors
    /// Fails if a document cannot be read, or has changed since the hierarchy was opened.
    pub(super) fn identity(&self, array: usize) -> Result<FileIdentity> {
        match &self.files {
            Files::Local(files) => files.identity(array),
            #[cfg(feature = "remote")]
            Files::Remote(files) => Ok(files.identity(array)),
        }
    }

    /// Returns the number of bytes that a chunk takes in its file; 0 for an absent chunk.
    ///
    /// # Errors
    /// Returns the errors of [`Self::read_chunk`], except errors in the chunk's own bytes.
    pub fn stored_bytes(&self, array: usize, chunk: &[u64]) -> Result<u64> {
        let found = self.checked(array, chunk)?;
        match &self.files {
            Files::Local(files) => {
                let stored = files.locate(array, found, chunk)?;
                Ok(stored.map_or(0, |stored| stored.length))
            }
            #[cfg(feature = "remote")]
            Files::Remote(files) => files.stored_bytes(array, found, chunk),
        }
    }

    /// Returns an array, after checking that it has the given chunk.
    fn checked(&self, array: usize, chunk: &[u64]) -> Result<&ZarrArray> {
        let Some(found) = self.arrays.get(array) else {
            return Err(Error::invalid(
                self.path(),
                format!("no array with index {array}"),
            ));
        };
        let (name, grid) = (&found.name, found.chunk_grid());
        let mut axes = chunk.iter().zip(&grid);
        if chunk.len() != grid.len() || axes.any(|(position, count)| position >= count) {
            let message =
                format!("array {name:?}, chunk {chunk:?}: outside the chunk grid {grid:?}");
            return Err(Error::invalid(self.path(), message));
        }
        Ok(found)
    }

    /// Decodes a whole chunk, not clipped, in the stored type. Returns `false` if the chunk is
    /// absent.
    ///
    /// For strings, decodes their encoded bytes, which are at most `text_bytes`.
    pub(super) fn decode(
        &self,
        array: usize,
        chunk: &[u64],
        text_bytes: Option<u64>,
        context: &mut DecodeContext,
    ) -> Result<bool> {
        let found = &self.arrays[array];
        let described = &found.description;
        let location = || ErrorLocation::chunk(self.path(), &found.name, chunk);
        let bytes = text_bytes.or_else(|| described.chunk_bytes());
        if bytes.is_none_or(|bytes| bytes > MAX_CHUNK_BYTES) {
            let (shape, dtype) = (&described.chunk_shape, described.element.dtype);
            let found = format!("{shape:?} cells of type {dtype}");
            let expected = format!("at most {MAX_CHUNK_BYTES} bytes");
            return Err(Error::malformed(location(), "chunk shape", found, expected));
        }
        match &self.files {
            Files::Local(files) => {
                let Some(stored) = files.locate(array, found, chunk)? else {
                    return Ok(false);
                };
                stored.read(location, &mut context.stored)?;
            }
            #[cfg(feature = "remote")]
            Files::Remote(files) => {
                let Some(bytes) = files.read(array, found, chunk)? else {
                    return Ok(false);
                };
                context.stored.clear();
                context.stored.extend_from_slice(&bytes);
            }
        }
        self.decode_stored(array, chunk, text_bytes, context)?;
        Ok(true)
    }

    /// Decodes the stored bytes of a whole chunk, which are in `context`.
    fn decode_stored(
        &self,
        array: usize,
        chunk: &[u64],
        text_bytes: Option<u64>,
        context: &mut DecodeContext,
    ) -> Result<()> {
        let found = &self.arrays[array];
        let described = &found.description;
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
            let location = ErrorLocation::chunk(self.path(), &self.arrays[array].name, chunk);
            Error::malformed(
                location,
                "chunk",
                format!("undecodable ({found})"),
                expected,
            )
        })
    }

    /// Returns where the bytes of a chunk in an object store are, and the maximum number of them.
    #[cfg(feature = "remote")]
    pub(super) fn locate(&self, array: usize, chunk: &[u64]) -> Result<ChunkBytes> {
        let found = self.checked(array, chunk)?;
        match &self.files {
            Files::Remote(files) if found.codes.is_none() => files.locate(array, found, chunk),
            _ => Ok(ChunkBytes::None),
        }
    }

    /// Decodes a chunk from its fetched bytes, as [`Self::read_chunk`] does; `None` for an absent
    /// chunk.
    #[cfg(feature = "remote")]
    pub(super) fn decode_fetched(
        &self,
        array: usize,
        chunk: &[u64],
        bytes: Option<&[u8]>,
        context: &mut DecodeContext,
    ) -> Result<()> {
        if self.checked(array, chunk)?.codes.is_some() {
            return self.read_chunk_in(array, chunk, context);
        }
        if let Some(bytes) = bytes {
            context.stored.clear();
            context.stored.extend_from_slice(bytes);
            self.decode_stored(array, chunk, None, context)?;
        }
        self.finish(array, chunk, bytes.is_some(), context)
    }
}
