//! The bitset of documents that are not deleted.

use crate::error::Result;
use crate::format::fault::Fault;
use crate::format::tatami::bytes::{Cursor, put_varint};
use crate::format::tatami::ranges::{IndexRecord, RangeBuffer};

/// The documents of a segment that are not deleted.
#[derive(Debug)]
pub struct LiveDocuments {
    words: Vec<u64>,
    count: u64,
}

impl LiveDocuments {
    /// Reads the bitset of a segment of `documents` documents, and verifies its checksum.
    pub(super) fn read(record: &IndexRecord, documents: u64) -> Result<Self> {
        let mut buffer = RangeBuffer::default();
        let bytes = record.read_checked(&mut buffer)?;
        Self::parse(bytes, documents).map_err(|fault| record.error(fault))
    }

    fn parse(bytes: &[u8], documents: u64) -> Result<Self, Fault> {
        let mut cursor = Cursor::new(bytes);
        let found = cursor.varint("number of documents")?;
        if found != documents {
            let expected = format!("{documents}, as in the footer");
            return Err(Fault::new("number of documents", found, expected));
        }
        let (words, rest) = cursor.rest().as_chunks::<8>();
        if words.len() as u64 != documents.div_ceil(64) || !rest.is_empty() {
            let expected = format!("{} bytes", documents.div_ceil(64).saturating_mul(8));
            let found = format!("{} bytes", cursor.remaining());
            return Err(Fault::new("length of the bitset", found, expected));
        }
        let mut words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        if let Some(last) = words.last_mut().filter(|_| !documents.is_multiple_of(64)) {
            *last &= (1 << (documents % 64)) - 1;
        }
        let count = words.iter().map(|word| u64::from(word.count_ones())).sum();
        Ok(Self { words, count })
    }

    /// The number of live documents.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns `true` if the document is live.
    pub fn contains(&self, document: u32) -> bool {
        let word = self.words.get(document as usize / 64).copied();
        word.unwrap_or_default() >> (document % 64) & 1 == 1
    }

    /// The bitset: document `i` is bit `i % 64` of word `i / 64`.
    pub fn words(&self) -> &[u64] {
        &self.words
    }
}

/// Appends the payload of a bitset.
pub(super) fn put_live(out: &mut Vec<u8>, documents: u64, is_live: impl Fn(u64) -> bool) {
    put_varint(out, documents);
    for first in (0..documents).step_by(64) {
        let bits = (first..documents.min(first + 64)).filter(|&document| is_live(document));
        let word = bits.fold(0u64, |word, document| word | 1 << (document - first));
        out.extend_from_slice(&word.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitsets_round_trip() {
        for documents in [0, 1, 63, 64, 65, 320] {
            let mut bytes = Vec::new();
            put_live(&mut bytes, documents, |document| document % 3 == 0);
            let live = LiveDocuments::parse(&bytes, documents).unwrap();
            assert_eq!(live.count(), documents.div_ceil(3));
            for document in 0..documents as u32 + 70 {
                let is_live = document % 3 == 0 && u64::from(document) < documents;
                assert_eq!(live.contains(document), is_live);
            }
            assert!(LiveDocuments::parse(&bytes, documents + 1).is_err());
            bytes.push(0);
            assert!(LiveDocuments::parse(&bytes, documents).is_err());
        }
    }
}
