//! Schemas of Arrow files.
//!
//! DataFusion 55 reads a file of the file format whose footer is damaged as one of the stream format, and takes its magic
//! for the length of a message, 1.3 GB. The lengths are therefore compared with the size of the file first.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::{Block, Schema as StoredSchema, root_as_footer, root_as_message};
use datafusion::common::Result;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::arrow::ArrowFormat;
use datafusion::object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use crate::provider::error::{invalid_file, quoted};

/// The magic at both ends of a file, unless it holds a stream.
const MAGIC: &[u8] = b"ARROW1";
/// The bytes at the start of a file: the magic, padded; or the start of a stream, before its first message.
const HEAD: u64 = 8;
/// The bytes at the end of a file: the length of the footer, and the magic.
const TAIL: u64 = 10;
/// The first bytes of a message since Arrow 0.15, before its length.
const CONTINUATION: &[u8] = &[0xff; 4];

/// Returns the schema of a table of Arrow files, or `None` for another format.
///
/// The schema has no metadata. The metadata that pandas writes differs from file to file, and DataFusion's plans of
/// UNION would have other metadata than their inputs.
///
/// # Errors
/// Returns an error if a file is not an Arrow file, or is damaged.
pub(super) async fn schema_of(
    format: &dyn FileFormat,
    store: &Arc<dyn ObjectStore>,
    files: &[ObjectMeta],
) -> Result<Option<SchemaRef>> {
    if format.downcast_ref::<ArrowFormat>().is_none() {
        return Ok(None);
    }
    let mut schemas = Vec::new();
    for file in files {
        let ranges = [
            0..file.size.min(HEAD),
            file.size.saturating_sub(TAIL)..file.size,
        ];
        let ends = store.get_ranges(&file.location, &ranges).await?;
        let (head, tail) = match ends.as_slice() {
            [head, tail] => (head.as_ref(), tail.as_ref()),
            _ => (&[][..], &[][..]),
        };
        let is_stream = !head.starts_with(MAGIC);
        let range = match is_stream {
            true => first_message(head, file.size),
            false => footer(tail, file.size),
        };
        let (start, length) = range.map_err(|text| invalid_file(&file.location, text))?;
        let bytes = store
            .get_range(&file.location, start..start + length)
            .await?;
        // The decoder expects aligned bytes.
        let bytes = bytes.to_vec();
        let schema = match is_stream {
            true => schema_of_message(&bytes),
            false => schema_of_footer(&bytes, file.size),
        };
        let schema = schema.map_err(|text| invalid_file(&file.location, text))?;
        schemas.push(Schema::new(schema.fields));
    }
    Ok(Some(Arc::new(Schema::try_merge(schemas)?)))
}

/// Returns the offset and the length of the footer of a file, by its last bytes.
fn footer(tail: &[u8], size: u64) -> Result<(u64, u64), String> {
    let Some((length, magic)) = tail.split_first_chunk() else {
        return Err(format!(
            "not an Arrow file, or truncated: the file has {size} bytes"
        ));
    };
    if magic != MAGIC {
        return Err(format!(
            "not an Arrow file, or truncated: found {}, expected \"ARROW1\" at its end",
            quoted(magic)
        ));
    }
    let length = u64::from(u32::from_le_bytes(*length));
    let start = size.checked_sub(HEAD + TAIL + length);
    match start {
        Some(start) => Ok((HEAD + start, length)),
        None => Err(format!(
            "a damaged Arrow file: its footer has {length} bytes, in a file of {size} bytes"
        )),
    }
}

/// Returns the offset and the length of the first message of a stream, by the first bytes of the file.
fn first_message(head: &[u8], size: u64) -> Result<(u64, u64), String> {
    let (start, rest) = match head.strip_prefix(CONTINUATION) {
        Some(rest) => (8, rest),
        None => (4, head),
    };
    let length = rest.first_chunk().map(|length| u32::from_le_bytes(*length));
    let length = u64::from(length.unwrap_or(0));
    match length > 0 && start + length <= size {
        true => Ok((start, length)),
        false if start == 8 => Err(format!(
            "not an Arrow file, or truncated: its first message has {length} bytes, in a file of {size} bytes"
        )),
        false => Err(format!(
            "not an Arrow file, or truncated: found {} at its start, expected \"ARROW1\", or a message",
            quoted(head)
        )),
    }
}

/// Returns the schema in a footer, whose blocks must lie inside the file.
fn schema_of_footer(bytes: &[u8], size: u64) -> Result<Schema, String> {
    let footer = root_as_footer(bytes);
    let footer = footer.map_err(|error| damaged("footer", &error))?;
    let blocks = footer.dictionaries().into_iter().flatten();
    let mut blocks = blocks.chain(footer.recordBatches().into_iter().flatten());
    if let Some(block) = blocks.find(|block| !is_inside(block, size)) {
        return Err(format!(
            "a damaged Arrow file: a block has {} and {} bytes at offset {}, in a file of {size} bytes",
            block.metaDataLength(),
            block.bodyLength(),
            block.offset()
        ));
    }
    decoded(footer.schema())
}

/// Returns `true` if a block ends before the end of the file.
fn is_inside(block: &Block, size: u64) -> bool {
    let lengths = [
        block.offset(),
        block.metaDataLength().into(),
        block.bodyLength(),
    ];
    let mut lengths = lengths.into_iter().map(u64::try_from);
    let end = lengths.try_fold(0u64, |end, length| end.checked_add(length.ok()?));
    end.is_some_and(|end| end <= size)
}

/// Returns the schema in the first message of a stream.
fn schema_of_message(bytes: &[u8]) -> Result<Schema, String> {
    let message = root_as_message(bytes);
    let message = message.map_err(|error| damaged("first message", &error))?;
    decoded(message.header_as_schema())
}

fn damaged(what: &str, error: &dyn Display) -> String {
    let error = error.to_string();
    // The lines below trace the decoder.
    let error = error.lines().next().unwrap_or_default();
    format!("a damaged Arrow file: its {what} cannot be decoded: {error}")
}

fn decoded(schema: Option<StoredSchema<'_>>) -> Result<Schema, String> {
    let Some(schema) = schema else {
        return Err("a damaged Arrow file: it has no schema".to_owned());
    };
    // Arrow panics on some damaged schemas.
    let decoded = catch_unwind(AssertUnwindSafe(|| fb_to_schema(schema)));
    decoded.map_err(|_| "a damaged Arrow file: its schema cannot be decoded".to_owned())
}
