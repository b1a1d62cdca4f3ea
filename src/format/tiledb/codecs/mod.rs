//! Filters: undoes the pipeline of one chunk of a tile. [`Encoder`] applies it.

mod compression;
mod deltas;
mod encoding;
mod integers;
mod protection;
mod runs;
mod shuffle;
mod steps;

use crate::format::tiledb::bytes::Fields;
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::schema::Filter;
use protection::{Checksum, TAG_BYTES, VECTOR_BYTES};
use runs::Texts;
use steps::Step;

pub(crate) use encoding::Encoder;
pub use protection::EncryptionKey;
pub(crate) use steps::Steps;

/// Maximum ratio of an intermediate stream to the decoded chunk. Filters lengthen a chunk by a small
/// factor at most.
const MAX_EXPANSION: usize = 16;
/// Bytes that an intermediate stream may have in addition, for short chunks.
const MAX_OVERHEAD: usize = 1 << 20;

/// Bytes between two filters.
enum Stream<'a> {
    Stored(&'a [u8]),
    /// Bytes from the position on.
    Decoded(Vec<u8>, usize),
}

impl Stream<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Stored(bytes) => bytes,
            Self::Decoded(bytes, start) => bytes.get(*start..).unwrap_or_default(),
        }
    }

    /// Leaves only the last `count` bytes.
    fn keep_last(&mut self, count: usize) {
        let skipped = self.bytes().len() - count;
        match self {
            Self::Stored(bytes) => *bytes = &bytes[skipped..],
            Self::Decoded(_, start) => *start += skipped,
        }
    }
}

/// One part of a compressed or encrypted stream.
struct Part {
    plain: usize,
    stored: usize,
    /// The initialisation vector and the tag of an encrypted part.
    protection: [u8; VECTOR_BYTES + TAG_BYTES],
}

/// Undoes the filters of chunks. Contexts and buffers are reused from chunk to chunk.
#[derive(Default)]
pub(crate) struct Codecs {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    spare: Vec<Vec<u8>>,
}

impl Codecs {
    /// Decodes one chunk into `output`, which has the chunk's original length.
    pub fn decode(
        &mut self,
        steps: &Steps,
        key: Option<&EncryptionKey>,
        metadata: &[u8],
        data: &[u8],
        output: &mut [u8],
    ) -> Decoded<()> {
        let limit = limit(output.len());
        let (metadata, data) = (Stream::Stored(metadata), Stream::Stored(data));
        let (metadata, data) = self.undo_all(steps, key, metadata, data, Some(output), limit)?;
        let left = metadata.bytes().len();
        self.recycle(metadata);
        self.recycle(data);
        finish(left)
    }

    /// Decodes one chunk of texts without offsets. Replaces `output` by the concatenated texts, and
    /// `offsets` by the start of each text and the end of the last.
    #[allow(clippy::too_many_arguments)]
    pub fn decode_texts(
        &mut self,
        steps: &Steps,
        key: Option<&EncryptionKey>,
        metadata: &[u8],
        data: &[u8],
        length: usize,
        output: &mut Vec<u8>,
        (cells, offsets): (usize, &mut Vec<u64>),
    ) -> Decoded<()> {
        let Some(first) = steps.texts else {
            return Err(Fault::new("filter", "missing", "encoded texts"));
        };
        let (metadata, data) = (Stream::Stored(metadata), Stream::Stored(data));
        let (metadata, data) = self.undo_all(steps, key, metadata, data, None, limit(length))?;
        let mut fields = Fields::new(metadata.bytes());
        let decode = match first {
            Filter::Rle => runs::repeat_texts,
            _ => runs::look_up_texts,
        };
        let texts = Texts {
            length,
            cells,
            output,
            offsets,
        };
        decode(&mut fields, data.bytes(), texts)?;
        let left = fields.remaining();
        self.recycle(metadata);
        self.recycle(data);
        finish(left)
    }

