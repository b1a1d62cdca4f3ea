//! Encodes the coordinates of rows as codes, numbered by first appearance, and builds the axes from
//! them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{
    DataType, Date64Type, DurationNanosecondType, Float32Type, Float64Type, TimeUnit,
    TimestampNanosecondType,
};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, plan_err};

use crate::grid::{Axis, Coordinates, Monotonicity};
use crate::provider::copy::options::AxisOrder;
use crate::provider::plans::words::{has_words, words};

/// Memory overhead of one coordinate in bytes: its list entry, its hash table entry and its
/// allocation.
const BYTES_AROUND: usize = 96;
/// The memory in bytes of a coordinate's word in a list and in a hash table.
const BYTES_AROUND_WORD: usize = 32;

/// Collects the distinct coordinates of one dimension.
pub struct AxisBuilder {
    name: String,
    attributes: BTreeMap<String, String>,
    /// The type of the coordinates.
    data_type: DataType,
    converter: RowConverter,
    /// The distinct coordinates by code, in Arrow's row format, whose bytes sort like the
    /// coordinates.
    distinct: Vec<Arc<[u8]>>,
    codes: HashMap<Arc<[u8]>, u32>,
    /// The distinct coordinates by code as words, and their codes, if the type has words.
    words: (Vec<u64>, HashMap<u64, u32>),
    /// Memory of the distinct coordinates in bytes, including overhead.
    memory: usize,
    /// The code of the previous row.
    last: u32,
    /// The axes of the arrays that the dimension comes from.
    sources: Vec<Axis>,
}

/// A complete axis: its coordinates by index, and the index of each code.
pub(in crate::provider) struct FinishedAxis {
    pub name: String,
    pub coordinates: ArrayRef,
    pub positions: Vec<u32>,
    /// Attributes of the dimension, such as its units.
    pub attributes: BTreeMap<String, String>,
}

impl AxisBuilder {
    /// Creates a builder for a dimension with coordinates of this type. `sources` are the axes of
    /// the arrays that the dimension comes from, and may be empty.
    pub fn try_new(
        name: &str,
        data_type: &DataType,
        attributes: BTreeMap<String, String>,
        sources: Vec<Axis>,
    ) -> Result<Self> {
        let data_type = coordinate_type(name, data_type)?;
        Ok(Self {
            attributes,
            name: name.to_string(),
            converter: RowConverter::new(vec![SortField::new(data_type.clone())])?,
            data_type,
            distinct: Vec::new(),
            codes: HashMap::new(),
            words: (Vec::new(), HashMap::new()),
            memory: 0,
            last: 0,
            sources,
        })
    }

    /// Returns the code of each coordinate, and adds new coordinates.
    pub fn codes(&mut self, column: &ArrayRef) -> Result<Vec<u32>> {
        let column = self.coordinates(column)?;
        let mut codes = Vec::with_capacity(column.len());
        if has_words(&self.data_type) {
            for (row, word) in words(&column).into_iter().enumerate() {
                self.last = match guess(&self.words.0, self.last, |known| *known == word) {
                    Some(code) => code,
                    None => self.code_of_word(word, &column, row)?,
                };
                codes.push(self.last);
            }
            return Ok(codes);
        }
        let rows = self.converter.convert_columns(&[column])?;
        for row in &rows {
            let bytes = row.as_ref();
            self.last = match guess(&self.distinct, self.last, |known| **known == *bytes) {
                Some(code) => code,
                None => self.code(bytes)?,
            };
            codes.push(self.last);
        }
        Ok(codes)
    }

    /// Returns the code of a row's coordinate, given as a word.
    fn code_of_word(&mut self, word: u64, column: &ArrayRef, row: usize) -> Result<u32> {
        if let Some(code) = self.words.1.get(&word) {
            return Ok(*code);
        }
        let rows = self.converter.convert_columns(&[column.slice(row, 1)])?;
        let code = self.code(rows.row(0).as_ref())?;
        self.words.0.push(word);
        self.words.1.insert(word, code);
        self.memory += BYTES_AROUND_WORD;
        Ok(code)
    }

