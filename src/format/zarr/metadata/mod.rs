//! Checks an array's metadata documents, and derives what is needed to read its chunks.

pub(crate) mod attributes;
pub(crate) mod element;
pub(crate) mod json;
pub(crate) mod ome;

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use zarrs::array::Array;
use zarrs::metadata::ArrayMetadata;
use zarrs::storage::store::MemoryStore;

use crate::format::array::DatasetMetadata;
use crate::format::zarr::MAX_DIMENSIONS;
use crate::format::zarr::cells;
use crate::format::zarr::codecs::chain::{Chain, PlainChunk, codec_name, guarded};
use crate::format::zarr::keys::ChunkKeys;
use crate::format::zarr::metadata::attributes::FILL_VALUE;
use crate::format::zarr::metadata::element::{CellKind, Element, TextKind};
use crate::format::zarr::metadata::json::clipped;
use crate::format::zarr::walk::Documents;

/// The element type, shapes, codecs and keys of an array.
pub(super) struct Description {
    pub zarr_version: u8,
    pub element: Element,
    pub shape: Vec<u64>,
    /// The shape of a chunk. In a sharded array, this is a chunk within a shard.
    pub chunk_shape: Vec<u64>,
    /// The shape of the cells in one file: a chunk, or a shard.
    pub file_shape: Vec<u64>,
    pub chain: Chain,
    /// The stored form of chunks that are plain cells, uncompressed or in one zstd frame.
    pub plain: Option<PlainChunk>,
    pub keys: ChunkKeys,
    pub codecs: String,
    /// `true` if the member `fill_value` says which cells are missing: in version 2, without the attribute
    /// `_FillValue`.
    pub is_fill_implied: bool,
    /// The string of the cells of absent chunks, if cells are strings.
    pub fill_text: String,
    /// The array of `zarrs` for the metadata, with the stand-in type. Its store has no chunks.
    pub zarrs: Array<MemoryStore>,
}

impl fmt::Debug for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Description")
            .field("element", &self.element)
            .field("shape", &self.shape)
            .field("chunk_shape", &self.chunk_shape)
            .field("codecs", &self.codecs)
            .finish_non_exhaustive()
    }
}

impl Documents {
    /// Returns `true` if a document lacks a member that every array has, or if the shape is not a list of integers.
    /// Other documents that cannot be used describe arrays that are not supported.
    pub fn is_broken(&self) -> bool {
        let (document, members) = match self {
            Self::V2 { array, .. } => (array, ["zarr_format", "chunks", "dtype"]),
            Self::V3(document) => (document, ["data_type", "chunk_grid", "codecs"]),
        };
        let is_absent = |member: &&str| field(document, member).is_null();
        let shape = field(document, "shape").as_array();
        members.iter().any(is_absent)
            || shape.is_none_or(|shape| shape.iter().any(|extent| !extent.is_u64()))
    }
}

/// The place of a chunk in a sharded array.
pub(super) struct PlaceInShard {
    /// The indices of the shard.
    pub shard: Vec<u64>,
    /// The number of chunks of a shard along each dimension.
    pub grid: Vec<u64>,
    /// The row-major ordinal of the chunk in the shard.
    pub ordinal: usize,
}

impl Description {
    /// Returns the place of a chunk of a sharded array.
    pub fn shard_of(&self, chunk: &[u64]) -> PlaceInShard {
        let axes = self.file_shape.iter().zip(&self.chunk_shape);
        // Exact, since an array whose shards are not a whole number of chunks is left out.
        let grid: Vec<u64> = axes.map(|(file, chunk)| file / chunk).collect();
        let axes = || chunk.iter().zip(&grid);
        let shard = axes().map(|(position, count)| position / count);
        let ordinal = axes().fold(0, |ordinal, (position, count)| {
            ordinal * count + position % count
        });
        PlaceInShard {
            shard: shard.collect(),
            ordinal: ordinal as usize,
            grid,
        }
    }

