//! Builds the metadata documents of a hierarchy.

use std::collections::{BTreeMap, BTreeSet};

use half::f16;
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value, json};

use crate::format::array::{Compression, Dtype, GroupAttributes, groups_of};
use crate::format::zarr::metadata::attributes::{DIMENSIONS, FILL_VALUE, to_base64};
use crate::format::zarr::writer::ZarrVersion;
use crate::format::zarr::writer::plan::Plan;

/// The attributes of the CF conventions that are numbers (appendices A and F). Texts and numbers look the
/// same in the metadata of a dataset.
const NUMBERS: [&str; 30] = [
    "actual_range",
    "add_offset",
    "azimuth_of_central_line",
    "earth_radius",
    "false_easting",
    "false_northing",
    "flag_masks",
    "flag_values",
    "grid_north_pole_latitude",
    "grid_north_pole_longitude",
    "inverse_flattening",
    "latitude_of_projection_origin",
    "leap_month",
    "leap_year",
    "longitude_of_central_meridian",
    "longitude_of_prime_meridian",
    "longitude_of_projection_origin",
    "missing_value",
    "north_pole_grid_longitude",
    "perspective_point_height",
    "scale_factor",
    "scale_factor_at_central_meridian",
    "scale_factor_at_projection_origin",
    "semi_major_axis",
    "semi_minor_axis",
    "standard_parallel",
    "straight_vertical_longitude_from_pole",
    "valid_max",
    "valid_min",
    "valid_range",
];

/// Returns the path of a chunk's file within the directory of its array.
pub(super) fn chunk_key(version: ZarrVersion, chunk: &[u64]) -> String {
    let positions: Vec<String> = chunk.iter().map(u64::to_string).collect();
    match version {
        ZarrVersion::V2 if chunk.is_empty() => "0".to_string(),
        ZarrVersion::V2 => positions.join("."),
        ZarrVersion::V3 if chunk.is_empty() => "c".to_string(),
        ZarrVersion::V3 => format!("c/{}", positions.join("/")),
    }
}

/// Serializes a document.
pub(super) fn bytes(document: &Value) -> Vec<u8> {
    format!("{document:#}\n").into_bytes()
}

/// Returns all documents, with their paths within the hierarchy.
pub(super) fn all(
    version: ZarrVersion,
    plans: &[Plan],
    attributes: &GroupAttributes,
) -> Vec<(String, Value)> {
    let of_arrays = plans.iter().flat_map(|plan| groups_of(&plan.name));
    let of_groups = attributes.keys().flat_map(|group| groups_of(group));
    let named = attributes.keys().map(String::as_str);
    let names: BTreeSet<&str> = of_arrays
        .chain(of_groups)
        .chain(named)
        .chain([""])
        .collect();
    let attributes_of = |name: &str| {
        let attributes = attributes.get(name).map(typed);
        Value::Object(attributes.unwrap_or_default())
    };
    let groups = names.into_iter().map(|name| (name, attributes_of(name)));
    match version {
        ZarrVersion::V2 => all_v2(groups, plans),
        ZarrVersion::V3 => all_v3(groups, plans),
    }
}

/// Returns the path of a document of a node.
fn document_of(node: &str, name: &str) -> String {
    match node {
        "" => name.to_string(),
        node => format!("{node}/{name}"),
    }
}

fn all_v2<'a>(
    groups: impl Iterator<Item = (&'a str, Value)>,
    plans: &[Plan],
) -> Vec<(String, Value)> {
    let mut documents = Vec::new();
    for (group, attributes) in groups {
        documents.push((document_of(group, ".zgroup"), json!({"zarr_format": 2})));
        if attributes.as_object().is_some_and(|map| !map.is_empty()) {
            documents.push((document_of(group, ".zattrs"), attributes));
        }
    }
    for plan in plans {
        documents.push((format!("{}/.zarray", plan.name), array_v2(plan)));
        let mut attributes = typed(&plan.attributes);
        if !plan.dim_names.is_empty() || plan.shape.is_empty() {
            attributes.insert(DIMENSIONS.to_string(), json!(plan.dim_names));
        }
        documents.push((format!("{}/.zattrs", plan.name), Value::Object(attributes)));
    }
    let metadata: Map<String, Value> = documents.iter().cloned().collect();
    let consolidated = json!({"metadata": metadata, "zarr_consolidated_format": 1});
    documents.push((".zmetadata".to_string(), consolidated));
    documents
}

fn all_v3<'a>(
    groups: impl Iterator<Item = (&'a str, Value)>,
    plans: &[Plan],
) -> Vec<(String, Value)> {
    let mut root = Value::Null;
    let mut nodes = Vec::new();
    for (name, attributes) in groups {
        let group = json!({"attributes": attributes, "zarr_format": 3, "node_type": "group"});
        match name {
            "" => root = group,
            name => nodes.push((name.to_string(), group)),
        }
    }
    for plan in plans {
        nodes.push((plan.name.clone(), array_v3(plan)));
    }
    let metadata: Map<String, Value> = nodes.iter().cloned().collect();
    root["consolidated_metadata"] =
        json!({"kind": "inline", "must_understand": false, "metadata": metadata});
    let nodes = nodes
        .into_iter()
        .map(|(name, document)| (format!("{name}/zarr.json"), document));
    nodes.chain([("zarr.json".to_string(), root)]).collect()
}

