//! Compression of the payloads of records.

use zstd::zstd_safe::{self, CCtx, CParameter};

use crate::format::array::Compression;

/// The id of the dictionary in the header of a frame.
const DICTIONARY_ID: u8 = 1;

/// Compresses payloads, with a context that is reused. Errors are messages without a location.
pub(super) struct Compressor {
    compression: Compression,
    context: Option<CCtx<'static>>,
    stored: Vec<u8>,
}

impl Compressor {
    pub fn new(compression: Compression) -> Self {
        Self {
            compression,
            context: None,
            stored: Vec::new(),
        }
    }

    /// Returns the stored form of a payload: the payload itself, or a frame in a buffer that the next call
    /// overwrites.
    pub fn compress<'a>(&'a mut self, raw: &'a [u8]) -> Result<&'a [u8], String> {
        let Compression::Zstd { level } = self.compression else {
            return Ok(raw);
        };
        let context = match &mut self.context {
            Some(context) => context,
            empty => empty.insert(new_context(level)?),
        };
        self.stored.clear();
        self.stored.reserve(zstd_safe::compress_bound(raw.len()));
        context.compress2(&mut self.stored, raw).map_err(fault)?;
        Ok(&self.stored)
    }

    /// Returns a frame that refers to a dictionary of raw content.
    pub fn compress_with(&self, dictionary: &[u8], raw: &[u8]) -> Result<Vec<u8>, String> {
        let level = match self.compression {
            Compression::Raw => zstd::DEFAULT_COMPRESSION_LEVEL,
            Compression::Zstd { level } => level,
        };
        let mut context = new_context(level)?;
        // As a prefix, the dictionary is raw content whatever its first bytes are.
        context.ref_prefix(dictionary).map_err(fault)?;
        let mut frame = Vec::with_capacity(zstd_safe::compress_bound(raw.len()) + 1);
        context.compress2(&mut frame, raw).map_err(fault)?;
        Ok(with_dictionary_id(frame))
    }
}

fn new_context(level: i32) -> Result<CCtx<'static>, String> {
    let mut context = CCtx::try_create().ok_or("cannot allocate memory for zstd")?;
    for parameter in [
        CParameter::CompressionLevel(level),
        CParameter::ContentSizeFlag(true),
        CParameter::ChecksumFlag(true),
    ] {
        context.set_parameter(parameter).map_err(fault)?;
    }
    Ok(context)
}

fn fault(code: usize) -> String {
    let name = zstd_safe::get_error_name(code);
    format!("zstd cannot compress the values: {name}")
}

/// Adds the dictionary id to a frame header. A raw dictionary has no id for libzstd, but other readers
/// look dictionaries up by their ids.
fn with_dictionary_id(mut frame: Vec<u8>) -> Vec<u8> {
    // The descriptor follows the magic. Frames have 9 bytes or more.
    if let Some(descriptor) = frame.get_mut(4) {
        let is_single_segment = *descriptor & 0x20 != 0;
        *descriptor |= 1;
        frame.insert(if is_single_segment { 5 } else { 6 }, DICTIONARY_ID);
    }
    frame
}
