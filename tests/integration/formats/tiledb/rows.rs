//! Reads whole arrays into rows of JSON values, in the form of `expected.json.zst`.

use std::sync::Arc;

use serde_json::{Value, json};
use tet_sql::Error;
use tet_sql::format::tiledb::{
    CellValues, Datatype, DenseReader, Enumeration, IndexBox, Scalar, SparseReader, TileBuffers,
    TileDbArray,
};

/// Returns one scalar as JSON: floating-point numbers by their bits, NaN as text.
pub fn scalar(datatype: Datatype, bytes: &[u8]) -> Value {
    match (
        Scalar::from_bytes(datatype, bytes).unwrap(),
        datatype.size(),
    ) {
        (Scalar::Unsigned(value), _) if datatype == Datatype::Bool => json!(value != 0),
        (Scalar::Signed(value), _) => json!(value),
        (Scalar::Unsigned(value), _) => json!(value),
        (Scalar::Float(value), _) if value.is_nan() => json!("nan"),
        (Scalar::Float(value), 4) => json!(format!("{:08x}", (value as f32).to_bits())),
        (Scalar::Float(value), _) => json!(format!("{:016x}", value.to_bits())),
        (Scalar::Bytes(_), _) => unreachable!(),
    }
}

/// Returns one value as JSON: texts without the NULs at their end, which the reference strips.
fn value(datatype: Datatype, cell_values: CellValues, bytes: &[u8]) -> Value {
    let text = |bytes: &[u8]| {
        let end = bytes.iter().rposition(|byte| *byte != 0);
        bytes[..end.map_or(0, |end| end + 1)].to_vec()
    };
    match datatype {
        Datatype::StringAscii | Datatype::StringUtf8 => {
            json!(String::from_utf8_lossy(&text(bytes)))
        }
        Datatype::Char if cell_values.is_variable() => json!(format!("x{}", hex(&text(bytes)))),
        Datatype::Char => json!(format!("x{}", hex(bytes))),
        Datatype::Blob | Datatype::GeometryWkb | Datatype::GeometryWkt => {
            json!(format!("x{}", hex(bytes)))
        }
        _ if cell_values == CellValues::Fixed(1) => scalar(datatype, bytes),
        _ => {
            let values = bytes.chunks_exact(datatype.size());
            Value::Array(values.map(|bytes| scalar(datatype, bytes)).collect())
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the cells of a field as JSON.
pub fn column(
    datatype: Datatype,
    cell_values: CellValues,
    enumeration: Option<&Enumeration>,
    buffers: &TileBuffers,
) -> Vec<Value> {
    let cell = |index| {
        if buffers.is_null(index) {
            return Value::Null;
        }
        let bytes = buffers.cell(index, cell_values, datatype.size());
        let Some(enumeration) = enumeration else {
            return value(datatype, cell_values, bytes);
        };
        let ordinal = match Scalar::from_bytes(datatype, bytes).unwrap() {
            Scalar::Signed(ordinal) => usize::try_from(ordinal).ok(),
            Scalar::Unsigned(ordinal) => usize::try_from(ordinal).ok(),
            _ => None,
        };
        match ordinal.and_then(|ordinal| enumeration.get(ordinal)) {
            Some(bytes) => value(enumeration.datatype, enumeration.cell_values, bytes),
            None => Value::Null,
        }
    };
    (0..buffers.cells).map(cell).collect()
}

/// The names of the columns and the rows of an array.
pub struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Value>>,
}

/// Reads all cells: of a dense array the written ones only, if asked to.
pub fn read(array: &Arc<TileDbArray>, is_written_only: bool) -> Result<Table, Error> {
    let schema = array.schema();
    let mut columns: Vec<String> = Vec::new();
    for dimension in &schema.dimensions {
        columns.push(dimension.name.clone());
    }
    let mut enumerations = Vec::new();
    for (index, attribute) in schema.attributes.iter().enumerate() {
        columns.push(match attribute.name.as_str() {
            "" => "__attr".to_string(),
            name => name.to_string(),
        });
        enumerations.push(array.enumeration(index)?);
    }
    let rows = match schema.is_sparse {
        true => sparse_rows(array, &enumerations)?,
        false => {
            let cells = match is_written_only {
                true => array.written_box(),
                false => Some(array.grid()?.used().clone()),
            };
            match cells {
                Some(cells) => dense_rows(array, &enumerations, &cells)?,
                None => Vec::new(),
            }
        }
    };
    Ok(Table { columns, rows })
}

/// Reads the cells of a sparse array that count. `enumerations` are those of the attributes.
fn sparse_rows(
    array: &Arc<TileDbArray>,
    enumerations: &[Option<Arc<Enumeration>>],
) -> Result<Vec<Vec<Value>>, Error> {
    let schema = array.schema();
    let mut rows = Vec::new();
    let mut buffers = TileBuffers::default();
    let mut reader = SparseReader::new(Arc::clone(array))?;
    for (fragment, description) in array.fragments().iter().enumerate() {
        for tile in 0..description.tiles() {
            let mut fields = Vec::new();
            for (index, dimension) in schema.dimensions.iter().enumerate() {
                reader.dimension(fragment, tile, index, &mut buffers)?;
                let (datatype, values) = (dimension.datatype, dimension.cell_values);
                fields.push(column(datatype, values, None, &buffers));
            }
            for (index, attribute) in schema.attributes.iter().enumerate() {
                reader.attribute(fragment, tile, index, &mut buffers)?;
                let (datatype, values) = (attribute.datatype, attribute.cell_values);
                let enumeration = enumerations[index].as_deref();
                fields.push(column(datatype, values, enumeration, &buffers));
            }
            let selection = reader.selection(fragment, tile)?;
            for cell in 0..buffers.cells {
                if selection.as_ref().is_none_or(|selection| selection[cell]) {
                    rows.push(fields.iter().map(|field| field[cell].clone()).collect());
                }
            }
        }
    }
    Ok(rows)
}

/// Reads a box of cells of a dense array. `enumerations` are those of the attributes.
fn dense_rows(
    array: &Arc<TileDbArray>,
    enumerations: &[Option<Arc<Enumeration>>],
    cells: &IndexBox,
) -> Result<Vec<Vec<Value>>, Error> {
    let (schema, grid) = (array.schema(), array.grid()?);
    let mut rows = Vec::new();
    let mut buffers = TileBuffers::default();
    let mut reader = DenseReader::new(Arc::clone(array));
    for tile in indices(&grid.tile_box(cells)) {
        let Some(window) = grid.tile(&tile).and_then(|tile| tile.intersection(cells)) else {
            continue;
        };
        let window = array.window(window)?;
        let mut fields = Vec::new();
        for (index, attribute) in schema.attributes.iter().enumerate() {
            reader.read(&window, index, &mut buffers)?;
            let (datatype, values) = (attribute.datatype, attribute.cell_values);
            let enumeration = enumerations[index].as_deref();
            fields.push(column(datatype, values, enumeration, &buffers));
        }
        for (cell, index) in indices(window.cells()).into_iter().enumerate() {
            let coordinates = index.iter().zip(grid.lows()).map(|(index, low)| match low {
                Scalar::Signed(low) => json!(low.wrapping_add_unsigned(*index)),
                Scalar::Unsigned(low) => json!(low + index),
                other => unreachable!("{other:?}"),
            });
            let mut row: Vec<Value> = coordinates.collect();
            row.extend(fields.iter().map(|field| field[cell].clone()));
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Returns all indices of a box in row-major order.
pub fn indices(cells: &IndexBox) -> Vec<Vec<u64>> {
    let mut all = vec![Vec::new()];
    for range in &cells.ranges {
        let extended = all.iter().flat_map(|index| {
            range.clone().map(move |last| {
                let mut index = index.clone();
                index.push(last);
                index
            })
        });
        all = extended.collect();
    }
    all
}