fn array_v2(plan: &Plan) -> Value {
    let is_text = plan.categories.is_some();
    json!({
        "zarr_format": 2,
        "shape": plan.shape,
        "chunks": plan.chunk_shape,
        "dtype": if is_text { "|O" } else { plan.dtype.numpy_name() },
        "compressor": match plan.compression {
            Compression::Raw => Value::Null,
            Compression::Zstd { level } => json!({"id": "zstd", "level": level}),
        },
        "fill_value": plan.fill.map_or(Value::Null, |bits| fill_value(plan.dtype, bits)),
        "order": "C",
        "filters": if is_text { json!([{"id": "vlen-utf8"}]) } else { Value::Null },
        "dimension_separator": ".",
    })
}

fn array_v3(plan: &Plan) -> Value {
    let is_text = plan.categories.is_some();
    let mut codecs = vec![match plan.dtype {
        _ if is_text => json!({"name": "vlen-utf8"}),
        Dtype::U8 | Dtype::I8 => json!({"name": "bytes"}),
        _ => json!({"name": "bytes", "configuration": {"endian": "little"}}),
    }];
    if let Compression::Zstd { level } = plan.compression {
        codecs.push(json!({"name": "zstd", "configuration": {"level": level, "checksum": false}}));
    }
    let mut attributes = typed(&plan.attributes);
    if let Some(bits) = plan.fill {
        let fill = match float(plan.dtype, bits) {
            Some(value) => json!(to_base64(&value.to_le_bytes())),
            None => fill_value(plan.dtype, bits),
        };
        attributes.insert(FILL_VALUE.to_string(), fill);
    }
    let mut document = json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": plan.shape,
        "data_type": if is_text { "string" } else { name_v3(plan.dtype) },
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": plan.chunk_shape}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": if is_text { json!("") } else { fill_value(plan.dtype, plan.fill.unwrap_or(0)) },
        "codecs": codecs,
        "attributes": attributes,
        "storage_transformers": [],
    });
    if !plan.dim_names.is_empty() {
        document["dimension_names"] = json!(plan.dim_names);
    }
    document
}

/// Returns attributes with their types: lists are JSON, the [`NUMBERS`] are numbers, all others are texts.
fn typed(attributes: &BTreeMap<String, String>) -> Map<String, Value> {
    let list = |text: &str| {
        let list: Vec<&RawValue> = serde_json::from_str(text).ok()?;
        let values = list.iter().map(|one| {
            let text = one.get();
            number(text).or_else(|| Some(json!(serde_json::from_str::<String>(text).ok()?)))
        });
        let values = values.collect::<Option<Vec<_>>>()?;
        // The form in which readers write lists. Other texts are what their author wrote.
        let is_written = || serde_json::to_string(&values).is_ok_and(|written| written == text);
        let is_list = values.len() > 1 && (!text.contains(' ') || is_written());
        is_list.then_some(values)
    };
    let value = |key: &str, text: &str| match list(text) {
        Some(list) => Value::Array(list),
        None if NUMBERS.contains(&key) => number(text.trim()).unwrap_or(json!(text)),
        None => json!(text),
    };
    let attributes = attributes.iter();
    attributes
        .map(|(key, text)| (key.clone(), value(key, text)))
        .collect()
}

fn number(text: &str) -> Option<Value> {
    let signed = text.parse().ok().map(|number: i64| json!(number));
    let unsigned = || text.parse().ok().map(|number: u64| json!(number));
    // `serde_json` may be off by the last digit.
    let float = || Number::from_f64(text.parse().ok()?).map(Value::Number);
    signed.or_else(unsigned).or_else(float)
}

/// Returns the value of a float's bit pattern, or `None` for integers.
fn float(dtype: Dtype, bits: u64) -> Option<f64> {
    match dtype {
        Dtype::F16 => Some(f16::from_bits(bits as u16).to_f64()),
        Dtype::F32 => Some(f32::from_bits(bits as u32).into()),
        Dtype::F64 => Some(f64::from_bits(bits)),
        _ => None,
    }
}

/// Returns the JSON of a fill value, which is the same in both versions.
fn fill_value(dtype: Dtype, bits: u64) -> Value {
    if let Some(value) = float(dtype, bits) {
        return match Number::from_f64(value) {
            Some(number) => Value::Number(number),
            None if value.is_nan() => json!("NaN"),
            None if value > 0.0 => json!("Infinity"),
            None => json!("-Infinity"),
        };
    }
    match dtype {
        Dtype::I8 => json!(bits as i8),
        Dtype::I16 => json!(bits as i16),
        Dtype::I32 => json!(bits as i32),
        Dtype::I64 => json!(bits as i64),
        _ => json!(bits),
    }
}

fn name_v3(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F16 => "float16",
        Dtype::F32 => "float32",
        Dtype::F64 => "float64",
        Dtype::I8 => "int8",
        Dtype::I16 => "int16",
        Dtype::I32 => "int32",
        Dtype::I64 => "int64",
        Dtype::U8 => "uint8",
        Dtype::U16 => "uint16",
        Dtype::U32 => "uint32",
        Dtype::U64 => "uint64",
    }
}
