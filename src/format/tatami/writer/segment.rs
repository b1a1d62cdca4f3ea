//! Writes the records of a search segment.

use std::io::Read;

use crate::error::{Error, Result};
use crate::format::tatami::layout::footer::{Extent, Inverted};
use crate::format::tatami::layout::record::{KIND_INDEX, RecordHeader};
use crate::format::tatami::writer::output::Output;

/// The inverted index of a search segment, whose documents are the rows of the file.
pub struct SearchSegment<'a> {
    /// The payload of the term dictionary, a block tree.
    pub term_dictionary: &'a mut dyn Read,
    /// The payload of the posting lists.
    pub postings: &'a mut dyn Read,
    /// The payload of the skip entries.
    pub skips: &'a mut dyn Read,
    /// The payload of the bitset of live documents. `None` if all are live.
    pub live: Option<&'a mut dyn Read>,
    /// The number of terms.
    pub terms: u64,
    /// The number of documents, deleted ones included.
    pub documents: u64,
}

impl SearchSegment<'_> {
    /// Writes the records.
    pub(super) fn write(self, output: &mut Output) -> Result<Inverted> {
        Ok(Inverted {
            term_dictionary: write_index(self.term_dictionary, "term dictionary", output)?,
            postings: write_index(self.postings, "posting lists", output)?,
            skips: write_index(self.skips, "skip entries", output)?,
            terms: self.terms,
            documents: self.documents,
            live: match self.live {
                Some(live) => Some(write_index(live, "live documents", output)?),
                None => None,
            },
        })
    }
}

fn write_index(payload: &mut dyn Read, name: &str, output: &mut Output) -> Result<Extent> {
    let offset = output.position();
    output.write(&index_header(0, 0).encode())?;
    let (length, crc) = output.write_from(payload)?;
    let Ok(size) = u32::try_from(length) else {
        let message = format!(
            "the {name} take {length} bytes, expected at most {}",
            u32::MAX
        );
        return Err(Error::invalid(output.target(), message));
    };
    output.overwrite(offset, &index_header(size, crc).encode())?;
    Ok(Extent { offset, length })
}

/// Returns the header of a record of kind [`KIND_INDEX`], whose payload is not compressed.
pub(super) fn index_header(size: u32, crc: u32) -> RecordHeader {
    RecordHeader {
        kind: KIND_INDEX,
        raw_size: size,
        stored_size: size,
        crc,
        ..RecordHeader::default()
    }
}
