//! Reads the cells of a chunk, whatever its codec and access mode.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

#[cfg(feature = "remote")]
use bytes::Bytes;
use memmap2::Mmap;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::compressed::{Compressed, CompressedBytes, grow, undecodable};
use crate::format::array::dataset::Dataset;
use crate::format::array::decoding::DecodeContext;
use crate::format::array::file::{ArrayFile, Payload, StoredChunk};
#[cfg(feature = "remote")]
use crate::format::array::located::FetchedChunk;
#[cfg(feature = "remote")]
use crate::format::io::remote::runtime;
use crate::format::io::storage::{Access, Storage};

/// Positioned reads fetch ranges with gaps of at most this many bytes in one read.
const MAX_GAP_BYTES: usize = 32 << 10;
/// Maximum length of a read that covers several ranges.
const MAX_READ_BYTES: usize = 1 << 20;

/// Reads chunks one after another, and reuses its buffers and decompression context.
///
/// ```text
/// open  ->  advance until it returns true  ->  mapped, cells or gather  ->  open the next chunk
/// ```
///
/// Between two calls of [`Self::advance`] the caller can check whether the query was cancelled.
pub struct ChunkReader {
    file: Arc<dyn ArrayFile>,
    access: Access,
    state: State,
    /// Holds the cells of the open chunk, if it needs decoding. The buffers may be longer than the
    /// chunk.
    context: DecodeContext,
    bytes_read: u64,
    requests: u64,
    bytes_fetched: u64,
}

/// The state of the open chunk.
enum State {
    Closed,
    /// Raw cells in the memory map.
    Mapped(Arc<Mmap>, Range<usize>, Arc<Storage>),
    /// Raw cells in the file, read on demand.
    Positioned(Range<u64>, Box<ErrorLocation>, Arc<Storage>),
    /// Raw cells, fetched from an object store.
    #[cfg(feature = "remote")]
    Fetched(Bytes),
    /// Compressed cells, which are decompressed into the context.
    Compressed(Box<Compressed>),
    /// Encoded cells, which the file's format decodes into the context.
    Encoded(Box<Encoded>),
    /// Decoded cells: this number of bytes at the start of the context's `cells`.
    Decoded(usize),
    /// Decoded cells that other readers use as well.
    Shared(Arc<Vec<u8>>),
}

/// A chunk that only its format can decode.
struct Encoded {
    dataset: Dataset,
    chunk: Vec<u64>,
    raw_bytes: u64,
    /// The stored bytes, if they were fetched from an object store; `None` inside if the chunk is
    /// absent.
    #[cfg(feature = "remote")]
    fetched: Option<Option<Bytes>>,
}

impl fmt::Debug for ChunkReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkReader")
            .field("path", &self.file.path())
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

impl ChunkReader {
    /// Creates a reader without an open chunk.
    pub fn new(file: Arc<dyn ArrayFile>, access: Access) -> Self {
        Self {
            file,
            access,
            state: State::Closed,
            context: DecodeContext::default(),
            bytes_read: 0,
            requests: 0,
            bytes_fetched: 0,
        }
    }