    /// Returns the number of bytes of a whole decoded chunk, or `None` on overflow.
    pub fn chunk_bytes(&self) -> Option<u64> {
        cells::byte_count(&self.chunk_shape, self.element.dtype.size())
    }

    /// Parses the documents of an array.
    ///
    /// # Errors
    /// Returns a message with the field that is invalid or not supported, the value found and the
    /// value expected.
    pub fn of(documents: &Documents) -> Result<(Self, DatasetMetadata), String> {
        match documents {
            Documents::V2 { array, attributes } => Self::of_v2(array, attributes),
            Documents::V3(document) => Self::of_v3(document),
        }
    }

    fn of_v2(array: &Value, attributes: &Value) -> Result<(Self, DatasetMetadata), String> {
        if field(array, "zarr_format").as_u64() != Some(2) {
            return Err(unexpected("zarr_format", field(array, "zarr_format"), "2"));
        }
        let dtype = field(array, "dtype");
        let element = Element::of_v2(dtype)
            .ok_or_else(|| unexpected("dtype", dtype, "numbers, booleans, times or strings"))?;
        let element = attributes::with_sign(element, attributes);
        let is_text = matches!(element.kind, CellKind::Text(_));
        let shape = shape("shape", field(array, "shape"))?;
        let file_shape = chunk_extents("chunks", field(array, "chunks"), &shape)?;
        check_total(&shape, &element)?;
        let mut filters = Vec::new();
        let mut stand_in = element.stand_in.clone();
        for filter in field(array, "filters").as_array().into_iter().flatten() {
            let id = field(filter, "id").as_str().unwrap_or_default();
            if !only_rounds(id, filter, dtype) {
                stand_in = in_stored_order(stand_in, filter);
                filters.push(with_known_names(filter));
            }
        }
        if element.kind == CellKind::Text(TextKind::Variable) {
            let is_texts = |filter: &Value| field(filter, "id") == "vlen-utf8";
            if filters.iter().filter(|filter| is_texts(filter)).count() != 1 {
                let found = field(array, "filters");
                return Err(unexpected("filters", found, "vlen-utf8, for objects"));
            }
            filters.retain(|filter| !is_texts(filter));
        }
        if is_text && !filters.is_empty() {
            return Err(unexpected(
                "filters",
                field(array, "filters"),
                "none for strings",
            ));
        }
        let mut compressor = field(array, "compressor").clone();
        if let Some("zlib" | "gzip" | "bz2") = field(&compressor, "id").as_str()
            && let Some(configuration) = compressor.as_object_mut()
        {
            // Decompression does not need the level, but `zarrs` requires one.
            configuration.entry("level").or_insert(json!(1));
        }
        let names: Vec<String> = filters
            .iter()
            .chain([&compressor])
            .filter_map(|codec| Some(field(codec, "id").as_str()?.to_string()))
            .collect();
        let fill = field(array, "fill_value");
        let keys = ChunkKeys::of_v2(array.get("dimension_separator"))?;
        let document = json!({
            "zarr_format": 2,
            "shape": shape,
            "chunks": file_shape,
            "dtype": stand_in,
            "compressor": compressor,
            "fill_value": element.stand_in_fill(fill, false),
            // A single cell has no order, and `zarrs` expects dimensions to reverse.
            "order": array.get("order").filter(|_| !shape.is_empty()).unwrap_or(&json!("C")),
            "filters": if filters.is_empty() { Value::Null } else { json!(filters) },
        });
        let metadata =
            serde_json::from_value(document).map_err(|error| clipped(&error.to_string()))?;
        let zarrs = zarrs_array(ArrayMetadata::V2(metadata))?;
        let chain = Chain::of_v2(&zarrs.codecs(), is_text, names.clone());
        let is_little_endian = dtype.as_str().is_some_and(|dtype| dtype.starts_with('<'));
        let plain = plain(&chain, &element, is_little_endian);
        let marks_missing = Some(fill).filter(|fill| !fill.is_null());
        let is_stated = !field(attributes, FILL_VALUE).is_null();
        let metadata = attributes::metadata(attributes, None, marks_missing, &element, shape.len());
        let description = Self {
            zarr_version: 2,
            is_fill_implied: element.kind == CellKind::Number && !is_stated,
            fill_text: fill_text(&element, fill),
            element,
            chunk_shape: file_shape.clone(),
            shape,
            file_shape,
            plain,
            chain,
            keys,
            codecs: if names.is_empty() {
                "raw".to_string()
            } else {
                names.join(", ")
            },
            zarrs,
        };
        Ok((description, metadata))
    }

