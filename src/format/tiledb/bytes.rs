//! Bounds-checked reading of little-endian fields.

use crate::format::tiledb::fault::{Decoded, Fault};

/// A cursor over bytes. Errors name the field that was read.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Returns a cursor at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The number of bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes not yet read.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Reads the next `count` bytes.
    pub fn take(&mut self, field: &'static str, count: usize) -> Decoded<&'a [u8]> {
        match self.bytes.split_at_checked(count) {
            Some((taken, rest)) => {
                self.bytes = rest;
                Ok(taken)
            }
            None => Err(Fault::new(
                field,
                format!("cut off with {} bytes left", self.bytes.len()),
                format!("{count} more bytes"),
            )),
        }
    }

    /// Reads the next `count` bytes, with a count from the file.
    pub fn take_u64(&mut self, field: &'static str, count: u64) -> Decoded<&'a [u8]> {
        self.take(field, usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Reads the next `N` bytes.
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Decoded<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(field, N)?);
        Ok(array)
    }

    /// Reads one byte.
    pub fn u8(&mut self, field: &'static str) -> Decoded<u8> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    /// Reads one byte that is 0 or 1.
    pub fn flag(&mut self, field: &'static str) -> Decoded<bool> {
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Fault::new(field, other, "0 or 1")),
        }
    }

    /// Reads the next four bytes as an unsigned integer.
    pub fn u32(&mut self, field: &'static str) -> Decoded<u32> {
        self.array(field).map(u32::from_le_bytes)
    }

    /// Reads the next eight bytes as an unsigned integer.
    pub fn u64(&mut self, field: &'static str) -> Decoded<u64> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// Reads `count` unsigned integers of eight bytes.
    pub fn u64s(&mut self, field: &'static str, count: u64) -> Decoded<Vec<u64>> {
        let bytes = self.take_u64(field, count.saturating_mul(8))?;
        Ok(u64s(bytes))
    }

    /// Reads a number of items, each of which takes at least `item_bytes` of the remaining bytes.
    pub fn count(&mut self, field: &'static str, item_bytes: usize) -> Decoded<usize> {
        let count = self.u32(field)?;
        self.checked_count(field, u64::from(count), item_bytes)
    }

    /// Like [`Self::count`], for a count of eight bytes.
    pub fn count_u64(&mut self, field: &'static str, item_bytes: usize) -> Decoded<usize> {
        let count = self.u64(field)?;
        self.checked_count(field, count, item_bytes)
    }

    fn checked_count(&self, field: &'static str, count: u64, item_bytes: usize) -> Decoded<usize> {
        let most = self.bytes.len() / item_bytes.max(1);
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => {
                let expected = format!("at most {most}, for {} bytes", self.bytes.len());
                Err(Fault::new(field, count, expected))
            }
        }
    }

    /// Reads a text with a length of four bytes.
    pub fn text(&mut self, field: &'static str) -> Decoded<String> {
        let length = self.u32(field)?;
        self.text_of(field, u64::from(length))
    }

    /// Reads a text with a length of eight bytes.
    pub fn text_u64(&mut self, field: &'static str) -> Decoded<String> {
        let length = self.u64(field)?;
        self.text_of(field, length)
    }

    fn text_of(&mut self, field: &'static str, length: u64) -> Decoded<String> {
        let bytes = self.take_u64(field, length)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_string()),
            Err(_) => Err(Fault::new(field, "not UTF-8", "UTF-8 text")),
        }
    }

    /// Checks that no bytes are left.
    pub fn finish(&self, field: &'static str) -> Decoded<()> {
        match self.bytes.len() {
            0 => Ok(()),
            left => Err(Fault::new(
                field,
                format!("{left} bytes too long"),
                "no more bytes",
            )),
        }
    }
}

/// Returns the little-endian integers in `bytes`, without an incomplete last one.
pub(crate) fn u64s(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().copied().map(u64::from_le_bytes).collect()
}
