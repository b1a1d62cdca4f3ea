//! A file under construction, whose records are appended.

use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::io::target::{self, TemporaryFile};
use crate::format::tatami::layout::record::{RECORD_HEADER_BYTES, RecordHeader};

/// Size of the write buffer in bytes.
const BUFFER_BYTES: usize = 1 << 18;

/// A temporary file, with the number of bytes written. Errors name the target.
pub(super) struct Output {
    target: PathBuf,
    file: BufWriter<TemporaryFile>,
    position: u64,
}

/// The range of a record in an [`Output`], header included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spooled {
    offset: u64,
    length: u64,
}

impl Output {
    /// Creates a temporary file beside the target.
    pub fn create(target: &Path) -> Result<Self> {
        Ok(Self {
            file: BufWriter::with_capacity(BUFFER_BYTES, target::create_beside(target)?),
            target: target.to_path_buf(),
            position: 0,
        })
    }

    /// The path of the target.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// The number of bytes written.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all(bytes)
            .map_err(Error::io(&self.target, "write"))?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// Appends a record. Returns its offset.
    pub fn write_record(&mut self, header: &RecordHeader, payload: &[u8]) -> Result<Spooled> {
        let spooled = Spooled {
            offset: self.position,
            length: RECORD_HEADER_BYTES + payload.len() as u64,
        };
        self.write(&header.encode())?;
        self.write(payload)?;
        Ok(spooled)
    }

    /// Appends all bytes of a source. Returns their number and their CRC32C.
    pub fn write_from(&mut self, source: &mut dyn Read) -> Result<(u64, u32)> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let (mut length, mut crc) = (0, 0);
        loop {
            let count = match source.read(&mut buffer) {
                Ok(0) => return Ok((length, crc)),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::io(&self.target, "read the search index")(error)),
            };
            crc = crc32c::crc32c_append(crc, &buffer[..count]);
            self.write(&buffer[..count])?;
            length += count as u64;
        }
    }

    /// Replaces bytes that were written before.
    pub fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file
            .seek(SeekFrom::Start(offset))
            .and_then(|_| self.file.write_all(bytes))
            .and_then(|()| self.file.seek(SeekFrom::Start(self.position)))
            .map_err(Error::io(&self.target, "write"))?;
        Ok(())
    }

    /// Appends a record of another file. Returns its offset.
    pub fn copy(&mut self, from: &mut Output, record: Spooled) -> Result<u64> {
        let offset = self.position;
        from.file
            .seek(SeekFrom::Start(record.offset))
            .and_then(|_| {
                let source = from.file.get_mut().as_file_mut();
                io::copy(&mut source.take(record.length), &mut self.file)
            })
            .and_then(|copied| match copied == record.length {
                true => Ok(()),
                false => Err(io::ErrorKind::UnexpectedEof.into()),
            })
            .map_err(Error::io(&self.target, "copy the blobs"))?;
        self.position += record.length;
        Ok(offset)
    }

    /// Syncs the file and renames it to the target.
    pub fn persist(self) -> Result<()> {
        let temporary = self
            .file
            .into_inner()
            .map_err(|error| Error::io(&self.target, "write")(error.into_error()))?;
        target::persist(temporary, &self.target)
    }
}
