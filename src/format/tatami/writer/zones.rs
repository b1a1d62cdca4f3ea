//! Bounds of the values of pages and chunks, and the order of the sort key.
//!
//! Bounds of floats exclude NaN, unless all values are NaN: then both bounds are the first NaN. The
//! reference implementation treats a comparison with NaN as equality, so a NaN bound makes it skip row
//! groups with matching rows. Bounds without NaN do not have this effect.

use std::cmp::Ordering;

use crate::format::tatami::bytes::Cursor;
use crate::format::tatami::layout::bounds::Scalar;
use crate::format::tatami::layout::row_group::Bounds;
use crate::format::tatami::layout::types::ColumnType;

/// Returns the values of a page that are not null, in plain encoding with one byte for each boolean.
pub(super) fn scalars(column_type: ColumnType, plain: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Cursor::new(plain);
    std::iter::from_fn(move || match (rest.remaining(), column_type.width()) {
        (0, _) => None,
        (_, Some(width)) => rest.take("value", width).ok(),
        (_, None) => rest.byte_string("value").ok(),
    })
}

/// Returns the bounds of some values.
pub(super) fn bounds_of<'a>(
    column_type: ColumnType,
    values: impl Iterator<Item = &'a [u8]>,
) -> Option<Bounds> {
    let mut bounds: Option<[(&[u8], Scalar<'_>); 2]> = None;
    for value in values {
        let scalar = Scalar::parse(column_type, value)?;
        let Some([min, max]) = &mut bounds else {
            bounds = Some([(value, scalar); 2]);
            continue;
        };
        if replaces(&scalar, &min.1, Ordering::Less) {
            *min = (value, scalar);
        }
        if replaces(&scalar, &max.1, Ordering::Greater) {
            *max = (value, scalar);
        }
    }
    bounds.map(|[min, max]| Bounds {
        min: min.0.into(),
        max: max.0.into(),
    })
}

/// Extends bounds by those of later values.
pub(super) fn extend(column_type: ColumnType, bounds: &mut Option<Bounds>, later: &Bounds) {
    let Some(bounds) = bounds else {
        *bounds = Some(later.clone());
        return;
    };
    for (bound, later, side) in [
        (&mut bounds.min, &later.min, Ordering::Less),
        (&mut bounds.max, &later.max, Ordering::Greater),
    ] {
        let parse = |bytes| Scalar::parse(column_type, bytes);
        if let (Some(old), Some(new)) = (parse(bound), parse(later))
            && replaces(&new, &old, side)
        {
            bound.clone_from(later);
        }
    }
}

/// Returns `true` if a value lies beyond a bound. Every number lies beyond NaN. An equal value does not, so
/// the first of several equal values stays the bound.
fn replaces(value: &Scalar<'_>, bound: &Scalar<'_>, side: Ordering) -> bool {
    bound.is_nan() && !value.is_nan() || value.compare(bound) == Some(side)
}

/// Checks that the values of the sort key ascend. Nulls do not count. Neither does NaN, which the format
/// compares as equal to every number.
#[derive(Debug, Default)]
pub(super) struct OrderCheck {
    last: Option<Vec<u8>>,
}

impl OrderCheck {
    /// Returns the index of the first value of a page that is less than a value before it.
    pub fn first_descent(&mut self, column_type: ColumnType, plain: &[u8]) -> Option<usize> {
        let mut previous = None;
        if let Some(last) = &self.last {
            previous = Scalar::parse(column_type, last);
        }
        let mut descent = None;
        let mut last = None;
        for (index, value) in scalars(column_type, plain).enumerate() {
            let scalar = Scalar::parse(column_type, value)?;
            if scalar.is_nan() {
                continue;
            }
            let order = previous.and_then(|previous| scalar.compare(&previous));
            if descent.is_none() && order == Some(Ordering::Less) {
                descent = Some(index);
            }
            previous = Some(scalar);
            last = Some(value);
        }
        if let Some(last) = last {
            self.last = Some(last.to_vec());
        }
        descent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f64]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    }

    fn bounds(values: &[f64]) -> Option<(f64, f64)> {
        let plain = floats(values);
        let bounds = bounds_of(ColumnType::Float64, scalars(ColumnType::Float64, &plain))?;
        let float = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap());
        Some((float(&bounds.min), float(&bounds.max)))
    }

    #[test]
    fn nan_is_in_bounds_only_where_there_is_nothing_else() {
        let nan = f64::NAN;
        assert_eq!(bounds(&[]), None);
        assert_eq!(bounds(&[nan, 3.0, nan, -1.0]), Some((-1.0, 3.0)));
        assert_eq!(bounds(&[2.0, nan]), Some((2.0, 2.0)));
        assert!(bounds(&[nan, nan]).is_some_and(|(min, max)| min.is_nan() && max.is_nan()));
        // If a bound is zero, the zero that came first is kept.
        let (min, max) = bounds(&[0.0, -0.0]).unwrap();
        assert!(min.is_sign_positive() && max.is_sign_positive());
    }

    #[test]
    fn bounds_of_chunks_leave_nan_out_too() {
        let page = |values: &[f64]| {
            bounds_of(
                ColumnType::Float64,
                scalars(ColumnType::Float64, &floats(values)),
            )
            .unwrap()
        };
        let mut chunk = None;
        for (values, expected) in [
            ([f64::NAN, f64::NAN], None),
            ([1.0, f64::NAN], Some((1.0, 1.0))),
            ([f64::NAN, f64::NAN], Some((1.0, 1.0))),
            ([-2.0, 5.0], Some((-2.0, 5.0))),
        ] {
            extend(ColumnType::Float64, &mut chunk, &page(&values));
            if let Some((min, max)) = expected {
                assert_eq!(chunk, Some(page(&[min, max])));
            }
        }
    }

    #[test]
    fn the_first_descent_is_found_across_pages() {
        let mut order = OrderCheck::default();
        let mut check = |values: &[f64]| order.first_descent(ColumnType::Float64, &floats(values));
        assert_eq!(check(&[1.0, 1.0, 2.0]), None);
        assert_eq!(check(&[]), None);
        assert_eq!(check(&[1.5, 3.0, 2.0]), Some(0));
        assert_eq!(check(&[2.0, f64::INFINITY, f64::NAN, f64::NAN]), None);
        assert_eq!(check(&[f64::NAN, 7.0]), Some(1));
        let mut order = OrderCheck::default();
        let mut check = |values: &[f64]| order.first_descent(ColumnType::Float64, &floats(values));
        assert_eq!(check(&[-f64::NAN, f64::NEG_INFINITY, 1.0, f64::NAN]), None);
        assert_eq!(check(&[f64::NAN, 0.5]), Some(1));
    }
}
