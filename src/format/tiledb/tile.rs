//! Tiles: sequences of filtered chunks, and the generic tiles that wrap metadata.

use std::ops::Range;

use crate::format::tiledb::bytes::Fields;
use crate::format::tiledb::codecs::{Codecs, EncryptionKey, Steps};
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::schema::{Datatype, Filter, Pipeline, check_version};

/// Maximum size of a decoded tile in bytes.
pub(crate) const MAX_TILE_BYTES: usize = 1 << 34;
/// Maximum size of a decoded generic tile in bytes.
const MAX_GENERIC_TILE_BYTES: u64 = 1 << 30;
/// Length of the header of a generic tile.
pub(crate) const GENERIC_HEADER_BYTES: usize = 34;

/// One filtered chunk.
struct Chunk<'a> {
    original: usize,
    metadata: &'a [u8],
    data: &'a [u8],
}

impl<'a> Chunk<'a> {
    fn read(fields: &mut Fields<'a>) -> Decoded<Self> {
        let original = fields.u32("original length of a chunk")? as usize;
        let filtered = fields.u32("filtered length of a chunk")? as usize;
        let metadata = fields.u32("length of chunk metadata")? as usize;
        Ok(Self {
            original,
            metadata: fields.take("chunk metadata", metadata)?,
            data: fields.take("chunk data", filtered)?,
        })
    }
}

/// Decodes the chunks of a tile that hold the bytes in `needed`, and returns the position of the
/// first decoded byte in the tile. The tile has the stated length; all of it is decoded if all of it
/// is needed.
///
/// For texts that are stored without offsets, `texts` is their number and the buffer for their
/// offsets.
#[allow(clippy::too_many_arguments)]
pub(crate) fn decode(
    codecs: &mut Codecs,
    steps: &Steps,
    key: Option<&EncryptionKey>,
    stored: &[u8],
    length: usize,
    needed: Range<usize>,
    output: &mut Vec<u8>,
    texts: Option<(usize, &mut Vec<u64>)>,
) -> Decoded<usize> {
    if length > MAX_TILE_BYTES {
        return Err(Fault::new(
            "tile size",
            length,
            format!("at most {MAX_TILE_BYTES} bytes"),
        ));
    }
    let mut fields = Fields::new(stored);
    let chunks = fields.count_u64("number of chunks", 12)?;
    if steps.texts.is_some() && chunks != 1 {
        return Err(Fault::new(
            "number of chunks",
            chunks,
            "1, as texts have no offsets",
        ));
    }
    let all = fields.clone();
    let is_needed = |start: usize, chunk: &Chunk<'_>| {
        start < needed.end && start.saturating_add(chunk.original) > needed.start
    };
    let mut total = 0usize;
    let mut decoded: Option<Range<usize>> = None;
    for _ in 0..chunks {
        let chunk = Chunk::read(&mut fields)?;
        let bytes = chunk.data.len() + chunk.metadata.len();
        if steps.texts.is_none() && !steps.is_plausible(bytes, chunk.original) {
            let expected = format!("no more than the filters make of {bytes} bytes");
            return Err(Fault::new(
                "original length of a chunk",
                chunk.original,
                expected,
            ));
        }
        let end = total.saturating_add(chunk.original);
        if is_needed(total, &chunk) {
            decoded.get_or_insert(total..end).end = end;
        }
        total = end;
    }
    fields.finish("tile")?;
    if total != length {
        return Err(Fault::new(
            "tile size",
            format!("{total} bytes"),
            format!("{length} bytes"),
        ));
    }
    if let Some((cells, offsets)) = texts {
        let mut fields = all;
        let chunk = Chunk::read(&mut fields)?;
        let (metadata, data) = (chunk.metadata, chunk.data);
        codecs.decode_texts(steps, key, metadata, data, length, output, (cells, offsets))?;
        return Ok(0);
    }
    let decoded = decoded.unwrap_or(0..0);
    output.resize(decoded.len(), 0);
    let (mut fields, mut output) = (all, output.as_mut_slice());
    let mut start = 0;
    for _ in 0..chunks {
        let chunk = Chunk::read(&mut fields)?;
        if is_needed(start, &chunk) {
            let (plain, rest) = output.split_at_mut(chunk.original);
            output = rest;
            codecs.decode(steps, key, chunk.metadata, chunk.data, plain)?;
        }
        start += chunk.original;
    }
    Ok(decoded.start)
}

