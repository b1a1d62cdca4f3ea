//! Reading little-endian fields out of a region, without ever reading past its end.

use std::path::Path;

use crate::error::{Error, Place, Result};

/// A cursor over the bytes of one named region.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    path: &'a Path,
    region: &'static str,
    bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    /// A cursor at the start of `bytes`.
    pub fn new(path: &'a Path, region: &'static str, bytes: &'a [u8]) -> Self {
        Self {
            path,
            region,
            bytes,
        }
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        match self.bytes.split_at_checked(count) {
            Some((taken, rest)) => {
                self.bytes = rest;
                Ok(taken)
            }
            None => Err(Error::malformed(
                Place::file(self.path),
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

    /// The next two bytes as a number.
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next four bytes as a number.
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next eight bytes as a number.
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }
}
