//! Decodes chunks by undoing their codecs one after another.
//!
//! ```text
//! stored bytes -> bytes-to-bytes   -> array-to-bytes        -> array-to-array -> cells
//!                 zstd, crc32c        bytes, or the shards      transpose
//! ```
//!
//! Each step has an upper bound for its output. `zarrs` undoes the codecs that cannot exceed it:
//! byte order, transpositions, checksums. Its codecs can panic on hostile bytes, and such a panic
//! becomes an error.

use std::borrow::Cow;
use std::fmt;
use std::mem;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;
use zarrs::array::codec::api::{
    ArrayToArrayCodecTraits, ArrayToBytesCodecTraits, BytesToBytesCodecTraits, Codec, CodecOptions,
};
use zarrs::array::{ArrayBytes, BytesRepresentation, CodecChain, DataType, FillValue};
use zarrs::metadata::v3::MetadataV3;
use zarrs::plugin::{ExtensionName, ZarrVersion};

use crate::format::array::DecodeContext;
use crate::format::zarr::codecs::bounded::CompressionFormat;
use crate::format::zarr::codecs::shard::Shards;
use crate::format::zarr::metadata::json::clipped;
use crate::format::zarr::{MAX_CHUNK_BYTES, cells};

/// Maximum number of codecs of an array, including those within shards.
const MAX_CODECS: usize = 32;

/// The codecs of an array's chunks, each list in the order of encoding.
pub(crate) struct Chain {
    array_to_array: Vec<Arc<dyn ArrayToArrayCodecTraits>>,
    to_bytes: ToBytes,
    bytes_to_bytes: Vec<BytesCodec>,
    /// `true` if the cells are strings in another order of dimensions. Numbers have a codec for that.
    has_transposed_texts: bool,
    names: Vec<String>,
}

/// The codec between cells and bytes.
enum ToBytes {
    Cells(Arc<dyn ArrayToBytesCodecTraits>),
    /// No codec: other code parses the bytes, those of strings or of a shard's index.
    Raw,
    Shards(Box<Shards>),
}

enum BytesCodec {
    Compression(CompressionFormat),
    Other(Arc<dyn BytesToBytesCodecTraits>),
}

/// The stored form of chunks that need no codec but zstd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlainChunk {
    Raw,
    Zstd,
}

/// The properties of a chunk that its codecs depend on.
pub(crate) struct ChunkLayout<'a> {
    pub shape: &'a [u64],
    pub data_type: &'a DataType,
    pub fill: &'a FillValue,
    /// Maximum number of bytes of strings; `None` for numbers, whose size is known exactly.
    pub text_bytes: Option<u64>,
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Chain").field(&self.names).finish()
    }
}

impl Chain {
    /// Returns the codecs of version 2, which `zarrs` has read from the metadata.
    pub fn of_v2(codecs: &CodecChain, is_text: bool, names: Vec<String>) -> Self {
        let bytes_to_bytes = codecs.bytes_to_bytes_codecs().iter().map(|codec| {
            let name = codec
                .name(ZarrVersion::V2)
                .or_else(|| codec.name(ZarrVersion::V3));
            match name.and_then(|name| CompressionFormat::named(&name)) {
                Some(compression) => BytesCodec::Compression(compression),
                None => BytesCodec::Other(Arc::clone(codec)),
            }
        });
        Self {
            has_transposed_texts: is_text && !codecs.array_to_array_codecs().is_empty(),
            array_to_array: if is_text {
                Vec::new()
            } else {
                codecs.array_to_array_codecs().to_vec()
            },
            to_bytes: if is_text {
                ToBytes::Raw
            } else {
                ToBytes::Cells(Arc::clone(codecs.array_to_bytes_codec()))
            },
            bytes_to_bytes: bytes_to_bytes.collect(),
            names,
        }
    }

    /// Parses the list of codecs in the metadata of version 3.
    ///
    /// # Errors
    /// Returns a message if a codec is malformed or not supported.
    pub fn of_v3(codecs: &Value, is_text: bool) -> Result<Self, String> {
        Self::of_list(codecs, is_text, &mut 0)
    }

