//! The layout of the output file: how axes are stored, and the datasets described in its footer.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, DurationMicrosecondType, DurationNanosecondType, Float32Type,
    Float64Type, Int16Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use chrono::DateTime;
use datafusion::common::{Result, plan_err};

use crate::format::array::{DatasetMetadata, DatasetSpec, Dtype, Limits};
use crate::grid::infer_labels;
use crate::provider::adapters::arrays::{ARROW_TYPE, DATE, NUMPY_TYPE};
use crate::provider::copy::arrays::axes::FinishedAxis;
use crate::provider::copy::arrays::measure::{Measure, bytes};

/// The default upper bound for the size of a chunk in bytes.
const CHUNK_BYTES: u64 = 4 << 20;

/// The storage of the coordinates of an axis.
pub enum AxisStorage {
    /// Not stored, because they count up from zero, which is the default for an axis.
    Counted,
    Labels(Vec<String>),
    /// As a one-dimensional dataset with the name of the dimension.
    Dataset(CoordinateDataset),
}

/// A dataset of coordinates, named after its dimension.
pub(in crate::provider) struct CoordinateDataset {
    name: String,
    dtype: Dtype,
    length: u64,
    attributes: BTreeMap<String, String>,
    pub cells: Arc<[u8]>,
}

impl CoordinateDataset {
    /// Encodes the coordinates of an axis, with the attributes needed to decode them again. `limits` are
    /// those of the format.
    pub fn of(axis: &FinishedAxis, limits: &Limits) -> Result<Self> {
        let coordinates = &axis.coordinates;
        let mut attributes = axis.attributes.clone();
        let mut add =
            |key: &str, value: &str| attributes.insert(key.to_string(), value.to_string());
        let (dtype, cells) = match coordinates.data_type() {
            DataType::Float32 => (Dtype::F32, bytes::<Float32Type>(coordinates)),
            DataType::Float64 => (Dtype::F64, bytes::<Float64Type>(coordinates)),
            DataType::Int16 => (Dtype::I16, bytes::<Int16Type>(coordinates)),
            DataType::Int32 => (Dtype::I32, bytes::<Int32Type>(coordinates)),
            DataType::Int64 => (Dtype::I64, bytes::<Int64Type>(coordinates)),
            DataType::UInt8 => (Dtype::U8, bytes::<UInt8Type>(coordinates)),
            DataType::UInt16 => (Dtype::U16, bytes::<UInt16Type>(coordinates)),
            DataType::UInt32 => (Dtype::U32, bytes::<UInt32Type>(coordinates)),
            DataType::UInt64 => (Dtype::U64, bytes::<UInt64Type>(coordinates)),
            DataType::Date32 => {
                add("units", "days since 1970-01-01");
                add("calendar", "proleptic_gregorian");
                add(ARROW_TYPE, DATE);
                (Dtype::I32, bytes::<Date32Type>(coordinates))
            }
            DataType::Timestamp(..) => {
                let times = coordinates.as_primitive::<TimestampMicrosecondType>();
                let (unit, microseconds) = unit(times.values());
                add("units", &format!("{unit} since 1970-01-01 00:00:00"));
                add("calendar", "proleptic_gregorian");
                let numbers = times.values().iter();
                let numbers = numbers.flat_map(|time| (time / microseconds).to_le_bytes());
                (Dtype::I64, numbers.collect())
            }
            DataType::Duration(TimeUnit::Nanosecond) => {
                add("units", "nanoseconds");
                add(NUMPY_TYPE, "timedelta64[ns]");
                (Dtype::I64, bytes::<DurationNanosecondType>(coordinates))
            }
            DataType::Duration(_) => {
                let durations = coordinates.as_primitive::<DurationMicrosecondType>();
                let (unit, microseconds) = unit(durations.values());
                add("units", unit);
                add(NUMPY_TYPE, "timedelta64[us]");
                let numbers = durations.values().iter();
                let numbers = numbers.flat_map(|length| (length / microseconds).to_le_bytes());
                (Dtype::I64, numbers.collect())
            }
            _ => {
                let name = &axis.name;
                let metadata = DatasetMetadata::default();
                let mut codes = Measure::try_new(name, &DataType::Utf8, metadata, None, limits)?;
                let values = codes.values(coordinates)?;
                codes.fill(false)?;
                for (key, text) in &codes.metadata.attrs {
                    add(key, text);
                }
                (Dtype::I64, values.bytes)
            }
        };
        Ok(Self {
            name: axis.name.clone(),
            dtype,
            length: coordinates.len() as u64,
            attributes,
            cells: cells.into(),
        })
    }

