//! Reads the header front to back, and fetches more of the file as needed.

use std::path::Path;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::storage::{Access, Storage};

/// Maximum length of a header in bytes.
pub(super) const MAX_HEADER: u64 = 64 << 20;
/// Number of bytes of the first read. Headers are rarely longer.
const FIRST_READ: u64 = 64 << 10;
/// Maximum length of a name in bytes. The NetCDF library allows 256.
const MAX_NAME: u64 = 1024;

/// Reads the values of a header one after another.
///
/// Each read doubles the bytes read from the file, so that memory grows only as the header does.
pub(super) struct HeaderReader<'a> {
    storage: &'a Storage,
    bytes: Vec<u8>,
    position: usize,
    /// `true` if sizes and counts have 64 bits, as in CDF-5.
    pub has_wide_counts: bool,
    /// The variable and the attribute that are being read, for errors.
    pub location: ErrorLocation,
}

impl<'a> HeaderReader<'a> {
    /// Creates a reader at the start of the file.
    pub fn new(storage: &'a Storage) -> Self {
        Self {
            storage,
            bytes: Vec::new(),
            position: 0,
            has_wide_counts: false,
            location: ErrorLocation::file(storage.path()),
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &'a Path {
        self.storage.path()
    }

    /// Returns the number of bytes read so far.
    pub fn position(&self) -> u64 {
        self.position as u64
    }

    /// Returns the number of bytes of the file that have not been read.
    pub fn remaining(&self) -> u64 {
        self.storage.length() - self.position()
    }

    /// Creates an error about a field.
    pub fn malformed(
        &self,
        field: &'static str,
        found: impl std::fmt::Display,
        expected: impl std::fmt::Display,
    ) -> Error {
        Error::malformed(self.location.clone(), field, found, expected)
    }

    /// Returns the next `length` bytes, which belong to `field`.
    ///
    /// # Errors
    /// Fails if the file ends before, or if the header is longer than [`MAX_HEADER`].
    pub fn take(&mut self, length: u64, field: &'static str) -> Result<&[u8]> {
        let start = self.position;
        if length > self.remaining() {
            let found = format!(
                "cut off, since the file has {} bytes",
                self.storage.length()
            );
            let expected = format!("{length} bytes at offset {start}");
            return Err(self.malformed(field, found, expected));
        }
        let end = start as u64 + length;
        if end > MAX_HEADER {
            let expected = format!("within the first {MAX_HEADER} bytes of the file");
            return Err(self.malformed(field, format!("at offset {start}"), expected));
        }
        if end > self.bytes.len() as u64 {
            let known = self.bytes.len() as u64;
            let target = end.max(known * 2).max(FIRST_READ);
            let target = target.min(MAX_HEADER).min(self.storage.length());
            self.bytes.resize(target as usize, 0);
            self.storage
                .copy_range(Access::Pread, known, &mut self.bytes[known as usize..])?;
        }
        self.position = end as usize;
        Ok(&self.bytes[start..end as usize])
    }

    /// Reads an integer of four bytes.
    pub fn u32(&mut self, field: &'static str) -> Result<u32> {
        let bytes = self.take(4, field)?;
        Ok(bytes
            .iter()
            .fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    /// Reads an integer of eight bytes.
    pub fn u64(&mut self, field: &'static str) -> Result<u64> {
        let bytes = self.take(8, field)?;
        Ok(bytes
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Reads a size or a count: four bytes, or eight in CDF-5.
    pub fn count(&mut self, field: &'static str) -> Result<u64> {
        match self.has_wide_counts {
            true => self.u64(field),
            false => self.u32(field).map(u64::from),
        }
    }

    /// Reads the number of elements of a list whose elements take at least `min` bytes each.
    pub fn elements(&mut self, min: u64) -> Result<u64> {
        let count = self.count("nelems")?;
        if count > self.remaining() / min {
            let found = format!("{count} of at least {min} bytes each");
            let expected = format!("no more than fit in the {} bytes left", self.remaining());
            return Err(self.malformed("nelems", found, expected));
        }
        Ok(count)
    }

    /// Reads the padding after `length` bytes of values, up to a multiple of four.
    pub fn padding(&mut self, length: u64, field: &'static str) -> Result<()> {
        // Some writers leave out the padding at the very end of the file.
        let padding = length.wrapping_neg() % 4;
        self.take(padding.min(self.remaining()), field)?;
        Ok(())
    }

    /// Reads a name.
    pub fn name(&mut self) -> Result<String> {
        let length = self.count("name length")?;
        if !(1..=MAX_NAME).contains(&length) {
            return Err(self.malformed("name length", length, format!("1 to {MAX_NAME}")));
        }
        let name = String::from_utf8_lossy(self.take(length, "name")?).into_owned();
        self.padding(length, "name")?;
        Ok(name)
    }
}
