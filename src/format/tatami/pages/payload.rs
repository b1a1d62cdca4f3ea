//! Reads and decompresses the payloads of records.

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;

use bytes::Bytes;
use zstd::zstd_safe::{self, DCtx, DDict, InBuffer, OutBuffer, ResetDirective, SafeResult};

use crate::format::fault::Fault;
use crate::format::tatami::layout::header::check_crc;
use crate::format::tatami::layout::record::RecordHeader;
use crate::format::tatami::layout::types::Codec;

/// The maximum length of a payload before compression, in bytes.
pub const MAX_PAYLOAD_BYTES: u32 = 1 << 30;

/// The maximum compression ratio of zstd: a block of four bytes can decompress to 128 KiB.
pub(crate) const MAX_ZSTD_RATIO: u64 = 1 << 15;

/// The minimum number of bytes to decompress at a time: the size of the largest zstd block.
const STEP_BYTES: usize = 128 << 10;

/// The minimum number of bytes of a zstd frame before the first block.
const MAGIC_BYTES: usize = 4;

/// The first bytes of a trained dictionary.
const DICTIONARY_MAGIC: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];

/// A zstd context and the bytes that it decompressed last.
#[derive(Default)]
pub(crate) struct Decompressor {
    context: Option<DCtx<'static>>,
    raw: Vec<u8>,
}

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decompressor").finish_non_exhaustive()
    }
}

impl Decompressor {
    /// Checks the checksum of a stored payload, and returns the payload before compression: the stored
    /// bytes themselves, or bytes in a buffer that the next call overwrites.
    pub fn payload<'a>(
        &'a mut self,
        header: &RecordHeader,
        stored: &'a [u8],
    ) -> Result<&'a [u8], Fault> {
        check_crc("payload checksum", stored, header.crc)?;
        match known_codec(header)? {
            Codec::None => uncompressed(header, stored),
            Codec::Zstd => {
                let context = context_in(&mut self.context)?;
                decompress(context, header, stored, &mut self.raw)?;
                Ok(&self.raw)
            }
            codec => Err(Fault::new(
                "codec",
                format!("{codec}, which only blob runs can have"),
                "none or zstd",
            )),
        }
    }

    /// Does the same as [`Self::payload`], and returns bytes that no other call overwrites.
    pub fn shared_payload(&mut self, header: &RecordHeader, stored: &[u8]) -> Result<Bytes, Fault> {
        self.payload(header, stored)?;
        Ok(match header.codec() {
            Some(Codec::None) => Bytes::copy_from_slice(stored),
            _ => {
                let mut raw = std::mem::take(&mut self.raw);
                // Views keep all of the memory.
                raw.shrink_to_fit();
                raw.into()
            }
        })
    }
}

/// Returns the codec of a record. Fails if its id is unknown or the format defines no layout for it.
fn known_codec(header: &RecordHeader) -> Result<Codec, Fault> {
    match header.codec() {
        Some(Codec::Lz4) => {
            let found = "lz4, which has no defined layout";
            Err(Fault::new("codec", found, "none or zstd"))
        }
        Some(codec) => Ok(codec),
        None => Err(Fault::new("codec", header.codec, "a codec from 0 to 3")),
    }
}

/// The payload of a blob run, which is decompressed step by step, as far as needed.
#[derive(Default)]
pub(crate) struct PartialPayload {
    context: Option<DCtx<'static>>,
    /// The dictionary used last, with the address and the length of its raw content, which tell
    /// dictionaries apart because the file keeps all of them in memory.
    dictionary: Option<((usize, usize), DDict<'static>)>,
    /// The stored frame, if not all of it is decompressed.
    frame: Vec<u8>,
    /// The number of bytes of the frame that are already decompressed.
    taken: usize,
    /// The decompressed part of the payload. The buffer may be longer, because it is reused.
    raw: Vec<u8>,
    decompressed: usize,
    size: usize,
    /// The payload, if it is shared with its values. `raw` is empty then.
    shared: Option<Bytes>,
}

impl std::fmt::Debug for PartialPayload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartialPayload").finish_non_exhaustive()
    }
}

