//! The terms of recent documents with their postings, in memory.

use std::hash::{BuildHasher, RandomState};

use crate::format::tatami::bytes::put_varint;

/// Terms up to this length are stored beside their postings, so that one cache line holds both.
const SHORT_TERM: usize = 16;
/// The memory of a term in bytes, without postings and letters, as counted for the budget: its entry and
/// two slots, doubled because both tables may be half empty.
const TERM_BYTES: usize = 192;

/// The postings of terms in the documents since the last run.
#[derive(Debug)]
pub(super) struct RecentTerms {
    /// A hash table. A slot holds the upper half of a hash and the index of the term plus 1, or 0 if empty.
    slots: Vec<(u32, u32)>,
    terms: Vec<RecentTerm>,
    /// The letters of terms that are not short.
    letters: Vec<u8>,
    seed: u64,
    memory: usize,
}

/// A term with its postings.
#[derive(Debug)]
#[repr(align(64))]
struct RecentTerm {
    /// For each document but the last one: the difference from the document before, and the frequency.
    postings: Vec<u8>,
    /// The document before the last one.
    previous: u32,
    document: u32,
    /// The frequency in the last document.
    frequency: u32,
    length: usize,
    /// The letters, or their offset in [`RecentTerms::letters`].
    short: [u8; SHORT_TERM],
}

impl RecentTerm {
    fn term<'a>(&'a self, letters: &'a [u8]) -> &'a [u8] {
        let length = self.length;
        match self.short.get(..length) {
            Some(term) => term,
            None => {
                let start = self.short.first_chunk().copied().unwrap_or_default();
                let start = usize::from_le_bytes(start);
                letters.get(start..start + length).unwrap_or_default()
            }
        }
    }

    /// Encodes the last document.
    fn flush(&mut self) {
        put_varint(&mut self.postings, u64::from(self.document - self.previous));
        put_varint(&mut self.postings, u64::from(self.frequency));
        self.previous = self.document;
    }
}

impl RecentTerms {
    /// Creates an empty table.
    pub fn new() -> Self {
        Self {
            slots: vec![(0, 0); 1 << 10],
            terms: Vec::new(),
            letters: Vec::new(),
            // A random seed, so that no document can be made of words that collide.
            seed: RandomState::new().hash_one(0),
            memory: 0,
        }
    }

    /// Returns `true` if there are no terms.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The approximate memory in use, in bytes.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Counts a word of a document. Documents must come in ascending order.
    pub fn add(&mut self, document: u32, word: &[u8]) {
        let hash = hash(self.seed, word);
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        let upper = (hash >> 32) as u32;
        // At least a quarter of the slots are empty.
        while let (found, number @ 1..) = self.slots[slot] {
            let term = &mut self.terms[number as usize - 1];
            if found == upper && term.term(&self.letters) == word {
                if term.document == document {
                    term.frequency = term.frequency.saturating_add(1);
                } else {
                    let before = term.postings.capacity();
                    term.flush();
                    (term.document, term.frequency) = (document, 1);
                    self.memory += term.postings.capacity() - before;
                }
                return;
            }
            slot = (slot + 1) & mask;
        }
        self.insert(document, word);
        self.slots[slot] = (upper, self.terms.len() as u32);
        if self.terms.len() * 4 > self.slots.len() * 3 {
            self.grow();
        }
    }

    fn insert(&mut self, document: u32, word: &[u8]) {
        let mut short = [0; SHORT_TERM];
        match short.get_mut(..word.len()) {
            Some(short) => short.copy_from_slice(word),
            None => {
                let start = self.letters.len().to_le_bytes();
                short[..start.len()].copy_from_slice(&start);
                self.letters.extend_from_slice(word);
            }
        }
        self.memory += TERM_BYTES + 2 * word.len().saturating_sub(SHORT_TERM);
        self.terms.push(RecentTerm {
            postings: Vec::new(),
            previous: 0,
            document,
            frequency: 1,
            length: word.len(),
            short,
        });
    }

    /// Doubles the slots.
    fn grow(&mut self) {
        let mask = self.slots.len() * 2 - 1;
        self.slots = vec![(0, 0); mask + 1];
        for (index, term) in self.terms.iter().enumerate() {
            let hash = hash(self.seed, term.term(&self.letters));
            let mut slot = hash as usize & mask;
            while self.slots[slot].1 != 0 {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = ((hash >> 32) as u32, index as u32 + 1);
        }
    }

    /// Calls `use_term` with each term in order and its postings: differences of documents, and
    /// frequencies.
    pub fn drain<E>(
        mut self,
        mut use_term: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.slots = Vec::new();
        let letters = &self.letters;
        self.terms
            .sort_unstable_by(|a, b| a.term(letters).cmp(b.term(letters)));
        for mut term in self.terms {
            term.flush();
            use_term(term.term(letters), &term.postings)?;
        }
        Ok(())
    }
}

/// Hashes eight bytes at a time, by multiplication to 128 bits.
fn hash(seed: u64, word: &[u8]) -> u64 {
    let mix = |hash: u64, bits: u64| {
        let product = u128::from(hash ^ bits) * 0x9e37_79b9_7f4a_7c15;
        (product >> 64) as u64 ^ product as u64
    };
    let (chunks, rest) = word.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let hash = chunks.iter().fold(seed ^ word.len() as u64, |hash, chunk| {
        mix(hash, u64::from_le_bytes(*chunk))
    });
    mix(hash, u64::from_le_bytes(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_come_in_order_with_their_postings() {
        let mut terms = RecentTerms::new();
        let word = |n: u32| format!("{}{n}", "x".repeat(n as usize % 40)).into_bytes();
        for document in 0..3 {
            for n in 0..5000 {
                for _ in 0..=n % 2 {
                    terms.add(document * 2, &word(n));
                }
            }
        }
        let mut expected: Vec<_> = (0..5000).map(|n| (word(n), n as u8 % 2 + 1)).collect();
        expected.sort();
        let mut expected = expected.into_iter();
        let drained = terms.drain(|term, postings| {
            let (word, count) = expected.next().unwrap();
            assert_eq!(
                (term, postings),
                (&*word, &[0, count, 2, count, 2, count][..])
            );
            Ok::<_, ()>(())
        });
        assert!(drained.is_ok() && expected.next().is_none());
    }
}