    /// Returns the access mode.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Returns the number of payload bytes read so far: stored bytes of encoded chunks, cells of
    /// raw ones.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Opens a chunk without decoding it, and returns how it is stored.
    ///
    /// # Errors
    /// Returns the errors of [`ArrayFile::chunk`] and [`ArrayFile::storage`].
    pub fn open(&mut self, dataset: &Dataset, chunk: &[u64]) -> Result<StoredChunk> {
        self.state = State::Closed;
        #[cfg(feature = "remote")]
        if self.file.is_remote() {
            return self.fetch(dataset, chunk);
        }
        let mut stored = self.file.chunk(dataset, chunk, self.access)?;
        let mut mapped = None;
        if let (Payload::Encoded(_), Access::Mmap) = (stored.payload, self.access)
            && let Some((in_file, storage)) = self.file.mapped_chunk(dataset, chunk)?
        {
            (stored, mapped) = (in_file, Some(storage));
        }
        let mut storage = || match mapped.take() {
            Some(storage) => Ok(storage),
            None => self.file.storage(dataset),
        };
        let range = |offset| offset..offset + stored.stored_bytes;
        // The file has checked that the payload lies within the file, and so within the map.
        let in_map = |offset: u64| offset as usize..(offset + stored.stored_bytes) as usize;
        self.state = match (stored.payload, self.access) {
            (Payload::Raw(offset), access) => {
                let storage = storage()?;
                match access {
                    Access::Mmap => {
                        let location = ErrorLocation::chunk(storage.path(), dataset.name(), chunk);
                        let map = storage.map().map_err(|error| error.at(&location))?;
                        State::Mapped(map, in_map(offset), storage)
                    }
                    Access::Pread => {
                        let location = ErrorLocation::chunk(storage.path(), dataset.name(), chunk);
                        State::Positioned(range(offset), Box::new(location), storage)
                    }
                }
            }
            (Payload::Zstd(offset), access) => {
                let storage = storage()?;
                let location = ErrorLocation::chunk(storage.path(), dataset.name(), chunk);
                let bytes = match access {
                    Access::Mmap => {
                        let map = storage.map().map_err(|error| error.at(&location))?;
                        CompressedBytes::Mapped(map, in_map(offset), storage)
                    }
                    Access::Pread => {
                        let length = usize::try_from(stored.stored_bytes)
                            .map_err(|error| undecodable(&location, &io::Error::other(error)))?;
                        grow(&mut self.context.stored, length, &location)?;
                        storage
                            .read_at(offset, &mut self.context.stored[..length])
                            .map_err(|error| error.at(&location))?;
                        CompressedBytes::Read(length)
                    }
                };
                self.bytes_read += stored.stored_bytes;
                let compressed = Compressed::new(location, stored.raw_bytes, bytes);
                State::Compressed(Box::new(compressed))
            }
            (Payload::Encoded(_), _) => {
                self.bytes_read += stored.stored_bytes;
                State::Encoded(Box::new(Encoded {
                    dataset: dataset.clone(),
                    chunk: chunk.to_vec(),
                    raw_bytes: stored.raw_bytes,
                    #[cfg(feature = "remote")]
                    fetched: None,
                }))
            }
        };
        Ok(stored)
    }

    /// Fetches a chunk from an object store, and opens it. Blocks until the bytes are there.
    #[cfg(feature = "remote")]
    fn fetch(&mut self, dataset: &Dataset, chunk: &[u64]) -> Result<StoredChunk> {
        let located = self.file.locate(dataset, chunk)?;
        let location = ErrorLocation::chunk(self.file.path(), dataset.name(), chunk);
        let fetched = runtime::wait(located.fetch(location));
        let fetched = fetched.map_err(Error::io(self.file.path(), "read"))??;
        let stored = fetched.stored;
        self.open_fetched(dataset, chunk, fetched);
        Ok(stored)
    }

    /// Opens a chunk whose bytes were fetched from an object store.
    #[cfg(feature = "remote")]
    pub fn open_fetched(&mut self, dataset: &Dataset, chunk: &[u64], fetched: FetchedChunk) {
        self.requests += fetched.requests;
        self.bytes_fetched += fetched.bytes_fetched;
        let FetchedChunk { stored, bytes, .. } = fetched;
        self.state = match (stored.payload, bytes) {
            (Payload::Raw(_), Some(bytes)) => State::Fetched(bytes),
            (Payload::Zstd(_), Some(bytes)) => {
                self.bytes_read += stored.stored_bytes;
                let location = ErrorLocation::chunk(self.file.path(), dataset.name(), chunk);
                let bytes = CompressedBytes::Fetched(bytes);
                let compressed = Compressed::new(location, stored.raw_bytes, bytes);
                State::Compressed(Box::new(compressed))
            }
            (_, bytes) => {
                self.bytes_read += stored.stored_bytes;
                State::Encoded(Box::new(Encoded {
                    dataset: dataset.clone(),
                    chunk: chunk.to_vec(),
                    raw_bytes: stored.raw_bytes,
                    fetched: Some(bytes),
                }))
            }
        };
    }

    /// Returns the number of requests to an object store, and of bytes that they fetched, so far.
    pub fn fetched(&self) -> (u64, u64) {
        (self.requests, self.bytes_fetched)
    }

