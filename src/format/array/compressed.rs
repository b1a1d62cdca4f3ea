//! Chunks of zstd frames, while they are decompressed.

use std::io;
use std::ops::Range;
use std::sync::Arc;

#[cfg(feature = "remote")]
use bytes::Bytes;
use memmap2::Mmap;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::decoding::ZstdContext;
use crate::format::io::storage::Storage;

/// Chunks up to this size are decompressed in one call, which takes some hundredths of a second.
///
/// Larger chunks are decompressed in steps, so that a query can be cancelled between them. The
/// steps cost an additional copy out of the decoder's window.
const ONE_CALL_BYTES: u64 = 32 << 20;
/// Part of zstd's error message for a payload that is longer than the output buffer.
const TOO_SMALL: &str = "Destination buffer is too small";
/// Number of bytes decompressed per step.
const STEP_BYTES: usize = 1 << 20;
/// A chunk that is being decompressed.
pub(super) struct Compressed {
    pub location: ErrorLocation,
    pub raw_bytes: u64,
    pub stored: CompressedBytes,
    /// `None` for chunks of up to [`ONE_CALL_BYTES`].
    decoder: Option<Decoder<'static>>,
    consumed: usize,
    produced: usize,
}

/// The stored bytes of a compressed chunk.
pub(super) enum CompressedBytes {
    Mapped(Arc<Mmap>, Range<usize>, Arc<Storage>),
    /// This number of bytes at the start of the context's `stored`.
    Read(usize),
    #[cfg(feature = "remote")]
    Fetched(Bytes),
}

impl CompressedBytes {
    fn bytes<'a>(&'a self, read: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Mapped(map, range, _) => &map[range.clone()],
            Self::Read(length) => &read[..*length],
            #[cfg(feature = "remote")]
            Self::Fetched(bytes) => bytes,
        }
    }
}

impl Compressed {
    /// Creates the chunk whose payload is `stored`.
    pub fn new(location: ErrorLocation, raw_bytes: u64, stored: CompressedBytes) -> Self {
        Self {
            location,
            raw_bytes,
            stored,
            decoder: None,
            consumed: 0,
            produced: 0,
        }
    }

    /// Does a bounded amount of decompression. Returns the number of bytes once the payload ends, which
    /// is one more than the chunk's length if the payload is longer.
    pub fn advance(
        &mut self,
        read: &[u8],
        zstd: &mut ZstdContext,
        output: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        match self.raw_bytes <= ONE_CALL_BYTES {
            true => self.decode(read, zstd, output),
            false => self.step(read, output),
        }
    }

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
        reserve(output, length, &self.location)?;
        let zstd = zstd.get().map_err(|error| self.undecodable(&error))?;
        match zstd.decompress_to_buffer(self.stored.bytes(read), output) {
            Ok(produced) => Ok(Some(produced)),
            Err(error) if error.to_string().contains(TOO_SMALL) => Ok(Some(length + 1)),
            Err(error) => Err(self.undecodable(&error)),
        }
    }

    /// Decompresses up to [`STEP_BYTES`]. Returns the total number of bytes once the payload ends.
    ///
    /// The output grows only with the bytes produced, whatever length the file claims.
    fn step(&mut self, read: &[u8], output: &mut Vec<u8>) -> Result<Option<usize>> {
        // One byte more than the chunk needs, to detect payloads that are longer.
        let most = self.raw_bytes as usize + 1;
        let end = most.min(self.produced + STEP_BYTES);
        grow(output, end, &self.location)?;
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            None => {
                let decoder =
                    Decoder::new().map_err(|error| undecodable(&self.location, &error))?;
                self.decoder.insert(decoder)
            }
        };
        let stored = self.stored.bytes(read);
        let mut source = InBuffer::around(&stored[self.consumed..]);
        let mut target = OutBuffer::around(&mut output[self.produced..end]);
        let hint = decoder
            .run(&mut source, &mut target)
            .map_err(|error| undecodable(&self.location, &error))?;
        let (taken, written) = (source.pos(), target.pos());
        self.consumed += taken;
        self.produced += written;
        let all_read = self.consumed == stored.len();
        if (hint == 0 && all_read) || self.produced == most {
            return Ok(Some(self.produced));
        }
        if taken == 0 && written == 0 {
            return Err(self.undecodable(&io::Error::from(io::ErrorKind::UnexpectedEof)));
        }
        Ok(None)
    }

    fn undecodable(&self, error: &io::Error) -> Error {
        undecodable(&self.location, error)
    }
}

/// Makes a buffer at least `length` bytes long.
pub(super) fn grow(output: &mut Vec<u8>, length: usize, location: &ErrorLocation) -> Result<()> {
    if output.len() < length {
        reserve(output, length, location)?;
        output.resize(length, 0);
    }
    Ok(())
}

/// Makes space for `length` bytes in all.
fn reserve(output: &mut Vec<u8>, length: usize, location: &ErrorLocation) -> Result<()> {
    output
        .try_reserve_exact(length.saturating_sub(output.len()))
        .map_err(|error| undecodable(location, &io::Error::other(error)))
}

/// The error for a payload that cannot be decompressed.
pub(super) fn undecodable(location: &ErrorLocation, error: &io::Error) -> Error {
    Error::malformed(
        location.clone(),
        "zstd payload",
        format!("undecodable ({error})"),
        "whole zstd frames that decode to raw_byte_len bytes",
    )
}
