//! Random datasets of every type, including the limits of each type.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array,
    Int64Array, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use half::f16;
use tet_sql::format::tet::{Compression, DatasetSpec, Dtype};
use tet_sql::{ArrayOptions, Unpack};

use super::axis::TestAxis;
use super::random::Random;

/// A value of a dataset, as a float or an integer.
#[derive(Debug, Clone, Copy)]
pub enum Number {
    Float(f64),
    Integer(i128),
}

/// Returns the stored bytes of a number.
pub fn bytes(dtype: Dtype, number: Number) -> Vec<u8> {
    match (dtype, number) {
        (Dtype::F16, Number::Float(value)) => f16::from_f64(value).to_le_bytes().to_vec(),
        (Dtype::F32, Number::Float(value)) => (value as f32).to_le_bytes().to_vec(),
        (Dtype::F64, Number::Float(value)) => value.to_le_bytes().to_vec(),
        (_, Number::Integer(value)) => value.to_le_bytes()[..dtype.size() as usize].to_vec(),
        (_, Number::Float(value)) => panic!("{value} in a dataset of {dtype}"),
    }
}

/// Returns numbers as the column of a dataset.
pub fn column(dtype: Dtype, numbers: impl Iterator<Item = Option<Number>>) -> ArrayRef {
    let numbers: Vec<_> = numbers.collect();
    let floats = || {
        numbers.iter().map(|number| match number {
            Some(Number::Float(value)) => Some(*value),
            _ => None,
        })
    };
    macro_rules! integers {
        ($array:ty, $native:ty) => {
            Arc::new(
                numbers
                    .iter()
                    .map(|number| match number {
                        Some(Number::Integer(value)) => Some(*value as $native),
                        _ => None,
                    })
                    .collect::<$array>(),
            )
        };
    }
    match dtype {
        Dtype::F16 => Arc::new(
            floats()
                .map(|value| Some(f16::from_f64(value?).to_f32()))
                .collect::<Float32Array>(),
        ),
        Dtype::F32 => Arc::new(
            floats()
                .map(|value| Some(value? as f32))
                .collect::<Float32Array>(),
        ),
        Dtype::F64 => Arc::new(floats().collect::<Float64Array>()),
        Dtype::I8 => integers!(Int8Array, i8),
        Dtype::I16 => integers!(Int16Array, i16),
        Dtype::I32 => integers!(Int32Array, i32),
        Dtype::I64 => integers!(Int64Array, i64),
        Dtype::U8 => integers!(UInt8Array, u8),
        Dtype::U16 => integers!(UInt16Array, u16),
        Dtype::U32 => integers!(UInt32Array, u32),
        Dtype::U64 => integers!(UInt64Array, u64),
    }
}

fn is_float(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F16 | Dtype::F32 | Dtype::F64)
}

