//! The fill value: which stored value means that a cell is missing.

use half::f16;

use crate::format::array::dtype::Dtype;
use crate::format::array::metadata::DatasetMetadata;

/// The attributes that can name a fill value; the first one present counts.
pub(crate) const FILL_ATTRIBUTES: [&str; 3] = ["_FillValue", "missing_value", "fill_value"];

/// A fill value in the dataset's own type, as its bit pattern. Cells are compared with it bit by bit, as the
/// reference does when it builds zone maps: an f32 cell matches `1e20`, although 1e20 is no f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fill {
    bits: u64,
}

impl Fill {
    /// The fill value of a dataset. Text that is no value of the dataset's type means that there is none.
    pub fn of(metadata: &DatasetMetadata, dtype: Dtype) -> Option<Self> {
        let text = fill_text(metadata)?;
        let bits = match dtype {
            Dtype::F32 => text.parse::<f32>().ok()?.to_bits().into(),
            Dtype::F64 => text.parse::<f64>().ok()?.to_bits(),
            Dtype::F16 => f16::from_f32(text.parse().ok()?).to_bits().into(),
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

    /// The bit pattern, zero-extended.
    pub fn bits(self) -> u64 {
        self.bits
    }
}

/// The text of the fill attribute.
pub(crate) fn fill_text(metadata: &DatasetMetadata) -> Option<&str> {
    FILL_ATTRIBUTES
        .iter()
        .find_map(|key| metadata.attrs.get(*key))
        .map(|text| text.trim())
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
    fn the_first_attribute_present_counts_even_if_it_is_unreadable() {
        let attributes = [("fill_value", "1"), ("missing_value", "2")];
        assert_eq!(fill(&attributes, Dtype::U8), Some(2));
        let attributes = [("_FillValue", "none"), ("missing_value", "2")];
        assert_eq!(fill(&attributes, Dtype::U8), None);
    }
}