impl PartialPayload {
    /// Starts a new payload, and verifies its checksum. The payload may refer to the raw content of a
    /// dictionary. With `is_whole`, all of it is decompressed at once.
    pub fn start(
        &mut self,
        header: &RecordHeader,
        stored: &[u8],
        dictionary: Option<&[u8]>,
        is_whole: bool,
    ) -> Result<(), Fault> {
        (self.size, self.decompressed, self.taken) = (0, 0, 0);
        self.shared = None;
        check_crc("payload checksum", stored, header.crc)?;
        match known_codec(header)? {
            Codec::Zstd => {
                check_raw_size(header)?;
                let context = context_in(&mut self.context)?;
                context
                    .reset(ResetDirective::SessionOnly)
                    .map_err(zstd_fault)?;
                let size = header.raw_size as usize;
                // Without a declared size, the context might need far more memory than the payload. And a
                // small payload is not worth the buffers of a stream.
                let declared = zstd_safe::get_frame_content_size(stored).ok().flatten();
                if is_whole || size <= STEP_BYTES || declared != Some(size as u64) {
                    decompress(context, header, stored, &mut self.raw)?;
                    (self.size, self.decompressed) = (size, size);
                    return Ok(());
                }
                self.frame.clear();
                self.frame.extend_from_slice(stored);
                self.size = size;
                return Ok(());
            }
            Codec::ZstdDict => {
                let Some(dictionary) = dictionary else {
                    let found = "zstd_dict without a dictionary";
                    return Err(Fault::new("codec", found, "a column with a dictionary"));
                };
                self.with_dictionary(header, &without_dictionary_id(stored), dictionary)?;
            }
            _ => {
                let payload = uncompressed(header, stored)?;
                self.raw.clear();
                self.raw.extend_from_slice(payload);
            }
        }
        (self.size, self.decompressed) = (self.raw.len(), self.raw.len());
        Ok(())
    }

    /// Decompresses a frame that refers to the raw content of a dictionary.
    fn with_dictionary(
        &mut self,
        header: &RecordHeader,
        frame: &[u8],
        dictionary: &[u8],
    ) -> Result<(), Fault> {
        if dictionary.starts_with(&DICTIONARY_MAGIC) {
            // As a prefix, the dictionary is raw content whatever its first bytes are.
            let mut context = new_context()?;
            context.ref_prefix(dictionary).map_err(zstd_fault)?;
            return decompress(&mut context, header, frame, &mut self.raw);
        }
        // zstd decompresses about twice as fast with a context and a dictionary that it has used before.
        let context = context_in(&mut self.context)?;
        let address = (dictionary.as_ptr() as usize, dictionary.len());
        let (_, prepared) = match self.dictionary.take() {
            Some(known) if known.0 == address => self.dictionary.insert(known),
            _ => {
                let prepared = DDict::try_create(dictionary).ok_or_else(|| {
                    let found = "not available for a zstd dictionary";
                    Fault::new("memory", found, format!("{} bytes", dictionary.len()))
                })?;
                self.dictionary.insert((address, prepared))
            }
        };
        decompress_with(header, &mut self.raw, |raw| {
            context.decompress_using_ddict(raw, frame, prepared)
        })
    }

    /// The length of the whole payload in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the whole payload, for values that share it.
    pub fn shared(&mut self) -> Result<&Bytes, Fault> {
        self.first(self.size)?;
        let raw = &mut self.raw;
        raw.truncate(self.size);
        Ok(self
            .shared
            .get_or_insert_with(|| std::mem::take(raw).into()))
    }

