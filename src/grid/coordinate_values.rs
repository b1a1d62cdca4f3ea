//! Converts stored numbers to coordinates that compare equal to the decimals people write in
//! queries.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use half::f16;

/// Integers up to this magnitude, 2^53, keep their exact value instead of becoming their shortest
/// decimal. Above it, not every integer is an f64.
const MAX_INTEGER: f64 = 9_007_199_254_740_992.0;
/// The significant decimal digits that distinguish any two f16 values.
const HALF_DIGITS: usize = 5;

/// Converts an array of numbers without nulls to coordinates.
///
/// An f16 or f32 becomes the f64 of its shortest decimal: widening a stored `33.3` would give
/// 33.29999923706055, and `lat = 33.3` would never match. `-0.0` becomes `0.0`. All other values
/// are unchanged.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, AsArray, Float32Array};
/// use arrow::datatypes::Float64Type;
/// use tet_sql::grid::coordinate_values;
///
/// let stored: ArrayRef = Arc::new(Float32Array::from(vec![33.3, -0.0]));
/// let coordinates = coordinate_values(&stored);
/// assert_eq!(coordinates.as_primitive::<Float64Type>().values(), &[33.3, 0.0]);
/// ```
pub fn coordinate_values(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float16 => half_coordinate_values(values.as_primitive::<Float16Type>().values()),
        DataType::Float32 => Arc::new(
            values
                .as_primitive::<Float32Type>()
                .unary::<_, Float64Type>(shortest),
        ),
        DataType::Float64 => Arc::new(
            values
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(|value| value + 0.0),
        ),
        _ => Arc::clone(values),
    }
}

/// Converts f16 values that are not in an Arrow array, like [`coordinate_values`].
pub fn half_coordinate_values(values: &[f16]) -> ArrayRef {
    // Cache the decimals: finding one takes several trials, and there are at most 65,536 different
    // values.
    let mut known = HashMap::new();
    Arc::new(Float64Array::from_iter_values(values.iter().map(|value| {
        *known
            .entry(value.to_bits())
            .or_insert_with(|| shortest_half(*value))
    })))
}

fn shortest(value: f32) -> f64 {
    let exact = f64::from(value) + 0.0;
    if !value.is_finite() || (exact.abs() <= MAX_INTEGER && value.fract() == 0.0) {
        return exact;
    }
    // Parsing cannot fail: the text is a formatted float.
    format!("{value:e}").parse().unwrap_or(exact)
}

fn shortest_half(value: f16) -> f64 {
    let exact = value.to_f64() + 0.0;
    if !value.is_finite() || exact.fract() == 0.0 {
        return exact;
    }
    // Round to the fewest digits that still read back as this f16. A decimal reads back as the
    // nearest f16, and one halfway between two as the one whose last bit is zero. Midpoints are
    // exact in f64.
    let bits = value.to_bits() & 0x7fff;
    let middle = |bits: u16| {
        let magnitude = |bits| match f16::from_bits(bits) {
            value if value.is_finite() => value.to_f64(),
            // The value that would follow the largest finite f16.
            _ => 65_536.0,
        };
        (magnitude(bits) + magnitude(bits + 1)) / 2.0
    };
    let (lower, upper) = (middle(bits - 1), middle(bits));
    let is_even = bits.is_multiple_of(2);
    (1..=HALF_DIGITS)
        .filter_map(|digits| format!("{exact:.*e}", digits - 1).parse().ok())
        .find(|decimal: &f64| {
            let magnitude = decimal.abs();
            (lower < magnitude && magnitude < upper)
                || (is_even && (magnitude == lower || magnitude == upper))
        })
        .unwrap_or(exact)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, Float32Array, Int8Array, UInt64Array};
    use half::vec::HalfFloatVecExt;

    use super::*;

    fn floats(values: &[f32]) -> Vec<f64> {
        let values: ArrayRef = Arc::new(Float32Array::from(values.to_vec()));
        let coordinates = coordinate_values(&values);
        coordinates.as_primitive::<Float64Type>().values().to_vec()
    }

    fn halves(values: &[f32]) -> Vec<f64> {
        let values = Vec::from_f32_slice(values);
        let coordinates = half_coordinate_values(&values);
        coordinates.as_primitive::<Float64Type>().values().to_vec()
    }

    #[test]
    fn floats_become_their_shortest_decimals() {
        let values = [33.3, -179.95, 0.1, 1e-45, f32::MAX, 1e20, 0.5, -7.0];
        let decimals = [33.3, -179.95, 0.1, 1e-45, 3.4028235e38, 1e20, 0.5, -7.0];
        assert_eq!(floats(&values), decimals);
        // Integers keep their exact value, even where fewer digits would identify them.
        for value in [16_777_216.0f32, 1_700_000_128.0, 8_388_607.5] {
            assert_eq!(floats(&[value]), [f64::from(value)]);
        }
    }

    #[test]
    fn zeros_have_no_sign_and_the_rest_of_the_specials_stays() {
        for zero in [
            floats(&[-0.0])[0],
            halves(&[-0.0])[0],
            coordinate_values(&(Arc::new(Float64Array::from(vec![-0.0])) as ArrayRef))
                .as_primitive::<Float64Type>()
                .value(0),
        ] {
            assert!(zero.is_sign_positive() && zero == 0.0);
        }
        for specials in [
            floats(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]),
            halves(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]),
        ] {
            assert!(specials[0].is_nan());
            assert_eq!(specials[1..], [f64::INFINITY, f64::NEG_INFINITY]);
        }
    }

    #[test]
    fn integers_stay_as_they_are() {
        for values in [
            Arc::new(Int8Array::from(vec![-1, 2])) as ArrayRef,
            Arc::new(UInt64Array::from(vec![u64::MAX])),
        ] {
            assert_eq!(&coordinate_values(&values), &values);
        }
        let none: ArrayRef = Arc::new(Float32Array::from(Vec::<f32>::new()));
        assert_eq!(coordinate_values(&none).data_type(), &DataType::Float64);
    }

    #[test]
    fn halves_become_their_shortest_decimals() {
        let values = [33.3, -0.1, 1.0, 0.333, 65_504.0, 2_049.9, 6e-8, 0.00006104];
        let decimals = [33.3, -0.1, 1.0, 0.333, 65_504.0, 2_050.0, 6e-8, 0.00006104];
        assert_eq!(halves(&values), decimals);
    }

    #[test]
    fn no_half_needs_fewer_digits() {
        // Rounding twice, to f32 and then to f16, is harmless: no decimal of five digits is close
        // enough to the midpoint of two f16 values.
        let is_read_as = |decimal: f64, value: f16| f16::from_f32(decimal as f32) == value;
        for value in (1..0x7c00).map(f16::from_bits) {
            let decimal = shortest_half(value);
            assert!(is_read_as(decimal, value), "{value} as {decimal}");
            if decimal.fract() == 0.0 {
                continue;
            }
            let scientific = format!("{decimal:e}");
            let mantissa = scientific.split('e').next().unwrap();
            let digits = mantissa.replace('.', "").len();
            if digits > 1 {
                let shorter = format!("{:.*e}", digits - 2, value.to_f64());
                assert!(
                    !is_read_as(shorter.parse().unwrap(), value),
                    "{shorter}, not {decimal}"
                );
            }
            assert_eq!(shortest_half(-value), -decimal);
        }
    }
}
