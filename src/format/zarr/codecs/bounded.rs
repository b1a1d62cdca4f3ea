//! Decompression that is bounded by the size of a chunk, whatever the compressed bytes claim.

use std::io::{Cursor, Read};

use zarrs::array::codec::{blosc_decompress_bytes, blosc_validate};

use crate::format::array::ZstdContext;

/// A compression format with output of unbounded length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompressionFormat {
    Gzip,
    Zlib,
    Bz2,
    Zstd,
    Blosc,
}

impl CompressionFormat {
    /// Returns the compression of a codec name, as either version of Zarr spells it.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name.strip_prefix("numcodecs.").unwrap_or(name) {
            "gzip" => Self::Gzip,
            "zlib" => Self::Zlib,
            "bz2" => Self::Bz2,
            "zstd" => Self::Zstd,
            "blosc" => Self::Blosc,
            _ => return None,
        })
    }

    /// Decompresses `bytes` to at most `most` bytes, replacing the contents of `output`.
    ///
    /// # Errors
    /// Returns a message if the bytes are malformed, or decompress to more than `most` bytes.
    pub fn decode(
        self,
        bytes: &[u8],
        most: u64,
        zstd: &mut ZstdContext,
        output: &mut Vec<u8>,
    ) -> Result<(), String> {
        output.clear();
        let bytes_left = Cursor::new(bytes);
        match self {
            Self::Gzip => read(
                flate2::bufread::MultiGzDecoder::new(bytes_left),
                most,
                output,
            ),
            Self::Zlib => read(flate2::bufread::ZlibDecoder::new(bytes_left), most, output),
            Self::Bz2 => read(
                bzip2::bufread::MultiBzDecoder::new(bytes_left),
                most,
                output,
            ),
            Self::Zstd => zstd_frames(bytes, most, zstd, output),
            Self::Blosc => {
                *output = blosc(bytes, most)?;
                Ok(())
            }
        }
    }
}

fn read(decoder: impl Read, most: u64, output: &mut Vec<u8>) -> Result<(), String> {
    decoder
        .take(most.saturating_add(1))
        .read_to_end(output)
        .map_err(|error| error.to_string())?;
    if output.len() as u64 > most {
        return Err(too_long(most));
    }
    Ok(())
}

fn zstd_frames(
    bytes: &[u8],
    most: u64,
    zstd: &mut ZstdContext,
    output: &mut Vec<u8>,
) -> Result<(), String> {
    // Most payloads are one frame that states its length. Decompressing it in one call is faster.
    if let Ok(Some(length)) = zstd::zstd_safe::get_frame_content_size(bytes) {
        if length > most {
            return Err(too_long(most));
        }
        let is_alone = zstd::zstd_safe::find_frame_compressed_size(bytes) == Ok(bytes.len());
        if is_alone && let Ok(length) = usize::try_from(length) {
            // The memory is reserved, but not cleared: a frame may state far more bytes than it
            // holds.
            output
                .try_reserve_exact(length)
                .map_err(|error| error.to_string())?;
            let context = zstd.get().map_err(|error| error.to_string())?;
            return match context.decompress_to_buffer(bytes, output) {
                Ok(_) => Ok(()),
                Err(error) => Err(error.to_string()),
            };
        }
    }
    let decoder = zstd::stream::read::Decoder::with_buffer(Cursor::new(bytes));
    read(decoder.map_err(|error| error.to_string())?, most, output)
}

fn blosc(bytes: &[u8], most: u64) -> Result<Vec<u8>, String> {
    // A chunk without cells, for which the library returns an error.
    if bytes.get(4..8) == Some(&[0; 4]) {
        return Ok(Vec::new());
    }
    let length = blosc_validate(bytes).ok_or("not a blosc buffer")?;
    if length as u64 > most {
        return Err(too_long(most));
    }
    blosc_decompress_bytes(bytes, length, 1).map_err(|error| error.to_string())
}

fn too_long(most: u64) -> String {
    format!("more than the {most} bytes that the chunk has room for")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn decode(compression: CompressionFormat, bytes: &[u8], most: u64) -> Result<Vec<u8>, String> {
        // The buffer is longer than the result and has other contents.
        let mut output = vec![1; 2 << 20];
        let mut zstd = ZstdContext::default();
        compression.decode(bytes, most, &mut zstd, &mut output)?;
        Ok(output)
    }

    fn compressed(compression: CompressionFormat, cells: &[u8]) -> Vec<u8> {
        match compression {
            CompressionFormat::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
                encoder.write_all(cells).unwrap();
                encoder.finish().unwrap()
            }
            CompressionFormat::Zlib => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), Default::default());
                encoder.write_all(cells).unwrap();
                encoder.finish().unwrap()
            }
            CompressionFormat::Bz2 => {
                let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), Default::default());
                encoder.write_all(cells).unwrap();
                encoder.finish().unwrap()
            }
            CompressionFormat::Zstd => zstd::bulk::compress(cells, 3).unwrap(),
            CompressionFormat::Blosc => {
                use zarrs::array::codec::{
                    BloscCompressor, BloscShuffleMode, blosc_compress_bytes,
                };
                let level = 5.try_into().unwrap();
                let shuffle = BloscShuffleMode::Shuffle;
                blosc_compress_bytes(cells, level, shuffle, 4, BloscCompressor::LZ4, 0, 1).unwrap()
            }
        }
    }

    #[test]
    fn output_is_bounded() {
        let cells = vec![7; 1 << 20];
        for compression in [
            CompressionFormat::Gzip,
            CompressionFormat::Zlib,
            CompressionFormat::Bz2,
            CompressionFormat::Zstd,
            CompressionFormat::Blosc,
        ] {
            let bytes = compressed(compression, &cells);
            let length = cells.len() as u64;
            assert_eq!(decode(compression, &bytes, length).unwrap(), cells);
            let message = decode(compression, &bytes, length - 1).unwrap_err();
            assert!(message.contains("room for"), "{compression:?}: {message}");
            for end in 0..bytes.len().min(100) {
                let _ = decode(compression, &bytes[..end], length);
            }
            decode(compression, &bytes[..bytes.len() / 2], length).unwrap_err();
        }
    }

    #[test]
    fn zstd_frames_that_lie_about_their_length() {
        // The header states a length of 2^60 bytes.
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0x58];
        frame.extend_from_slice(&(1u64 << 60).to_le_bytes());
        frame.extend_from_slice(&[1, 0, 0]);
        let message = decode(CompressionFormat::Zstd, &frame, 1 << 20).unwrap_err();
        assert!(message.contains("room for"), "{message}");
        let two: Vec<u8> = [b"ab", b"cd"]
            .iter()
            .flat_map(|part| zstd::bulk::compress(*part, 3).unwrap())
            .collect();
        assert_eq!(decode(CompressionFormat::Zstd, &two, 4).unwrap(), b"abcd");
    }
}
