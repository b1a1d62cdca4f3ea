//! Schemas, filter pipelines and enumerations as bytes.

use std::collections::HashSet;

use crate::format::tiledb::codecs::Steps;
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::fragment::{Field, FieldKind, MAX_TILE_CELLS};
use crate::format::tiledb::schema::{
    Attribute, CellValues, Datatype, Dimension, Enumeration, Filter, Layout, Pipeline,
    Representation, Scalar, Schema,
};
use crate::format::tiledb::writer::bytes::Append;
use crate::format::tiledb::writer::tile::MAX_CHUNK_BYTES;

/// The format version of schemas and fragments that are written.
pub(super) const WRITTEN_VERSION: u32 = 22;

/// Serialises a schema, with the file name of each of its enumerations.
pub(super) fn encode(schema: &Schema) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u32(schema.version);
    bytes.push(u8::from(schema.allows_duplicates));
    bytes.push(u8::from(schema.is_sparse));
    bytes.push(layout_code(schema.tile_order));
    bytes.push(layout_code(schema.cell_order));
    bytes.put_u64(schema.capacity);
    put_pipeline(&mut bytes, &schema.coordinate_filters);
    put_pipeline(&mut bytes, &schema.offset_filters);
    put_pipeline(&mut bytes, &schema.validity_filters);
    bytes.put_u32(schema.dimensions.len() as u32);
    for dimension in &schema.dimensions {
        put_dimension(&mut bytes, dimension);
    }
    bytes.put_u32(schema.attributes.len() as u32);
    for attribute in &schema.attributes {
        put_attribute(&mut bytes, attribute);
    }
    // Labels of dimensions are arrays of their own, which are not written.
    bytes.put_u32(0);
    bytes.put_u32(schema.enumerations.len() as u32);
    for (name, file) in &schema.enumerations {
        bytes.put_text(name);
        bytes.put_text(file);
    }
    // The version of the current domain.
    bytes.put_u32(0);
    bytes.push(u8::from(schema.current_domain.is_none()));
    if let Some(intervals) = &schema.current_domain {
        // A rectangle.
        bytes.push(0);
        for (dimension, interval) in schema.dimensions.iter().zip(intervals) {
            bytes.put_interval(dimension, interval);
        }
    }
    bytes
}

fn layout_code(layout: Layout) -> u8 {
    match layout {
        Layout::RowMajor => 0,
        Layout::ColumnMajor => 1,
        Layout::Hilbert => 4,
    }
}

fn cell_values_code(cell_values: CellValues) -> u32 {
    match cell_values {
        CellValues::Fixed(values) => values,
        CellValues::Variable => u32::MAX,
    }
}

fn put_dimension(bytes: &mut Vec<u8>, dimension: &Dimension) {
    bytes.put_text(&dimension.name);
    bytes.push(dimension.datatype as u8);
    bytes.put_u32(cell_values_code(dimension.cell_values));
    put_pipeline(bytes, &dimension.filters);
    match &dimension.domain {
        Some(domain) => {
            bytes.put_u64(2 * dimension.datatype.size() as u64);
            bytes.put_interval(dimension, domain);
        }
        None => bytes.put_u64(0),
    }
    bytes.push(u8::from(dimension.extent.is_none()));
    if let Some(extent) = &dimension.extent {
        bytes.put(&extent.to_bytes(dimension.datatype));
    }
}

fn put_attribute(bytes: &mut Vec<u8>, attribute: &Attribute) {
    bytes.put_text(&attribute.name);
    bytes.push(attribute.datatype as u8);
    bytes.put_u32(cell_values_code(attribute.cell_values));
    put_pipeline(bytes, &attribute.filters);
    bytes.put_u64(attribute.fill.len() as u64);
    bytes.put(&attribute.fill);
    bytes.push(u8::from(attribute.is_nullable));
    bytes.push(u8::from(attribute.is_fill_valid));
    bytes.push(attribute.order as u8);
    bytes.put_text(attribute.enumeration.as_deref().unwrap_or_default());
}

/// Serialises a pipeline.
pub(super) fn put_pipeline(bytes: &mut Vec<u8>, pipeline: &Pipeline) {
    bytes.put_u32(MAX_CHUNK_BYTES as u32);
    bytes.put_u32(pipeline.filters().len() as u32);
    for filter in pipeline.filters() {
        let (id, options) = filter_options(*filter);
        bytes.push(id);
        bytes.put_u32(options.len() as u32);
        bytes.put(&options);
    }
}

