//! Numbers that count a unit from a reference, as exact nanoseconds.

use std::fmt::Debug;

use arrow::array::{Array, AsArray, Int64Array, downcast_integer_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type, Int64Type};

use crate::grid::cf_time::CfTimeError;

/// A time span in nanoseconds that is longer than any result and fits in 128 bits.
const BEYOND: f64 = 1e24;

/// A linear scale of time: a value is `reference + number * unit`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    /// Nanoseconds per unit.
    pub unit: i128,
    /// The reference in nanoseconds.
    pub reference: i128,
    /// Nanoseconds per tick, the unit of the results.
    pub tick: i128,
    /// The name of the decoded numbers in errors.
    pub field: &'static str,
    /// The range of the results, for errors.
    pub range: &'static str,
}

impl Scale {
    /// Converts numbers to ticks, and passes each to `finish`, which checks or converts it.
    ///
    /// # Errors
    /// Fails if a value is null, not finite or refused by `finish`; if an integer is not a whole
    /// number of ticks; if the array is not numeric.
    pub fn decode(
        &self,
        values: &dyn Array,
        finish: impl Fn(i128) -> Result<i64, &'static str>,
    ) -> Result<Vec<i64>, CfTimeError> {
        if values.null_count() > 0
            && let Some(index) = (0..values.len()).find(|index| values.is_null(*index))
        {
            return Err(self.refused("NULL", index, "a number"));
        }
        let float = |value: f64| self.float(value).and_then(&finish);
        downcast_integer_array!(
            values => self.all(values.values(), |value| {
                self.integer(i128::from(*value)).and_then(&finish)
            }),
            DataType::Float16 => {
                self.all(values.as_primitive::<Float16Type>().values(), |value| {
                    float(value.to_f64())
                })
            }
            DataType::Float32 => {
                self.all(values.as_primitive::<Float32Type>().values(), |value| {
                    float(f64::from(*value))
                })
            }
            DataType::Float64 => {
                self.all(values.as_primitive::<Float64Type>().values(), |value| {
                    float(*value)
                })
            }
            other => Err(CfTimeError {
                field: self.field,
                found: format!("of type {other}"),
                expected: "numbers".to_string(),
            })
        )
    }

    /// Decodes numbers of which some are missing: nulls, NaN, and NumPy's "not a time" (`i64::MIN`) become
    /// null. `float` and `integer` decode one number, or return `None` if it is missing, too. Their errors say
    /// what is expected.
    ///
    /// # Errors
    /// Fails if a number is refused, or if the array is not numeric.
    pub fn decode_values(
        &self,
        values: &dyn Array,
        float: impl Fn(f64) -> Result<Option<i64>, &'static str>,
        integer: impl Fn(i64) -> Result<Option<i64>, &'static str>,
    ) -> Result<Int64Array, CfTimeError> {
        let refused = |found: String, expected: &str| CfTimeError {
            field: self.field,
            found,
            expected: expected.to_string(),
        };
        let cast = |to| {
            let found = || format!("of type {}", values.data_type());
            cast(values, &to).map_err(|_| refused(found(), "numbers"))
        };
        if values.data_type().is_floating() {
            let numbers = cast(DataType::Float64)?;
            let numbers = numbers.as_primitive::<Float64Type>().iter();
            let decoded = numbers.map(|number| match number {
                Some(number) if !number.is_nan() => {
                    float(number).map_err(|expected| refused(format!("{number:?}"), expected))
                }
                _ => Ok(None),
            });
            return decoded.collect();
        }
        let numbers = cast(DataType::Int64)?;
        if numbers.null_count() > values.null_count() {
            return Err(refused("a number of 2^63 or more".to_string(), self.range));
        }
        let numbers = numbers.as_primitive::<Int64Type>().iter();
        let decoded = numbers.map(|number| match number {
            Some(number) if number != i64::MIN => {
                integer(number).map_err(|expected| refused(number.to_string(), expected))
            }
            _ => Ok(None),
        });
        decoded.collect()
    }

    /// Decodes an integer to ticks. The error says what is expected.
    pub fn integer(&self, value: i128) -> Result<i128, &'static str> {
        // Cannot overflow: the unit is below 2^50 and the value below 2^64.
        let value = self.reference + value * self.unit;
        if value % self.tick != 0 {
            return Err("a whole number of microseconds");
        }
        Ok(value / self.tick)
    }

    /// Decodes a float to ticks. Only the last step rounds to nearest. The error says what is
    /// expected.
    pub fn float(&self, value: f64) -> Result<i128, &'static str> {
        if !value.is_finite() {
            return Err("a finite number");
        }
        if (value * self.unit as f64).abs() > BEYOND {
            return Err(self.range);
        }
        // The value is mantissa * 2^exponent.
        let bits = value.to_bits();
        let fraction = i128::from(bits & ((1 << 52) - 1));
        let (magnitude, exponent) = match (bits >> 52 & 0x7ff) as i32 {
            0 => (fraction, -1074),
            biased => (fraction | 1 << 52, biased - 1075),
        };
        let mantissa = if value < 0.0 { -magnitude } else { magnitude };
        // Cannot overflow: the product is below 2^53 * 2^50, and the check against `BEYOND` bounds
        // the result of a left shift. A right shift rounds down.
        let elapsed = mantissa * self.unit;
        let elapsed = if exponent < 0 {
            elapsed >> (-exponent).min(127)
        } else {
            elapsed << exponent
        };
        Ok((self.reference + elapsed + self.tick / 2).div_euclid(self.tick))
    }

    fn all<T: Debug>(
        &self,
        values: &[T],
        decode: impl Fn(&T) -> Result<i64, &'static str>,
    ) -> Result<Vec<i64>, CfTimeError> {
        let decoded = values.iter().enumerate().map(|(index, value)| {
            decode(value).map_err(|expected| self.refused(&format!("{value:?}"), index, expected))
        });
        decoded.collect()
    }

    fn refused(&self, value: &str, index: usize, expected: &str) -> CfTimeError {
        CfTimeError {
            field: self.field,
            found: format!("{value} at index {index}"),
            expected: expected.to_string(),
        }
    }
}
