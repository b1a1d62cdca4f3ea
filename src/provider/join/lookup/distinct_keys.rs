//! The distinct combinations of join keys.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::Result;
use datafusion::common::utils::normalize_float_zero;

/// The distinct combinations of the values of some keys, numbered from zero.
#[derive(Debug)]
pub(in crate::provider::join::lookup) struct DistinctKeys {
    converter: RowConverter,
    /// The combinations in Arrow's row format, in the order of their numbers.
    rows: Vec<Arc<[u8]>>,
    numbers: HashMap<Arc<[u8]>, u32>,
}

impl DistinctKeys {
    /// Creates an empty set for keys of these types. Returns `None` if a type has no row format.
    pub fn try_new(types: impl Iterator<Item = DataType>) -> Result<Option<Self>> {
        let fields: Vec<_> = types.map(SortField::new).collect();
        if !RowConverter::supports_fields(&fields) {
            return Ok(None);
        }
        Ok(Some(Self {
            converter: RowConverter::new(fields)?,
            rows: Vec::new(),
            numbers: HashMap::new(),
        }))
    }

    /// Converts keys to Arrow's row format. -0.0 and 0.0 are equal, as in DataFusion's joins.
    fn rows_of(&self, keys: &[ArrayRef]) -> Result<Rows> {
        let keys: Vec<_> = keys.iter().map(normalize_float_zero).collect();
        Ok(self.converter.convert_columns(&keys)?)
    }

    /// Returns the number of combinations.
    pub fn count(&self) -> usize {
        self.rows.len()
    }

    /// Returns the values of each key, one per combination, in the order of the numbers.
    pub fn values(&self) -> Result<Vec<ArrayRef>> {
        let parser = self.converter.parser();
        let rows = self.rows.iter().map(|row| parser.parse(row));
        Ok(self.converter.convert_rows(rows)?)
    }

    /// Adds the combination of each row. Returns the numbers, with `None` for rows with a null.
    pub fn insert(&mut self, keys: &[ArrayRef]) -> Result<Vec<Option<u32>>> {
        let rows = self.rows_of(keys)?;
        let nulls = nulls(keys);
        let numbers = rows.iter().enumerate().map(|(number, row)| {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(number)) {
                return None;
            }
            if let Some(known) = self.numbers.get(row.data()) {
                return Some(*known);
            }
            let row: Arc<[u8]> = row.data().into();
            let new = self.rows.len() as u32;
            self.rows.push(Arc::clone(&row));
            self.numbers.insert(row, new);
            Some(new)
        });
        Ok(numbers.collect())
    }

    /// Returns the number of each row's combination, with `None` for rows with a null and for
    /// combinations that are not in the set.
    pub fn find(&self, keys: &[ArrayRef]) -> Result<Vec<Option<u32>>> {
        let rows = self.rows_of(keys)?;
        let nulls = nulls(keys);
        let mut next = 0;
        let numbers = rows.iter().enumerate().map(|(number, row)| {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(number)) {
                return None;
            }
            // Rows often come in the order of the axes. Comparing is faster than hashing.
            let is = |number: usize| {
                self.rows
                    .get(number)
                    .is_some_and(|key| **key == *row.data())
            };
            let before = usize::checked_sub(next, 1);
            let found = [before, Some(next), Some(0)]
                .into_iter()
                .flatten()
                .find(|number| is(*number));
            let found = match found {
                Some(found) => found as u32,
                None => *self.numbers.get(row.data())?,
            };
            next = found as usize + 1;
            Some(found)
        });
        Ok(numbers.collect())
    }
}

/// Returns a null buffer in which the rows with any null key are null.
pub(in crate::provider::join::lookup) fn nulls(keys: &[ArrayRef]) -> Option<NullBuffer> {
    keys.iter().fold(None, |nulls, key| {
        NullBuffer::union(nulls.as_ref(), key.logical_nulls().as_ref())
    })
}
