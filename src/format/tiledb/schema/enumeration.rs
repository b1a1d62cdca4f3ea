//! Enumerations: the values that the cells of an attribute index.

use crate::format::tiledb::bytes::{Fields, u64s};
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::schema::{CellValues, Datatype};

/// An enumeration. Cells hold the ordinals of values; cells with other numbers have no value.
#[derive(Debug, Clone, PartialEq)]
pub struct Enumeration {
    /// The name.
    pub name: String,
    /// The datatype of values.
    pub datatype: Datatype,
    /// The number of datatype values per value of the enumeration.
    pub cell_values: CellValues,
    /// `true` if the values are in a meaningful order.
    pub is_ordered: bool,
    data: Vec<u8>,
    /// The start of each value in `data`, followed by the end of the last.
    offsets: Vec<u64>,
}

impl Enumeration {
    /// Parses an enumeration, the payload of a generic tile.
    pub(crate) fn parse(payload: &[u8]) -> Decoded<Self> {
        let mut fields = Fields::new(payload);
        match fields.u32("enumeration version")? {
            0 => {}
            other => return Err(Fault::new("enumeration version", other, 0)),
        }
        let name = fields.text("enumeration name")?;
        fields.text("enumeration file")?;
        let field = "enumeration datatype";
        let datatype = Datatype::from_code(field, fields.u8(field)?)?;
        let field = "enumeration cell value number";
        let cell_values = CellValues::from_code(field, fields.u32(field)?)?;
        let is_ordered = fields.flag("ordered")?;
        let length = fields.u64("length of enumeration values")?;
        let data = fields.take_u64("enumeration values", length)?.to_vec();
        let offsets = match cell_values {
            CellValues::Variable => {
                let length = fields.u64("length of enumeration offsets")?;
                let mut offsets = u64s(fields.take_u64("enumeration offsets", length)?);
                offsets.push(data.len() as u64);
                offsets
            }
            CellValues::Fixed(values) => {
                let bytes = (values as usize).saturating_mul(datatype.size());
                if !data.len().is_multiple_of(bytes) {
                    let expected = format!("a multiple of {bytes}");
                    return Err(Fault::new("length of enumeration values", length, expected));
                }
                (0..=data.len() / bytes)
                    .map(|index| (index * bytes) as u64)
                    .collect()
            }
        };
        fields.finish("enumeration")?;
        if !offsets.is_sorted() {
            return Err(Fault::new(
                "enumeration offsets",
                "out of order",
                "increasing",
            ));
        }
        Ok(Self {
            name,
            datatype,
            cell_values,
            is_ordered,
            data,
            offsets,
        })
    }

    /// Returns an enumeration of texts.
    pub fn of_texts<T: AsRef<str>>(name: impl Into<String>, texts: &[T]) -> Self {
        let (mut data, mut offsets) = (Vec::new(), vec![0]);
        for text in texts {
            data.extend(text.as_ref().as_bytes());
            offsets.push(data.len() as u64);
        }
        Self {
            name: name.into(),
            datatype: Datatype::StringUtf8,
            cell_values: CellValues::Variable,
            is_ordered: false,
            data,
            offsets,
        }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns `true` if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of a value.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let (start, end) = (*self.offsets.get(index)?, *self.offsets.get(index + 1)?);
        self.data.get(start as usize..end as usize)
    }

    /// The bytes of all values, one after another.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The start of each value in [`Self::data`], followed by the end of the last.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }
}
