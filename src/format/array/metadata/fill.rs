//! Fill values: stored values that stand for null.

use half::f16;

use crate::format::array::dtype::Dtype;
use crate::format::array::metadata::DatasetMetadata;

/// The attributes that can hold a fill value; the first one present counts.
pub(crate) const FILL_ATTRIBUTES: [&str; 3] = ["_FillValue", "missing_value", "fill_value"];

/// A fill value, as a bit pattern of the dataset's element type.
///
/// Cells are compared bit by bit, as the reference implementation does when it builds zone maps. An
/// f32 cell therefore matches the text `1e20`, although no f32 equals 1e20 exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fill {
    bits: u64,
}

impl Fill {
    /// Returns the fill value of a dataset.
    ///
    /// Returns `None` if there is none, or if its text is not a value of the element type.
    pub fn of(metadata: &DatasetMetadata, dtype: Dtype) -> Option<Self> {
        Self::parse(fill_text(metadata)?, dtype)
    }

    /// Parses the text of a value; `None` if it is not a value of the type.
    pub(crate) fn parse(text: &str, dtype: Dtype) -> Option<Self> {
        let text = text.trim();
        let bits = match dtype {
            Dtype::F32 => text.parse::<f32>().ok()?.to_bits().into(),
            Dtype::F64 => text.parse::<f64>().ok()?.to_bits(),
            Dtype::F16 => f16::from_f32(text.parse().ok()?).to_bits().into(),
            Dtype::I8 => (text.parse::<i8>().ok()? as u8).into(),
            Dtype::I16 => (text.parse::<i16>().ok()? as u16).into(),
            Dtype::I32 => (text.parse::<i32>().ok()? as u32).into(),
            Dtype::I64 => text.parse::<i64>().ok()? as u64,
            Dtype::U8 => text.parse::<u8>().ok()?.into(),
            Dtype::U16 => text.parse::<u16>().ok()?.into(),
            Dtype::U32 => text.parse::<u32>().ok()?.into(),
            Dtype::U64 => text.parse().ok()?,
        };
        Some(Self { bits })
    }

    /// Returns all values that stand for null by the rules of xarray.
    ///
    /// These are the values of `_FillValue` and `missing_value`, or of `fill_value` if neither is
    /// present. Each attribute may be a list. Texts that are not values of the element type are
    /// skipped. The default fill value takes the place of `_FillValue`.
    pub fn all(metadata: &DatasetMetadata, dtype: Dtype) -> Vec<Self> {
        let [fill, missing, other] = FILL_ATTRIBUTES.map(|key| metadata.attrs.get(key));
        let fill = fill.or(metadata.default_fill.as_ref());
        let of_text = |text: &String| -> Vec<Self> {
            let list = text
                .strip_prefix('[')
                .and_then(|text| text.strip_suffix(']'));
            let texts = list.unwrap_or(text).split(',');
            texts.filter_map(|text| Self::parse(text, dtype)).collect()
        };
        let mut fills: Vec<Self> = Vec::new();
        let texts = match (fill, missing) {
            (None, None) => [other, None],
            both => [both.0, both.1],
        };
        for one in texts.into_iter().flatten().flat_map(of_text) {
            if !fills.contains(&one) {
                fills.push(one);
            }
        }
        fills
    }

    /// Returns the bit pattern, zero-extended.
    pub fn bits(self) -> u64 {
        self.bits
    }
}

/// Returns the text of the first fill attribute that is present. The default fill value takes the place of
/// `_FillValue`.
pub(crate) fn fill_text(metadata: &DatasetMetadata) -> Option<&str> {
    let [first, others @ ..] = FILL_ATTRIBUTES.map(|key| metadata.attrs.get(key));
    let default = metadata.default_fill.as_ref();
    let found = first
        .or(default)
        .or_else(|| others.into_iter().flatten().next());
    found.map(|text| text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(attributes: &[(&str, &str)], dtype: Dtype) -> Option<u64> {
        let mut metadata = DatasetMetadata::default();
        for (key, value) in attributes {
            metadata.attrs.insert(key.to_string(), value.to_string());
        }
        Fill::of(&metadata, dtype).map(Fill::bits)
    }

    #[test]
    fn text_is_read_in_the_type_of_the_dataset() {
        let one = |text, dtype| fill(&[("_FillValue", text)], dtype);
        assert_eq!(one("1e20", Dtype::F32), Some(1e20f32.to_bits().into()));
        assert_eq!(one(" -32768 ", Dtype::I16), Some(0x8000));
        assert_eq!(one("-1", Dtype::I64), Some(u64::MAX));
        assert_eq!(one("-9999.0", Dtype::I16), None);
        assert_eq!(one("256", Dtype::U8), None);
        assert_eq!(one("AAAAAAAA+H8=", Dtype::F64), None);
    }

    #[test]
    fn all_values_that_mean_missing() {
        let all = |attributes: &[(&str, &str)], dtype| {
            let mut metadata = DatasetMetadata::default();
            for (key, value) in attributes {
                metadata.attrs.insert(key.to_string(), value.to_string());
            }
            let fills = Fill::all(&metadata, dtype).into_iter();
            fills.map(Fill::bits).collect::<Vec<_>>()
        };
        let attributes = [
            ("missing_value", "[3, 4,x,3]"),
            ("_FillValue", "5"),
            ("fill_value", "6"),
        ];
        assert_eq!(all(&attributes, Dtype::U8), [5, 3, 4]);
        assert_eq!(all(&attributes[2..], Dtype::U8), [6]);
        assert_eq!(all(&[("_FillValue", "-9999")], Dtype::U8), [] as [u64; 0]);
        let both = [("_FillValue", "2"), ("missing_value", "2.0")];
        assert_eq!(all(&both, Dtype::F64), [2f64.to_bits()]);
    }

    #[test]
    fn the_first_attribute_present_counts_even_if_it_is_unreadable() {
        let attributes = [("fill_value", "1"), ("missing_value", "2")];
        assert_eq!(fill(&attributes, Dtype::U8), Some(2));
        let attributes = [("_FillValue", "none"), ("missing_value", "2")];
        assert_eq!(fill(&attributes, Dtype::U8), None);
    }
}
