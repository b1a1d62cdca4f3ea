//! Buffers for the cells of a tile.

use crate::format::tiledb::schema::CellValues;

/// The cells of one field: of a tile, or of a window of a dense array.
///
/// The layout is that of Arrow, except that validity takes one byte per cell. Buffers keep their
/// memory from tile to tile.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TileBuffers {
    /// The number of cells.
    pub cells: usize,
    /// The little-endian values of all cells, one cell after another.
    pub values: Vec<u8>,
    /// The start of each cell in `values` in bytes, followed by the end of the last cell. Empty for
    /// cells of fixed size.
    pub offsets: Vec<u64>,
    /// One byte per cell, 0 for null. Empty if the field is not nullable.
    pub validity: Vec<u8>,
}

impl TileBuffers {
    /// Returns the bytes of one cell, given the number of values per cell and the size of a value.
    pub fn cell(&self, index: usize, cell_values: CellValues, value_bytes: usize) -> &[u8] {
        let range = match cell_values {
            CellValues::Fixed(values) => {
                let bytes = values as usize * value_bytes;
                index * bytes..(index + 1) * bytes
            }
            CellValues::Variable => match self.offsets.get(index..index + 2) {
                Some([start, end]) => *start as usize..*end as usize,
                _ => 0..0,
            },
        };
        self.values.get(range).unwrap_or_default()
    }

    /// Returns `true` if a cell is null.
    pub fn is_null(&self, index: usize) -> bool {
        self.validity.get(index) == Some(&0)
    }
}
