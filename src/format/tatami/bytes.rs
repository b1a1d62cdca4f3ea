//! Little-endian fields, variable-length integers and byte strings with their lengths.

use crate::format::fault::Fault;

/// The maximum length of a variable-length integer of 64 bits, in bytes.
pub const MAX_VARINT_BYTES: usize = 10;

/// A cursor over bytes. Every read is checked against the bytes that remain.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// Returns a cursor at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The number of bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Returns all bytes not yet read, without reading them.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Reads the next `count` bytes of `field`.
    #[inline]
    pub fn take(&mut self, field: &'static str, count: usize) -> Result<&'a [u8], Fault> {
        match self.bytes.split_at_checked(count) {
            Some((taken, rest)) => {
                self.bytes = rest;
                Ok(taken)
            }
            None => Err(self.cut_off(field, count)),
        }
    }

    /// Reads the next `N` bytes of `field`.
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Fault> {
        match self.bytes.split_first_chunk() {
            Some((taken, rest)) => {
                self.bytes = rest;
                Ok(*taken)
            }
            None => Err(self.cut_off(field, N)),
        }
    }

    /// Reads one byte.
    pub fn byte(&mut self, field: &'static str) -> Result<u8, Fault> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    /// Reads four bytes as an unsigned integer.
    pub fn u32(&mut self, field: &'static str) -> Result<u32, Fault> {
        self.array(field).map(u32::from_le_bytes)
    }

    /// Reads an unsigned LEB128 integer of up to 64 bits.
    #[inline]
    pub fn varint(&mut self, field: &'static str) -> Result<u64, Fault> {
        match self.bytes.split_first() {
            Some((byte, rest)) if *byte < 0x80 => {
                self.bytes = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(field),
        }
    }

    fn long_varint(&mut self, field: &'static str) -> Result<u64, Fault> {
        let mut value = 0u64;
        for (position, byte) in self.bytes.iter().take(MAX_VARINT_BYTES).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * position);
            if byte & 0x80 == 0 {
                // The tenth byte holds the last of 64 bits.
                if position + 1 == MAX_VARINT_BYTES && *byte > 1 {
                    break;
                }
                self.bytes = self.bytes.get(position + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        match self.bytes.len() {
            0..MAX_VARINT_BYTES => Err(self.cut_off(field, self.bytes.len() + 1)),
            _ => Err(Fault::new(
                field,
                "a variable-length integer of more than 64 bits",
                "at most 64 bits",
            )),
        }
    }

    /// Reads a variable-length integer as a `usize`.
    #[inline]
    pub fn size(&mut self, field: &'static str) -> Result<usize, Fault> {
        let value = self.varint(field)?;
        usize::try_from(value).map_err(|_| Fault::new(field, value, "a size that fits in memory"))
    }

    /// Reads the count of items that follow, each of which takes `item_bytes` bytes or more.
    pub fn count(&mut self, field: &'static str, item_bytes: usize) -> Result<usize, Fault> {
        let count = self.size(field)?;
        let most = self.remaining() / item_bytes.max(1);
        if count > most {
            let expected = format!("at most {most} for the {} bytes left", self.remaining());
            return Err(Fault::new(field, count, expected));
        }
        Ok(count)
    }

    /// Reads a count and as many items, each of which takes `item_bytes` bytes or more.
    pub(crate) fn list<T>(
        &mut self,
        field: &'static str,
        item_bytes: usize,
        mut parse: impl FnMut(&mut Self) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        let count = self.count(field, item_bytes)?;
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(parse(self)?);
        }
        Ok(items)
    }

    /// Reads a length and as many bytes.
    #[inline]
    pub fn byte_string(&mut self, field: &'static str) -> Result<&'a [u8], Fault> {
        let length = self.size(field)?;
        self.take(field, length)
    }

    /// Reads a byte string that must be UTF-8.
    pub(crate) fn text(&mut self, field: &'static str) -> Result<&'a str, Fault> {
        let bytes = self.byte_string(field)?;
        std::str::from_utf8(bytes).map_err(|_| {
            let found = format!("{:?}", bytes.escape_ascii().to_string());
            Fault::new(field, found, "UTF-8")
        })
    }

    /// Fails unless all bytes were read.
    pub fn finish(&self, field: &'static str) -> Result<(), Fault> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(Fault::new(
                field,
                format!("longer than its contents by {left} bytes"),
                "no further bytes",
            )),
        }
    }

    #[cold]
    fn cut_off(&self, field: &'static str, count: usize) -> Fault {
        let found = format!("cut off with {} bytes left", self.bytes.len());
        Fault::new(field, found, format!("{count} bytes or more"))
    }
}

/// Appends an unsigned LEB128 integer.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a length and the bytes.
pub fn put_byte_string(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_and_are_bounded() {
        for value in [
            0,
            1,
            127,
            128,
            300,
            u64::from(u32::MAX),
            u64::MAX - 1,
            u64::MAX,
        ] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            bytes.push(7);
            let mut cursor = Cursor::new(&bytes);
            assert_eq!(cursor.varint("x").unwrap(), value);
            assert_eq!(cursor.rest(), [7]);
            for length in 0..bytes.len() - 1 {
                assert!(Cursor::new(&bytes[..length]).varint("x").is_err());
            }
        }
        let mut bytes = vec![0xff; 9];
        bytes.push(2);
        assert!(Cursor::new(&bytes).varint("x").is_err());
        assert!(Cursor::new(&[0x80; 11]).varint("x").is_err());
    }

    #[test]
    fn counts_are_bounded_by_the_bytes_left() {
        let mut cursor = Cursor::new(&[3, 0, 0, 0, 0]);
        assert!(cursor.clone().count("n", 2).is_err());
        assert_eq!(cursor.count("n", 1).unwrap(), 3);
        assert!(cursor.finish("n").is_err());
    }
}
