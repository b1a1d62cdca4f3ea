//! Column types, encodings and codecs, with their ids in the file.

use std::fmt;

/// Declares an enum whose variants have an id in the file and a name for messages.
macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $id:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$variant_doc])* $variant = $id,)*
        }

        impl $name {
            /// All variants, in the order of their ids.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the variant with this id, if there is one.
            pub fn from_id(id: u8) -> Option<Self> {
                Self::ALL.get(usize::from(id)).copied()
            }

            /// The id in the file.
            pub fn id(self) -> u8 {
                self as u8
            }

            /// The name, in lower case.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

numbered! {
    /// The logical type of a column.
    ColumnType {
        /// Booleans.
        Bool = 0 "bool",
        /// Signed integers of one byte.
        Int8 = 1 "int8",
        /// Signed integers of two bytes.
        Int16 = 2 "int16",
        /// Signed integers of four bytes.
        Int32 = 3 "int32",
        /// Signed integers of eight bytes.
        Int64 = 4 "int64",
        /// Unsigned integers of one byte.
        Uint8 = 5 "uint8",
        /// Unsigned integers of two bytes.
        Uint16 = 6 "uint16",
        /// Unsigned integers of four bytes.
        Uint32 = 7 "uint32",
        /// Unsigned integers of eight bytes.
        Uint64 = 8 "uint64",
        /// IEEE floats of four bytes.
        Float32 = 9 "float32",
        /// IEEE floats of eight bytes.
        Float64 = 10 "float64",
        /// Text, by convention UTF-8. Writers do not check it.
        String = 11 "string",
        /// Byte strings.
        Bytes = 12 "bytes",
        /// Signed microseconds since 1970-01-01.
        TimestampMicros = 13 "timestamp_micros",
        /// Reserved. The format defines no layout for lists.
        List = 14 "list",
        /// Byte strings stored apart from the pages, in blob runs.
        BlobRef = 15 "blobref",
    }
}

impl ColumnType {
    /// Returns the length of a scalar of this type in bytes, or `None` if scalars vary in length or the type
    /// has no scalars. A boolean takes one byte as a scalar and one bit in a page.
    pub fn width(self) -> Option<usize> {
        match self {
            Self::Bool | Self::Int8 | Self::Uint8 => Some(1),
            Self::Int16 | Self::Uint16 => Some(2),
            Self::Int32 | Self::Uint32 | Self::Float32 => Some(4),
            Self::Int64 | Self::Uint64 | Self::Float64 | Self::TimestampMicros => Some(8),
            Self::String | Self::Bytes | Self::List | Self::BlobRef => None,
        }
    }

    /// Returns `true` for integers and timestamps, which can have the integer encodings.
    pub fn is_integer(self) -> bool {
        matches!(self.id(), 1..=8) || self == Self::TimestampMicros
    }

    /// Returns `true` for signed integers and timestamps.
    pub fn is_signed(self) -> bool {
        matches!(self.id(), 1..=4) || self == Self::TimestampMicros
    }

    /// Returns `true` for floats.
    pub fn is_float(self) -> bool {
        matches!(self, Self::Float32 | Self::Float64)
    }

    /// Returns `true` for text and byte strings that are stored in pages.
    pub fn is_variable(self) -> bool {
        matches!(self, Self::String | Self::Bytes)
    }
}

numbered! {
    /// The encoding of the values of a page, before compression.
    Encoding {
        /// Values as they are: fixed widths in little-endian order, byte strings with their lengths.
        Plain = 0 "plain",
        /// Runs of equal integers, between bit-packed literals.
        Rle = 1 "rle",
        /// Reserved. The format defines no layout.
        Dictionary = 2 "dictionary",
        /// Bit-packed differences from the smallest integer.
        BitpackFor = 3 "bitpack_for",
        /// Bit-packed differences between neighbouring integers.
        Delta = 4 "delta",
        /// Integers of one to four bytes, with their lengths in one control byte per four values.
        GroupVarint = 5 "groupvarint",
        /// Bit-packed low bits, with the integers that need more bits listed apart.
        PforDelta = 6 "pfordelta",
        /// Reserved. The format defines no layout.
        Fsst = 7 "fsst",
        /// One bit per boolean.
        Bitmap = 8 "bitmap",
    }
}

numbered! {
    /// The compression of a record's payload.
    Codec {
        /// No compression.
        None = 0 "none",
        /// Reserved. The format does not define whether blocks or frames are stored.
        Lz4 = 1 "lz4",
        /// One zstd frame.
        Zstd = 2 "zstd",
        /// One zstd frame that refers to the raw content of a dictionary record. Blob runs only.
        ZstdDict = 3 "zstd_dict",
    }
}
