//! The distinct combinations of join keys.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, make_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::Result;
use datafusion::common::utils::normalize_float_zero;

use crate::provider::plans::words::{has_words, words};

/// The distinct combinations of the values of some keys, numbered from zero.
#[derive(Debug)]
pub(in crate::provider::join::lookup) enum DistinctKeys {
    /// The values of a single key as words. Faster than rows.
    Words {
        data_type: DataType,
        numbered: Numbered<u64>,
    },
    /// The combinations in Arrow's row format.
    Rows {
        converter: RowConverter,
        numbered: Numbered<Arc<[u8]>>,
    },
}

impl DistinctKeys {
    /// Creates an empty set for keys of these types. Returns `None` if a type has no row format.
    pub fn try_new(types: impl Iterator<Item = DataType>) -> Result<Option<Self>> {
        let types: Vec<_> = types.collect();
        if let [data_type] = types.as_slice()
            && has_words(data_type)
        {
            return Ok(Some(Self::Words {
                data_type: data_type.clone(),
                numbered: Numbered::default(),
            }));
        }
        let fields: Vec<_> = types.into_iter().map(SortField::new).collect();
        if !RowConverter::supports_fields(&fields) {
            return Ok(None);
        }
        Ok(Some(Self::Rows {
            converter: RowConverter::new(fields)?,
            numbered: Numbered::default(),
        }))
    }

    /// Returns the number of combinations.
    pub fn count(&self) -> usize {
        match self {
            Self::Words { numbered, .. } => numbered.keys.len(),
            Self::Rows { numbered, .. } => numbered.keys.len(),
        }
    }

    /// Returns the values of each key, one per combination, in the order of the numbers.
    pub fn values(&self) -> Result<Vec<ArrayRef>> {
        match self {
            Self::Words {
                data_type,
                numbered,
            } => Ok(vec![array(data_type, &numbered.keys)?]),
            Self::Rows {
                converter,
                numbered,
            } => {
                let parser = converter.parser();
                let rows = numbered.keys.iter().map(|row| parser.parse(row));
                Ok(converter.convert_rows(rows)?)
            }
        }
    }

    /// Adds the combination of each row. Returns the numbers, with `None` for rows with a null.
    pub fn insert(&mut self, keys: &[ArrayRef]) -> Result<Vec<Option<u32>>> {
        let nulls = nulls(keys);
        let has_null = |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        Ok(match self {
            Self::Words { numbered, .. } => {
                let words = words(&keys[0]).into_iter().enumerate();
                words
                    .map(|(row, word)| (!has_null(row)).then(|| numbered.insert(&word, word)))
                    .collect()
            }
            Self::Rows {
                converter,
                numbered,
            } => {
                let rows = rows_of(converter, keys)?;
                let rows = rows.iter().enumerate();
                rows.map(|(row, key)| {
                    (!has_null(row)).then(|| numbered.insert(key.data(), key.data().into()))
                })
                .collect()
            }
        })
    }

    /// Returns the number of each row's combination, with `None` for rows with a null and for
    /// combinations that are not in the set.
    pub fn find(&self, keys: &[ArrayRef]) -> Result<Vec<Option<u32>>> {
        let mut numbers = Vec::with_capacity(keys[0].len());
        self.find_each(keys, |_, number| numbers.push(number))?;
        Ok(numbers)
    }

    /// Calls `found` with the index of each row and with the number that [`Self::find`] returns for it.
    pub fn find_each(
        &self,
        keys: &[ArrayRef],
        mut found: impl FnMut(usize, Option<u32>),
    ) -> Result<()> {
        let nulls = nulls(keys);
        let has_null = |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        let mut next = 0;
        match self {
            Self::Words { numbered, .. } => {
                for (row, word) in words(&keys[0]).into_iter().enumerate() {
                    let number = match has_null(row) {
                        true => None,
                        false => numbered.find(&word, &mut next),
                    };
                    found(row, number);
                }
            }
            Self::Rows {
                converter,
                numbered,
            } => {
                for (row, key) in rows_of(converter, keys)?.iter().enumerate() {
                    let number = match has_null(row) {
                        true => None,
                        false => numbered.find(key.data(), &mut next),
                    };
                    found(row, number);
                }
            }
        }
        Ok(())
    }
}