/// The header of a generic tile.
pub(crate) struct GenericHeader {
    version: u32,
    persisted: u64,
    plain: u64,
    datatype: Datatype,
    cell_bytes: u64,
    is_encrypted: bool,
    pipeline_bytes: u32,
}

impl GenericHeader {
    /// Parses the first [`GENERIC_HEADER_BYTES`] bytes of a generic tile.
    pub fn parse(bytes: &[u8]) -> Decoded<Self> {
        let mut fields = Fields::new(bytes);
        let version = fields.u32("version of a generic tile")?;
        let header = Self {
            version: check_version("version of a generic tile", version)?,
            persisted: fields.u64("persisted size")?,
            plain: fields.u64("tile size")?,
            datatype: Datatype::from_code("tile datatype", fields.u8("tile datatype")?)?,
            cell_bytes: fields.u64("cell size")?,
            is_encrypted: match fields.u8("encryption type")? {
                0 => false,
                1 => true,
                other => return Err(Fault::new("encryption type", other, "0 or 1")),
            },
            pipeline_bytes: fields.u32("pipeline length")?,
        };
        match header.plain {
            ..=MAX_GENERIC_TILE_BYTES => Ok(header),
            plain => {
                let expected = format!("at most {MAX_GENERIC_TILE_BYTES} bytes");
                Err(Fault::new("tile size", plain, expected))
            }
        }
    }

    /// The length of the pipeline and the tile, which follow the header.
    pub fn body_bytes(&self) -> u64 {
        self.persisted
            .saturating_add(u64::from(self.pipeline_bytes))
    }

    /// Decodes the pipeline and the tile, which follow the header.
    pub fn decode(
        &self,
        codecs: &mut Codecs,
        key: Option<&EncryptionKey>,
        body: &[u8],
    ) -> Decoded<Vec<u8>> {
        if self.is_encrypted && key.is_none() {
            return Err(Fault::new("encryption key", "missing", "a key of 32 bytes"));
        }
        let mut fields = Fields::new(body);
        let pipeline = fields.take_u64("pipeline", u64::from(self.pipeline_bytes))?;
        let pipeline = Pipeline::read(&mut Fields::new(pipeline))?;
        if self.is_encrypted != pipeline.filters().contains(&Filter::Aes256Gcm) {
            let expected = "encryption as in the header";
            return Err(Fault::new(
                "pipeline of a generic tile",
                &pipeline,
                expected,
            ));
        }
        let cell_bytes = usize::try_from(self.cell_bytes).unwrap_or(usize::MAX);
        let steps = Steps::new(&pipeline, self.datatype, cell_bytes, false, self.version)?;
        let stored = fields.take_u64("tile", self.persisted)?;
        let mut output = Vec::new();
        // `parse` limits the length.
        let length = self.plain as usize;
        let all = 0..length;
        decode(codecs, &steps, key, stored, length, all, &mut output, None)?;
        Ok(output)
    }
}

/// Returns `true` if the generic tile at the start of `bytes` is encrypted.
pub(crate) fn is_encrypted(bytes: &[u8]) -> Decoded<bool> {
    let mut fields = Fields::new(bytes);
    let header = fields.take("header of a generic tile", GENERIC_HEADER_BYTES)?;
    Ok(GenericHeader::parse(header)?.is_encrypted)
}

/// Decodes a generic tile at the start of `bytes`, and returns the bytes behind it too.
pub(crate) fn decode_generic<'a>(
    codecs: &mut Codecs,
    key: Option<&EncryptionKey>,
    bytes: &'a [u8],
) -> Decoded<(Vec<u8>, &'a [u8])> {
    let mut fields = Fields::new(bytes);
    let header = fields.take("header of a generic tile", GENERIC_HEADER_BYTES)?;
    let header = GenericHeader::parse(header)?;
    let body = fields.take_u64("generic tile", header.body_bytes())?;
    Ok((header.decode(codecs, key, body)?, fields.rest()))
}