    /// Describes the dataset within a group. The group is empty or ends in a slash.
    pub fn spec(&self, group: &str) -> DatasetSpec {
        let name = format!("{group}{}", self.name);
        let extent = self.length.min(CHUNK_BYTES / self.dtype.size());
        let spec = DatasetSpec::new(name, self.dtype, &[self.length], &[extent])
            .with_dim_names([self.name.as_str()]);
        let attributes = self.attributes.iter();
        attributes.fold(spec, |spec, (key, value)| spec.with_attribute(key, value))
    }
}

impl AxisStorage {
    /// Chooses a form from which the same coordinates, of the same type, are read back.
    /// `limits` are those of the format.
    pub fn of(axis: &FinishedAxis, limits: &Limits) -> Result<Self> {
        let coordinates = &axis.coordinates;
        if let Some(position) = first_out_of_range_time(coordinates) {
            let value = arrow::util::display::array_value_to_string(coordinates, position);
            return plan_err!(
                "dimension {} has the time {}, expected one within the years -262143 to 262142",
                axis.name,
                value.unwrap_or_else(|_| "(out of range)".to_string())
            );
        }
        // Only a dataset can keep attributes. Implicit coordinates and labels cannot.
        if is_counted(coordinates) && axis.attributes.is_empty() {
            return Ok(Self::Counted);
        }
        if coordinates.len() <= limits.labels && axis.attributes.is_empty() {
            let labels = labels(coordinates)?;
            let fit = labels.iter().all(|label| limits.allow_text(label));
            if fit && same_values(&infer_labels(&labels), coordinates)? {
                return Ok(Self::Labels(labels));
            }
        }
        CoordinateDataset::of(axis, limits).map(Self::Dataset)
    }
}

/// Returns the index of the first time that is out of range when read back.
fn first_out_of_range_time(coordinates: &ArrayRef) -> Option<usize> {
    let is_readable = |time: i64| DateTime::from_timestamp_micros(time).is_some();
    if let Some(times) = coordinates.as_primitive_opt::<TimestampMicrosecondType>() {
        return times.values().iter().position(|time| !is_readable(*time));
    }
    let dates = coordinates.as_primitive_opt::<Date32Type>()?;
    let mut dates = dates.values().iter();
    dates.position(|date| !is_readable(i64::from(*date) * 86_400_000_000))
}

/// Returns `true` if the coordinates are 0, 1, 2, ..., the default of an axis without stored
/// coordinates.
fn is_counted(coordinates: &ArrayRef) -> bool {
    coordinates
        .as_primitive_opt::<Int64Type>()
        .is_some_and(|numbers| {
            numbers
                .values()
                .iter()
                .enumerate()
                .all(|(position, number)| position as i64 == *number)
        })
}

/// Returns the coarsest unit that represents all times as integers, and its length in microseconds.
fn unit(times: &[i64]) -> (&'static str, i64) {
    let units = [
        ("hours", 3_600_000_000),
        ("minutes", 60_000_000),
        ("seconds", 1_000_000),
        ("milliseconds", 1000),
    ];
    units
        .into_iter()
        .find(|(_, length)| times.iter().all(|time| time % length == 0))
        .unwrap_or(("microseconds", 1))
}

/// Formats the coordinates so that their type can be inferred from the text.
fn labels(coordinates: &ArrayRef) -> Result<Vec<String>> {
    if let Some(numbers) = coordinates.as_primitive_opt::<Float32Type>() {
        return Ok(numbers
            .values()
            .iter()
            .map(|number| format!("{number:?}"))
            .collect());
    }
    if let Some(numbers) = coordinates.as_primitive_opt::<Float64Type>() {
        return Ok(numbers
            .values()
            .iter()
            .map(|number| format!("{number:?}"))
            .collect());
    }
    let options = FormatOptions::default().with_timestamp_format(Some("%Y-%m-%dT%H:%M:%S%.f"));
    let formatter = ArrayFormatter::try_new(coordinates, &options)?;
    Ok((0..coordinates.len())
        .map(|row| formatter.value(row).to_string())
        .collect())
}

