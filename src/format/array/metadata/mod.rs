//! The metadata of a dataset: attributes, dimension names and labels.

pub mod categories;
pub mod described;
pub mod fill;
pub mod memory_budget;
pub mod provenance;

use std::collections::BTreeMap;

use serde::Deserialize;

/// The metadata of a dataset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
pub struct DatasetMetadata {
    /// Attributes such as `units`, `long_name` and `_FillValue`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attrs: BTreeMap<String, String>,
    /// The dimension names as stored: their number and uniqueness are not guaranteed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dim_names: Vec<String>,
    /// The id of each dimension. Variables of any group that share a dimension have the same id for it. Empty if the file
    /// does not tell, as in formats whose groups do not share dimensions.
    #[serde(skip)]
    pub dim_ids: Vec<u64>,
    /// The labels of axes, by dimension name or by the axis's number in decimal.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub coords: BTreeMap<String, AxisLabels>,
    /// The fill value of cells that were never written, if no attribute gives one. It follows from the
    /// format of the file, and is not stored with the attributes.
    #[serde(skip)]
    pub default_fill: Option<String>,
}

/// A label for each index along one axis.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
pub struct AxisLabels {
    /// The labels as stored: their number may differ from the axis's extent.
    #[serde(default)]
    pub labels: Vec<String>,
}

impl DatasetMetadata {
    /// Returns the labels of an axis, and the rule that bound them to it.
    ///
    /// `names` are the dataset's dimension names, which may be empty. The first rule that applies
    /// counts:
    ///
    /// 1. The key is the name of the dimension.
    /// 2. The key is the axis's number in decimal, and no dimension has that name.
    /// 3. These are the only labels of the same length as the axis.
    ///
    /// The last rule is for files that name labels but no dimensions. It ignores labels that belong
    /// to another axis by name or number, and does not choose between two axes of the same length.
    pub fn labels(
        &self,
        names: &[String],
        axis: usize,
        shape: &[u64],
    ) -> Option<(&[String], LabelRule)> {
        let found = |key: &str, rule| Some((self.coords.get(key)?.labels.as_slice(), rule));
        let named = |axis: usize| found(names.get(axis)?, LabelRule::Name);
        let numbered = |axis: usize| {
            // A dimension may be called like a number, and then its labels are bound by name.
            let key = axis.to_string();
            (!names.contains(&key))
                .then(|| found(&key, LabelRule::Number))
                .flatten()
        };
        if let Some(bound) = named(axis).or_else(|| numbered(axis)) {
            return Some(bound);
        }
        let is_claimed = |key: &String| {
            names.contains(key) || key.parse().is_ok_and(|axis: usize| axis < shape.len())
        };
        let extent = shape.get(axis)?;
        let mut fitting = self
            .coords
            .iter()
            .filter(|(key, entry)| entry.labels.len() as u64 == *extent && !is_claimed(key));
        let mut axes = (0..shape.len())
            .filter(|axis| shape[*axis] == *extent && named(*axis).or(numbered(*axis)).is_none());
        match (fitting.next(), fitting.next(), axes.next(), axes.next()) {
            (Some((_, entry)), None, Some(_), None) => Some((&entry.labels, LabelRule::Length)),
            _ => None,
        }
    }
}

/// The rule by which labels were bound to an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelRule {
    /// The labels have the dimension's name.
    Name,
    /// The labels have the axis's number.
    Number,
    /// No other labels have the axis's length.
    Length,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(names: &[&str], coords: &[(&str, usize)], shape: &[u64]) -> Vec<Option<LabelRule>> {
        let metadata = DatasetMetadata {
            coords: coords
                .iter()
                .map(|(key, count)| {
                    let labels = vec!["x".to_string(); *count];
                    (key.to_string(), AxisLabels { labels })
                })
                .collect(),
            ..DatasetMetadata::default()
        };
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        (0..shape.len())
            .map(|axis| Some(metadata.labels(&names, axis, shape)?.1))
            .collect()
    }

    #[test]
    fn labels_are_bound_by_name_then_number_then_length() {
        use LabelRule::{Length, Name, Number};
        assert_eq!(bound(&["a", "b"], &[("b", 3)], &[2, 3]), [None, Some(Name)]);
        assert_eq!(bound(&[], &[("0", 2)], &[2, 3]), [Some(Number), None]);
        assert_eq!(
            bound(&[], &[("lat", 2), ("lon", 3)], &[2, 3]),
            [Some(Length); 2]
        );
        // Labels of the wrong length are still bound by name; using them is an error.
        assert_eq!(bound(&["a"], &[("a", 5)], &[2]), [Some(Name)]);
    }

    #[test]
    fn length_does_not_decide_between_equals() {
        assert_eq!(bound(&[], &[("lat", 2)], &[2, 2]), [None, None]);
        assert_eq!(bound(&[], &[("lat", 2), ("lon", 2)], &[2]), [None]);
        // Labels with the name of one dimension are not bound to another.
        assert_eq!(
            bound(&["a", "b"], &[("a", 4)], &[4, 4]),
            [Some(LabelRule::Name), None]
        );
        assert_eq!(
            bound(&["a", "b"], &[("a", 4), ("c", 4)], &[4, 4]),
            [Some(LabelRule::Name), Some(LabelRule::Length)]
        );
    }
}