    /// Returns the first `end` bytes of the payload, or more, or all of it if it is shorter.
    pub fn first(&mut self, end: usize) -> Result<&[u8], Fault> {
        if let Some(shared) = &self.shared {
            return Ok(shared);
        }
        let end = end.min(self.size);
        if self.decompressed < end {
            let context = context_in(&mut self.context)?;
            let target = end.max(self.decompressed + STEP_BYTES).min(self.size);
            if self.raw.len() < target {
                self.raw.resize(target, 0);
            }
            while self.decompressed < target {
                let mut output = OutBuffer::around_pos(&mut self.raw[..target], self.decompressed);
                let mut input = InBuffer {
                    src: &self.frame,
                    pos: self.taken,
                };
                context
                    .decompress_stream(&mut output, &mut input)
                    .map_err(zstd_fault)?;
                let (taken, decompressed) = (input.pos, output.pos());
                if (taken, decompressed) == (self.taken, self.decompressed) {
                    let found = format!("{decompressed} bytes, as decompressed");
                    let expected = format!("{} bytes", self.size);
                    return Err(Fault::new("uncompressed size", found, expected));
                }
                (self.taken, self.decompressed) = (taken, decompressed);
            }
        }
        Ok(&self.raw[..self.decompressed])
    }
}

/// Returns a payload that is not compressed.
fn uncompressed<'a>(header: &RecordHeader, stored: &'a [u8]) -> Result<&'a [u8], Fault> {
    if header.raw_size == header.stored_size {
        return Ok(stored);
    }
    let found = format!("{} bytes", header.raw_size);
    let expected = format!("{}, as stored", header.stored_size);
    Err(Fault::new("uncompressed size", found, expected))
}

/// Fails if the declared size is greater than a zstd frame of the stored size can decompress to.
fn check_raw_size(header: &RecordHeader) -> Result<(), Fault> {
    let stored = u64::from(header.stored_size);
    let most = (stored * MAX_ZSTD_RATIO).min(u64::from(MAX_PAYLOAD_BYTES));
    if u64::from(header.raw_size) > most {
        let found = format!("{} bytes", header.raw_size);
        let expected = format!("at most {most} for {stored} stored bytes");
        return Err(Fault::new("uncompressed size", found, expected));
    }
    Ok(())
}

thread_local! {
    /// A context of a reader that is gone: creating one takes longer than decompressing a small page.
    static SPARE: Cell<Option<DCtx<'static>>> = const { Cell::new(None) };
}

/// Returns the context, which is created on first use.
fn context_in<'a>(context: &'a mut Option<DCtx<'static>>) -> Result<&'a mut DCtx<'static>, Fault> {
    match context {
        Some(context) => Ok(context),
        empty => {
            let spare = SPARE.take().map(Ok);
            Ok(empty.insert(spare.unwrap_or_else(new_context)?))
        }
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        let context = self.context.take();
        // Fails while the thread ends.
        let _ = SPARE.try_with(|spare| spare.set(context));
    }
}

fn new_context() -> Result<DCtx<'static>, Fault> {
    let found = "not available for a zstd context";
    DCtx::try_create().ok_or_else(|| Fault::new("memory", found, "about 200 KiB"))
}

fn zstd_fault(code: usize) -> Fault {
    let found = format!("not decodable: {}", zstd_safe::get_error_name(code));
    Fault::new("payload", found, "a zstd frame")
}

fn decompress(
    context: &mut DCtx<'_>,
    header: &RecordHeader,
    frame: &[u8],
    raw: &mut Vec<u8>,
) -> Result<(), Fault> {
    decompress_with(header, raw, |raw| context.decompress(raw, frame))
}

fn decompress_with(
    header: &RecordHeader,
    raw: &mut Vec<u8>,
    decompress: impl FnOnce(&mut Vec<u8>) -> SafeResult,
) -> Result<(), Fault> {
    check_raw_size(header)?;
    let size = header.raw_size as usize;
    raw.clear();
    raw.reserve(size);
    let found = decompress(raw).map_err(zstd_fault)?;
    if found != size {
        let expected = format!("{found} bytes, as decompressed");
        return Err(Fault::new(
            "uncompressed size",
            format!("{size} bytes"),
            expected,
        ));
    }
    Ok(())
}

