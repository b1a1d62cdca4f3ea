//! Blocks of metadata that end with a checksum.

use hdf5_reader::StorageBuffer;
use hdf5_reader::checksum::jenkins_lookup3;

use crate::format::hdf5::source::{Found, Source};

/// Reads the blocks of one structure, each of which ends with a checksum.
pub(super) struct CheckedBlocks<'a> {
    source: &'a Source,
    /// The size of an address.
    pub address_bytes: u64,
    /// The size of a length.
    pub length_bytes: u64,
    /// The number of bytes that further blocks may have: blocks do not overlap.
    left: u64,
}

impl<'a> CheckedBlocks<'a> {
    pub fn new(source: &'a Source) -> Self {
        Self {
            source,
            address_bytes: source.offset_size.into(),
            length_bytes: source.length_size.into(),
            left: source.length(),
        }
    }

    /// Reads `length` bytes at `address`, and compares the checksum stored after them.
    pub fn read(&mut self, address: u64, length: u64) -> Found<Vec<u8>> {
        let stored = self.check(address, length)?;
        Ok(stored[..length as usize].to_vec())
    }

    /// Compares the checksum after the `length` bytes at `address`. Returns the bytes with their checksum.
    pub fn check(&mut self, address: u64, length: u64) -> Found<StorageBuffer> {
        let left = self.left.checked_sub(length.saturating_add(4));
        self.left = left.ok_or("blocks that together are longer than the file")?;
        read_checked(self.source, address, length)
    }

    /// Returns the addresses in these bytes, without those that are undefined.
    pub fn addresses<'b>(&self, bytes: &'b [u8]) -> impl Iterator<Item = u64> + use<'a, 'b> {
        let source = self.source;
        bytes
            .chunks_exact(source.offset_size.into())
            .map(integer)
            .filter(|address| !source.is_undefined(*address))
    }
}

/// Returns the little-endian integer of up to 8 bytes.
pub(super) fn integer(bytes: &[u8]) -> u64 {
    let bytes = bytes.iter().rev();
    bytes.fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Reads `length` bytes and the checksum that follows them, and compares it.
///
/// # Errors
/// Returns a message if the checksum differs, or the bytes cannot be read.
pub(super) fn read_checked(source: &Source, address: u64, length: u64) -> Found<StorageBuffer> {
    let stored_bytes = usize::try_from(length.saturating_add(4)).unwrap_or(usize::MAX);
    let bytes = source.read(address, stored_bytes)?;
    let (content, sum) = bytes.split_at(length as usize);
    let stored = u32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]]);
    let computed = jenkins_lookup3(content);
    match stored == computed {
        true => Ok(bytes),
        false => Err(format!(
            "a block at {address:#x} with the checksum {stored:#010x}, expected {computed:#010x}"
        )),
    }
}
