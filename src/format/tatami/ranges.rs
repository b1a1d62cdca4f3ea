//! Reads byte ranges of a file, and of the payload of an index record.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use memmap2::Mmap;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::fault::Fault;
use crate::format::io::storage::{Access, Storage};
use crate::format::tatami::layout::footer::Extent;
use crate::format::tatami::layout::header::{check_crc, compare_crc};
use crate::format::tatami::layout::record::{KIND_INDEX, RECORD_HEADER_BYTES, RecordHeader};
use crate::format::tatami::layout::types::Codec;

/// Bytes read at a time by [`IndexRecord::check_crc`].
const WINDOW_BYTES: u64 = 64 << 10;

/// Reads ranges of one file at a time: in place through the memory map, or into a buffer that is
/// reused.
#[derive(Debug, Default)]
pub struct RangeBuffer {
    map: Option<Arc<Mmap>>,
    copied: Vec<u8>,
    /// Ranges that were fetched from an object store ahead, by their offsets.
    fetched: Vec<(u64, Bytes)>,
}

impl RangeBuffer {
    /// Replaces the ranges that were fetched ahead.
    #[cfg(feature = "remote")]
    pub(crate) fn set_fetched(&mut self, fetched: Vec<(u64, Bytes)>) {
        self.fetched = fetched;
    }

    /// Returns the bytes of a range, which the caller has checked against the length of the file.
    pub(crate) fn read(
        &mut self,
        storage: &Storage,
        access: Access,
        range: Range<u64>,
    ) -> Result<&[u8]> {
        let outside = || {
            let expected = format!("a range within {} bytes", storage.length());
            Fault::new("range", format!("{range:?}"), expected)
                .at(ErrorLocation::file(storage.path()))
        };
        let length = range.end.checked_sub(range.start).ok_or_else(outside)?;
        let length = usize::try_from(length).map_err(|_| outside())?;
        if range.end > storage.length() {
            return Err(outside());
        }
        let contains = |(start, bytes): &&(u64, Bytes)| {
            *start <= range.start && range.end <= start + bytes.len() as u64
        };
        if let Some((start, bytes)) = self.fetched.iter().find(contains) {
            let from = (range.start - start) as usize;
            return Ok(&bytes[from..from + length]);
        }
        #[cfg(feature = "remote")]
        storage.check_region(length)?;
        match storage.usable(access) {
            Access::Mmap => {
                let map = self.map.insert(storage.map()?);
                let start = range.start as usize;
                map.get(start..start + length).ok_or_else(outside)
            }
            Access::Pread => {
                if self.copied.len() < length {
                    self.copied.resize(length, 0);
                }
                let bytes = &mut self.copied[..length];
                storage.read_at(range.start, bytes)?;
                Ok(bytes)
            }
        }
    }
}

/// An index record whose payload is read in ranges: part of an inverted index, a Bloom filter or a page
/// index. Such payloads are not compressed.
#[derive(Debug, Clone)]
pub struct IndexRecord {
    storage: Arc<Storage>,
    access: Access,
    name: &'static str,
    start: u64,
    length: u64,
    crc: u32,
}

impl IndexRecord {
    /// Reads and checks the header of the record at `extent`, which must end before `end`, the offset of
    /// the footer. `name` names the record in error messages.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or if the record lies outside of the file, is of another kind
    /// or length, or is compressed.
    pub(crate) fn open(
        storage: &Arc<Storage>,
        access: Access,
        name: &'static str,
        extent: Extent,
        end: u64,
    ) -> Result<Self> {
        let location = || ErrorLocation::part(storage.path(), name);
        let start = extent.offset.checked_add(RECORD_HEADER_BYTES);
        let last = start.and_then(|start| start.checked_add(extent.length));
        let (Some(start), Some(last)) = (start, last) else {
            let expected = "an end offset of 64 bits";
            return Err(Fault::new("record offset", extent.offset, expected).at(location()));
        };
        if last > end {
            let expected = format!("at most {end}, the offset of the footer");
            return Err(Fault::new("end of the record", last, expected).at(location()));
        }
        let mut bytes = [0; RECORD_HEADER_BYTES as usize];
        storage.copy_range(access, extent.offset, &mut bytes)?;
        let header = RecordHeader::parse(&bytes);
        let fault = if header.kind != KIND_INDEX {
            Fault::new(
                "record kind",
                header.kind,
                format!("{KIND_INDEX}, an index"),
            )
        } else if header.codec != Codec::None.id() {
            Fault::new("codec", header.codec, "0, not compressed")
        } else if u64::from(header.stored_size) != extent.length
            || u64::from(header.raw_size) != extent.length
        {
            let found = format!("{} ({} stored)", header.raw_size, header.stored_size);
            let expected = format!("{}, as in the footer", extent.length);
            Fault::new("payload size", found, expected)
        } else {
            return Ok(Self {
                storage: Arc::clone(storage),
                access,
                name,
                start,
                length: extent.length,
                crc: header.crc,
            });
        };
        Err(fault.at(location()))
    }

    /// The length of the payload in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The name of the record, for errors.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        self.storage.path()
    }

    /// Turns a fault in the payload into an error about this record.
    pub fn error(&self, fault: Fault) -> Error {
        fault.at(ErrorLocation::part(self.path(), self.name))
    }

    /// Reads a range of the payload, without verifying the checksum, which covers the whole payload; see
    /// [`Self::read_checked`].
    ///
    /// # Errors
    /// Fails if the range lies outside of the payload, or cannot be read.
    pub fn read<'a>(&self, range: Range<u64>, buffer: &'a mut RangeBuffer) -> Result<&'a [u8]> {
        if range.start > range.end || range.end > self.length {
            let expected = format!("a range within {} bytes", self.length);
            return Err(self.error(Fault::new("range", format!("{range:?}"), expected)));
        }
        let range = self.start + range.start..self.start + range.end;
        buffer.read(&self.storage, self.access, range)
    }

    /// Reads the whole payload, and checks its checksum.
    ///
    /// # Errors
    /// Fails if the payload cannot be read or its checksum differs.
    pub fn read_checked<'a>(&self, buffer: &'a mut RangeBuffer) -> Result<&'a [u8]> {
        let bytes = self.read(0..self.length, buffer)?;
        check_crc("checksum", bytes, self.crc).map_err(|fault| self.error(fault))?;
        Ok(bytes)
    }

    /// Checks the checksum of the payload, of which 64 KiB are read at a time.
    ///
    /// # Errors
    /// Fails if the payload cannot be read or its checksum differs.
    pub fn check_crc(&self) -> Result<()> {
        let mut buffer = RangeBuffer::default();
        let (mut at, mut crc) = (0, 0);
        while at < self.length {
            let end = self.length.min(at + WINDOW_BYTES);
            crc = crc32c::crc32c_append(crc, self.read(at..end, &mut buffer)?);
            at = end;
        }
        compare_crc("checksum", crc, self.crc).map_err(|fault| self.error(fault))
    }
}
