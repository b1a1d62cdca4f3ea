//! Reads the cells of a chunk, whatever its codec and access mode.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use memmap2::Mmap;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::dataset::Dataset;
use crate::format::array::decoding::{DecodeContext, ZstdContext};
use crate::format::array::file::{ArrayFile, Payload, StoredChunk};
use crate::format::io::storage::{Access, Storage};

/// Chunks up to this size are decompressed in one call, which takes some hundredths of a second.
///
/// Larger chunks are decompressed in steps, so that a query can be cancelled between them. The
/// steps cost an additional copy out of the decoder's window.
const ONE_CALL_BYTES: u64 = 32 << 20;
/// Part of zstd's error message for a payload that is longer than the output buffer.
const TOO_SMALL: &str = "Destination buffer is too small";
/// Number of bytes decompressed per step.
const STEP_BYTES: usize = 1 << 20;
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
}

/// The state of the open chunk.
enum State {
    Closed,
    /// Raw cells in the memory map.
    Mapped(Arc<Mmap>, Range<usize>, Arc<Storage>),
    /// Raw cells in the file, read on demand.
    Positioned(Range<u64>, Box<ErrorLocation>, Arc<Storage>),
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
}

/// A chunk that is being decompressed.
struct Compressed {
    place: ErrorLocation,
    raw_bytes: u64,
    stored: CompressedBytes,
    /// `None` for chunks of up to [`ONE_CALL_BYTES`].
    decoder: Option<Decoder<'static>>,
    consumed: usize,
    produced: usize,
}

/// The stored bytes of a compressed chunk.
enum CompressedBytes {
    Mapped(Arc<Mmap>, Range<usize>, Arc<Storage>),
    /// This number of bytes at the start of the context's `stored`.
    Read(usize),
}

