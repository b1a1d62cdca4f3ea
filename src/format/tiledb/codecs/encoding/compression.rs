//! General compression of parts.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::format::tiledb::fault::{Decoded, Fault};

/// Appends a zlib stream.
pub(super) fn gzip(level: i32, input: &[u8], output: &mut Vec<u8>) -> Decoded<()> {
    let level = match level {
        0..=9 => Compression::new(level as u32),
        _ => Compression::default(),
    };
    let mut encoder = ZlibEncoder::new(output, level);
    let written = encoder.write_all(input).and_then(|()| encoder.finish());
    written.map(drop).map_err(failed("gzip stream"))
}

/// Appends a stream of bzip2.
pub(super) fn bzip2(level: i32, input: &[u8], output: &mut Vec<u8>) -> Decoded<()> {
    let level = match level {
        1..=9 => bzip2::Compression::new(level as u32),
        _ => bzip2::Compression::fast(),
    };
    let mut encoder = bzip2::write::BzEncoder::new(output, level);
    let written = encoder.write_all(input).and_then(|()| encoder.finish());
    written.map(drop).map_err(failed("bzip2 stream"))
}

/// Appends a raw LZ4 block.
pub(super) fn lz4(input: &[u8], output: &mut Vec<u8>) -> Decoded<()> {
    let start = output.len();
    output.resize(
        start + lz4_flex::block::get_maximum_output_size(input.len()),
        0,
    );
    let length = lz4_flex::block::compress_into(input, &mut output[start..])
        .map_err(|error| Fault::new("lz4 block", error, "a compressed block"))?;
    output.truncate(start + length);
    Ok(())
}

/// Appends a zstd frame, with a context that is reused for the same level.
pub(super) fn zstd(
    context: &mut Option<(i32, zstd::bulk::Compressor<'static>)>,
    level: i32,
    input: &[u8],
    output: &mut Vec<u8>,
) -> Decoded<()> {
    let context = match context {
        Some((known, context)) if *known == level => context,
        _ => {
            let new = zstd::bulk::Compressor::new(level).map_err(failed("zstd context"))?;
            &mut context.insert((level, new)).1
        }
    };
    let start = output.len();
    output.resize(start + zstd::zstd_safe::compress_bound(input.len()), 0);
    let length = context
        .compress_to_buffer(input, &mut output[start..])
        .map_err(failed("zstd frame"))?;
    output.truncate(start + length);
    Ok(())
}

fn failed(field: &'static str) -> impl Fn(std::io::Error) -> Fault {
    move |error| Fault::new(field, error, "compressed bytes")
}