    fn code(&mut self, bytes: &[u8]) -> Result<u32> {
        if let Some(code) = self.codes.get(bytes) {
            return Ok(*code);
        }
        let Ok(code) = u32::try_from(self.distinct.len()) else {
            return plan_err!("dimension {} has 2^32 coordinates or more", self.name);
        };
        let bytes: Arc<[u8]> = bytes.into();
        self.memory += bytes.len() + BYTES_AROUND;
        self.distinct.push(Arc::clone(&bytes));
        self.codes.insert(bytes, code);
        Ok(code)
    }

    /// Casts the column to the type of the coordinates and makes equal coordinates bitwise equal.
    fn coordinates(&self, column: &ArrayRef) -> Result<ArrayRef> {
        let name = &self.name;
        let nulls = column.logical_null_count();
        let options = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        let cast = cast_with_options(column, &self.data_type, &options);
        let column = match cast {
            Ok(cast) if is_exact(column, &cast)? => cast,
            _ => {
                return plan_err!(
                    "dimension {name}, of type {}, has a coordinate that {} cannot hold; cast it",
                    column.data_type(),
                    self.data_type
                );
            }
        };
        if nulls > 0 {
            return plan_err!(
                "dimension {name} is NULL in a row; a cell has a coordinate along every axis (WHERE {name} IS NOT NULL)"
            );
        }
        let (is_number, column): (bool, ArrayRef) = match &self.data_type {
            DataType::Float64 => {
                let values = column.as_primitive::<Float64Type>();
                let is_number = values.values().iter().all(|value| !value.is_nan());
                // Adding zero turns -0.0 into 0.0.
                (
                    is_number,
                    Arc::new(values.unary::<_, Float64Type>(|value| value + 0.0)),
                )
            }
            DataType::Float32 => {
                let values = column.as_primitive::<Float32Type>();
                let is_number = values.values().iter().all(|value| !value.is_nan());
                (
                    is_number,
                    Arc::new(values.unary::<_, Float32Type>(|value| value + 0.0)),
                )
            }
            _ => (true, column),
        };
        if !is_number {
            return plan_err!(
                "dimension {name} is NaN in a row, but a coordinate must be a number"
            );
        }
        Ok(column)
    }

    /// Returns the memory of the distinct coordinates in bytes.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Returns the name of the dimension.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of distinct coordinates so far.
    pub fn len(&self) -> usize {
        self.distinct.len()
    }

    /// Returns the coordinate with this code as text, for messages.
    pub fn text(&self, code: u32) -> String {
        let bytes = self.distinct.get(code as usize);
        let array = bytes.and_then(|bytes| self.array([bytes.as_ref()].into_iter()).ok());
        array
            .and_then(|array| arrow::util::display::array_value_to_string(&array, 0).ok())
            .unwrap_or_default()
    }

