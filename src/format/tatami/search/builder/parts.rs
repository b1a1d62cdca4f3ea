//! The parts of an inverted index, in temporary files.

use std::fs::File;
use std::io::{BufWriter, Cursor, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::tatami::SearchSegment;
use crate::format::tatami::search::builder::runs::BUFFER_BYTES;

/// A finished inverted index, in temporary files until it is written to a `.tatami` file.
#[derive(Debug)]
pub struct SegmentParts {
    pub(super) terms: u64,
    pub(super) documents: u64,
    pub(super) term_dictionary: Part,
    pub(super) postings: Part,
    pub(super) skips: Part,
    pub(super) live: Option<Part>,
}

impl SegmentParts {
    /// Returns the payloads, for [`TatamiWriter::finish_segment`].
    ///
    /// [`TatamiWriter::finish_segment`]: crate::format::tatami::TatamiWriter::finish_segment
    pub fn segment(&mut self) -> SearchSegment<'_> {
        SearchSegment {
            term_dictionary: &mut self.term_dictionary,
            postings: &mut self.postings,
            skips: &mut self.skips,
            live: self.live.as_mut().map(|live| live as &mut dyn Read),
            terms: self.terms,
            documents: self.documents,
        }
    }
}

impl Read for Part {
    /// Reads the rest of the head, then of the body.
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.head.read(buffer)? {
            0 => self.body.get_mut().read(buffer),
            count => Ok(count),
        }
    }
}

/// The payload of a record: a head, and a temporary file that was written before the head was known.
#[derive(Debug)]
pub(super) struct Part {
    directory: PathBuf,
    head: Cursor<Vec<u8>>,
    body: BufWriter<File>,
    body_length: u64,
}

impl Part {
    /// Creates a temporary file.
    pub fn create(directory: &Path) -> Result<Self> {
        let file = tempfile::tempfile_in(directory);
        let file = file.map_err(Error::io(directory, "create a temporary file in"))?;
        Ok(Self {
            directory: directory.to_path_buf(),
            head: Cursor::default(),
            body: BufWriter::with_capacity(BUFFER_BYTES, file),
            body_length: 0,
        })
    }

    /// Appends to the body.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.body.write_all(bytes);
        written.map_err(Error::io(&self.directory, "write a temporary file in"))?;
        self.body_length += bytes.len() as u64;
        Ok(())
    }

    /// Sets the head. Nothing can be appended afterwards.
    pub fn finish(mut self, head: Vec<u8>) -> Result<Self> {
        let rewound = self
            .body
            .flush()
            .and_then(|()| self.body.get_mut().rewind());
        rewound.map_err(Error::io(&self.directory, "write a temporary file in"))?;
        self.head = Cursor::new(head);
        Ok(self)
    }

    /// The length of the payload written so far.
    pub fn length(&self) -> u64 {
        self.head.get_ref().len() as u64 + self.body_length
    }
}