    /// Parses a list of codecs. `count` counts the codecs in all lists of the array.
    pub fn of_list(codecs: &Value, is_text: bool, count: &mut usize) -> Result<Self, String> {
        let list = codecs.as_array().ok_or("codecs is not a list")?;
        let mut array_to_array = Vec::new();
        let mut to_bytes = None;
        let mut bytes_to_bytes = Vec::new();
        let mut has_transposed_texts = false;
        let mut names = Vec::new();
        for codec in list {
            *count += 1;
            if *count > MAX_CODECS {
                return Err(format!("more than {MAX_CODECS} codecs"));
            }
            let name = codec_name(codec)
                .ok_or_else(|| format!("codec {} has no name", clipped(&codec.to_string())))?;
            let mut set = |step| match to_bytes.replace(step) {
                None => Ok(()),
                Some(_) => Err("two codecs between cells and bytes".to_string()),
            };
            match name {
                "sharding_indexed" => {
                    let configuration = codec.get("configuration").unwrap_or(&Value::Null);
                    let shards = Shards::of(configuration, is_text, count)?;
                    has_transposed_texts |= shards.chain.has_transposed_texts;
                    names.push(format!("sharding({})", shards.codecs()));
                    set(ToBytes::Shards(Box::new(shards)))?;
                    continue;
                }
                "bytes" | "endian" | "vlen-utf8" if is_text => set(ToBytes::Raw)?,
                // Decompression does not depend on the configuration.
                _ if let Some(compression) = CompressionFormat::named(name) => {
                    bytes_to_bytes.push(BytesCodec::Compression(compression));
                }
                _ => match zarrs_codec(codec)? {
                    Codec::ArrayToArray(_) if is_text && name == "transpose" => {
                        has_transposed_texts = true;
                    }
                    Codec::ArrayToArray(_) | Codec::ArrayToBytes(_) if is_text => {
                        return Err(format!("codec {name:?} is not supported for strings"));
                    }
                    Codec::ArrayToArray(codec) => array_to_array.push(codec),
                    Codec::ArrayToBytes(codec) => set(ToBytes::Cells(codec))?,
                    Codec::BytesToBytes(codec) => bytes_to_bytes.push(BytesCodec::Other(codec)),
                },
            }
            names.push(name.to_string());
        }
        Ok(Self {
            array_to_array,
            to_bytes: to_bytes.ok_or("no codec between cells and bytes")?,
            bytes_to_bytes,
            has_transposed_texts,
            names,
        })
    }

    /// Returns `true` if the cells are strings whose dimensions are stored in another order.
    pub fn has_transposed_texts(&self) -> bool {
        self.has_transposed_texts
    }

    /// Returns the stored form of chunks that are plain cells, uncompressed or in one zstd frame;
    /// `None` for other chunks.
    ///
    /// The cells are assumed to have one byte, or to be little-endian.
    pub fn plain(&self) -> Option<PlainChunk> {
        let ToBytes::Cells(codec) = &self.to_bytes else {
            return None;
        };
        if !self.array_to_array.is_empty() || codec.name(ZarrVersion::V3)? != "bytes" {
            return None;
        }
        match self.bytes_to_bytes.as_slice() {
            [] => Some(PlainChunk::Raw),
            [BytesCodec::Compression(CompressionFormat::Zstd)] => Some(PlainChunk::Zstd),
            _ => None,
        }
    }

    /// Returns the names of the codecs, separated by commas.
    pub fn names(&self) -> String {
        self.names.join(", ")
    }

    /// Returns the shards if there is no codec around them, so that chunks can be read one by one.
    pub fn shards(&self) -> Option<&Shards> {
        match &self.to_bytes {
            ToBytes::Shards(shards)
                if self.array_to_array.is_empty() && self.bytes_to_bytes.is_empty() =>
            {
                Some(shards)
            }
            _ => None,
        }
    }

    /// Undoes the bytes-to-bytes codecs alone, for a result of `length` bytes.
    pub fn decode_bytes(&self, bytes: Vec<u8>, length: u64) -> Result<Vec<u8>, String> {
        let mut context = DecodeContext {
            stored: bytes,
            ..DecodeContext::default()
        };
        self.undo_bytes(&mut context, BytesRepresentation::FixedSize(length))?;
        Ok(context.stored)
    }

    /// Decodes the stored bytes of a chunk to row-major cells in the machine's byte order, or to
    /// the bytes of its strings.
    ///
    /// # Errors
    /// Returns a message if the bytes are malformed.
    pub fn decode(
        &self,
        context: &mut DecodeContext,
        chunk: &ChunkLayout<'_>,
    ) -> Result<(), String> {
        if let Some(most) = chunk.text_bytes {
            let representation = BytesRepresentation::BoundedSize(most);
            self.undo_bytes(context, representation)?;
            mem::swap(&mut context.stored, &mut context.cells);
            return match &self.to_bytes {
                ToBytes::Shards(_) => {
                    Err("strings in a shard that other codecs encode as a whole".to_string())
                }
                _ => Ok(()),
            };
        }
        // The shape, type and fill value before each array-to-array codec, and after the last.
        let shape = chunk.shape.iter().map(|extent| NonZeroU64::new(*extent));
        let shape = shape
            .collect::<Option<Vec<_>>>()
            .ok_or("a chunk without cells")?;
        let mut steps = vec![(shape, chunk.data_type.clone(), chunk.fill.clone())];
        for codec in &self.array_to_array {
            let (shape, data_type, fill) = &steps[steps.len() - 1];
            let next = guarded(|| codec.encoded_representation(shape, data_type, fill))?;
            check_size(&next.0, &next.1)?;
            steps.push((next.0.to_vec(), next.1, next.2));
        }
        let (shape, data_type, fill) = &steps[steps.len() - 1];
        check_size(shape, data_type)?;
        let mut cells = match &self.to_bytes {
            ToBytes::Cells(codec) => {
                let representation =
                    guarded(|| codec.encoded_representation(shape, data_type, fill))?;
                self.undo_bytes(context, representation)?;
                // Swap the buffers, so that both are reused for the next chunk.
                let bytes = mem::replace(&mut context.stored, mem::take(&mut context.cells));
                if let BytesRepresentation::FixedSize(length) = representation
                    && bytes.len() as u64 != length
                {
                    return Err(format!("{} bytes, expected {length}", bytes.len()));
                }
                guarded(|| codec.decode(Cow::Owned(bytes), shape, data_type, fill, &options()))?
            }
            ToBytes::Shards(shards) => {
                let most = BytesRepresentation::BoundedSize(MAX_CHUNK_BYTES);
                self.undo_bytes(context, most)?;
                let shape: Vec<u64> = shape.iter().map(|extent| extent.get()).collect();
                let whole = ChunkLayout {
                    shape: &shape,
                    data_type,
                    fill,
                    text_bytes: None,
                };
                ArrayBytes::new_flen(shards.decode(&context.stored, &whole)?)
            }
            ToBytes::Raw => return Err("numbers without a codec for bytes".to_string()),
        };
        for (codec, (shape, data_type, fill)) in self.array_to_array.iter().zip(&steps).rev() {
            cells = guarded(|| codec.decode(cells, shape, data_type, fill, &options()))?;
        }
        context.cells = cells
            .into_fixed()
            .map_err(|error| error.to_string())?
            .into_owned();
        let expected = cells::byte_count(chunk.shape, fixed_size(chunk.data_type)?);
        if expected != Some(context.cells.len() as u64) {
            return Err(format!(
                "{} bytes of cells, which do not match the chunk's shape",
                context.cells.len()
            ));
        }
        Ok(())
    }

