//! Converts stored cells to Arrow arrays, with fill values and NaN as nulls on request.

use std::ptr::NonNull;
use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, Float32Array, PrimitiveArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowNativeType, DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use half::f16;
use memmap2::Mmap;

use crate::format::array::{Dtype, Fill};

#[cfg(target_endian = "big")]
compile_error!("cells are little-endian in the file and are used in place");

/// The type of a dataset's column. `f16` is widened, since DataFusion would compare Float16 with
/// integers as Float16, and `value < 70000` would be false for every cell.
pub(super) fn data_type(dtype: Dtype) -> DataType {
    match dtype {
        Dtype::F16 | Dtype::F32 => DataType::Float32,
        Dtype::F64 => DataType::Float64,
        Dtype::I8 => DataType::Int8,
        Dtype::I16 => DataType::Int16,
        Dtype::I32 => DataType::Int32,
        Dtype::I64 => DataType::Int64,
        Dtype::U8 => DataType::UInt8,
        Dtype::U16 => DataType::UInt16,
        Dtype::U32 => DataType::UInt32,
        Dtype::U64 => DataType::UInt64,
    }
}

/// The cells that become null: NaN if `nan` is `true`, and cells equal to `fill`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NullCells {
    pub nan: bool,
    pub fill: Option<Fill>,
}

impl NullCells {
    /// Returns `true` if cells of this type can become null.
    pub fn is_possible(self, dtype: Dtype) -> bool {
        self.fill.is_some() || (self.nan && dtype.is_float())
    }
}

/// The bytes of a memory map as an Arrow buffer that keeps the map alive.
///
/// # Panics
/// Panics if `range` does not lie within the map.
pub(super) fn mapped_buffer(map: &Arc<Mmap>, range: std::ops::Range<usize>) -> Buffer {
    let bytes = &map[range];
    let owner: Arc<Mmap> = Arc::clone(map);
    // SAFETY: the pointer and the length come from a slice of the map, which is read-only and does
    // not move while the buffer holds `owner`. (For changes by other processes see `Storage::map`.)
    unsafe { Buffer::from_custom_allocation(NonNull::from(bytes).cast(), bytes.len(), owner) }
}

/// Converts cells to an array. A buffer that is not aligned for the type is copied. `others` are
/// further fill values, which count only if `missing` has one.
pub(super) fn array(dtype: Dtype, cells: Buffer, missing: NullCells, others: &[Fill]) -> ArrayRef {
    match dtype {
        Dtype::F16 => half_array(cells, missing, others),
        Dtype::F32 => float_array::<Float32Type>(
            cells,
            missing,
            others,
            Some(f32::NAN),
            |value| value.is_nan(),
            |value| value.to_bits().into(),
        ),
        Dtype::F64 => float_array::<Float64Type>(
            cells,
            missing,
            others,
            Some(f64::NAN),
            |value| value.is_nan(),
            f64::to_bits,
        ),
        Dtype::I8 => {
            integer_array::<Int8Type>(cells, missing, others, |value| (value as u8).into())
        }
        Dtype::I16 => {
            integer_array::<Int16Type>(cells, missing, others, |value| (value as u16).into())
        }
        Dtype::I32 => {
            integer_array::<Int32Type>(cells, missing, others, |value| (value as u32).into())
        }
        Dtype::I64 => integer_array::<Int64Type>(cells, missing, others, |value| value as u64),
        Dtype::U8 => integer_array::<UInt8Type>(cells, missing, others, u64::from),
        Dtype::U16 => integer_array::<UInt16Type>(cells, missing, others, u64::from),
        Dtype::U32 => integer_array::<UInt32Type>(cells, missing, others, u64::from),
        Dtype::U64 => integer_array::<UInt64Type>(cells, missing, others, |value| value),
    }
}

fn aligned<T: ArrowNativeType>(cells: Buffer) -> ScalarBuffer<T> {
    if cells.as_ptr().align_offset(align_of::<T>()) == 0 {
        ScalarBuffer::from(cells)
    } else {
        ScalarBuffer::from(Buffer::from(cells.as_slice()))
    }
}

/// Converts cells to an array. NaN values that are not null are replaced by `nan`, since Arrow's
/// total order puts a NaN with a negative sign below all numbers.
fn float_array<T: ArrowPrimitiveType>(
    cells: Buffer,
    missing: NullCells,
    others: &[Fill],
    nan: Option<T::Native>,
    is_nan: impl Fn(T::Native) -> bool,
    bits: impl Fn(T::Native) -> u64,
) -> ArrayRef {
    let mut values = aligned::<T::Native>(cells);
    let nulls = match (missing.nan, missing.fill) {
        (nan, Some(fill)) if !others.is_empty() => nulls(&values, |value| {
            let found = bits(value);
            (nan && is_nan(value))
                || found == fill.bits()
                || others.iter().any(|other| found == other.bits())
        }),
        (true, None) => nulls(&values, &is_nan),
        (true, Some(fill)) => nulls(&values, |value| is_nan(value) || bits(value) == fill.bits()),
        (false, Some(fill)) => nulls(&values, |value| bits(value) == fill.bits()),
        (false, None) => None,
    };
    if let Some(nan) = nan.filter(|_| !missing.nan) {
        let is_other = |value: T::Native| is_nan(value) && bits(value) != bits(nan);
        let any = values
            .iter()
            .fold(false, |any, value| any | is_other(*value));
        if any {
            let same = values.iter().map(|value| match is_nan(*value) {
                true => nan,
                false => *value,
            });
            values = same.collect();
        }
    }
    Arc::new(PrimitiveArray::<T>::new(values, nulls))
}