    /// Asks the system to read the whole open chunk ahead, if it is memory-mapped.
    ///
    /// Faulting in one page after another takes far longer.
    pub fn read_ahead(&self) {
        match &self.state {
            State::Mapped(map, range, storage) => storage.read_ahead(map, range),
            State::Compressed(compressed) => {
                if let CompressedBytes::Mapped(map, range, storage) = &compressed.stored {
                    storage.read_ahead(map, range);
                }
            }
            #[cfg(feature = "remote")]
            State::Fetched(_) => {}
            State::Closed
            | State::Positioned(..)
            | State::Encoded(_)
            | State::Decoded(_)
            | State::Shared(_) => {}
        }
    }

    /// Does a bounded amount of decompression. Returns `true` once the chunk is ready.
    ///
    /// A chunk that only its format can decode is decoded in a single call.
    pub fn advance(&mut self) -> Result<bool> {
        let compressed = match &mut self.state {
            State::Compressed(compressed) => compressed,
            State::Encoded(encoded) => {
                let Encoded { dataset, chunk, .. } = encoded.as_ref();
                #[cfg(feature = "remote")]
                match &encoded.fetched {
                    Some(bytes) => {
                        let bytes = bytes.as_deref();
                        self.file
                            .decode_fetched(dataset, chunk, bytes, &mut self.context)?;
                    }
                    None => self.file.decode(dataset, chunk, &mut self.context)?,
                }
                #[cfg(not(feature = "remote"))]
                self.file.decode(dataset, chunk, &mut self.context)?;
                let length = self.context.cells.len();
                if length as u64 != encoded.raw_bytes {
                    return Err(Error::malformed(
                        ErrorLocation::chunk(self.file.path(), dataset.name(), chunk),
                        "payload",
                        format!("{length} bytes when decoded"),
                        format!("{} bytes, the size of its cells", encoded.raw_bytes),
                    ));
                }
                self.state = State::Decoded(length);
                return Ok(true);
            }
            _ => return Ok(true),
        };
        let length = compressed.raw_bytes as usize;
        let DecodeContext {
            cells,
            stored,
            zstd,
        } = &mut self.context;
        let Some(produced) = compressed.advance(stored, zstd, cells)? else {
            return Ok(false);
        };
        if produced != length {
            return Err(Error::malformed(
                compressed.location.clone(),
                "zstd payload",
                if produced > length {
                    "longer when decoded".to_string()
                } else {
                    format!("{produced} bytes when decoded")
                },
                format!("{length} bytes as raw_byte_len"),
            ));
        }
        self.state = State::Decoded(length);
        Ok(true)
    }

    /// Opens a chunk that another reader has decoded.
    pub fn open_shared(&mut self, cells: Arc<Vec<u8>>) {
        self.state = State::Shared(cells);
    }

    /// Returns the bytes that the decoded cells of the open chunk take in memory. Returns `None` if the
    /// chunk needed no decoding, is not ready, or was decoded by another reader.
    pub fn decoded_bytes(&self) -> Option<usize> {
        matches!(self.state, State::Decoded(_)).then(|| self.context.cells.capacity())
    }

    /// Returns the decoded cells of the open chunk, to share them with other readers. Returns `None` as
    /// [`Self::decoded_bytes`] does.
    pub fn share(&mut self) -> Option<Arc<Vec<u8>>> {
        let State::Decoded(length) = self.state else {
            return None;
        };
        let mut cells = std::mem::take(&mut self.context.cells);
        cells.truncate(length);
        let cells = Arc::new(cells);
        self.state = State::Shared(Arc::clone(&cells));
        Some(cells)
    }

    /// Returns `true` if the open chunk is stored as raw cells.
    pub fn is_raw(&self) -> bool {
        #[cfg(feature = "remote")]
        if matches!(self.state, State::Fetched(_)) {
            return true;
        }
        matches!(self.state, State::Mapped(..) | State::Positioned(..))
    }

    /// Returns the memory map and the range of the cells in it, for a raw chunk under
    /// [`Access::Mmap`].
    pub fn mapped(&self) -> Option<(&Arc<Mmap>, Range<usize>)> {
        match &self.state {
            State::Mapped(map, range, _) => Some((map, range.clone())),
            _ => None,
        }
    }

