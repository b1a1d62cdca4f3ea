//! An axis that spans several files.

use std::collections::HashSet;

use datafusion::common::ScalarValue;

/// The min and max coordinate.
pub(crate) type CoordinateRange = (ScalarValue, ScalarValue);

/// The union of one axis of several files. Axes with equal bounds count as the same axis; others
/// are concatenated.
#[derive(Debug)]
pub(crate) struct AxisUnion {
    seen: HashSet<Option<CoordinateRange>>,
    /// The length of the union; `None` if 2^64 or more.
    pub extent: Option<u64>,
    /// The bounds of the union, over the axes that have bounds.
    pub bounds: Option<CoordinateRange>,
}

impl AxisUnion {
    /// The union of no axes.
    pub fn new() -> Self {
        Self {
            seen: HashSet::new(),
            extent: Some(0),
            bounds: None,
        }
    }

    /// Adds the axis of a file. `bounds` is `None` if the axis is empty or has a NaN coordinate.
    pub fn add(&mut self, length: u64, bounds: Option<CoordinateRange>) {
        if length == 0 || !self.seen.insert(bounds.clone()) {
            return;
        }
        self.extent = self.extent.and_then(|extent| extent.checked_add(length));
        self.bounds = match (self.bounds.take(), bounds) {
            (Some(one), Some(other)) => Some((
                if other.0 < one.0 { other.0 } else { one.0 },
                if other.1 > one.1 { other.1 } else { one.1 },
            )),
            (one, other) => one.or(other),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(min: i64, max: i64) -> Option<CoordinateRange> {
        Some((ScalarValue::from(min), ScalarValue::from(max)))
    }

    #[test]
    fn equal_axes_count_once_in_any_order() {
        let mut axis = AxisUnion::new();
        for _ in 0..2 {
            axis.add(5, bounds(0, 4));
            axis.add(0, None);
            axis.add(5, bounds(5, 9));
        }
        assert_eq!(axis.extent, Some(10));
        assert_eq!(axis.bounds, bounds(0, 9));
        axis.add(3, None);
        assert_eq!(axis.extent, Some(13));
        assert_eq!(axis.bounds, bounds(0, 9));
        axis.add(u64::MAX, bounds(20, 30));
        assert_eq!(axis.extent, None);
    }
}
