//! The entries of a block of terms.

use crate::format::fault::Fault;
use crate::format::tatami::bytes::Cursor;
use crate::format::tatami::search::postings::Posting;

/// A term of the dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermEntry {
    /// The number of documents that contain the term, deleted ones included.
    pub document_frequency: u64,
    pub(super) postings: PostingsLocation,
}

/// The location of the postings of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PostingsLocation {
    /// The only posting, which is stored in the dictionary.
    Single(Posting),
    /// The ordinal of the posting list.
    List(u64),
}

/// The layout of the dictionary, according to bit 5 of the header flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Terms one after the other.
    Flat,
    /// Compressed blocks of terms that share prefixes, and an index of the blocks' first terms.
    BlockTree,
}

/// Returns the fault for terms that are not in bytewise order.
pub(super) fn out_of_order(term: &[u8]) -> Fault {
    let found = format!("{:?}", String::from_utf8_lossy(&term[..term.len().min(40)]));
    Fault::new(
        "term",
        found,
        "a term after the one before it, in bytewise order",
    )
}

/// Reads the entries of one block after the other.
#[derive(Debug)]
pub(super) struct Entries {
    layout: Layout,
    documents: u64,
    /// The term of the last entry read.
    pub term: Vec<u8>,
    is_first: bool,
    /// The offset of the next entry. Set to 0 at the start of a block.
    pub position: usize,
}

impl Entries {
    pub fn new(layout: Layout, documents: u64) -> Self {
        Self {
            layout,
            documents,
            term: Vec::new(),
            is_first: true,
            position: 0,
        }
    }

    /// Reads the next entry of a block, and its term into `self.term`.
    pub fn next(&mut self, block: &[u8]) -> Result<TermEntry, Fault> {
        let mut cursor = Cursor::new(block.get(self.position..).unwrap_or_default());
        let (shared, suffix) = match self.layout {
            Layout::Flat => {
                let term = cursor.byte_string("term")?;
                let shared = term
                    .iter()
                    .zip(&self.term)
                    .take_while(|(a, b)| a == b)
                    .count();
                (shared, &term[shared..])
            }
            Layout::BlockTree => {
                let shared = cursor.size("shared prefix")?;
                if self.position == 0 && shared != 0 {
                    return Err(Fault::new("shared prefix", shared, "0 for the first term"));
                }
                (shared, cursor.byte_string("term")?)
            }
        };
        let Some(replaced) = self.term.get(shared..) else {
            let expected = format!("at most {}, the length of the term before", self.term.len());
            return Err(Fault::new("shared prefix", shared, expected));
        };
        if replaced >= suffix && !self.is_first {
            return Err(out_of_order(suffix));
        }
        let entry = self.entry(&mut cursor)?;
        self.term.truncate(shared);
        self.term.extend_from_slice(suffix);
        self.is_first = false;
        self.position = block.len() - cursor.remaining();
        Ok(entry)
    }

    fn entry(&self, cursor: &mut Cursor<'_>) -> Result<TermEntry, Fault> {
        let document_frequency = cursor.varint("document frequency")?;
        if !(1..=self.documents).contains(&document_frequency) {
            let expected = format!("1 to {}", self.documents);
            return Err(Fault::new(
                "document frequency",
                document_frequency,
                expected,
            ));
        }
        let postings = match cursor.byte("kind of a term")? {
            0 => PostingsLocation::List(cursor.varint("ordinal of a list")?),
            1 if document_frequency != 1 => {
                let fault = Fault::new("document frequency", document_frequency, "1");
                return Err(fault);
            }
            1 => {
                let document = cursor.varint("document")?;
                let frequency = cursor.varint("frequency")?;
                match (u32::try_from(document), u32::try_from(frequency)) {
                    (Ok(document), Ok(frequency)) if u64::from(document) < self.documents => {
                        PostingsLocation::Single(Posting {
                            document,
                            frequency,
                        })
                    }
                    _ => {
                        let found = format!("{document}, {frequency} times");
                        let expected = format!("less than {}, in 32 bits", self.documents);
                        return Err(Fault::new("document", found, expected));
                    }
                }
            }
            kind => return Err(Fault::new("kind of a term", kind, "0 or 1")),
        };
        Ok(TermEntry {
            document_frequency,
            postings,
        })
    }
}