    /// Returns the cells of the open chunk; `None` if they are not decoded yet, or are read from the file on demand.
    pub fn in_memory(&self) -> Option<&[u8]> {
        match &self.state {
            State::Mapped(map, range, _) => Some(&map[range.clone()]),
            #[cfg(feature = "remote")]
            State::Fetched(bytes) => Some(bytes),
            State::Decoded(length) => Some(&self.context.cells[..*length]),
            State::Shared(cells) => Some(cells),
            State::Positioned(..) | State::Closed | State::Compressed(_) | State::Encoded(_) => {
                None
            }
        }
    }

    /// Adds cells of a raw chunk that the caller took from [`Self::mapped`] or [`Self::in_memory`] to
    /// [`Self::bytes_read`].
    pub fn count_used(&mut self, bytes: usize) {
        self.bytes_read += bytes as u64;
    }

    /// Returns a byte range of the chunk's cells, without a copy where possible.
    ///
    /// The chunk must be ready and contain the range.
    pub fn cells(&mut self, range: Range<usize>) -> Result<&[u8]> {
        if let State::Positioned(chunk, location, storage) = &self.state {
            let length = range.len();
            grow(&mut self.context.cells, length, location)?;
            let cells = &mut self.context.cells[..length];
            storage
                .read_at(chunk.start + range.start as u64, cells)
                .map_err(|error| error.at(location))?;
            self.bytes_read += length as u64;
            return Ok(cells);
        }
        if self.is_raw() {
            self.bytes_read += range.len() as u64;
        }
        match self.in_memory() {
            Some(cells) => Ok(&cells[range]),
            None => Err(self.not_ready()),
        }
    }

    fn not_ready(&self) -> Error {
        let message = "cells were requested before the chunk was decoded";
        Error::invalid(self.file.path(), message)
    }

    /// Fills `output` with byte ranges of the chunk's cells. The chunk must be ready.
    ///
    /// The ranges must be ascending, disjoint, within the chunk, and together as long as `output`.
    pub fn gather(&mut self, runs: &[Range<usize>], output: &mut [u8]) -> Result<()> {
        if let State::Positioned(range, location, storage) = &self.state {
            self.bytes_read += gather_from_file(storage, range.start, runs, output)
                .map_err(|error| error.at(location))?;
            return Ok(());
        }
        if self.is_raw() {
            self.bytes_read += output.len() as u64;
        }
        let Some(cells) = self.in_memory() else {
            return Err(self.not_ready());
        };
        let mut output = output;
        for run in runs {
            let (filled, rest) = output.split_at_mut(run.len());
            filled.copy_from_slice(&cells[run.clone()]);
            output = rest;
        }
        Ok(())
    }
}

/// Reads ranges relative to `start`, near ones in one read. Returns the number of bytes read.
fn gather_from_file(
    storage: &Storage,
    start: u64,
    runs: &[Range<usize>],
    mut output: &mut [u8],
) -> Result<u64> {
    let mut bytes_read = 0;
    let mut buffer = Vec::new();
    let mut rest = runs;
    while let Some(first) = rest.first() {
        let mut end = first.end;
        let mut count = 1;
        while let Some(next) = rest.get(count)
            && next.start - end <= MAX_GAP_BYTES
            && next.end - first.start <= MAX_READ_BYTES
        {
            end = next.end;
            count += 1;
        }
        let offset = start + first.start as u64;
        bytes_read += (end - first.start) as u64;
        if count == 1 {
            let (filled, unfilled) = output.split_at_mut(first.len());
            storage.read_at(offset, filled)?;
            output = unfilled;
        } else {
            buffer.resize(end - first.start, 0);
            storage.read_at(offset, &mut buffer)?;
            for run in &rest[..count] {
                let (filled, unfilled) = output.split_at_mut(run.len());
                filled.copy_from_slice(&buffer[run.start - first.start..run.end - first.start]);
                output = unfilled;
            }
        }
        rest = &rest[count..];
    }
    Ok(bytes_read)
}