/// Returns `true` if the coordinates read back equal the original ones. A `Float32` is read back as
/// `Float64`, parsed from its shortest decimal form, whether it is stored as a label or in a
/// dataset.
fn same_values(read: &ArrayRef, coordinates: &ArrayRef) -> Result<bool> {
    if coordinates.data_type() == &DataType::Float32 {
        return Ok(read.data_type() == &DataType::Float64
            && &cast(read, &DataType::Float32)? == coordinates);
    }
    if let Some(texts) = coordinates.as_string_opt::<i32>() {
        let read = read.as_string_opt::<i32>();
        return Ok(read.is_some_and(|read: &StringArray| read == texts));
    }
    Ok(read == coordinates)
}

/// Returns a chunk shape of at most 4 MiB, by halving the longest axis repeatedly.
pub(in crate::provider) fn chunk_shape(shape: &[u64], cell_bytes: u64) -> Vec<u64> {
    let mut chunk = shape.to_vec();
    loop {
        let bytes = chunk
            .iter()
            .try_fold(cell_bytes, |bytes, extent| bytes.checked_mul(*extent));
        if bytes.is_some_and(|bytes| bytes <= CHUNK_BYTES) {
            return chunk;
        }
        // Among equally long axes, halve the slowest-varying one first, so that contiguous runs
        // stay long.
        let longest = (0..chunk.len()).rev().max_by_key(|axis| chunk[*axis]);
        match longest {
            Some(axis) if chunk[axis] > 1 => chunk[axis] = chunk[axis].div_ceil(2),
            _ => return chunk,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        Date32Array, Float64Array, Int32Array, Int64Array, TimestampMicrosecondArray,
    };

    use super::*;

    fn stored(coordinates: impl Array + 'static) -> AxisStorage {
        let axis = FinishedAxis {
            name: "x".to_string(),
            positions: Vec::new(),
            attributes: BTreeMap::new(),
            coordinates: Arc::new(coordinates),
        };
        AxisStorage::of(&axis, &crate::format::tet::LIMITS).unwrap()
    }

    fn labels_of(stored: AxisStorage) -> Vec<String> {
        match stored {
            AxisStorage::Labels(labels) => labels,
            _ => panic!("no labels"),
        }
    }

    #[test]
    fn short_axes_are_labels_that_spell_their_type() {
        assert_eq!(labels_of(stored(Int64Array::from(vec![1, 2]))), ["1", "2"]);
        assert_eq!(
            labels_of(stored(Float64Array::from(vec![1.0, 2.0]))),
            ["1.0", "2.0"]
        );
        assert_eq!(
            labels_of(stored(Date32Array::from(vec![0]))),
            ["1970-01-01"]
        );
        let times = TimestampMicrosecondArray::from(vec![0, 1_500_000]);
        assert_eq!(
            labels_of(stored(times)),
            ["1970-01-01T00:00:00", "1970-01-01T00:00:01.500"]
        );
        let texts = StringArray::from(vec!["b", "007"]);
        assert_eq!(labels_of(stored(texts)), ["b", "007"]);
    }

    #[test]
    fn coordinates_without_exact_labels_become_a_dataset() {
        assert!(matches!(
            stored(Int64Array::from(vec![0, 1, 2])),
            AxisStorage::Counted
        ));
        assert!(matches!(
            stored(Int32Array::from(vec![0, 1, 2])),
            AxisStorage::Dataset(..)
        ));
        assert!(matches!(
            stored(StringArray::from(vec!["1", "2"])),
            AxisStorage::Dataset(..)
        ));
        let times = TimestampMicrosecondArray::from_iter_values((0..100).map(|t| t * 60_000_000));
        assert!(matches!(stored(times), AxisStorage::Dataset(..)));
    }

    #[test]
    fn chunks_are_about_4_mib() {
        assert_eq!(chunk_shape(&[1000, 512, 512], 4), [125, 64, 128]);
        assert_eq!(chunk_shape(&[10, 10], 8), [10, 10]);
        assert_eq!(chunk_shape(&[100_000_000], 4), [781_250]);
    }
}
