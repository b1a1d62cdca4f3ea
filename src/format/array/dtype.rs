//! Element types, and the tags by which `.tet` files name them.

use std::fmt;

/// The sign bit of a 64-bit number.
const SIGN: u64 = 1 << 63;

/// The element type of a dataset. Cells are little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names say it all
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
    /// Signed, 8 bits. `.tet` files have no such type.
    I8,
}

impl Dtype {
    /// The element types of `.tet` files, in the order of their tags, which start at 1.
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

    /// Returns the element type with a tag, or `None` if the tag is unknown.
    pub fn from_tag(tag: u32) -> Option<Self> {
        let position = usize::try_from(tag).ok()?.checked_sub(1)?;
        Self::ALL.get(position).copied()
    }

    /// Returns the tag, from 1 to 10, or `None` if `.tet` files cannot store the type.
    pub fn tag(self) -> Option<u32> {
        let position = Self::ALL.iter().position(|dtype| *dtype == self)?;
        u32::try_from(position + 1).ok()
    }

    /// Returns the number of bytes per element.
    pub fn size(self) -> u64 {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }

    /// Returns NumPy's name for the little-endian type, which Zarr version 2 uses too.
    pub(crate) fn numpy_name(self) -> &'static str {
        match self {
            Self::F16 => "<f2",
            Self::F32 => "<f4",
            Self::F64 => "<f8",
            Self::I8 => "|i1",
            Self::I16 => "<i2",
            Self::I32 => "<i4",
            Self::I64 => "<i8",
            Self::U8 => "|u1",
            Self::U16 => "<u2",
            Self::U32 => "<u4",
            Self::U64 => "<u8",
        }
    }

    /// Returns `true` for floating-point types.
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64)
    }

    /// Returns `true` if a zero-extended bit pattern is a NaN of this type.
    pub(crate) fn is_nan(self, bits: u64) -> bool {
        match self {
            Self::F16 => bits & 0x7fff > 0x7c00,
            Self::F32 => bits & 0x7fff_ffff > 0x7f80_0000,
            Self::F64 => bits & !SIGN > 0x7ff0_0000_0000_0000,
            _ => false,
        }
    }

    /// Maps a zero-extended bit pattern to a number that sorts like the value.
    ///
    /// Integers are ordered by value, floats by the total order of IEEE 754, in which -0 precedes
    /// +0.
    pub(crate) fn order(self, bits: u64) -> u64 {
        match self {
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => bits,
            Self::I8 => (bits as u8 as i8 as u64) ^ SIGN,
            Self::I16 => (bits as u16 as i16 as u64) ^ SIGN,
            Self::I32 => (bits as u32 as i32 as u64) ^ SIGN,
            Self::I64 => bits ^ SIGN,
            Self::F16 | Self::F32 | Self::F64 => {
                let sign = 1 << (self.size() * 8 - 1);
                if bits & sign == 0 {
                    bits | sign
                } else {
                    // Inverts all bits of the type, since a larger magnitude is a smaller value.
                    bits ^ (sign | (sign - 1))
                }
            }
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
            Self::I8 => "i8",
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
            let tag = position as u32 + 1;
            assert_eq!(dtype.tag(), Some(tag));
            assert_eq!(Dtype::from_tag(tag), Some(dtype));
        }
        assert_eq!(Dtype::I8.tag(), None);
        assert_eq!(Dtype::from_tag(0), None);
        assert_eq!(Dtype::from_tag(11), None);
    }

    #[test]
    fn bit_patterns_are_ordered_as_their_values() {
        let f64s = [-1e300, -1.0, -0.0, 0.0, 1e-310, 1.0, f64::INFINITY];
        let f32s = [f32::NEG_INFINITY, -1.0, -0.0, 0.0, 1e-40, 1.0, 1e20];
        let ints = [i64::MIN, -2, -1, 0, 1, 300, i64::MAX];
        for (dtype, ascending) in [
            (Dtype::F64, f64s.map(f64::to_bits)),
            (Dtype::F32, f32s.map(|value| value.to_bits().into())),
            (Dtype::F16, [0xfc00, 0xbc00, 0x8000, 0, 1, 0x3c00, 0x7c00]),
            (Dtype::I64, ints.map(|value| value as u64)),
            (Dtype::I32, ints.map(|value| (value >> 32) as u32 as u64)),
            (Dtype::I16, ints.map(|value| (value >> 48) as u16 as u64)),
            (Dtype::I8, [0x80, 0xfe, 0xff, 0, 1, 2, 0x7f]),
            (Dtype::U8, [0, 1, 2, 3, 127, 128, 255]),
        ] {
            let order = ascending.map(|bits| dtype.order(bits));
            assert!(order.is_sorted(), "{dtype} {order:?}");
            assert!(!ascending.iter().any(|bits| dtype.is_nan(*bits)));
        }
        for (dtype, nan) in [
            (Dtype::F64, f64::NAN.to_bits()),
            (Dtype::F32, (-f32::NAN).to_bits().into()),
            (Dtype::F16, 0x7e00),
        ] {
            assert!(dtype.is_nan(nan));
        }
        assert!(!Dtype::U16.is_nan(0x7e00));
    }
}