fn integer_array<T: ArrowPrimitiveType>(
    cells: Buffer,
    missing: NullCells,
    others: &[Fill],
    bits: impl Fn(T::Native) -> u64,
) -> ArrayRef {
    let missing = NullCells {
        nan: false,
        ..missing
    };
    float_array::<T>(cells, missing, others, None, |_| false, bits)
}

/// The cells of an f16 dataset.
pub(super) fn halves(cells: Buffer) -> ScalarBuffer<f16> {
    aligned(cells)
}

fn half_array(cells: Buffer, missing: NullCells, others: &[Fill]) -> ArrayRef {
    let halves = halves(cells);
    let nulls = nulls(&halves, |value: f16| {
        (missing.nan && value.is_nan())
            || missing
                .fill
                .iter()
                .chain(others)
                .any(|fill| u64::from(value.to_bits()) == fill.bits())
    });
    let values: Vec<f32> = halves
        .iter()
        .map(|value| match value.is_nan() {
            true => f32::NAN,
            false => value.to_f32(),
        })
        .collect();
    Arc::new(Float32Array::new(values.into(), nulls))
}

/// Marks null cells; `None` if there are none. A first pass without branches tests for any null cell.
fn nulls<T: Copy>(values: &[T], is_missing: impl Fn(T) -> bool) -> Option<NullBuffer> {
    let any = values
        .iter()
        .fold(false, |any, value| any | is_missing(*value));
    any.then(|| {
        NullBuffer::new(BooleanBuffer::collect_bool(values.len(), |position| {
            !is_missing(values[position])
        }))
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::Float32Type;

    use super::*;
    use crate::format::array::DatasetMetadata;

    fn cells(values: &[f32]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    }

    fn fill(text: &str) -> Option<Fill> {
        let mut metadata = DatasetMetadata::default();
        metadata.attrs.insert("_FillValue".into(), text.into());
        Fill::of(&metadata, Dtype::F32)
    }

    #[test]
    fn nan_has_one_form() {
        let negative = f32::from_bits(f32::NAN.to_bits() | 1 << 31);
        let missing = NullCells {
            nan: false,
            fill: None,
        };
        let stored = cells(&[1.0, negative, f32::NAN]);
        let found = array(Dtype::F32, Buffer::from_vec(stored), missing, &[]);
        let bits = found.as_primitive::<Float32Type>().values().iter();
        let expected = [1.0, f32::NAN, f32::NAN].map(f32::to_bits);
        assert!(bits.map(|value| value.to_bits()).eq(expected));
    }

    #[test]
    fn nan_and_fill_are_missing_each_on_request() {
        let stored = cells(&[1.0, f32::NAN, 1e20, -0.0]);
        for (nan, fill, expected) in [
            (true, fill("1e20"), [true, false, false, true]),
            (true, None, [true, false, true, true]),
            (false, fill("1e20"), [true, true, false, true]),
            (false, fill("0"), [true, true, true, true]),
        ] {
            let array = array(
                Dtype::F32,
                Buffer::from(stored.clone()),
                NullCells { nan, fill },
                &[],
            );
            let valid: Vec<_> = (0..4).map(|row| array.is_valid(row)).collect();
            assert_eq!(valid, expected);
        }
    }

    #[test]
    fn unaligned_cells_are_copied() {
        let mut stored = vec![0];
        stored.extend(cells(&[1.0, 2.0]));
        let buffer = Buffer::from(stored).slice(1);
        let missing = NullCells {
            nan: true,
            fill: None,
        };
        let array = array(Dtype::F32, buffer, missing, &[]);
        assert_eq!(array.as_primitive::<Float32Type>().values(), &[1.0, 2.0]);
        assert_eq!(array.null_count(), 0);
    }

    #[test]
    fn halves_are_widened() {
        let stored: Vec<u8> = [f16::from_f32(1.5), f16::NAN, f16::INFINITY]
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        let missing = NullCells {
            nan: true,
            fill: None,
        };
        let array = array(Dtype::F16, Buffer::from(stored), missing, &[]);
        let array = array.as_primitive::<Float32Type>();
        assert_eq!(array.value(0), 1.5);
        assert!(array.is_null(1));
        assert_eq!(array.value(2), f32::INFINITY);
    }
}
