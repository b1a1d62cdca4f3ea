//! The bytes of an HDF5 file, as its metadata addresses them.

use std::sync::Arc;

use hdf5_reader::error::{Error as ReaderError, Result as ReaderResult};
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
    /// The position of the superblock in the file.
    pub base: u64,
    /// The size of an address in bytes.
    pub offset_size: u8,
    /// The size of a length in bytes.
    pub length_size: u8,
    /// The address of the object header of the root group.
    pub root: u64,
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
    /// Reads the superblock of a file.
    ///
    /// # Errors
    /// Fails if the file cannot be read or has no valid superblock.
    pub fn open(storage: &Arc<Storage>, access: Access) -> Result<Self> {
        let from = |base| {
            let bytes = Arc::new(StorageFrom {
                storage: Arc::clone(storage),
                access,
                base,
            });
            match access {
                Access::Mmap => bytes as Arc<dyn ReaderStorage>,
                Access::Pread => Arc::new(BlockCacheStorage::new(bytes, BLOCK_BYTES, BLOCKS)),
            }
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
        Ok(Self {
            bytes: from(superblock.base_address),
            base: superblock.base_address,
            offset_size: superblock.offset_size,
            length_size: superblock.length_size,
            root,
            version: superblock.version,
        })
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
        hdf5_reader::io::Cursor::is_undefined_offset(address, self.offset_size)
    }
}

/// The bytes of a file from `base` on.
struct StorageFrom {
    storage: Arc<Storage>,
    access: Access,
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
        let failed = |error: Error| ReaderError::Other(error.to_string());
        match self.access {
            Access::Mmap => {
                let map = self.storage.map().map_err(failed)?;
                StorageBuffer::from_shared_owner(map, start as usize, length)
            }
            Access::Pread => {
                let bytes = self.storage.read_range(self.access, start..start + needed);
                Ok(StorageBuffer::from_vec(bytes.map_err(failed)?))
            }
        }
    }
}
