//! [`Terms`]: the terms of a segment, in order.

use std::sync::Arc;

use crate::error::Result;
use crate::format::fault::Fault;
use crate::format::tatami::search::dictionary::TermDictionary;
use crate::format::tatami::search::entries::{Entries, TermEntry};

/// The terms of a segment in bytewise order, one block in memory at a time.
#[derive(Debug)]
pub struct Terms {
    dictionary: Arc<TermDictionary>,
    /// The block that is read next.
    block: usize,
    /// Entries of the current block that are not read yet.
    left: u64,
    bytes: Arc<[u8]>,
    entries: Entries,
    start: Vec<u8>,
    prefix: Vec<u8>,
}

impl Terms {
    /// Returns the terms from `start` on that begin with `prefix`.
    pub(super) fn new(dictionary: &Arc<TermDictionary>, start: &[u8], prefix: &[u8]) -> Self {
        let start = start.max(prefix);
        Self {
            block: dictionary.blocks_up_to(start).saturating_sub(1),
            left: 0,
            bytes: Arc::default(),
            entries: dictionary.entries(),
            start: start.to_vec(),
            prefix: prefix.to_vec(),
            dictionary: Arc::clone(dictionary),
        }
    }

    /// Returns the next term, or `None` after the last one.
    ///
    /// # Errors
    /// Fails if the next block of terms cannot be read or is malformed.
    #[expect(
        clippy::should_implement_trait,
        reason = "reading can fail, and the term is borrowed"
    )]
    pub fn next(&mut self) -> Result<Option<(&[u8], TermEntry)>> {
        let entry = loop {
            if self.left == 0 {
                if self.entries.position != self.bytes.len() {
                    let found = format!("{} bytes", self.bytes.len());
                    let expected = format!("{}, the end of its last term", self.entries.position);
                    let fault = Fault::new("size of a block", found, expected);
                    return Err(self.dictionary.record().error(fault));
                }
                if self.block == self.dictionary.blocks() {
                    return Ok(None);
                }
                self.bytes = self.dictionary.load(self.block)?;
                self.left = self.dictionary.terms_of(self.block);
                self.entries.position = 0;
                self.block += 1;
            }
            let next = self.entries.next(&self.bytes);
            let entry = next.map_err(|fault| self.dictionary.record().error(fault))?;
            self.left -= 1;
            if self.entries.term >= self.start {
                break entry;
            }
        };
        if !self.entries.term.starts_with(&self.prefix) {
            (self.block, self.left) = (self.dictionary.blocks(), 0);
            (self.bytes, self.entries.position) = (Arc::default(), 0);
            return Ok(None);
        }
        Ok(Some((&self.entries.term, entry)))
    }
}
