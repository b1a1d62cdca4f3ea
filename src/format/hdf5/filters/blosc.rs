//! The filter Blosc, version 1.

use crate::format::array::ZstdContext;
use crate::format::hdf5::filters::{blosclz, shuffle};
use crate::format::hdf5::source::Found;

/// The length of the header.
const HEADER: usize = 16;
/// The flags of the header.
const SHUFFLED: u8 = 0x01;
const STORED: u8 = 0x02;
const BIT_SHUFFLED: u8 = 0x04;
const NOT_SPLIT: u8 = 0x10;
/// Blocks of larger elements are not split into one stream for each byte of an element.
const MAX_SPLITS: usize = 16;
/// Streams of fewer bytes are not split off.
const MIN_STREAM: usize = 128;

/// The compressor of the streams.
#[derive(Debug, Clone, Copy)]
enum Compressor {
    BloscLz,
    Lz4,
    Snappy,
    Zlib,
    Zstd,
}

/// The header of a chunk.
struct Header {
    flags: u8,
    element: usize,
    size: usize,
    block: usize,
}

impl Header {
    fn parse(stored: &[u8], most: usize) -> Found<Self> {
        let header = stored.first_chunk::<HEADER>().ok_or("no header")?;
        let number = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
                as usize
        };
        let (size, block, length) = (number(4), number(8), number(12));
        if size > most {
            return Err(format!("{size} bytes, more than {most}"));
        }
        if length > stored.len() || length < HEADER {
            return Err(format!(
                "{length} stored bytes, expected at most {}",
                stored.len()
            ));
        }
        Ok(Self {
            flags: header[2],
            element: usize::from(header[3]).max(1),
            size,
            block,
        })
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Decompresses a chunk to at most `most` bytes, replacing the contents of `cells`.
pub(super) fn decompress(
    stored: &[u8],
    cells: &mut Vec<u8>,
    zstd: &mut ZstdContext,
    most: usize,
) -> Found<()> {
    let header = Header::parse(stored, most)?;
    cells.clear();
    if header.size == 0 {
        return Ok(());
    }
    if header.has(STORED) {
        let content = stored.get(HEADER..HEADER + header.size).ok_or("cut off")?;
        cells.extend_from_slice(content);
        return Ok(());
    }
    let compressor = match header.flags >> 5 {
        0 => Compressor::BloscLz,
        1 => Compressor::Lz4,
        2 => Compressor::Snappy,
        3 => Compressor::Zlib,
        4 => Compressor::Zstd,
        other => return Err(format!("the compressor has the unknown number {other}")),
    };
    if header.block == 0 || header.block > header.size {
        return Err(format!(
            "blocks of {} bytes, expected 1 to {}",
            header.block, header.size
        ));
    }
    let blocks = header.size.div_ceil(header.block);
    let starts = stored.get(HEADER..HEADER + blocks * 4).ok_or("cut off")?;
    cells.resize(header.size, 0);
    let mut block = Vec::new();
    let (starts, _) = starts.as_chunks::<4>();
    for (target, start) in cells.chunks_mut(header.block).zip(starts) {
        let start = u32::from_le_bytes(*start) as usize;
        let streams = stored.get(start..).ok_or("a block outside of the chunk")?;
        block.resize(target.len(), 0);
        read_block(&header, compressor, streams, &mut block, zstd)?;
        unfilter(&header, &block, target);
    }
    Ok(())
}

/// Decompresses the streams of a block.
fn read_block(
    header: &Header,
    compressor: Compressor,
    mut streams: &[u8],
    block: &mut [u8],
    zstd: &mut ZstdContext,
) -> Found<()> {
    let is_split = !header.has(NOT_SPLIT)
        && block.len() == header.block
        && header.element <= MAX_SPLITS
        && header.block / header.element >= MIN_STREAM;
    let count = if is_split { header.element } else { 1 };
    // Blosc makes split blocks a multiple of the element size, so that no byte is left over.
    if !block.len().is_multiple_of(count) {
        return Err(format!(
            "a block of {} bytes in {count} streams",
            block.len()
        ));
    }
    let length = block.len() / count;
    for target in block.chunks_mut(length.max(1)) {
        let (size, rest) = streams.split_first_chunk().ok_or("cut off")?;
        let size = u32::from_le_bytes(*size) as usize;
        let (stream, rest) = rest.split_at_checked(size).ok_or("cut off")?;
        streams = rest;
        if size == target.len() {
            target.copy_from_slice(stream);
            continue;
        }
        let written = match compressor {
            Compressor::BloscLz => blosclz::decompress(stream, target)?,
            Compressor::Lz4 => {
                let written = lz4_flex::block::decompress_into(stream, target);
                written.map_err(|error| error.to_string())?
            }
            Compressor::Snappy => {
                let written = snap::raw::Decoder::new().decompress(stream, target);
                written.map_err(|error| error.to_string())?
            }
            Compressor::Zlib => inflate(stream, target)?,
            Compressor::Zstd => {
                let zstd = zstd.get().map_err(|error| error.to_string())?;
                let written = zstd.decompress_to_buffer(stream, target);
                written.map_err(|error| error.to_string())?
            }
        };
        if written != target.len() {
            return Err(format!(
                "a stream of {written} bytes, expected {}",
                target.len()
            ));
        }
    }
    Ok(())
}

fn inflate(stream: &[u8], target: &mut [u8]) -> Found<usize> {
    let mut zlib = flate2::Decompress::new(true);
    let status = zlib.decompress(stream, target, flate2::FlushDecompress::Finish);
    status.map_err(|error| error.to_string())?;
    Ok(zlib.total_out() as usize)
}

/// Undoes the shuffle of a block.
fn unfilter(header: &Header, block: &[u8], target: &mut [u8]) {
    let size = header.element;
    let count = block.len() / size;
    let whole = count * size;
    if header.has(SHUFFLED) && size > 1 {
        shuffle::interleave(&block[..whole], size, &mut target[..whole]);
        target[whole..].copy_from_slice(&block[whole..]);
    } else if header.has(BIT_SHUFFLED) && count > 0 && count.is_multiple_of(8) {
        shuffle::unshuffle_bits(&block[..whole], size, &mut target[..whole]);
        target[whole..].copy_from_slice(&block[whole..]);
    } else {
        target.copy_from_slice(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chunk of one block that is not split.
    fn chunk(flags: u8, element: u8, size: usize, stream: &[u8]) -> Vec<u8> {
        let mut chunk = vec![2, 1, flags, element];
        chunk.extend((size as u32).to_le_bytes());
        chunk.extend((size as u32).to_le_bytes());
        chunk.extend(((HEADER + 8 + stream.len()) as u32).to_le_bytes());
        chunk.extend((HEADER as u32 + 4).to_le_bytes());
        chunk.extend((stream.len() as u32).to_le_bytes());
        chunk.extend(stream);
        chunk
    }

    fn decoded(stored: &[u8], most: usize) -> Found<Vec<u8>> {
        let mut cells = vec![1];
        decompress(stored, &mut cells, &mut ZstdContext::default(), most)?;
        Ok(cells)
    }

    #[test]
    fn blocks_of_each_compressor() {
        let content = [3; 400];
        let lz4 = lz4_flex::block::compress(&content);
        let zstd = zstd::bulk::compress(&content, 3).unwrap();
        let snappy = snap::raw::Encoder::new().compress_vec(&content).unwrap();
        for (number, stream) in [(1, &lz4), (2, &snappy), (4, &zstd)] {
            let stored = chunk(number << 5 | NOT_SPLIT, 4, 400, stream);
            assert_eq!(decoded(&stored, 400).unwrap(), content);
            decoded(&stored, 399).unwrap_err();
            for end in 0..stored.len() {
                decoded(&stored[..end], 400).unwrap_err();
            }
        }
        decoded(&chunk(2 << 5, 4, 400, &lz4), 400).unwrap_err();
    }

    #[test]
    fn bytes_are_unshuffled() {
        let stored = chunk(1 << 5 | SHUFFLED | NOT_SPLIT, 2, 5, &[1, 3, 2, 4, 5]);
        assert_eq!(decoded(&stored, 5).unwrap(), [1, 2, 3, 4, 5]);
    }
}