/// Returns the id and the options of a filter.
fn filter_options(filter: Filter) -> (u8, Vec<u8>) {
    // Compressors have a second id, and a level even if they have no levels.
    let compressor = |id: u8, level: i32| [&[id][..], &level.to_le_bytes()].concat();
    let delta = |id: u8, reinterpret: Option<Datatype>| {
        let mut options = compressor(id, -1);
        options.push(reinterpret.unwrap_or(Datatype::Any) as u8);
        options
    };
    match filter {
        Filter::Noop => (0, Vec::new()),
        Filter::Gzip { level } => (1, compressor(1, level)),
        Filter::Zstd { level } => (2, compressor(2, level)),
        Filter::Lz4 { level } => (3, compressor(3, level)),
        Filter::Rle => (4, compressor(4, -1)),
        Filter::Bzip2 { level } => (5, compressor(5, level)),
        Filter::DoubleDelta { reinterpret } => (6, delta(6, reinterpret)),
        Filter::BitWidthReduction { max_window } => (7, max_window.to_le_bytes().to_vec()),
        Filter::Bitshuffle => (8, Vec::new()),
        Filter::Byteshuffle => (9, Vec::new()),
        Filter::PositiveDelta { max_window } => (10, max_window.to_le_bytes().to_vec()),
        Filter::Aes256Gcm => (11, Vec::new()),
        Filter::Md5 => (12, Vec::new()),
        Filter::Sha256 => (13, Vec::new()),
        Filter::Dictionary => (14, compressor(7, -1)),
        Filter::FloatScale {
            scale,
            offset,
            width,
        } => {
            let width = u64::from(width);
            let options = [
                scale.to_le_bytes(),
                offset.to_le_bytes(),
                width.to_le_bytes(),
            ];
            (15, options.concat())
        }
        Filter::Xor => (16, Vec::new()),
        Filter::Webp => (18, Vec::new()),
        Filter::Delta { reinterpret } => (19, delta(8, reinterpret)),
    }
}

/// Serialises an enumeration that is stored in a file.
pub(super) fn encode_enumeration(enumeration: &Enumeration, file: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    // The version of the enumeration.
    bytes.put_u32(0);
    bytes.put_text(&enumeration.name);
    bytes.put_text(file);
    bytes.push(enumeration.datatype as u8);
    bytes.put_u32(cell_values_code(enumeration.cell_values));
    bytes.push(u8::from(enumeration.is_ordered));
    bytes.put_u64(enumeration.data().len() as u64);
    bytes.put(enumeration.data());
    if enumeration.cell_values.is_variable() {
        let starts = &enumeration.offsets()[..enumeration.len()];
        bytes.put_u64(8 * starts.len() as u64);
        bytes.put_u64s(starts);
    }
    bytes
}

/// Checks a schema of a new array.
pub(super) fn check(schema: &Schema) -> Decoded<()> {
    if schema.version != WRITTEN_VERSION {
        return Err(Fault::new(
            "schema version",
            schema.version,
            WRITTEN_VERSION,
        ));
    }
    // Reading checks everything that a reader depends on.
    Schema::parse(&encode(schema))?;
    if !schema.labels.is_empty() {
        let found = schema.labels.len();
        return Err(Fault::new("number of dimension labels", found, 0));
    }
    if schema.allows_duplicates && !schema.is_sparse {
        let expected = "false, as the array is dense";
        return Err(Fault::new("allows duplicates", "true", expected));
    }
    if schema.cell_order == Layout::Hilbert && schema.dimensions.len() > MAX_HILBERT_DIMENSIONS {
        let (found, most) = (schema.dimensions.len(), MAX_HILBERT_DIMENSIONS);
        let expected = format!("at most {most}, for the cell order hilbert");
        return Err(Fault::new("number of dimensions", found, expected));
    }
    let mut names = HashSet::new();
    let dimensions = schema.dimensions.iter().map(|dimension| &dimension.name);
    let attributes = schema.attributes.iter().map(|attribute| &attribute.name);
    for name in dimensions.chain(attributes) {
        if !names.insert(name) {
            let found = format!("{name:?}, twice");
            return Err(Fault::new("name", found, "a name of its own"));
        }
    }
    for attribute in &schema.attributes {
        if let Some(name) = &attribute.enumeration
            && schema.enumeration_file(name).is_none()
        {
            let found = format!("{name:?}");
            return Err(Fault::new(
                "enumeration name",
                found,
                "an enumeration of the schema",
            ));
        }
    }
    let mut tile_cells = if schema.is_sparse { schema.capacity } else { 1 };
    for dimension in &schema.dimensions {
        let cells = check_dimension(dimension)?;
        if !schema.is_sparse {
            tile_cells = tile_cells.saturating_mul(cells);
        }
    }
    if tile_cells > MAX_TILE_CELLS {
        let expected = format!("at most {MAX_TILE_CELLS}");
        return Err(Fault::new(
            "number of cells in a tile",
            tile_cells,
            expected,
        ));
    }
    check_filters(schema)
}