/// The min and the max of an integer type.
fn limits(dtype: Dtype) -> (i128, i128) {
    let bits = dtype.size() * 8;
    match dtype {
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => {
            (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        }
        _ => (0, (1 << bits) - 1),
    }
}

#[derive(Debug, Clone)]
pub struct TestArray {
    pub name: String,
    dtype: Dtype,
    chunk_shape: Vec<u64>,
    compression: Compression,
    /// The text of the fill value attribute, and its value in the dataset's type, if it has one.
    fill: Option<(String, Option<Number>)>,
    packing: Option<(f64, f64)>,
    cells: Vec<Number>,
}

impl TestArray {
    pub fn generate(random: &mut Random, name: &str, shape: &[usize]) -> Self {
        let dtype = *random.pick(&Dtype::ALL);
        Self::of(random, name, shape, dtype)
    }

    /// Generates a dataset of the given type, in chunks of up to all cells.
    pub fn large(random: &mut Random, name: &str, shape: &[usize], dtype: Dtype) -> Self {
        let mut array = Self::of(random, name, shape, dtype);
        for (chunk, extent) in array.chunk_shape.iter_mut().zip(shape) {
            *chunk = match random.below(3) {
                0 => *extent as u64,
                _ => (1 + random.below(*extent)) as u64,
            };
        }
        // Limit the number of chunks, since each has an entry in the index.
        while array.chunks(shape) > 500 {
            array.chunk_shape.iter_mut().for_each(|chunk| *chunk *= 2);
        }
        array
    }

    fn chunks(&self, shape: &[usize]) -> u64 {
        let extents = shape.iter().zip(&self.chunk_shape);
        extents
            .map(|(extent, chunk)| (*extent as u64).div_ceil(*chunk))
            .product()
    }

    fn of(random: &mut Random, name: &str, shape: &[usize], dtype: Dtype) -> Self {
        let values = palette(random, dtype);
        let fill = random.chance(40).then(|| fill(random, dtype, &values));
        let missing = missing(random, dtype, fill.as_ref());
        let count: usize = shape.iter().product();
        let pattern = random.below(3);
        let inner = shape.last().copied().unwrap_or(1);
        let percent = *random.pick(&[0, 20, 60]);
        let cells = (0..count)
            .map(|position| {
                let is_missing = match random.below(8) {
                    // Missing cells at the start of the array, so that some chunks have no others.
                    0 => position * 3 < count && percent > 0,
                    _ => random.chance(percent),
                };
                match (missing, pattern) {
                    (Some(missing), _) if is_missing => missing,
                    // Values that vary along the array, or along the last axis, so that chunks
                    // differ.
                    (_, 0) => values[position * values.len() / count],
                    (_, 1) => values[position % inner % values.len()],
                    _ => *random.pick(&values),
                }
            })
            .collect();
        let packing = random.chance(20).then(|| {
            let scale = *random.pick(&[0.5, 2.0, -0.25, 0.1, -1.0, 0.0]);
            (scale, *random.pick(&[0.0, 10.0, -2.5]))
        });
        Self {
            name: name.to_string(),
            dtype,
            chunk_shape: shape.iter().map(|_| 1 + random.below(7) as u64).collect(),
            compression: *random.pick(&[Compression::Raw, Compression::Zstd { level: 1 }]),
            fill,
            packing,
            cells,
        }
    }

    /// Returns the specification of the dataset on the given axes.
    pub fn spec(&self, axes: &[TestAxis]) -> DatasetSpec {
        let shape: Vec<_> = axes
            .iter()
            .map(|axis| axis.coordinates.len() as u64)
            .collect();
        let mut spec = DatasetSpec::new(&self.name, self.dtype, &shape, &self.chunk_shape)
            .with_compression(self.compression)
            .with_dim_names(axes.iter().map(|axis| axis.name.clone()));
        for axis in axes {
            spec = axis.label(spec);
        }
        if let Some((text, _)) = &self.fill {
            spec = spec.with_attribute("_FillValue", text);
        }
        if let Some((scale, offset)) = self.packing {
            spec = spec
                .with_attribute("scale_factor", &scale.to_string())
                .with_attribute("add_offset", &offset.to_string());
        }
        spec
    }

    /// Returns the stored bytes of all cells.
    pub fn bytes(&self) -> Vec<u8> {
        let cells = self.cells.iter();
        cells.flat_map(|cell| bytes(self.dtype, *cell)).collect()
    }

    /// Returns all cells as a column, decoded with the given options.
    pub fn column(&self, options: &ArrayOptions) -> ArrayRef {
        let fill = match &self.fill {
            Some((_, Some(fill))) if options.fill_as_null != Some(false) => {
                Some(bytes(self.dtype, *fill))
            }
            _ => None,
        };
        let value = |cell: &Number| {
            let is_nan = matches!(cell, Number::Float(value) if value.is_nan());
            let is_null = (is_nan && options.nan_as_null != Some(false))
                || fill.as_ref() == Some(&bytes(self.dtype, *cell));
            (!is_null).then_some(*cell)
        };
        let stored = column(self.dtype, self.cells.iter().map(value));
        match self.packing {
            Some((scale, offset)) if options.unpack == Some(Unpack::Always) => {
                let numbers = cast(&stored, &DataType::Float64).unwrap();
                let numbers = numbers.as_primitive::<Float64Type>().iter();
                let unpacked = numbers.map(|number| Some(number? * scale + offset));
                Arc::new(unpacked.collect::<Float64Array>())
            }
            _ => stored,
        }
    }
}

/// Returns a range of small numbers, or numbers at the limits of the type.
fn palette(random: &mut Random, dtype: Dtype) -> Vec<Number> {
    if random.chance(60) {
        let (first, count) = (random.below(30) as i128, 1 + random.below(40) as i128);
        let negative = if limits(dtype).0 < 0 { 20 } else { 0 };
        return (first..first + count)
            .map(|step| match is_float(dtype) {
                true => Number::Float(step as f64 / 4.0 - 5.0),
                false => Number::Integer(step - negative),
            })
            .collect();
    }
    let all: Vec<Number> = if is_float(dtype) {
        let (tiny, huge) = match dtype {
            Dtype::F16 => (6e-8, 65_504.0),
            Dtype::F32 => (1e-45, f32::MAX.into()),
            _ => (5e-324, f64::MAX),
        };
        [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.1,
            tiny,
            -tiny,
            huge,
            -huge,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ]
        .map(Number::Float)
        .to_vec()
    } else {
        let (min, max) = limits(dtype);
        let mut all = vec![0, 1, 7, 100, min, min + 1, max - 1, max];
        if dtype.size() == 8 {
            all.extend([1 << 53, (1 << 53) + 1]);
        }
        all.into_iter().map(Number::Integer).collect()
    };
    random.some(&all, 40)
}

fn fill(random: &mut Random, dtype: Dtype, values: &[Number]) -> (String, Option<Number>) {
    let text = |number: Number| match number {
        Number::Float(value) => value.to_string(),
        Number::Integer(value) => value.to_string(),
    };
    let float = is_float(dtype);
    match random.below(8) {
        0 => ("none".to_string(), None),
        // A fill value that also occurs among the values.
        1 | 2 => {
            let value = *random.pick(values);
            (text(value), Some(value))
        }
        3 if float => ("NaN".to_string(), Some(Number::Float(f64::NAN))),
        4 if dtype != Dtype::F16 && float => ("1e20".to_string(), Some(Number::Float(1e20))),
        _ if float => ("99".to_string(), Some(Number::Float(99.0))),
        _ => ("99".to_string(), Some(Number::Integer(99))),
    }
}

/// Returns the stored number of missing cells.
fn missing(
    random: &mut Random,
    dtype: Dtype,
    fill: Option<&(String, Option<Number>)>,
) -> Option<Number> {
    let nan = is_float(dtype).then_some(Number::Float(f64::NAN));
    match fill {
        Some((_, Some(fill))) if nan.is_none() || random.chance(60) => Some(*fill),
        _ => nan,
    }
}
