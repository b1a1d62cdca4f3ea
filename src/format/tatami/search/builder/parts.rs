//! The parts of an inverted index in temporary files, and their records in the file.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::tatami::SearchSegment;
use crate::format::tatami::footer::{Extent, Inverted};
use crate::format::tatami::record::{KIND_INDEX, RECORD_HEADER_BYTES, RecordHeader};
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

    /// The number of bytes that [`Self::write`] writes.
    pub fn length(&self) -> u64 {
        let parts = [&self.term_dictionary, &self.postings, &self.skips];
        let parts = parts.into_iter().chain(&self.live);
        parts.map(|part| part.length() + RECORD_HEADER_BYTES).sum()
    }

    /// Writes the records of the index to `out`, which is at `offset` of the file `path`. Returns the section
    /// for the footer. The caller must set the header flags
    /// [`FLAG_INDEXES`](crate::format::tatami::FLAG_INDEXES),
    /// [`FLAG_SEARCH_SEGMENT`](crate::format::tatami::FLAG_SEARCH_SEGMENT) and
    /// [`FLAG_BLOCK_TREE`](crate::format::tatami::FLAG_BLOCK_TREE).
    ///
    /// # Errors
    /// Fails if a temporary file cannot be read, if `out` cannot be written, or if a part exceeds 4 GiB.
    pub fn write(self, out: &mut impl Write, path: &Path, offset: u64) -> Result<Inverted> {
        let mut offset = offset;
        let mut write = |part: Part| {
            let extent = Extent {
                offset,
                length: part.length(),
            };
            offset += RECORD_HEADER_BYTES + extent.length;
            part.write_record(out, path)?;
            Ok::<_, Error>(extent)
        };
        Ok(Inverted {
            term_dictionary: write(self.term_dictionary)?,
            postings: write(self.postings)?,
            skips: write(self.skips)?,
            terms: self.terms,
            documents: self.documents,
            live: self.live.map(write).transpose()?,
        })
    }
}

impl Read for Part {
    /// Reads the rest of the head, then of the body.
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.head.is_empty() {
            return self.body.get_mut().read(buffer);
        }
        let count = buffer.len().min(self.head.len());
        buffer[..count].copy_from_slice(&self.head[..count]);
        self.head.drain(..count);
        Ok(count)
    }
}

/// The payload of a record: a head, and a temporary file that was written before the head was known.
#[derive(Debug)]
pub(super) struct Part {
    directory: PathBuf,
    head: Vec<u8>,
    body: BufWriter<File>,
    body_length: u64,
    /// The CRC32C of the head and the body written so far.
    crc: u32,
}

impl Part {
    /// Creates a temporary file.
    pub fn create(directory: &Path) -> Result<Self> {
        let file = tempfile::tempfile_in(directory);
        let file = file.map_err(Error::io(directory, "create a temporary file in"))?;
        Ok(Self {
            directory: directory.to_path_buf(),
            head: Vec::new(),
            body: BufWriter::with_capacity(BUFFER_BYTES, file),
            body_length: 0,
            crc: 0,
        })
    }

    /// Appends to the body.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.body.write_all(bytes);
        written.map_err(Error::io(&self.directory, "write a temporary file in"))?;
        self.body_length += bytes.len() as u64;
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        Ok(())
    }

    /// Sets the head. Nothing can be appended afterwards.
    pub fn finish(mut self, head: Vec<u8>) -> Result<Self> {
        let rewound = self
            .body
            .flush()
            .and_then(|()| self.body.get_mut().rewind());
        rewound.map_err(Error::io(&self.directory, "write a temporary file in"))?;
        let length = self.body_length as usize;
        self.crc = crc32c::crc32c_combine(crc32c::crc32c(&head), self.crc, length);
        self.head = head;
        Ok(self)
    }

    /// The length of the payload written so far.
    pub fn length(&self) -> u64 {
        self.head.len() as u64 + self.body_length
    }

    /// Writes the record.
    fn write_record(self, out: &mut impl Write, path: &Path) -> Result<()> {
        let Ok(size) = u32::try_from(self.length()) else {
            let message = format!(
                "a part of the search index takes {} bytes, but the format allows 4 GiB at most; \
                 write fewer documents per file",
                self.length()
            );
            return Err(Error::invalid(path, message));
        };
        let header = RecordHeader {
            kind: KIND_INDEX,
            raw_size: size,
            stored_size: size,
            crc: self.crc,
            ..RecordHeader::default()
        };
        let written = out
            .write_all(&header.encode())
            .and_then(|()| out.write_all(&self.head));
        written.map_err(Error::io(path, "write"))?;
        let mut body = self.body.into_parts().0;
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut left = self.body_length;
        while left > 0 {
            let part = &mut buffer[..(BUFFER_BYTES as u64).min(left) as usize];
            let read = body.read_exact(part);
            read.map_err(Error::io(&self.directory, "read a temporary file in"))?;
            out.write_all(part).map_err(Error::io(path, "write"))?;
            left -= part.len() as u64;
        }
        Ok(())
    }
}
