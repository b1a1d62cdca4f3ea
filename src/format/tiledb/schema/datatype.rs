//! Datatypes and layouts.

use std::fmt;

use crate::format::tiledb::fault::{Decoded, Fault};

/// Declares [`Datatype`] and [`DATATYPES`] from one list of datatypes, in the order of their codes.
macro_rules! datatypes {
    ($($(#[$attribute:meta])* $name:ident,)*) => {
        /// The datatype of a dimension, attribute or metadata value.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)] // The names are those of the format's specification.
        pub enum Datatype {
            $($(#[$attribute])* $name,)*
        }

        /// All datatypes, in the order of their codes.
        const DATATYPES: [Datatype; 44] = [$(Datatype::$name),*];
    };
}

datatypes! {
    Int32,
    Int64,
    Float32,
    Float64,
    /// One signed byte.
    Char,
    Int8,
    Uint8,
    Int16,
    Uint16,
    Uint32,
    Uint64,
    StringAscii,
    StringUtf8,
    StringUtf16,
    StringUtf32,
    StringUcs2,
    StringUcs4,
    Any,
    DatetimeYear,
    DatetimeMonth,
    DatetimeWeek,
    DatetimeDay,
    DatetimeHour,
    DatetimeMinute,
    DatetimeSecond,
    DatetimeMillisecond,
    DatetimeMicrosecond,
    DatetimeNanosecond,
    DatetimePicosecond,
    DatetimeFemtosecond,
    DatetimeAttosecond,
    TimeHour,
    TimeMinute,
    TimeSecond,
    TimeMillisecond,
    TimeMicrosecond,
    TimeNanosecond,
    TimePicosecond,
    TimeFemtosecond,
    TimeAttosecond,
    Blob,
    /// One byte, 0 or 1.
    Bool,
    GeometryWkb,
    GeometryWkt,
}

/// The representation of one value of a datatype.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Representation {
    /// A two's complement integer.
    Signed,
    /// An unsigned integer, or a byte without arithmetic.
    Unsigned,
    /// An IEEE 754 floating-point number.
    Float,
}

impl Datatype {
    /// Returns the datatype of a code in a file.
    pub(crate) fn from_code(field: &'static str, code: u8) -> Decoded<Self> {
        let known = DATATYPES.get(usize::from(code)).copied();
        known.ok_or_else(|| Fault::new(field, code, "a datatype from 0 to 43"))
    }

    /// The size of one value in bytes.
    pub fn size(self) -> usize {
        use Datatype::*;
        match self {
            Char | Int8 | Uint8 | StringAscii | StringUtf8 | Any | Blob | Bool | GeometryWkb
            | GeometryWkt => 1,
            Int16 | Uint16 | StringUtf16 | StringUcs2 => 2,
            Int32 | Uint32 | Float32 | StringUtf32 | StringUcs4 => 4,
            _ => 8,
        }
    }

    /// The representation of one value.
    pub fn representation(self) -> Representation {
        use Datatype::*;
        match self {
            Float32 | Float64 => Representation::Float,
            Char | Int8 | Int16 | Int32 | Int64 => Representation::Signed,
            _ if self.is_datetime() || self.is_time() => Representation::Signed,
            _ => Representation::Unsigned,
        }
    }

    /// Returns `true` for points in time: ticks since 1970 in the unit of the datatype.
    pub fn is_datetime(self) -> bool {
        (Self::DatetimeYear as u8..=Self::DatetimeAttosecond as u8).contains(&(self as u8))
    }

    /// Returns `true` for durations: ticks in the unit of the datatype.
    pub fn is_time(self) -> bool {
        (Self::TimeHour as u8..=Self::TimeAttosecond as u8).contains(&(self as u8))
    }

    /// Returns `true` for integers, without dates, texts and other bytes.
    pub fn is_integer(self) -> bool {
        use Datatype::*;
        matches!(
            self,
            Int8 | Uint8 | Int16 | Uint16 | Int32 | Uint32 | Int64 | Uint64
        )
    }

    /// Returns `true` for integers, dates, durations, booleans and floating-point numbers: the
    /// datatypes with bounds and sums in statistics.
    pub(crate) fn is_number(self) -> bool {
        self.is_integer()
            || self.is_datetime()
            || self.is_time()
            || self == Self::Bool
            || self.representation() == Representation::Float
    }
}

impl fmt::Display for Datatype {
    /// Writes the name in the style of the specification, such as `DATETIME_NANOSECOND`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{self:?}");
        for (index, letter) in name.char_indices() {
            if index > 0 && letter.is_ascii_uppercase() {
                f.write_str("_")?;
            }
            write!(f, "{}", letter.to_ascii_uppercase())?;
        }
        Ok(())
    }
}

/// An order of tiles or cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// The last dimension varies fastest.
    RowMajor,
    /// The first dimension varies fastest.
    ColumnMajor,
    /// Along a Hilbert curve; of the cells of sparse arrays only.
    Hilbert,
}

impl Layout {
    /// Returns the layout of a code in a schema.
    pub(crate) fn from_code(field: &'static str, code: u8) -> Decoded<Self> {
        match code {
            0 => Ok(Self::RowMajor),
            1 => Ok(Self::ColumnMajor),
            4 => Ok(Self::Hilbert),
            _ => Err(Fault::new(field, code, "0, 1 or 4")),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RowMajor => "row-major",
            Self::ColumnMajor => "column-major",
            Self::Hilbert => "hilbert",
        })
    }
}

/// The number of values per cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CellValues {
    /// Every cell has this number of values, at least 1.
    Fixed(u32),
    /// Any number, different from cell to cell.
    Variable,
}

impl CellValues {
    /// Returns the number that a code in a file stands for.
    pub(crate) fn from_code(field: &'static str, code: u32) -> Decoded<Self> {
        match code {
            u32::MAX => Ok(Self::Variable),
            0 => Err(Fault::new(field, 0, "at least 1")),
            count => Ok(Self::Fixed(count)),
        }
    }

    /// Returns `true` if cells differ in length.
    pub fn is_variable(self) -> bool {
        self == Self::Variable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names() {
        for (code, datatype) in DATATYPES.iter().enumerate() {
            assert_eq!(*datatype as usize, code);
        }
        assert_eq!(Datatype::DatetimeNanosecond as u8, 27);
        assert_eq!(Datatype::TimeAttosecond as u8, 39);
        assert_eq!(Datatype::GeometryWkt.to_string(), "GEOMETRY_WKT");
    }
}