    fn of_v3(document: &Value) -> Result<(Self, DatasetMetadata), String> {
        let codecs = field(document, "codecs");
        let data_type = field(document, "data_type");
        let element = Element::of_v3(data_type, states_endian(codecs, "big")).ok_or_else(|| {
            unexpected(
                "data_type",
                data_type,
                "numbers, booleans, times or strings",
            )
        })?;
        let attributes = field(document, "attributes");
        let element = attributes::with_sign(element, attributes);
        let is_text = matches!(element.kind, CellKind::Text(_));
        let shape = shape("shape", field(document, "shape"))?;
        let grid = field(document, "chunk_grid");
        if field(grid, "name") != "regular" {
            return Err(unexpected("chunk_grid", grid, "a regular one"));
        }
        let found = field(field(grid, "configuration"), "chunk_shape");
        let file_shape = chunk_extents("chunk_shape", found, &shape)?;
        check_total(&shape, &element)?;
        let transformers = field(document, "storage_transformers");
        if transformers.as_array().is_some_and(|list| !list.is_empty()) {
            return Err(unexpected("storage_transformers", transformers, "none"));
        }
        let chain = Chain::of_v3(&without_rounding(codecs, data_type), is_text)
            .map_err(|found| format!("codecs: {found}"))?;
        let fill = field(document, "fill_value");
        let keys = ChunkKeys::of_v3(document.get("chunk_key_encoding"))?;
        let metadata = json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": shape,
            "data_type": element.stand_in,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": file_shape}},
            "chunk_key_encoding": {"name": "default"},
            "fill_value": element.stand_in_fill(fill, true),
            // A placeholder, since the chain has the actual codecs.
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        });
        let metadata =
            serde_json::from_value(metadata).map_err(|error| clipped(&error.to_string()))?;
        let zarrs = zarrs_array(ArrayMetadata::V3(metadata))?;
        let whole_chunks = |shape: &Vec<u64>| {
            let is_whole = |(file, chunk): (&u64, &u64)| file.is_multiple_of(*chunk);
            shape.len() == file_shape.len() && file_shape.iter().zip(shape).all(is_whole)
        };
        let chunk_shape = match chain.shards() {
            Some(shards) if whole_chunks(&shards.chunk_shape) => shards.chunk_shape.clone(),
            Some(shards) => {
                return Err(format!(
                    "chunk_shape of its shards is {:?}, expected divisors of {file_shape:?}",
                    shards.chunk_shape
                ));
            }
            None => file_shape.clone(),
        };
        let names = document.get("dimension_names");
        let metadata = attributes::metadata(attributes, names, None, &element, shape.len());
        let description = Self {
            zarr_version: 3,
            is_fill_implied: false,
            fill_text: fill_text(&element, fill),
            shape,
            chunk_shape,
            file_shape,
            codecs: chain.names(),
            plain: plain(&chain, &element, states_endian(codecs, "little")),
            element,
            chain,
            keys,
            zarrs,
        };
        Ok((description, metadata))
    }
}

/// Returns the codecs of version 3 without those that only act on writing.
fn without_rounding(codecs: &Value, data_type: &Value) -> Value {
    let Some(list) = codecs.as_array() else {
        return codecs.clone();
    };
    let acts = |codec: &&Value| {
        let name = field(codec, "name").as_str().unwrap_or_default();
        let name = name.strip_prefix("numcodecs.").unwrap_or(name);
        !only_rounds(name, field(codec, "configuration"), data_type)
    };
    list.iter().filter(acts).cloned().collect()
}

