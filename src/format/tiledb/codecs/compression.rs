//! General compression of parts.

use std::io::Read;

use flate2::read::ZlibDecoder;

use crate::format::tiledb::fault::{Decoded, Fault};

/// Decompresses one part of a zlib stream.
pub(super) fn gzip(input: &[u8], output: &mut [u8]) -> Decoded<()> {
    read_all("gzip stream", ZlibDecoder::new(input), output)
}

/// Decompresses one part of bzip2.
pub(super) fn bzip2(input: &[u8], output: &mut [u8]) -> Decoded<()> {
    read_all("bzip2 stream", bzip2::read::BzDecoder::new(input), output)
}

/// Fills the output from a stream that must end with it.
fn read_all(field: &'static str, mut stream: impl Read, output: &mut [u8]) -> Decoded<()> {
    let expected = || format!("{} bytes", output.len());
    let length = expected();
    let invalid = |error| Fault::new(field, format!("invalid ({error})"), &length);
    stream.read_exact(output).map_err(invalid)?;
    match stream.read(&mut [0]).map_err(invalid)? {
        0 => Ok(()),
        _ => Err(Fault::new(field, "longer than stated", length)),
    }
}

/// Decompresses a raw LZ4 block.
pub(super) fn lz4(input: &[u8], output: &mut [u8]) -> Decoded<()> {
    if output.is_empty() {
        return Ok(());
    }
    let result = lz4_flex::block::decompress_into(input, output);
    finish(
        "lz4 block",
        result.map_err(|error| error.to_string()),
        output.len(),
    )
}

/// Decompresses zstd frames with a reused context.
pub(super) fn zstd(
    context: &mut Option<zstd::bulk::Decompressor<'static>>,
    input: &[u8],
    output: &mut [u8],
) -> Decoded<()> {
    let failed = |error: std::io::Error| error.to_string();
    let context = match context {
        Some(context) => context,
        None => {
            let new = zstd::bulk::Decompressor::new();
            let new = new.map_err(|error| Fault::new("zstd context", error, "a context"))?;
            context.insert(new)
        }
    };
    let length = output.len();
    let result = context.decompress_to_buffer(input, output).map_err(failed);
    finish("zstd frame", result, length)
}

fn finish(field: &'static str, result: Result<usize, String>, length: usize) -> Decoded<()> {
    let expected = || format!("{length} bytes");
    match result {
        Ok(found) if found == length => Ok(()),
        Ok(found) => Err(Fault::new(field, format!("of {found} bytes"), expected())),
        Err(error) => Err(Fault::new(field, format!("invalid ({error})"), expected())),
    }
}
