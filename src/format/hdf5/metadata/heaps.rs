//! Global heaps, which hold the values of variable length.

use std::collections::HashMap;
use std::sync::Arc;

use hdf5_reader::global_heap::GlobalHeapCollection;
use hdf5_reader::io::Cursor;

use crate::format::hdf5::source::{Found, Source};

/// Maximum number of bytes of the collections that are kept.
const MAX_KEPT_BYTES: usize = 8 << 20;

/// Reads values of variable length, and keeps the collections read last.
#[derive(Debug, Default)]
pub(in crate::format::hdf5) struct Heaps {
    collections: HashMap<u64, Arc<GlobalHeapCollection>>,
    bytes: usize,
    /// `true` if reading found damage since the caller last reset the flag: a missing value, a malformed
    /// collection, or an unreadable chunk of strings.
    pub is_damaged: bool,
}

impl Heaps {
    /// Returns the size of a reference to a value.
    pub fn reference_size(source: &Source) -> usize {
        4 + usize::from(source.offset_size) + 4
    }

    /// Returns the value that a reference refers to: a number of items of `item` bytes each, at most
    /// `most` bytes in all.
    ///
    /// # Errors
    /// Returns a message if the value is missing or longer, or its heap is malformed.
    pub fn value(
        &mut self,
        source: &Source,
        reference: &[u8],
        item: usize,
        most: usize,
    ) -> Found<Vec<u8>> {
        let parse = || -> hdf5_reader::error::Result<_> {
            let mut cursor = Cursor::new(reference);
            let count = cursor.read_u32_le()?;
            let address = cursor.read_offset(source.offset_size)?;
            Ok((count, address, cursor.read_u32_le()?))
        };
        let (count, address, index) = parse().map_err(|error| error.to_string())?;
        if count == 0 || index == 0 || address == 0 || source.is_undefined(address) {
            return Ok(Vec::new());
        }
        let length = (count as usize)
            .checked_mul(item)
            .filter(|length| *length <= most);
        let length =
            length.ok_or_else(|| format!("a value of {count} items, more than {most} bytes"))?;
        let value = self.object(source, address, index, length);
        self.is_damaged |= value.is_err();
        value
    }

    /// Returns the first `length` bytes of an object of the collection at `address`.
    fn object(
        &mut self,
        source: &Source,
        address: u64,
        index: u32,
        length: usize,
    ) -> Found<Vec<u8>> {
        let missing = || {
            format!(
                "a reference to object {index} of the global heap at {address:#x}, which has no such object of {length} bytes"
            )
        };
        let index = u16::try_from(index).map_err(|_| missing())?;
        let collection = self.collection(source, address)?;
        let object = collection.get_object(index).ok_or_else(missing)?;
        Ok(object.data.get(..length).ok_or_else(missing)?.to_vec())
    }

    fn collection(&mut self, source: &Source, address: u64) -> Found<Arc<GlobalHeapCollection>> {
        if let Some(known) = self.collections.get(&address) {
            return Ok(Arc::clone(known));
        }
        let parsed = GlobalHeapCollection::parse_at_storage(
            source.bytes(),
            address,
            source.offset_size,
            source.length_size,
        );
        let collection = Arc::new(parsed.map_err(|error| error.to_string())?);
        let objects = collection.objects.iter();
        let bytes: usize = objects.map(|object| object.data.len() + 32).sum();
        if self.bytes + bytes > MAX_KEPT_BYTES {
            self.collections.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.collections.insert(address, Arc::clone(&collection));
        Ok(collection)
    }
}
