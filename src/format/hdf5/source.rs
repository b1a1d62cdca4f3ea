//! The bytes of an HDF5 file, as its metadata addresses them.

use std::sync::Arc;

use hdf5_reader::error::{Error as ReaderError, Result as ReaderResult};
use hdf5_reader::io::Cursor;
use hdf5_reader::superblock::Superblock;
use hdf5_reader::{BlockCacheStorage, Storage as ReaderStorage, StorageBuffer};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::storage::{Access, Storage};

/// Positioned reads of metadata fetch blocks of this size, since most of the structures are small.
const BLOCK_BYTES: usize = 8 << 10;
/// Maximum number of blocks that are kept for further metadata.
const BLOCKS: usize = 32;

/// The result of reading metadata: a value, or a message that says what was found.
pub(super) type Found<T> = std::result::Result<T, String>;

/// An HDF5 file from its superblock on. All addresses in the file are relative to the superblock, which
/// a user block moves away from the start.
#[derive(Clone)]
pub(super) struct Source {
    bytes: Arc<dyn ReaderStorage>,
    uncached: Arc<StorageFrom>,
    /// The position of the superblock in the file.
    pub base: u64,
    /// The size of an address in bytes.
    pub offset_size: u8,
    /// The size of a length in bytes.
    pub length_size: u8,
    /// The address of the object header of the root group.
    pub root: u64,
    /// The length of the file by the superblock. It counts from the start of the file.
    pub stated_length: u64,
    /// The version of the superblock.
    pub version: u8,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("base", &self.base)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl Source {
    /// Reads the superblock of a file. Metadata is read by positioned reads: files are many and headers small,
    /// so that mapping each file would take longer.
    ///
    /// # Errors
    /// Fails if the file cannot be read or has no valid superblock.
    pub fn open(storage: &Arc<Storage>) -> Result<Self> {
        let from = |base| {
            Arc::new(StorageFrom {
                storage: Arc::clone(storage),
                base,
            })
        };
        let parsed = Superblock::parse_from_storage(from(0).as_ref()).and_then(|superblock| {
            let root = superblock.root_object_header_address()?;
            Ok((superblock, root))
        });
        let (superblock, root) = parsed.map_err(|error| {
            Error::malformed(
                ErrorLocation::file(storage.path()),
                "superblock",
                format!("unreadable ({error})"),
                "a superblock of version 0 to 3",
            )
        })?;
        let uncached = from(superblock.base_address);
        let bytes = BlockCacheStorage::new(Arc::clone(&uncached) as Arc<_>, BLOCK_BYTES, BLOCKS);
        Ok(Self {
            bytes: Arc::new(bytes),
            base: superblock.base_address,
            offset_size: superblock.offset_size,
            length_size: superblock.length_size,
            root,
            stated_length: stated_length(&superblock, uncached.as_ref()),
            version: superblock.version,
            uncached,
        })
    }

    /// Releases the blocks that are kept. Later reads are few and large.
    pub fn without_cache(mut self) -> Self {
        self.bytes = Arc::clone(&self.uncached) as Arc<_>;
        self
    }

    /// Returns the storage for the functions that parse metadata.
    pub fn bytes(&self) -> &dyn ReaderStorage {
        self.bytes.as_ref()
    }

    /// Returns the number of bytes from the superblock to the end of the file.
    pub fn length(&self) -> u64 {
        self.bytes.len()
    }

    /// Reads the bytes at an address.
    ///
    /// # Errors
    /// Returns a message if they are not in the file, or cannot be read.
    pub fn read(&self, address: u64, length: usize) -> Found<StorageBuffer> {
        let read = self.bytes.read_range(address, length);
        read.map_err(|error| error.to_string())
    }

    /// Returns `true` if an address stands for "not allocated": all of its bits are set.
    pub fn is_undefined(&self, address: u64) -> bool {
        Cursor::is_undefined_offset(address, self.offset_size)
    }
}

/// Returns the length of a file by its superblock; 0 if unknown. The end of file counts from the start of the
/// file, as it was when the superblock was written: a user block may have been added or removed since.
fn stated_length(superblock: &Superblock, from: &StorageFrom) -> u64 {
    let (end, size) = (superblock.eof_address, superblock.offset_size);
    let position = match superblock.version {
        0 => 24,
        1 => 28,
        _ => 12,
    };
    let stored = from.read_range(position, size.into());
    if let (false, Ok(stored)) = (Cursor::is_undefined_offset(end, size), stored) {
        let mut bytes = [0; 8];
        let count = stored.len().min(8);
        bytes[..count].copy_from_slice(&stored[..count]);
        let recorded = u64::from_le_bytes(bytes);
        return end
            .saturating_sub(recorded)
            .saturating_add(superblock.base_address);
    }
    0
}

/// The bytes of a file from `base` on.
struct StorageFrom {
    storage: Arc<Storage>,
    base: u64,
}

impl ReaderStorage for StorageFrom {
    fn len(&self) -> u64 {
        self.storage.length().saturating_sub(self.base)
    }

    fn read_range(&self, offset: u64, length: usize) -> ReaderResult<StorageBuffer> {
        let needed = length as u64;
        let available = self.len().saturating_sub(offset);
        if needed > available {
            return Err(ReaderError::UnexpectedEof {
                offset,
                needed,
                available,
            });
        }
        // Neither overflows: the range lies within the file.
        let start = offset.min(self.len()) + self.base;
        let bytes = self
            .storage
            .read_range(Access::Pread, start..start + needed);
        let bytes = bytes.map_err(|error| ReaderError::Other(error.to_string()))?;
        Ok(StorageBuffer::from_vec(bytes))
    }
}
