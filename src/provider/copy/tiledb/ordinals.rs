//! The ordinals of an enumeration's values, which arrays store instead of the values.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef};
use arrow::util::display::array_value_to_string;
use datafusion::common::{Result, exec_err};

use crate::format::tiledb::{Enumeration, TileBuffers};
use crate::provider::copy::tiledb::columns::StoredColumn;

/// Finds the ordinals of an enumeration's values.
#[derive(Debug)]
pub(super) struct Ordinals {
    /// The values as a column, which converts rows to the bytes that the enumeration stores.
    values: StoredColumn,
    ordinals: HashMap<Vec<u8>, u64>,
}

impl Ordinals {
    /// Creates the ordinals of an enumeration, for rows of the attribute with this name.
    pub fn new(attribute: &str, enumeration: &Enumeration) -> Self {
        let values = (0..enumeration.len()).rev();
        let ordinals =
            values.filter_map(|index| Some((enumeration.get(index)?.to_vec(), index as u64)));
        Self {
            values: StoredColumn {
                name: attribute.to_string(),
                index: 0,
                datatype: enumeration.datatype,
                cell_values: enumeration.cell_values,
                is_nullable: true,
                is_dimension: false,
                fill: None,
                enumeration: None,
            },
            ordinals: ordinals.collect(),
        }
    }

    /// The number of different values.
    pub fn len(&self) -> u64 {
        self.ordinals.len() as u64
    }

    /// Appends the ordinals of values, as numbers of `size` bytes. The ordinal of a null is 0.
    ///
    /// # Errors
    /// Fails if the enumeration does not have a value.
    pub fn put(&self, array: &ArrayRef, size: usize, cells: &mut TileBuffers) -> Result<()> {
        let values = self.values.cells(array)?;
        let value_bytes = self.values.datatype.size();
        for row in 0..array.len() {
            let value = values.cell(row, self.values.cell_values, value_bytes);
            let ordinal = match self.ordinals.get(value) {
                _ if values.is_null(row) => 0,
                Some(ordinal) => *ordinal,
                None => {
                    let found = array_value_to_string(array, row)?;
                    return exec_err!(
                        "attribute {:?} has no value {found:?} in its enumeration",
                        self.values.name
                    );
                }
            };
            cells
                .values
                .extend_from_slice(&ordinal.to_le_bytes()[..size]);
        }
        Ok(())
    }
}
