//! Fill values of dense arrays, which cells that are not nullable hold instead of nulls.

use arrow::array::{Array, ArrayRef};

use crate::format::tiledb::{Attribute, CellValues, Datatype, TileBuffers};

/// Returns the cell that reads as null in an attribute of a dense array; `None` if the fill value is a
/// value like any other. `values` is the number of values of its enumeration.
pub(super) fn fill_of(attribute: &Attribute, values: Option<u64>) -> Option<Vec<u8>> {
    let is_null = match values {
        // An ordinal without a value.
        Some(values) => {
            let mut ordinal = [0; 8];
            let bytes = ordinal.get_mut(..attribute.fill.len())?;
            bytes.copy_from_slice(&attribute.fill);
            u64::from_le_bytes(ordinal) >= values
        }
        None => {
            let is_single = attribute.cell_values == CellValues::Fixed(1);
            let is_byte = matches!(attribute.datatype, Datatype::Int8 | Datatype::Uint8);
            attribute.datatype != Datatype::Bool && !(is_byte && is_single)
        }
    };
    (is_null && !attribute.is_nullable).then(|| attribute.fill.clone())
}

/// Replaces the cells of null rows by the fill value.
pub(super) fn put_fill(array: &ArrayRef, fill: &[u8], cells: &mut TileBuffers) {
    let Some(nulls) = array.logical_nulls() else {
        return;
    };
    if cells.offsets.is_empty() {
        let cells = cells.values.chunks_exact_mut(fill.len().max(1));
        let null_cells = cells.zip(&nulls).filter(|(_, is_valid)| !is_valid);
        null_cells.for_each(|(cell, _)| cell.copy_from_slice(fill));
        return;
    }
    let (mut values, mut offsets) = (Vec::new(), vec![0]);
    for row in 0..array.len() {
        values.extend_from_slice(match nulls.is_null(row) {
            true => fill,
            false => cells.cell(row, CellValues::Variable, 1),
        });
        offsets.push(values.len() as u64);
    }
    (cells.values, cells.offsets) = (values, offsets);
}
