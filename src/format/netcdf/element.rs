//! The external types of NetCDF, and the dataset types that they are read as.

use crate::format::array::Dtype;

/// An external type: of the values of an attribute, or of the cells of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NcType {
    Byte,
    Char,
    Short,
    Int,
    Float,
    Double,
    Ubyte,
    Ushort,
    Uint,
    Int64,
    Uint64,
}

impl NcType {
    /// All types in the order of their codes, which start at 1.
    pub const ALL: [Self; 11] = [
        Self::Byte,
        Self::Char,
        Self::Short,
        Self::Int,
        Self::Float,
        Self::Double,
        Self::Ubyte,
        Self::Ushort,
        Self::Uint,
        Self::Int64,
        Self::Uint64,
    ];
    /// Number of types in CDF-1 and CDF-2.
    pub const OF_CDF_1: usize = 6;

    /// Returns the number of bytes of a value.
    pub fn size(self) -> u64 {
        match self {
            Self::Byte | Self::Char | Self::Ubyte => 1,
            Self::Short | Self::Ushort => 2,
            Self::Int | Self::Float | Self::Uint => 4,
            Self::Double | Self::Int64 | Self::Uint64 => 8,
        }
    }

    /// Returns the default fill value as text: of cells that were never written, in variables
    /// without the attribute `_FillValue`.
    ///
    /// Returns `None` for types of one byte, whose values are all in use, and for characters.
    pub fn default_fill(self) -> Option<&'static str> {
        match self {
            Self::Byte | Self::Char | Self::Ubyte => None,
            Self::Short => Some("-32767"),
            Self::Int => Some("-2147483647"),
            Self::Float => Some("9.96921e36"),
            Self::Double => Some("9.969209968386869e36"),
            Self::Ushort => Some("65535"),
            Self::Uint => Some("4294967295"),
            Self::Int64 => Some("-9223372036854775806"),
            Self::Uint64 => Some("18446744073709551614"),
        }
    }
}

/// The conversion of a variable's stored bytes to cells of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    /// Numbers of a type that datasets have, stored big-endian.
    Number(Dtype),
    /// Strings of this number of bytes, padded with zeros. They become codes.
    Text(u64),
}

impl Element {
    /// Returns the element of a variable. `is_unsigned` is the value of the attribute `_Unsigned`:
    /// the bytes of an integer type are read as unsigned, or as signed.
    ///
    /// `width` is the number of characters of a string, for a variable of characters.
    pub fn of(nc_type: NcType, is_unsigned: Option<bool>, width: u64) -> Self {
        let signed = |signed: Self, unsigned: Dtype, by_default: bool| match is_unsigned
            .unwrap_or(by_default)
        {
            true => Self::Number(unsigned),
            false => signed,
        };
        let number = Self::Number;
        match nc_type {
            NcType::Char => Self::Text(width),
            NcType::Float => number(Dtype::F32),
            NcType::Double => number(Dtype::F64),
            NcType::Byte => signed(number(Dtype::I8), Dtype::U8, false),
            NcType::Ubyte => signed(number(Dtype::I8), Dtype::U8, true),
            NcType::Short => signed(number(Dtype::I16), Dtype::U16, false),
            NcType::Ushort => signed(number(Dtype::I16), Dtype::U16, true),
            NcType::Int => signed(number(Dtype::I32), Dtype::U32, false),
            NcType::Uint => signed(number(Dtype::I32), Dtype::U32, true),
            NcType::Int64 => signed(number(Dtype::I64), Dtype::U64, false),
            NcType::Uint64 => signed(number(Dtype::I64), Dtype::U64, true),
        }
    }

    /// Returns the dataset type that cells are read as.
    pub fn dtype(self) -> Dtype {
        match self {
            Self::Number(dtype) => dtype,
            Self::Text(_) => Dtype::I64,
        }
    }

    /// Returns the number of bytes of a cell in the file.
    pub fn stored_size(self) -> u64 {
        match self {
            Self::Number(dtype) => dtype.size(),
            Self::Text(width) => width,
        }
    }

    /// Returns `true` if the stored bytes can be used as cells without conversion.
    pub fn is_stored_as_cells(self) -> bool {
        matches!(self, Self::Number(dtype) if dtype.size() == 1)
    }

    /// Returns the min of a cell and the number of distinct values, if cells are integers.
    pub fn integers(self) -> Option<(i128, i128)> {
        let is_signed = match self {
            Self::Text(_) => return None,
            Self::Number(dtype) if dtype.is_float() => return None,
            Self::Number(Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64) => false,
            Self::Number(_) => true,
        };
        let count = 1i128 << (self.stored_size() * 8);
        Some((if is_signed { -count / 2 } else { 0 }, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attribute_unsigned_changes_how_bytes_are_read() {
        let of = |nc_type, is_unsigned| Element::of(nc_type, is_unsigned, 0);
        let number = Element::Number;
        for (nc_type, default, unsigned, signed) in [
            (
                NcType::Byte,
                number(Dtype::I8),
                number(Dtype::U8),
                number(Dtype::I8),
            ),
            (
                NcType::Ubyte,
                number(Dtype::U8),
                number(Dtype::U8),
                number(Dtype::I8),
            ),
            (
                NcType::Short,
                number(Dtype::I16),
                number(Dtype::U16),
                number(Dtype::I16),
            ),
            (
                NcType::Uint64,
                number(Dtype::U64),
                number(Dtype::U64),
                number(Dtype::I64),
            ),
            (
                NcType::Float,
                number(Dtype::F32),
                number(Dtype::F32),
                number(Dtype::F32),
            ),
        ] {
            assert_eq!(of(nc_type, None), default, "{nc_type:?}");
            assert_eq!(of(nc_type, Some(true)), unsigned, "{nc_type:?}");
            assert_eq!(of(nc_type, Some(false)), signed, "{nc_type:?}");
            for element in [default, unsigned, signed] {
                assert_eq!(element.stored_size(), nc_type.size());
            }
        }
        assert_eq!(of(NcType::Byte, None).integers(), Some((-128, 256)));
        assert_eq!(of(NcType::Uint, None).integers(), Some((0, 1 << 32)));
        assert_eq!(of(NcType::Double, None).integers(), None);
    }

    #[test]
    fn default_fill_values_are_those_of_the_netcdf_library() {
        let fill = |nc_type: NcType| nc_type.default_fill().unwrap();
        // NC_FILL_FLOAT and NC_FILL_DOUBLE are both written 9.9692099683868690e+36.
        let float: f32 = fill(NcType::Float).parse().unwrap();
        assert_eq!(float.to_bits(), 0x7cf0_0000);
        let double: f64 = fill(NcType::Double).parse().unwrap();
        assert_eq!(double.to_bits(), 0x479e_0000_0000_0000);
        for nc_type in NcType::ALL {
            let Some(text) = nc_type.default_fill() else {
                assert_eq!(nc_type.size(), 1);
                continue;
            };
            if let Some((min, count)) = Element::of(nc_type, None, 0).integers() {
                let value: i128 = text.parse().unwrap();
                assert!((min..min + count).contains(&value), "{text}");
            }
        }
    }
}
