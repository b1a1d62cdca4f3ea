//! Checksums and encryption.

use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes256Gcm, Nonce};
use md5::Md5;
use sha2::{Digest, Sha256};

use crate::format::tiledb::codecs::protection::{EncryptionKey, TAG_BYTES, VECTOR_BYTES};
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::schema::Filter;

/// Returns the table of the checksums of all parts, of which the first `metadata_parts` are parts of
/// the metadata.
pub(super) fn checksums<'a>(
    filter: Filter,
    parts: impl Iterator<Item = &'a Vec<u8>>,
    metadata_parts: usize,
) -> Vec<u8> {
    let mut table = (metadata_parts as u32).to_le_bytes().to_vec();
    table.extend(1u32.to_le_bytes());
    for part in parts {
        table.extend((part.len() as u64).to_le_bytes());
        match filter {
            Filter::Md5 => table.extend(Md5::digest(part)),
            _ => table.extend(Sha256::digest(part)),
        }
    }
    table
}

impl EncryptionKey {
    /// Appends an encrypted part. Returns its initialisation vector and its tag.
    pub(super) fn encrypt(
        &self,
        part: &[u8],
        output: &mut Vec<u8>,
    ) -> Decoded<[u8; VECTOR_BYTES + TAG_BYTES]> {
        let failed = |found: String| Fault::new("encrypted part", found, "encrypted");
        let mut protection = [0; VECTOR_BYTES + TAG_BYTES];
        let (vector, tag) = protection.split_at_mut(VECTOR_BYTES);
        getrandom::getrandom(vector).map_err(|error| failed(error.to_string()))?;
        let nonce = Nonce::try_from(&*vector).map_err(|error| failed(error.to_string()))?;
        let start = output.len();
        output.extend(part);
        let encrypted = Aes256Gcm::new(self.bytes().into()).encrypt_inout_detached(
            &nonce,
            &[],
            (&mut output[start..]).into(),
        );
        tag.copy_from_slice(&encrypted.map_err(|error| failed(error.to_string()))?);
        Ok(protection)
    }
}
