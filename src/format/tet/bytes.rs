//! Bounds-checked reading of little-endian fields.

use std::path::Path;

use crate::error::{Error, ErrorLocation, Result};

/// A cursor over the bytes of one region of a file. Errors name the region.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    path: &'a Path,
    region: &'static str,
    bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Returns a cursor at the start of `bytes`.
    pub fn new(path: &'a Path, region: &'static str, bytes: &'a [u8]) -> Self {
        Self {
            path,
            region,
            bytes,
        }
    }

    /// The number of bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Reads the next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        match self.bytes.split_at_checked(count) {
            Some((taken, rest)) => {
                self.bytes = rest;
                Ok(taken)
            }
            None => Err(Error::malformed(
                ErrorLocation::file(self.path),
                self.region,
                format!("cut off with {} bytes left", self.bytes.len()),
                format!("{count} more bytes"),
            )),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// Reads the next two bytes as an unsigned integer.
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Reads the next four bytes as an unsigned integer.
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads the next eight bytes as an unsigned integer.
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }
}
