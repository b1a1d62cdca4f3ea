//! The encodings of integers: of the values of pages, without nulls, and of the lists in a search segment.

mod integers;
pub(crate) mod lists;
pub(crate) mod packing;

pub(crate) use integers::decode_integers;

/// An unsigned integer of the width of a column's values.
pub(crate) trait Word: Copy + Default + 'static {
    /// The number of bytes.
    const BYTES: usize;

    /// Keeps the low bits.
    fn truncate(value: u64) -> Self;

    /// Reads little-endian bytes. Missing bytes are zero.
    fn from_le(bytes: &[u8]) -> Self;
}

macro_rules! words {
    ($($word:ty)*) => {$(
        impl Word for $word {
            const BYTES: usize = size_of::<$word>();

            fn truncate(value: u64) -> Self {
                value as $word
            }

            fn from_le(bytes: &[u8]) -> Self {
                bytes.first_chunk().map_or(0, |bytes| <$word>::from_le_bytes(*bytes))
            }
        }
    )*};
}

words!(u8 u16 u32 u64);
