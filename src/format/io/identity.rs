//! [`FileIdentity`]: detects that a file was replaced or changed.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The length of a file, the time of its last change, and a checksum of its first and last bytes.
///
/// Unlike an inode number, they are the same on every host that shares the file. A change that keeps all
/// three is not detected. The identity of a Zarr hierarchy has the total length and the checksum of its
/// metadata documents, and no time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The length in bytes.
    pub length: u64,
    /// The time of the last change in nanoseconds since 1970, if the file system records it.
    pub modified: Option<u64>,
    /// The SHA-256 checksum of the first and last bytes, in hexadecimal digits.
    pub sha256: String,
}

impl FileIdentity {
    /// Creates an identity. `content` are the bytes to checksum.
    pub(crate) fn new<'a>(
        length: u64,
        modified: Option<SystemTime>,
        content: impl IntoIterator<Item = &'a [u8]>,
    ) -> Self {
        let mut hash = Sha256::new();
        content.into_iter().for_each(|bytes| hash.update(bytes));
        let digits = hash.finalize().into_iter();
        let since = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Self {
            length,
            modified: since.and_then(|since| u64::try_from(since.as_nanos()).ok()),
            sha256: digits.map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}