    /// Undoes the bytes-to-bytes codecs of the stored bytes, in place.
    fn undo_bytes(
        &self,
        context: &mut DecodeContext,
        first: BytesRepresentation,
    ) -> Result<(), String> {
        // The size of the input of each codec when the chunk was encoded, or an upper bound of it.
        let mut given = vec![first];
        for codec in &self.bytes_to_bytes {
            let last = given[given.len() - 1];
            given.push(match codec {
                BytesCodec::Compression(_) => match last.size() {
                    // Larger than the output of any compression for incompressible bytes, but by so
                    // little that stacked codecs cannot make a small chunk large.
                    Some(size) => BytesRepresentation::BoundedSize(
                        size.saturating_add(size / 32).saturating_add(4096),
                    ),
                    None => BytesRepresentation::UnboundedSize,
                },
                BytesCodec::Other(codec) => {
                    guarded(|| Ok::<_, String>(codec.encoded_representation(&last)))?
                }
            });
        }
        for (codec, given) in self.bytes_to_bytes.iter().zip(&given).rev() {
            let most = given
                .size()
                .unwrap_or(MAX_CHUNK_BYTES)
                .min(2 * MAX_CHUNK_BYTES);
            let DecodeContext {
                stored,
                cells,
                zstd,
            } = context;
            match codec {
                BytesCodec::Compression(compression) => {
                    compression.decode(stored, most, zstd, cells)?;
                    mem::swap(stored, cells);
                }
                BytesCodec::Other(codec) => {
                    let bytes = Cow::Owned(mem::take(stored));
                    *stored = guarded(|| codec.decode(bytes, given, &options()))?.into_owned();
                }
            }
            if stored.len() as u64 > most {
                return Err(format!("{} bytes, expected at most {most}", stored.len()));
            }
        }
        Ok(())
    }
}

/// Creates the codec of `zarrs` for a codec's metadata.
fn zarrs_codec(codec: &Value) -> Result<Codec, String> {
    let metadata: MetadataV3 =
        serde_json::from_value(codec.clone()).map_err(|error| clipped(&error.to_string()))?;
    guarded(|| Codec::from_metadata(&metadata))
}

/// Returns the name of a codec in a list of version 3.
pub(crate) fn codec_name(codec: &Value) -> Option<&str> {
    codec.as_str().or_else(|| codec.get("name")?.as_str())
}

/// Returns the bytes per cell of a numeric type.
pub(crate) fn fixed_size(data_type: &DataType) -> Result<u64, String> {
    let size = data_type.fixed_size().ok_or("cells without a fixed size")?;
    Ok(size as u64)
}

fn check_size(shape: &[NonZeroU64], data_type: &DataType) -> Result<(), String> {
    let shape: Vec<u64> = shape.iter().map(|extent| extent.get()).collect();
    match cells::byte_count(&shape, fixed_size(data_type)?) {
        Some(bytes) if bytes <= MAX_CHUNK_BYTES => Ok(()),
        _ => Err(format!(
            "a shape of {shape:?} cells, more than {MAX_CHUNK_BYTES} bytes"
        )),
    }
}

/// Returns options for a single thread, since chunks are already decoded in parallel.
fn options() -> CodecOptions {
    CodecOptions::default().with_concurrent_target(1)
}

/// Calls into `zarrs`, turning panics into errors.
pub(crate) fn guarded<T, E: fmt::Display>(
    call: impl FnOnce() -> Result<T, E>,
) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|error| clipped(&error.to_string())),
        Err(_) => Err("bytes that the codec cannot decode".to_string()),
    }
}