    fn array<'a>(&self, bytes: impl Iterator<Item = &'a [u8]>) -> Result<ArrayRef> {
        let parser = self.converter.parser();
        let rows = bytes.map(|bytes| parser.parse(bytes));
        let columns = self.converter.convert_rows(rows)?;
        // The converter has a single field, so it returns a single column.
        Ok(columns
            .into_iter()
            .next()
            .unwrap_or_else(|| arrow::array::new_empty_array(&self.data_type)))
    }

    /// Builds the axis. Call this after the last row.
    pub fn finish(&self, order: AxisOrder) -> Result<FinishedAxis> {
        let by_position = match order {
            AxisOrder::Sorted => self.sorted(),
            AxisOrder::Appearance => self.all_codes(),
            AxisOrder::Source => self.in_source_order()?,
        };
        let mut positions = vec![0; by_position.len()];
        for (position, code) in by_position.iter().enumerate() {
            positions[*code as usize] = position as u32;
        }
        let bytes = by_position
            .iter()
            .map(|code| self.distinct[*code as usize].as_ref());
        let coordinates = self.array(bytes)?;
        Ok(FinishedAxis {
            name: self.name.clone(),
            coordinates,
            positions,
            attributes: self.attributes.clone(),
        })
    }

    fn all_codes(&self) -> Vec<u32> {
        // The count fits: `Self::code` fails beyond 2^32 coordinates.
        (0..self.distinct.len() as u32).collect()
    }

    /// Returns the codes sorted by coordinate, in ascending order.
    fn sorted(&self) -> Vec<u32> {
        let mut codes = self.all_codes();
        codes.sort_by(|one, other| {
            self.distinct[*one as usize].cmp(&self.distinct[*other as usize])
        });
        codes
    }

    /// Returns the codes in the order of their coordinates along the source axes, one axis after
    /// another. Coordinates that occur on no source axis follow in ascending order.
    fn in_source_order(&self) -> Result<Vec<u32>> {
        let mut sorted = self.sorted();
        let directions = self.sources.iter().map(Axis::monotonicity);
        let directions = directions.collect::<Result<Vec<_>, _>>()?;
        if directions.iter().all(|one| *one == Monotonicity::Ascending) {
            return Ok(sorted);
        }
        if directions
            .iter()
            .all(|one| *one == Monotonicity::Descending)
        {
            sorted.reverse();
            return Ok(sorted);
        }
        let mut is_placed = vec![false; self.distinct.len()];
        let mut codes = Vec::with_capacity(self.distinct.len());
        let mut visit = |code: u32| {
            if !std::mem::replace(&mut is_placed[code as usize], true) {
                codes.push(code);
            }
        };
        for source in &self.sources {
            // Evenly spaced coordinates are not stored. They are placed with the remaining ones, in
            // ascending order.
            let Coordinates::Values(values) = source.coordinates()? else {
                continue;
            };
            let rows = self
                .converter
                .convert_columns(&[self.coordinates(values)?])?;
            let known = rows.iter().filter_map(|row| self.codes.get(row.as_ref()));
            known.for_each(|code| visit(*code));
        }
        sorted.into_iter().for_each(visit);
        Ok(codes)
    }
}

/// Returns the code of a coordinate if it is that of the previous row, the next one or the first one: rows
/// usually arrive in order, and comparing is faster than hashing.
fn guess<T>(distinct: &[T], last: u32, is: impl Fn(&T) -> bool) -> Option<u32> {
    let mut guesses = [last, last.wrapping_add(1), 0].into_iter();
    guesses.find(|code| distinct.get(*code as usize).is_some_and(&is))
}

/// Returns `true` if a cast preserved every coordinate exactly.
pub fn is_exact(before: &ArrayRef, after: &ArrayRef) -> Result<bool> {
    Ok(match before.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            let times = before.as_primitive::<TimestampNanosecondType>();
            times.iter().flatten().all(|time| time % 1000 == 0)
        }
        DataType::Duration(TimeUnit::Nanosecond) if after.data_type() != before.data_type() => {
            let durations = before.as_primitive::<DurationNanosecondType>();
            durations.iter().flatten().all(|length| length % 1000 == 0)
        }
        DataType::Date64 => {
            let times = before.as_primitive::<Date64Type>();
            times.iter().flatten().all(|time| time % 86_400_000 == 0)
        }
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => &cast(after, before.data_type())? == before,
        _ => true,
    })
}

/// Returns the type in which coordinates of this type are stored.
fn coordinate_type(name: &str, data_type: &DataType) -> Result<DataType> {
    Ok(match data_type {
        DataType::Dictionary(_, values) => coordinate_type(name, values)?,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::Date32 | DataType::Date64 => DataType::Date32,
        // The cast drops the time zone and keeps the instant, so timestamps are in UTC.
        DataType::Timestamp(..) => DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Duration(unit) => duration_type(*unit),
        DataType::Int8 => DataType::Int16,
        DataType::Float16 => DataType::Float32,
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => DataType::Float64,
        other if other.is_integer() || other.is_floating() => other.clone(),
        other => {
            return plan_err!(
                "dimension {name} has type {other}, which cannot be a coordinate; cast it to a number, a text, \
                 a date, a timestamp or a duration"
            );
        }
    })
}

