//! Cells as byte strings, which are sorted and kept in temporary files.

use crate::format::tiledb::buffers::TileBuffers;
use crate::format::tiledb::bytes::Fields;
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::fragment::Field;
use crate::format::tiledb::schema::CellValues;
use crate::format::tiledb::writer::bytes::Append;

/// Returns the bytes of a cell of a column.
pub(crate) fn cell<'a>(field: &Field, column: &'a TileBuffers, index: usize) -> &'a [u8] {
    column.cell(index, field.cell_values, field.datatype.size())
}

/// Appends a cell of some fields.
pub(crate) fn put<'a>(
    columns: impl Iterator<Item = (&'a Field, &'a TileBuffers)>,
    index: usize,
    record: &mut Vec<u8>,
) -> Decoded<()> {
    for (field, column) in columns {
        if field.is_nullable {
            record.push(u8::from(!column.is_null(index)));
        }
        let bytes = cell(field, column, index);
        if field.cell_values.is_variable() {
            record.put_u64(bytes.len() as u64);
        }
        record.put(bytes);
    }
    match u32::try_from(record.len()) {
        Ok(_) => Ok(()),
        Err(_) => Err(Fault::new(
            "length of a cell",
            record.len(),
            "less than 2^32",
        )),
    }
}

/// Reads the bytes of one field of a cell.
pub(crate) fn take<'a>(field: &Field, record: &mut Fields<'a>) -> Decoded<(&'a [u8], bool)> {
    let is_valid = !field.is_nullable || record.flag("validity")?;
    let length = match field.cell_values {
        CellValues::Fixed(_) => field.cell_bytes as u64,
        CellValues::Variable => record.u64("length of a cell")?,
    };
    Ok((record.take_u64("cell", length)?, is_valid))
}

/// Returns buffers without cells.
pub(crate) fn empty(field: &Field) -> TileBuffers {
    let mut buffers = TileBuffers::default();
    if field.cell_values.is_variable() {
        buffers.offsets.push(0);
    }
    buffers
}

/// Appends a cell to buffers.
pub(crate) fn push(field: &Field, bytes: &[u8], is_valid: bool, buffers: &mut TileBuffers) {
    buffers.values.put(bytes);
    if field.cell_values.is_variable() {
        buffers.offsets.push(buffers.values.len() as u64);
    }
    if field.is_nullable {
        buffers.validity.push(u8::from(is_valid));
    }
    buffers.cells += 1;
}