/// Distinct keys, and the number of each.
#[derive(Debug)]
pub(in crate::provider::join::lookup) struct Numbered<K> {
    /// The keys, in the order of their numbers.
    keys: Vec<K>,
    numbers: HashMap<K, u32>,
}

impl<K> Default for Numbered<K> {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            numbers: HashMap::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Numbered<K> {
    /// Returns the number of a key, which is added if it is new.
    fn insert<Q: Eq + Hash + ?Sized>(&mut self, key: &Q, owned: K) -> u32
    where
        K: Borrow<Q>,
    {
        if let Some(known) = self.numbers.get(key) {
            return *known;
        }
        let new = self.keys.len() as u32;
        self.keys.push(owned.clone());
        self.numbers.insert(owned, new);
        new
    }

    /// Returns the number of a key; `None` if it is unknown. `next` is the number after the one that was
    /// found before.
    fn find<Q: Eq + Hash + ?Sized>(&self, key: &Q, next: &mut usize) -> Option<u32>
    where
        K: Borrow<Q>,
    {
        // Keys often come in the order of the axes. Comparing is faster than hashing.
        let is = |number: usize| self.keys.get(number).is_some_and(|own| own.borrow() == key);
        let before = usize::checked_sub(*next, 1);
        let mut likely = [before, Some(*next), Some(0)].into_iter().flatten();
        let found = match likely.find(|number| is(*number)) {
            Some(found) => found as u32,
            None => *self.numbers.get(key)?,
        };
        *next = found as usize + 1;
        Some(found)
    }
}

/// Converts keys to Arrow's row format. -0.0 and 0.0 are equal, as in DataFusion's joins.
fn rows_of(converter: &RowConverter, keys: &[ArrayRef]) -> Result<Rows> {
    let keys: Vec<_> = keys.iter().map(normalize_float_zero).collect();
    Ok(converter.convert_columns(&keys)?)
}

/// Returns the array of a data type whose values have these bits.
fn array(data_type: &DataType, words: &[u64]) -> Result<ArrayRef> {
    let width = data_type.primitive_width().unwrap_or(1);
    let bytes = words
        .iter()
        .flat_map(|word| word.to_le_bytes().into_iter().take(width));
    let data = ArrayData::builder(data_type.clone()).len(words.len());
    let data = data
        .add_buffer(Buffer::from_iter(bytes))
        .align_buffers(true);
    Ok(make_array(data.build()?))
}

/// Returns a null buffer in which the rows with any null key are null.
pub(in crate::provider::join::lookup) fn nulls(keys: &[ArrayRef]) -> Option<NullBuffer> {
    keys.iter().fold(None, |nulls, key| {
        NullBuffer::union(nulls.as_ref(), key.logical_nulls().as_ref())
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int8Array, TimestampSecondArray, UInt16Array};

    use super::*;

    #[test]
    fn words_have_the_numbers_of_rows() {
        let floats = [Some(-0.0), None, Some(2.5), Some(0.0), Some(f64::NAN)];
        let arrays: [ArrayRef; 4] = [
            Arc::new(Int8Array::from(vec![-1, 5, -1, 127, -128, 5])),
            Arc::new(UInt16Array::from(vec![7, 7, 0, 65535, 256])),
            Arc::new(TimestampSecondArray::from(vec![-1, 1 << 40, 3])),
            Arc::new(Float64Array::from(floats.to_vec())),
        ];
        for keys in arrays {
            let data_type = keys.data_type().clone();
            let keys = keys.slice(1, keys.len() - 1);
            let mut words = DistinctKeys::try_new(std::iter::once(data_type.clone()))
                .unwrap()
                .unwrap();
            assert!(matches!(words, DistinctKeys::Words { .. }));
            let mut rows = DistinctKeys::Rows {
                converter: RowConverter::new(vec![SortField::new(data_type)]).unwrap(),
                numbered: Numbered::default(),
            };
            let keys = [keys];
            assert_eq!(words.insert(&keys).unwrap(), rows.insert(&keys).unwrap());
            assert_eq!(words.find(&keys).unwrap(), rows.find(&keys).unwrap());
            assert_eq!(&words.values().unwrap(), &rows.values().unwrap());
            assert_eq!(words.count(), rows.count());
        }
    }
}
