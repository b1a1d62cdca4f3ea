//! The layout of a dataset: how its elements are stored in the file.

use std::sync::OnceLock;

use hdf5_reader::messages::HdfMessage;
use hdf5_reader::messages::layout::{ChunkIndexing, DataLayout};
use hdf5_reader::messages::{
    MSG_DATA_LAYOUT, MSG_EXTERNAL_FILES, MSG_FILL_VALUE, MSG_FILL_VALUE_OLD, MSG_FILTER_PIPELINE,
};

use crate::format::array::checked_product;
use crate::format::hdf5::MAX_CHUNK_BYTES;
use crate::format::hdf5::chunk_table::ChunkTable;
use crate::format::hdf5::filters::Pipeline;
use crate::format::hdf5::metadata::header::Message;
use crate::format::hdf5::source::{Found, Source};

/// The flag of a layout message: chunks at the border are stored without filters.
const PARTIAL_CHUNKS_UNFILTERED: u8 = 0x01;

/// The layout of a dataset.
#[derive(Debug)]
pub(super) enum Layout {
    /// The elements are in the object header.
    Compact(Vec<u8>),
    /// The elements follow one another from this offset of the file on; `None` if none were written.
    Contiguous(Option<u64>),
    /// The elements are in chunks.
    Chunked(Box<Chunked>),
}

/// The chunks of a dataset.
#[derive(Debug)]
pub(super) struct Chunked {
    /// The kind of the chunk index; `None` for a B-tree of version 1.
    pub index: Option<ChunkIndexing>,
    /// The address of the chunk index; `None` if no chunk was written.
    pub address: Option<u64>,
    /// The number of elements of a chunk along each dimension.
    pub chunk_shape: Vec<u32>,
    /// The number of bytes of a chunk without filters.
    pub chunk_bytes: u64,
    pub filters: Pipeline,
    /// `true` if no filters were applied to the chunks at the border.
    pub unfiltered_border: bool,
    /// The locations of the chunks, read on first use.
    pub table: OnceLock<Found<ChunkTable>>,
}

impl Layout {
    /// Returns the layout of a dataset with elements of `size` bytes.
    ///
    /// # Errors
    /// Returns a message if the layout is malformed or not supported.
    pub fn of(source: &Source, messages: &[Message], shape: &[u64], size: u64) -> Found<Self> {
        if messages
            .iter()
            .any(|message| message.kind == MSG_EXTERNAL_FILES)
        {
            return Err("elements in another file".to_string());
        }
        let message = messages
            .iter()
            .find(|message| message.kind == MSG_DATA_LAYOUT);
        let message = message.ok_or("no layout")?;
        // The class follows the version; a virtual dataset is a view of datasets in other files.
        if matches!(message.body.as_slice(), [4 | 5, 3, ..]) {
            return Err("the layout of a virtual dataset".to_string());
        }
        let HdfMessage::DataLayout(layout) = message.parse(source)? else {
            return Err("no layout".to_string());
        };
        let bytes = checked_product(shape).and_then(|cells| cells.checked_mul(size));
        let bytes = bytes.ok_or_else(|| format!("the shape {shape:?}"))?;
        match layout.layout {
            DataLayout::Compact { data } => match data.len() as u64 >= bytes {
                true => Ok(Self::Compact(data)),
                // The elements are in the object header only once they were written.
                false if data.is_empty() => Ok(Self::Contiguous(None)),
                false => Err(format!(
                    "{} bytes in its header, expected {bytes}",
                    data.len()
                )),
            },
            DataLayout::Contiguous { address, .. } if source.is_undefined(address) => {
                Ok(Self::Contiguous(None))
            }
            DataLayout::Contiguous { address, .. } => {
                let end = address.checked_add(bytes);
                if end.is_none_or(|end| end > source.length()) {
                    return Err(format!(
                        "{bytes} bytes at {address:#x}, more than the file's {} bytes",
                        source.length()
                    ));
                }
                Ok(Self::Contiguous(Some(source.base + address)))
            }
            DataLayout::Chunked {
                address,
                mut dims,
                chunk_indexing,
                ..
            } => {
                // From version 4 of the message on, the last dimension is the size of an element.
                dims.truncate(shape.len());
                if dims.len() != shape.len() || dims.contains(&0) || dims.is_empty() {
                    return Err(format!(
                        "chunks of the shape {dims:?}, for an array of the shape {shape:?}"
                    ));
                }
                let cells = dims.iter().try_fold(size, |product, extent| {
                    product.checked_mul(u64::from(*extent))
                });
                let chunk_bytes = cells.filter(|bytes| *bytes <= MAX_CHUNK_BYTES);
                let chunk_bytes = chunk_bytes.ok_or_else(|| {
                    format!(
                        "chunks of the shape {dims:?}, which have more than {MAX_CHUNK_BYTES} bytes"
                    )
                })?;
                let flags = match message.body.as_slice() {
                    [4 | 5, _, flags, ..] => *flags,
                    _ => 0,
                };
                Ok(Self::Chunked(Box::new(Chunked {
                    index: chunk_indexing,
                    address: (!source.is_undefined(address)).then_some(address),
                    chunk_shape: dims,
                    chunk_bytes,
                    filters: filters(source, messages, size)?,
                    unfiltered_border: flags & PARTIAL_CHUNKS_UNFILTERED != 0,
                    table: OnceLock::new(),
                })))
            }
        }
    }
}

fn filters(source: &Source, messages: &[Message], size: u64) -> Found<Pipeline> {
    let message = messages
        .iter()
        .find(|message| message.kind == MSG_FILTER_PIPELINE);
    match message.map(|message| message.parse(source)).transpose()? {
        Some(HdfMessage::FilterPipeline(stored)) => Pipeline::of(stored.filters, size),
        _ => Ok(Pipeline::default()),
    }
}

/// Returns the fill value of a dataset, the stored element that stands for elements that were never written.
pub(super) fn fill(source: &Source, messages: &[Message], size: u64) -> Option<Vec<u8>> {
    let fills = [MSG_FILL_VALUE, MSG_FILL_VALUE_OLD]
        .into_iter()
        .filter_map(|kind| {
            let message = messages.iter().find(|message| message.kind == kind)?;
            match message.parse(source).ok()? {
                HdfMessage::FillValue(fill) => fill.value,
                _ => None,
            }
        });
    fills.into_iter().find(|value| value.len() as u64 == size)
}