impl CompressedBytes {
    fn bytes<'a>(&'a self, read: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Mapped(map, range, _) => &map[range.clone()],
            Self::Read(length) => &read[..*length],
        }
    }
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
                        let place = ErrorLocation::chunk(storage.path(), dataset.name(), chunk);
                        let map = storage.map().map_err(|error| error.at(&place))?;
                        State::Mapped(map, in_map(offset), storage)
                    }
                    Access::Pread => {
                        let place = ErrorLocation::chunk(storage.path(), dataset.name(), chunk);
                        State::Positioned(range(offset), Box::new(place), storage)
                    }
                }
            }
            (Payload::Zstd(offset), access) => {
                let storage = storage()?;
                let place = ErrorLocation::chunk(storage.path(), dataset.name(), chunk);
                let bytes = match access {
                    Access::Mmap => {
                        let map = storage.map().map_err(|error| error.at(&place))?;
                        CompressedBytes::Mapped(map, in_map(offset), storage)
                    }
                    Access::Pread => {
                        let length = usize::try_from(stored.stored_bytes)
                            .map_err(|error| undecodable(&place, &io::Error::other(error)))?;
                        grow(&mut self.context.stored, length, &place)?;
                        storage
                            .read_at(offset, &mut self.context.stored[..length])
                            .map_err(|error| error.at(&place))?;
                        CompressedBytes::Read(length)
                    }
                };
                self.bytes_read += stored.stored_bytes;
                State::Compressed(Box::new(Compressed {
                    place,
                    raw_bytes: stored.raw_bytes,
                    stored: bytes,
                    decoder: None,
                    consumed: 0,
                    produced: 0,
                }))
            }
            (Payload::Encoded(_), _) => {
                self.bytes_read += stored.stored_bytes;
                State::Encoded(Box::new(Encoded {
                    dataset: dataset.clone(),
                    chunk: chunk.to_vec(),
                    raw_bytes: stored.raw_bytes,
                }))
            }
        };
        Ok(stored)
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
        let produced = if compressed.raw_bytes <= ONE_CALL_BYTES {
            compressed.decode(stored, zstd, cells)?
        } else {
            compressed.step(stored, cells)?
        };
        let Some(produced) = produced else {
            return Ok(false);
        };
        if produced != length {
            return Err(Error::malformed(
                compressed.place.clone(),
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

    /// Adds cells that the caller used in the memory map to [`Self::bytes_read`].
    pub fn count_mapped(&mut self, bytes: usize) {
        self.bytes_read += bytes as u64;
    }

    /// Returns a byte range of the chunk's cells, without a copy where possible.
    ///
    /// The chunk must be ready and contain the range.
    pub fn cells(&mut self, range: Range<usize>) -> Result<&[u8]> {
        if let State::Positioned(chunk, place, storage) = &self.state {
            let length = range.len();
            grow(&mut self.context.cells, length, place)?;
            let cells = &mut self.context.cells[..length];
            storage
                .read_at(chunk.start + range.start as u64, cells)
                .map_err(|error| error.at(place))?;
            self.bytes_read += length as u64;
            return Ok(cells);
        }
        match &self.state {
            State::Mapped(map, chunk, _) => {
                self.bytes_read += range.len() as u64;
                Ok(&map[chunk.start + range.start..chunk.start + range.end])
            }
            State::Decoded(length) => Ok(&self.context.cells[..*length][range]),
            State::Shared(cells) => Ok(&cells[range]),
            _ => Err(self.not_ready()),
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
        let cells = match &self.state {
            State::Mapped(map, range, _) => {
                self.bytes_read += output.len() as u64;
                &map[range.clone()]
            }
            State::Decoded(length) => &self.context.cells[..*length],
            State::Shared(cells) => cells.as_slice(),
            State::Positioned(range, place, storage) => {
                self.bytes_read += gather_from_file(storage, range.start, runs, output)
                    .map_err(|error| error.at(place))?;
                return Ok(());
            }
            State::Closed | State::Compressed(_) | State::Encoded(_) => {
                return Err(self.not_ready());
            }
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

impl Compressed {
    /// Decompresses the whole payload and returns the number of bytes.
    ///
    /// Returns one more than the chunk's length if the payload is longer than the chunk.
    fn decode(
        &self,
        read: &[u8],
        zstd: &mut ZstdContext,
        output: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        let length = self.raw_bytes as usize;
        output.clear();
        reserve(output, length, &self.place)?;
        let broken = |error: &io::Error| undecodable(&self.place, error);
        let zstd = zstd.get().map_err(|error| broken(&error))?;
        match zstd.decompress_to_buffer(self.stored.bytes(read), output) {
            Ok(produced) => Ok(Some(produced)),
            Err(error) if error.to_string().contains(TOO_SMALL) => Ok(Some(length + 1)),
            Err(error) => Err(broken(&error)),
        }
    }

    /// Decompresses up to [`STEP_BYTES`]. Returns the total number of bytes once the payload ends.
    ///
    /// The output grows only with the bytes produced, whatever length the file claims.
    fn step(&mut self, read: &[u8], output: &mut Vec<u8>) -> Result<Option<usize>> {
        // One byte more than the chunk needs, to detect payloads that are longer.
        let most = self.raw_bytes as usize + 1;
        let end = most.min(self.produced + STEP_BYTES);
        grow(output, end, &self.place)?;
        let broken = |error: &io::Error| undecodable(&self.place, error);
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            unset => unset.insert(Decoder::new().map_err(|error| broken(&error))?),
        };
        let stored = self.stored.bytes(read);
        let mut source = InBuffer::around(&stored[self.consumed..]);
        let mut target = OutBuffer::around(&mut output[self.produced..end]);
        let hint = decoder
            .run(&mut source, &mut target)
            .map_err(|error| broken(&error))?;
        let (taken, written) = (source.pos(), target.pos());
        self.consumed += taken;
        self.produced += written;
        let all_read = self.consumed == stored.len();
        if (hint == 0 && all_read) || self.produced == most {
            return Ok(Some(self.produced));
        }
        if taken == 0 && written == 0 {
            return Err(broken(&io::Error::from(io::ErrorKind::UnexpectedEof)));
        }
        Ok(None)
    }
}

fn grow(output: &mut Vec<u8>, length: usize, place: &ErrorLocation) -> Result<()> {
    if output.len() < length {
        reserve(output, length, place)?;
        output.resize(length, 0);
    }
    Ok(())
}

/// Makes space for `length` bytes in all.
fn reserve(output: &mut Vec<u8>, length: usize, place: &ErrorLocation) -> Result<()> {
    output
        .try_reserve_exact(length.saturating_sub(output.len()))
        .map_err(|error| undecodable(place, &io::Error::other(error)))
}

fn undecodable(place: &ErrorLocation, error: &io::Error) -> Error {
    Error::malformed(
        place.clone(),
        "zstd payload",
        format!("undecodable ({error})"),
        "whole zstd frames that decode to raw_byte_len bytes",
    )
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