/// Returns a frame without its dictionary id. A dictionary of raw content has no id, so libzstd refuses
/// frames that name one.
fn without_dictionary_id(frame: &[u8]) -> Cow<'_, [u8]> {
    let descriptor = frame.get(MAGIC_BYTES).copied().unwrap_or(0);
    if descriptor & 3 == 0 {
        return frame.into();
    }
    let mut frame = frame.to_vec();
    let id: Range<usize> = {
        let is_single_segment = descriptor & 0x20 != 0;
        let start = MAGIC_BYTES + if is_single_segment { 1 } else { 2 };
        start..start + [0, 1, 2, 4][usize::from(descriptor & 3)]
    };
    if id.end <= frame.len() {
        frame[MAGIC_BYTES] &= !3;
        frame.drain(id);
    }
    frame.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(codec: Codec, raw: &[u8], stored: &[u8]) -> RecordHeader {
        RecordHeader {
            codec: codec.id(),
            raw_size: raw.len() as u32,
            stored_size: stored.len() as u32,
            crc: crc32c::crc32c(stored),
            ..RecordHeader::default()
        }
    }

    fn text(length: usize) -> Vec<u8> {
        let mut state = 1u64;
        let letters = std::iter::repeat_with(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            b'a' + (state >> 60) as u8
        });
        letters.take(length).collect()
    }

    #[test]
    fn payloads_are_decompressed_as_far_as_needed() {
        let raw = text(700_000);
        let stored = zstd::bulk::compress(&raw, 3).unwrap();
        let mut payload = PartialPayload::default();
        for _ in 0..2 {
            payload
                .start(&header(Codec::Zstd, &raw, &stored), &stored, None, false)
                .unwrap();
            assert_eq!(payload.size(), raw.len());
            for end in [1, 1000, 200_000, 5, usize::MAX] {
                let first = payload.first(end).unwrap();
                assert!(first.len() >= end.min(raw.len()));
                assert!(first.len() <= end.saturating_add(2 * STEP_BYTES));
                assert_eq!(first, &raw[..first.len()]);
            }
        }
        let mut wrong = header(Codec::Zstd, &raw, &stored);
        wrong.raw_size += 1;
        assert!(payload.start(&wrong, &stored, None, false).is_err());
        wrong.raw_size = u32::MAX;
        assert!(payload.start(&wrong, &stored, None, false).is_err());
        wrong = header(Codec::Zstd, &raw, &stored[..1000]);
        payload.start(&wrong, &stored[..1000], None, false).unwrap();
        assert!(payload.first(usize::MAX).is_err());
    }

    #[test]
    fn dictionaries_are_raw_content_whatever_their_first_bytes_and_the_id_of_the_frame() {
        let raw = text(3000);
        // The first bytes of a trained dictionary.
        let dictionary = [&[0x37, 0xa4, 0x30, 0xec], &raw[500..2500]].concat();
        let mut context = zstd_safe::CCtx::try_create().unwrap();
        context.ref_prefix(&dictionary).unwrap();
        let mut frame = Vec::with_capacity(4000);
        context.compress2(&mut frame, &raw).unwrap();
        let mut with_id = frame.clone();
        let is_single_segment = frame[4] & 0x20 != 0;
        with_id[4] |= 1;
        with_id.insert(if is_single_segment { 5 } else { 6 }, 1);
        for stored in [frame, with_id] {
            let header = header(Codec::ZstdDict, &raw, &stored);
            let mut payload = PartialPayload::default();
            payload
                .start(&header, &stored, Some(&dictionary), true)
                .unwrap();
            assert_eq!(payload.first(usize::MAX).unwrap(), raw);
            assert!(payload.start(&header, &stored, None, false).is_err());
        }
    }
}