/// Returns the type in which durations of this unit are stored.
pub fn duration_type(unit: TimeUnit) -> DataType {
    DataType::Duration(match unit {
        TimeUnit::Nanosecond => TimeUnit::Nanosecond,
        _ => TimeUnit::Microsecond,
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int64Array, StringArray};
    use arrow::datatypes::Int64Type;

    use crate::grid::CoordinateSource;

    use super::*;

    #[test]
    fn coordinates_are_numbered_as_they_come_and_sorted_in_the_end() {
        let mut axis =
            AxisBuilder::try_new("x", &DataType::Int64, BTreeMap::new(), Vec::new()).unwrap();
        let first: ArrayRef = Arc::new(Int64Array::from(vec![5, 5, -1, 3, 5]));
        assert_eq!(axis.codes(&first).unwrap(), [0, 0, 1, 2, 0]);
        let second: ArrayRef = Arc::new(Int64Array::from(vec![3, 7]));
        assert_eq!(axis.codes(&second).unwrap(), [2, 3]);
        let sorted = axis.finish(AxisOrder::Sorted).unwrap();
        let expected: ArrayRef = Arc::new(Int64Array::from(vec![-1, 3, 5, 7]));
        assert_eq!(&sorted.coordinates, &expected);
        assert_eq!(sorted.positions, [2, 0, 1, 3]);
        let appearance = axis.finish(AxisOrder::Appearance).unwrap();
        assert_eq!(appearance.positions, [0, 1, 2, 3]);
        assert_eq!(axis.text(1), "-1");
    }

    #[test]
    fn coordinates_keep_the_order_of_their_source() {
        let source = |values: Vec<i64>| {
            Axis::with_values(
                "x",
                Arc::new(Int64Array::from(values)),
                CoordinateSource::OwnValues,
            )
        };
        let order = |sources: Vec<Axis>| {
            let no_attributes = BTreeMap::new();
            let mut axis =
                AxisBuilder::try_new("x", &DataType::Int64, no_attributes, sources).unwrap();
            let rows: ArrayRef = Arc::new(Int64Array::from(vec![5, -1, 3, 7]));
            axis.codes(&rows).unwrap();
            let axis = axis.finish(AxisOrder::Source).unwrap();
            axis.coordinates
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        };
        assert_eq!(order(Vec::new()), [-1, 3, 5, 7]);
        assert_eq!(order(vec![source(vec![-1, 0, 3, 5, 7])]), [-1, 3, 5, 7]);
        let north = source(vec![9, 7, 5]);
        let south = source(vec![3, 0, -1]);
        assert_eq!(order(vec![north.clone(), south]), [7, 5, 3, -1]);
        let shuffled = source(vec![5, 9, -1, 7, 3]);
        assert_eq!(order(vec![shuffled]), [5, -1, 7, 3]);
        // Coordinates that no source axis has come last.
        assert_eq!(order(vec![north, source(vec![0, 1])]), [7, 5, -1, 3]);
    }

    #[test]
    fn zeros_are_one_coordinate() {
        let mut axis =
            AxisBuilder::try_new("x", &DataType::Float64, BTreeMap::new(), Vec::new()).unwrap();
        let zeros: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0]));
        assert_eq!(axis.codes(&zeros).unwrap(), [0, 0]);
    }

    #[test]
    fn what_is_no_coordinate_is_refused() {
        let nan: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN]));
        let mut axis =
            AxisBuilder::try_new("x", &DataType::Float64, BTreeMap::new(), Vec::new()).unwrap();
        let error = axis.codes(&nan).unwrap_err().to_string();
        assert!(error.contains("dimension x is NaN"), "{error}");
        let null: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>]));
        let mut axis =
            AxisBuilder::try_new("x", &DataType::Utf8View, BTreeMap::new(), Vec::new()).unwrap();
        let error = axis.codes(&null).unwrap_err().to_string();
        assert!(error.contains("dimension x is NULL"), "{error}");
        assert!(
            AxisBuilder::try_new("x", &DataType::Boolean, BTreeMap::new(), Vec::new()).is_err()
        );
    }
}