    /// Undoes all filters, and returns what is left of the metadata, and the data unless they are in
    /// `output`.
    fn undo_all<'a>(
        &mut self,
        steps: &Steps,
        key: Option<&EncryptionKey>,
        mut metadata: Stream<'a>,
        mut data: Stream<'a>,
        mut output: Option<&mut [u8]>,
        limit: usize,
    ) -> Decoded<(Stream<'a>, Stream<'a>)> {
        // The first filter that changes data decodes into `output`.
        let changes = |step: &Step| !matches!(step.filter, Filter::Md5 | Filter::Sha256);
        let first = steps.steps.iter().position(changes);
        let mut is_done = false;
        for (index, step) in steps.steps.iter().enumerate().rev() {
            let mut target = output.as_deref_mut().filter(|_| Some(index) == first);
            match step.filter {
                Filter::Md5 | Filter::Sha256 => {
                    let checksum = match step.filter {
                        Filter::Md5 => Checksum::Md5,
                        _ => Checksum::Sha256,
                    };
                    let mut fields = Fields::new(metadata.bytes());
                    let checked = match &output {
                        Some(output) if is_done => &**output,
                        _ => data.bytes(),
                    };
                    checksum.check(&mut fields, checked)?;
                    let left = fields.remaining();
                    metadata.keep_last(left);
                }
                Filter::Bitshuffle
                | Filter::Byteshuffle
                | Filter::BitWidthReduction { .. }
                | Filter::PositiveDelta { .. }
                | Filter::Xor
                | Filter::FloatScale { .. } => {
                    let mut fields = Fields::new(metadata.bytes());
                    let input = data.bytes();
                    let length = output_length(step, &mut fields, input.len())?;
                    match &mut target {
                        Some(output) => {
                            check_length(length, output.len())?;
                            undo(step, &mut fields, input, output)?;
                            is_done = true;
                        }
                        None => {
                            let mut target = self.buffer(length, limit)?;
                            undo(step, &mut fields, input, &mut target)?;
                            self.replace(&mut data, target);
                        }
                    }
                    let left = fields.remaining();
                    metadata.keep_last(left);
                }
                _ => {
                    let mut fields = Fields::new(metadata.bytes());
                    let ratio = step.ratio(steps.cell_bytes);
                    let (metadata_parts, data_parts) = read_parts(step, &mut fields, ratio)?;
                    fields.finish("part table")?;
                    let sum = |parts: &[Part]| {
                        let plain = parts.iter().map(|part| part.plain);
                        plain.fold(0, usize::saturating_add)
                    };
                    let mut input = Fields::new(data.bytes());
                    let mut new_metadata = self.buffer(sum(&metadata_parts), limit)?;
                    let parts = &metadata_parts;
                    self.undo_parts(steps, step, key, parts, &mut input, &mut new_metadata)?;
                    let (length, parts) = (sum(&data_parts), &data_parts);
                    match target {
                        Some(output) => {
                            check_length(length, output.len())?;
                            self.undo_parts(steps, step, key, parts, &mut input, output)?;
                            input.finish("compressed data")?;
                            is_done = true;
                        }
                        None => {
                            let mut target = self.buffer(length, limit)?;
                            self.undo_parts(steps, step, key, parts, &mut input, &mut target)?;
                            input.finish("compressed data")?;
                            self.replace(&mut data, target);
                        }
                    }
                    self.replace(&mut metadata, new_metadata);
                }
            }
        }
        if let (Some(output), false) = (output, is_done) {
            check_length(data.bytes().len(), output.len())?;
            output.copy_from_slice(data.bytes());
        }
        Ok((metadata, data))
    }

    /// Keeps the buffer of a stream for later.
    fn recycle(&mut self, stream: Stream<'_>) {
        if let Stream::Decoded(buffer, _) = stream {
            self.spare.push(buffer);
        }
    }

    /// Returns a buffer of a length, which must be within the limit for intermediate streams.
    fn buffer(&mut self, length: usize, limit: usize) -> Decoded<Vec<u8>> {
        if length > limit {
            let expected = format!("at most {limit} bytes");
            return Err(Fault::new("length between two filters", length, expected));
        }
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.resize(length, 0);
        Ok(buffer)
    }

    /// Replaces a stream, and keeps its buffer for later.
    fn replace(&mut self, stream: &mut Stream<'_>, bytes: Vec<u8>) {
        let old = std::mem::replace(stream, Stream::Decoded(bytes, 0));
        self.recycle(old);
    }

    /// Decompresses or decrypts parts one after another.
    fn undo_parts(
        &mut self,
        steps: &Steps,
        step: &Step,
        key: Option<&EncryptionKey>,
        parts: &[Part],
        input: &mut Fields<'_>,
        output: &mut [u8],
    ) -> Decoded<()> {
        let mut output = output;
        for part in parts {
            let stored = input.take("stored part", part.stored)?;
            // `output` is as long as all parts together.
            let (plain, rest) = std::mem::take(&mut output).split_at_mut(part.plain);
            output = rest;
            match step.filter {
                Filter::Gzip { .. } => compression::gzip(stored, plain)?,
                Filter::Zstd { .. } => compression::zstd(&mut self.zstd, stored, plain)?,
                Filter::Lz4 { .. } => compression::lz4(stored, plain)?,
                Filter::Bzip2 { .. } => compression::bzip2(stored, plain)?,
                Filter::Rle => runs::repeat(steps.cell_bytes, stored, plain)?,
                Filter::DoubleDelta { .. } => {
                    deltas::undo_double_delta(step.delta_bytes(), stored, plain)?;
                }
                Filter::Delta { .. } => deltas::undo_delta(step.delta_bytes(), stored, plain)?,
                _ => {
                    let Some(key) = key else {
                        return Err(Fault::new("encryption key", "missing", "a key of 32 bytes"));
                    };
                    if part.stored != part.plain {
                        let field = "length of an encrypted part";
                        return Err(Fault::new(field, part.stored, part.plain));
                    }
                    key.decrypt(&part.protection, stored, plain)?;
                }
            }
        }
        Ok(())
    }
}