/// Maximum number of dimensions of a Hilbert curve.
const MAX_HILBERT_DIMENSIONS: usize = 16;

/// Checks the domain and the extent of a dimension. Returns the extent of integers, otherwise 1.
fn check_dimension(dimension: &Dimension) -> Decoded<u64> {
    let Some(domain) = &dimension.domain else {
        return match dimension.cell_values.is_variable() {
            true if dimension.extent.is_none() => Ok(1),
            true => Err(Fault::new("tile extent", "present", "none, for texts")),
            false => Err(Fault::new("domain", "missing", "two coordinates")),
        };
    };
    let Some(extent) = dimension.extent_length() else {
        return Ok(1);
    };
    let Some(last) = domain.high.distance_from(&domain.low) else {
        return Ok(extent);
    };
    // Tiles that exceed the domain must not exceed the datatype.
    let bits = 8 * dimension.datatype.size() as u32;
    let highest = match &domain.low {
        Scalar::Signed(low) => {
            let highest = i64::MAX >> (64 - bits);
            highest.abs_diff(*low)
        }
        Scalar::Unsigned(low) => (u64::MAX >> (64 - bits)) - low,
        _ => u64::MAX,
    };
    let tiles = last / extent + 1;
    let covered = tiles.checked_mul(extent).map(|cells| cells - 1);
    if covered.is_none_or(|last| last > highest) {
        let expected = format!("whole tiles within {}", dimension.datatype);
        let found = format!("{extent}, from {:?} to {:?}", domain.low, domain.high);
        return Err(Fault::new("tile extent", found, expected));
    }
    Ok(extent)
}

/// Checks that all pipelines can be applied to their datatypes.
fn check_filters(schema: &Schema) -> Decoded<()> {
    let pipelines = [&schema.coordinate_filters, &schema.offset_filters];
    let pipelines = pipelines.into_iter().chain([&schema.validity_filters]);
    let of_dimensions = schema.dimensions.iter().map(|dimension| &dimension.filters);
    let of_attributes = schema.attributes.iter().map(|attribute| &attribute.filters);
    for pipeline in pipelines.chain(of_dimensions).chain(of_attributes) {
        let filters = pipeline.filters();
        if filters.contains(&Filter::Aes256Gcm) {
            return Err(Fault::new("filter", Filter::Aes256Gcm, "an encryption key"));
        }
        // Rounding is meant for values, not for bytes of other filters.
        let is_scale = |filter: &Filter| matches!(filter, Filter::FloatScale { .. });
        if filters.iter().skip(1).any(is_scale) {
            let expected = "float-scale as the first filter";
            return Err(Fault::new("pipeline", pipeline, expected));
        }
    }
    let attributes = (0..schema.attributes.len()).map(FieldKind::Attribute);
    let dimensions = (0..schema.dimensions.len()).map(FieldKind::Dimension);
    let dimensions = dimensions.filter(|_| schema.is_sparse);
    for kind in attributes.chain(dimensions) {
        Field::new(schema, kind, 0, WRITTEN_VERSION, false)?;
    }
    let bytes = |pipeline| Steps::new(pipeline, Datatype::Uint8, 1, false, WRITTEN_VERSION);
    bytes(&schema.validity_filters).map(drop)
}

/// The fill value of cells that were never written, if a schema does not choose another one: one
/// value of the datatype.
pub fn default_fill(datatype: Datatype) -> Vec<u8> {
    let size = datatype.size();
    match (datatype.representation(), datatype) {
        (Representation::Float, Datatype::Float32) => f32::NAN.to_le_bytes().to_vec(),
        (Representation::Float, _) => f64::NAN.to_le_bytes().to_vec(),
        (Representation::Signed, _) => {
            let mut fill = vec![0; size];
            fill[size - 1] = 0x80;
            fill
        }
        _ if datatype.is_integer() => vec![0xff; size],
        _ => vec![0; size],
    }
}
