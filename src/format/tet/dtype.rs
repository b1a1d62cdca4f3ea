//! Element types (the format's "dtype" wire tags).

use std::fmt;

/// Element type of a dataset. Little-endian on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // each name says all there is to say
pub enum Dtype {
    F32,
    F64,
    I32,
    I64,
    U8,
    U16,
    I16,
    U32,
    /// IEEE 754 binary16.
    F16,
    U64,
}

impl Dtype {
    /// All element types, in the order of their wire tags, which count from 1.
    pub const ALL: [Self; 10] = [
        Self::F32,
        Self::F64,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::F16,
        Self::U64,
    ];

    /// The type with this wire tag, if there is one.
    pub fn from_tag(tag: u32) -> Option<Self> {
        let position = usize::try_from(tag).ok()?.checked_sub(1)?;
        Self::ALL.get(position).copied()
    }

    /// The wire tag, 1 to 10.
    pub fn tag(self) -> u32 {
        match self {
            Self::F32 => 1,
            Self::F64 => 2,
            Self::I32 => 3,
            Self::I64 => 4,
            Self::U8 => 5,
            Self::U16 => 6,
            Self::I16 => 7,
            Self::U32 => 8,
            Self::F16 => 9,
            Self::U64 => 10,
        }
    }

    /// Bytes per element.
    pub fn size(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::I16 | Self::F16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::F16 => "f16",
            Self::U64 => "u64",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_round_trip() {
        for (position, dtype) in Dtype::ALL.into_iter().enumerate() {
            assert_eq!(dtype.tag() as usize, position + 1);
            assert_eq!(Dtype::from_tag(dtype.tag()), Some(dtype));
        }
        assert_eq!(Dtype::from_tag(0), None);
        assert_eq!(Dtype::from_tag(11), None);
    }
}
