//! Checksums and encryption.

use std::fmt;
use std::path::Path;

use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes256Gcm, Nonce, Tag};
use md5::Md5;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::format::tiledb::bytes::Fields;
use crate::format::tiledb::fault::{Decoded, Fault};

/// Length of an initialisation vector in bytes.
pub(super) const VECTOR_BYTES: usize = 12;
/// Length of an authentication tag in bytes.
pub(super) const TAG_BYTES: usize = 16;

/// A key of AES-256-GCM. Its `Debug` output hides the bytes.
#[derive(Clone)]
pub struct EncryptionKey(Box<[u8; 32]>);

impl EncryptionKey {
    /// Returns a key of exactly 32 bytes, or `None` for another length.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        Some(Self(Box::new(bytes.try_into().ok()?)))
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads the key in a file of 32 bytes. A line break may follow.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or if it has another length.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(Error::io(path, "read the key in"))?;
        let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let key = Self::new(&bytes).or_else(|| Self::new(line));
        key.ok_or_else(|| {
            let message = format!("has {} bytes, expected a key of 32 bytes", bytes.len());
            Error::invalid(path, message)
        })
    }

    /// Decrypts one part. `protection` is the initialisation vector and the tag.
    pub(super) fn decrypt(
        &self,
        protection: &[u8; VECTOR_BYTES + TAG_BYTES],
        input: &[u8],
        output: &mut [u8],
    ) -> Decoded<()> {
        let (vector, tag) = protection.split_at(VECTOR_BYTES);
        let failed = || {
            let expected = "encrypted with this key, and unchanged since";
            Fault::new("encrypted part", "not authentic", expected)
        };
        let nonce = Nonce::try_from(vector).map_err(|_| failed())?;
        let tag = Tag::try_from(tag).map_err(|_| failed())?;
        let cipher = Aes256Gcm::new(self.bytes().into());
        output.copy_from_slice(input);
        let result = cipher.decrypt_inout_detached(&nonce, &[], output.into(), &tag);
        result.map_err(|_| failed())
    }
}

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EncryptionKey(hidden)")
    }
}

/// A checksum.
#[derive(Debug, Clone, Copy)]
pub(super) enum Checksum {
    Md5,
    Sha256,
}

impl Checksum {
    /// Consumes the checksums at the front of the metadata, and compares them with those of the
    /// rest of the metadata and of the data.
    pub fn check(self, metadata: &mut Fields<'_>, data: &[u8]) -> Decoded<()> {
        let digest_bytes = match self {
            Self::Md5 => 16,
            Self::Sha256 => 32,
        };
        let metadata_parts = metadata.u32("number of metadata checksums")?;
        let data_parts = metadata.u32("number of data checksums")?;
        let table_bytes = (u64::from(metadata_parts) + u64::from(data_parts)) * (8 + digest_bytes);
        let mut table = Fields::new(metadata.take_u64("checksums", table_bytes)?);
        for (parts, bytes) in [(metadata_parts, metadata.rest()), (data_parts, data)] {
            let mut bytes = Fields::new(bytes);
            for _ in 0..parts {
                let length = table.u64("length of a checksummed part")?;
                let stored = table.take_u64("checksum", digest_bytes)?;
                let part = bytes.take_u64("checksummed part", length)?;
                let is_same = match self {
                    Self::Md5 => Md5::digest(part)[..] == *stored,
                    Self::Sha256 => Sha256::digest(part)[..] == *stored,
                };
                if !is_same {
                    let (field, found) = match self {
                        Self::Md5 => ("MD5 checksum", "different"),
                        Self::Sha256 => ("SHA-256 checksum", "different"),
                    };
                    return Err(Fault::new(field, found, "the checksum of the bytes"));
                }
            }
        }
        Ok(())
    }
}
