//! Axes that metadata describes with numbers, instead of an array of coordinates.

use std::collections::BTreeMap;

/// The coordinates along one axis, as the metadata of a file describes them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DescribedAxis {
    /// The spacing of the coordinates. `None` means that the coordinates are the indices.
    pub spacing: Option<Spacing>,
    /// The attributes of the coordinates, such as `units`.
    pub attrs: BTreeMap<String, String>,
}

/// The spacing of evenly spaced coordinates: `index * scale + translation`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spacing {
    /// The difference of consecutive coordinates.
    pub scale: f64,
    /// The coordinate at index 0.
    pub translation: f64,
}

impl Spacing {
    /// The spacing of indices.
    pub const INDICES: Self = Self {
        scale: 1.0,
        translation: 0.0,
    };

    /// Returns the coordinate at an index.
    pub fn coordinate(&self, index: u64) -> f64 {
        index as f64 * self.scale + self.translation
    }

    /// Returns the spacing that results if `outer` is applied to these coordinates.
    pub fn then(&self, outer: &Self) -> Self {
        Self {
            scale: self.scale * outer.scale,
            translation: self.translation * outer.scale + outer.translation,
        }
    }
}
