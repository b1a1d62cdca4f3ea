//! Postings in temporary files, in the order of terms, and their merge.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::tatami::bytes::{Cursor, put_byte_string, put_varint};

/// The size of buffers for temporary files.
pub(super) const BUFFER_BYTES: usize = 64 << 10;

/// A temporary file of terms in order, each followed by its postings. Both are byte strings with lengths.
/// The postings are pairs of a document, as the difference from the one before, and a frequency.
#[derive(Debug)]
pub(super) struct Run {
    directory: PathBuf,
    reader: BufReader<File>,
}

/// Writes a run.
#[derive(Debug)]
pub(super) struct RunWriter {
    directory: PathBuf,
    writer: BufWriter<File>,
    head: Vec<u8>,
}

impl RunWriter {
    /// Creates a temporary file.
    pub fn create(directory: &Path) -> Result<Self> {
        let file = tempfile::tempfile_in(directory);
        let file = file.map_err(Error::io(directory, "create a temporary file in"))?;
        Ok(Self {
            directory: directory.to_path_buf(),
            writer: BufWriter::with_capacity(BUFFER_BYTES, file),
            head: Vec::new(),
        })
    }

    /// Appends a term. Terms must come in bytewise order.
    pub fn write(&mut self, term: &[u8], list: &[u8]) -> Result<()> {
        self.head.clear();
        put_byte_string(&mut self.head, term);
        put_varint(&mut self.head, list.len() as u64);
        let written = self
            .writer
            .write_all(&self.head)
            .and_then(|()| self.writer.write_all(list));
        written.map_err(Error::io(&self.directory, "write a temporary file in"))
    }

    /// Ends the run, and returns to its start.
    pub fn finish(self) -> Result<Run> {
        let Self {
            directory, writer, ..
        } = self;
        let action = "write a temporary file in";
        let file = writer.into_inner().map_err(|error| error.into_error());
        let mut file = file.map_err(Error::io(&directory, action))?;
        file.rewind().map_err(Error::io(&directory, action))?;
        Ok(Run {
            directory,
            reader: BufReader::with_capacity(BUFFER_BYTES, file),
        })
    }
}

impl Run {
    /// Reads a length and as many bytes. Returns `false` at the end of the run.
    fn read(&mut self, bytes: &mut Vec<u8>) -> Result<bool> {
        read_byte_string(&mut self.reader, bytes)
            .map_err(Error::io(&self.directory, "read a temporary file in"))
    }
}

fn read_byte_string(reader: &mut impl BufRead, bytes: &mut Vec<u8>) -> std::io::Result<bool> {
    bytes.clear();
    if reader.fill_buf()?.is_empty() {
        return Ok(false);
    }
    let (mut length, mut shift, mut byte) = (0u64, 0, [0x80]);
    while byte[0] >= 0x80 {
        reader.read_exact(&mut byte)?;
        length |= u64::from(byte[0] & 0x7f) << shift;
        shift += 7;
    }
    match reader.take(length).read_to_end(bytes)? as u64 == length {
        true => Ok(true),
        false => Err(std::io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Calls `use_term` with each term of the runs in order, and with its lists in the order of the runs.
pub(super) fn merge(
    mut runs: Vec<Run>,
    mut use_term: impl FnMut(&[u8], &[Vec<u8>]) -> Result<()>,
) -> Result<()> {
    // The next term of each run.
    let mut next = BinaryHeap::new();
    for (index, run) in runs.iter_mut().enumerate() {
        let mut term = Vec::new();
        if run.read(&mut term)? {
            next.push(Reverse((term, index)));
        }
    }
    let mut lists: Vec<Vec<u8>> = Vec::new();
    let mut current = Vec::new();
    while let Some(Reverse((term, _))) = next.peek() {
        current.clone_from(term);
        let mut count = 0;
        while let Some(mut least) = next.peek_mut().filter(|least| least.0.0 == current) {
            let (term, index) = &mut least.0;
            if lists.len() == count {
                lists.push(Vec::new());
            }
            runs[*index].read(&mut lists[count])?;
            count += 1;
            if !runs[*index].read(term)? {
                std::collections::binary_heap::PeekMut::pop(least);
            }
        }
        use_term(&current, &lists[..count])?;
    }
    Ok(())
}

/// Calls `use_posting` with each document and frequency of the lists.
pub(super) fn for_each_posting(lists: &[Vec<u8>], mut use_posting: impl FnMut(u32, u32)) {
    for list in lists {
        let mut cursor = Cursor::new(list);
        let mut document = 0u32;
        while let (Ok(gap), Ok(frequency)) = (cursor.varint("gap"), cursor.varint("frequency")) {
            document = document.wrapping_add(gap as u32);
            use_posting(document, frequency as u32);
        }
    }
}