/// The largest length of a stream between two filters of a chunk of a length.
fn limit(length: usize) -> usize {
    length
        .saturating_mul(MAX_EXPANSION)
        .saturating_add(MAX_OVERHEAD)
}

/// Checks that no metadata is left.
fn finish(left: usize) -> Decoded<()> {
    match left {
        0 => Ok(()),
        left => {
            let found = format!("{left} bytes too long");
            Err(Fault::new(
                "chunk metadata",
                found,
                "used up by the filters",
            ))
        }
    }
}

fn check_length(found: usize, expected: usize) -> Decoded<()> {
    if found == expected {
        return Ok(());
    }
    let (found, expected) = (format!("{found} bytes"), format!("{expected} bytes"));
    Err(Fault::new("length of decoded data", found, expected))
}

/// Reads the table of the parts of metadata and of data.
fn read_parts(
    step: &Step,
    metadata: &mut Fields<'_>,
    ratio: u64,
) -> Decoded<(Vec<Part>, Vec<Part>)> {
    let is_encrypted = step.filter == Filter::Aes256Gcm;
    let part_bytes = if is_encrypted {
        8 + VECTOR_BYTES + TAG_BYTES
    } else {
        8
    };
    let metadata_parts = metadata.u32("number of metadata parts")? as usize;
    let data_parts = metadata.count("number of data parts", part_bytes)?;
    let mut part = || -> Decoded<Part> {
        let plain = metadata.u32("length of a part")? as usize;
        let stored = metadata.u32("stored length of a part")? as usize;
        if plain as u64 > ratio.saturating_mul(stored as u64) {
            let expected = format!("no more than {stored} bytes hold");
            return Err(Fault::new("length of a part", plain, expected));
        }
        let mut protection = [0; VECTOR_BYTES + TAG_BYTES];
        if is_encrypted {
            protection = metadata.array("initialisation vector and tag")?;
        }
        Ok(Part {
            plain,
            stored,
            protection,
        })
    };
    let mut parts = Vec::new();
    for _ in 0..metadata_parts {
        parts.push(part()?);
    }
    let data = (0..data_parts).map(|_| part()).collect::<Decoded<_>>()?;
    Ok((parts, data))
}

/// Returns the length of the output of a filter that keeps the metadata of the filters before it.
/// Reads the header of bit width reduction up to its windows, and nothing of other headers.
fn output_length(step: &Step, metadata: &mut Fields<'_>, input: usize) -> Decoded<usize> {
    match step.filter {
        Filter::BitWidthReduction { .. } => {
            let length = integers::reduced_length(step.datatype, metadata, input)?;
            Ok(usize::try_from(length).unwrap_or(usize::MAX))
        }
        Filter::FloatScale { width, .. } => {
            let width = usize::from(width);
            if !input.is_multiple_of(width) {
                let expected = format!("a multiple of {width}");
                return Err(Fault::new("length of scaled integers", input, expected));
            }
            Ok((input / width).saturating_mul(step.datatype.size()))
        }
        _ => Ok(input),
    }
}

/// Undoes a filter that keeps the metadata of the filters before it.
fn undo(step: &Step, metadata: &mut Fields<'_>, input: &[u8], output: &mut [u8]) -> Decoded<()> {
    let size = step.datatype.size();
    match step.filter {
        Filter::BitWidthReduction { .. } => {
            return integers::widen(step.datatype, metadata, input, output);
        }
        Filter::PositiveDelta { .. } => {
            return integers::add_up(step.datatype, metadata, input, output);
        }
        _ => {}
    }
    let parts = metadata.count("number of parts", 4)?;
    let (mut input, mut output) = (Fields::new(input), output);
    for _ in 0..parts {
        let length = metadata.u32("length of a part")? as usize;
        let stored = input.take("part", length)?;
        let plain = match step.filter {
            Filter::FloatScale { width, .. } => length / usize::from(width) * size,
            _ => length,
        };
        // Input and output have the same number of values, but a part may end within a value.
        let Some((part, rest)) = std::mem::take(&mut output).split_at_mut_checked(plain) else {
            return Err(Fault::new("length of a part", length, "whole values"));
        };
        output = rest;
        match step.filter {
            Filter::Byteshuffle => shuffle::unshuffle_bytes(size, stored, part),
            Filter::Bitshuffle => shuffle::unshuffle_bits(size, stored, part)?,
            Filter::Xor => integers::undo_xor(size, stored, part)?,
            Filter::FloatScale {
                scale,
                offset,
                width,
            } => {
                let width = usize::from(width);
                integers::unscale(step.datatype, (scale, offset, width), stored, part);
            }
            _ => {}
        }
    }
    input.finish("parts")?;
    check_length(0, output.len())
}