/// Returns `true` for filters that round values when they are written, and leave them when they are read.
fn only_rounds(name: &str, configuration: &Value, dtype: &Value) -> bool {
    let stored = field(configuration, "astype");
    match name {
        "bitround" => true,
        "quantize" => stored.is_null() || stored == dtype,
        _ => false,
    }
}

/// Returns a data type of Zarr version 2 with the byte order in which a filter stores its results.
fn in_stored_order(data_type: Value, filter: &Value) -> Value {
    let order = field(filter, "astype")
        .as_str()
        .and_then(|stored| stored.get(..1));
    match (order, data_type.as_str()) {
        (Some(order @ ("<" | ">")), Some(name)) if name.starts_with(['<', '>']) => {
            json!(format!("{order}{}", &name[1..]))
        }
        _ => data_type,
    }
}

/// Returns a filter with the name `u1` for `uint8`, which `zarrs` expects. NumPy writes `|u1`.
fn with_known_names(filter: &Value) -> Value {
    let mut filter = filter.clone();
    for key in ["dtype", "astype"] {
        if let Some(name) = filter.get_mut(key).filter(|name| **name == "|u1") {
            *name = json!("u1");
        }
    }
    filter
}

fn field<'a>(document: &'a Value, key: &str) -> &'a Value {
    document.get(key).unwrap_or(&Value::Null)
}

fn unexpected(field: &str, found: &Value, expected: &str) -> String {
    format!(
        "{field} is {}, expected {expected}",
        clipped(&found.to_string())
    )
}

fn shape(name: &str, found: &Value) -> Result<Vec<u64>, String> {
    cells::extents(found, MAX_DIMENSIONS)
        .ok_or_else(|| unexpected(name, found, "up to 64 whole numbers"))
}

fn chunk_extents(name: &str, found: &Value, shape: &[u64]) -> Result<Vec<u64>, String> {
    cells::extents(found, MAX_DIMENSIONS)
        .filter(|chunk| chunk.len() == shape.len() && !chunk.contains(&0))
        .ok_or_else(|| unexpected(name, found, "a whole number above zero for each dimension"))
}

fn check_total(shape: &[u64], element: &Element) -> Result<(), String> {
    let size = element.stored_size().unwrap_or(1).max(element.dtype.size());
    match cells::byte_count(shape, size) {
        Some(_) => Ok(()),
        None => Err(format!(
            "shape is {shape:?}, expected a size in bytes below 2^64"
        )),
    }
}

fn zarrs_array(metadata: ArrayMetadata) -> Result<Array<MemoryStore>, String> {
    guarded(|| Array::new_with_metadata(Arc::new(MemoryStore::new()), "/", metadata))
}

/// Returns the stored form of chunks that are plain cells; `None` for other chunks.
fn plain(chain: &Chain, element: &Element, is_little_endian: bool) -> Option<PlainChunk> {
    let is_as_read = matches!(element.kind, CellKind::Number | CellKind::Time { .. })
        && (is_little_endian || element.dtype.size() == 1);
    let chain = chain.shards().map_or(chain, |shards| &shards.chain);
    chain.plain().filter(|_| is_as_read)
}

/// Returns `true` if the `bytes` codec, possibly within shards, states this byte order.
fn states_endian(codecs: &Value, order: &str) -> bool {
    codecs.as_array().into_iter().flatten().any(|codec| {
        let configuration = field(codec, "configuration");
        match codec_name(codec) {
            Some("bytes" | "endian") => field(configuration, "endian") == order,
            Some("sharding_indexed") => states_endian(field(configuration, "codecs"), order),
            _ => false,
        }
    })
}

/// Returns the string of cells that are not stored.
fn fill_text(element: &Element, fill: &Value) -> String {
    let Some(fill) = fill.as_str() else {
        return String::new();
    };
    let decoded = match element.kind {
        CellKind::Text(TextKind::Bytes { .. }) => attributes::base64(fill),
        _ => None,
    };
    let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    text.unwrap_or_else(|| fill.to_string())
        .trim_end_matches('\0')
        .to_string()
}
