//! Decoded values of a column, in buffers that can become Arrow arrays without a copy.

use crate::format::tatami::layout::types::ColumnType;
use crate::format::tatami::pages::bitmap::{Bitmap, Validity};
use crate::format::tatami::pages::strings::Strings;

/// The values of some rows. The values of nulls are zero or empty.
#[derive(Debug, Clone)]
pub enum Values {
    /// Booleans, one bit each.
    Bits(Bitmap),
    /// Values of one byte.
    Width1(Vec<u8>),
    /// Values of two bytes.
    Width2(Vec<u16>),
    /// Values of four bytes. Floats are their IEEE bits.
    Width4(Vec<u32>),
    /// Values of eight bytes. Floats are their IEEE bits.
    Width8(Vec<u64>),
    /// Byte strings.
    Strings(Strings),
}

impl Values {
    fn new(column_type: ColumnType) -> Self {
        match (column_type, column_type.width()) {
            (ColumnType::Bool, _) => Self::Bits(Bitmap::default()),
            (_, Some(1)) => Self::Width1(Vec::new()),
            (_, Some(2)) => Self::Width2(Vec::new()),
            (_, Some(4)) => Self::Width4(Vec::new()),
            (_, Some(_)) => Self::Width8(Vec::new()),
            (_, None) => Self::Strings(Strings::default()),
        }
    }
}

/// The decoded values of a column, page after page. Signed integers, timestamps and floats are stored as
/// the unsigned words with the same bits.
#[derive(Debug, Clone)]
pub struct ColumnValues {
    column_type: ColumnType,
    /// The rows that have a value.
    pub validity: Validity,
    /// The values.
    pub values: Values,
}

impl ColumnValues {
    /// Creates empty buffers for values of a type.
    pub fn new(column_type: ColumnType) -> Self {
        Self {
            column_type,
            validity: Validity::default(),
            values: Values::new(column_type),
        }
    }

    /// The type of the column.
    pub fn column_type(&self) -> ColumnType {
        self.column_type
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.validity.rows()
    }

    /// Removes all rows, and keeps the memory.
    pub fn clear(&mut self) {
        self.validity.clear();
        match &mut self.values {
            Values::Bits(bits) => bits.clear(),
            Values::Width1(words) => words.clear(),
            Values::Width2(words) => words.clear(),
            Values::Width4(words) => words.clear(),
            Values::Width8(words) => words.clear(),
            Values::Strings(strings) => strings.clear(),
        }
    }

    /// Takes the values, and leaves empty buffers.
    pub fn take(&mut self) -> (Option<Vec<u8>>, Values) {
        let values = std::mem::replace(&mut self.values, Values::new(self.column_type));
        (self.validity.take(), values)
    }

    /// Returns the scalar bytes of a row, as in zones and Bloom filters, or `None` for a null.
    pub fn scalar(&self, row: usize) -> Option<Vec<u8>> {
        if row >= self.rows() || !self.validity.is_valid(row) {
            return None;
        }
        match &self.values {
            Values::Bits(bits) => Some(vec![u8::from(bits.get(row))]),
            Values::Width1(words) => words.get(row).map(|word| vec![*word]),
            Values::Width2(words) => words.get(row).map(|word| word.to_le_bytes().to_vec()),
            Values::Width4(words) => words.get(row).map(|word| word.to_le_bytes().to_vec()),
            Values::Width8(words) => words.get(row).map(|word| word.to_le_bytes().to_vec()),
            Values::Strings(strings) => strings.get(row),
        }
    }
}
