//! [`TatamiFile`]: an open `.tatami` file with its header and footer.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::fault::Fault;
use crate::format::io::place::Place;
#[cfg(feature = "remote")]
use crate::format::io::remote::RemoteObject;
use crate::format::io::storage::{Access, Storage};
use crate::format::tatami::blobs::{BlobDirectory, BlobTotals};
use crate::format::tatami::bloom::BloomFilter;
use crate::format::tatami::byte_map::RegionKind;
use crate::format::tatami::layout::bounds::{Scalar, ValueBounds};
use crate::format::tatami::layout::checks;
use crate::format::tatami::layout::footer::{BlobColumn, Extent, Footer};
use crate::format::tatami::layout::header::{
    FileHeader, HEADER_BYTES, MAGIC, TRAILER_BYTES, Trailer, check_crc,
};
use crate::format::tatami::layout::record::{RECORD_HEADER_BYTES, RecordHeader};
use crate::format::tatami::layout::row_group::{ColumnChunk, RowGroup};
use crate::format::tatami::layout::schema::Schema;
use crate::format::tatami::layout::types::ColumnType;
use crate::format::tatami::pages::page::{Page, read_pages};
use crate::format::tatami::pages::page_index::PageIndexEntry;
use crate::format::tatami::pages::payload::Decompressor;
use crate::format::tatami::ranges::{IndexRecord, RangeBuffer};

/// An open `.tatami` file.
///
/// Opening a file reads and checks only the header, the footer and the trailer. Pages and other records
/// are read and checked on first use.
#[derive(Debug)]
pub struct TatamiFile {
    storage: Arc<Storage>,
    access: Access,
    header: FileHeader,
    footer: Footer,
    trailer: Trailer,
    /// The pages of each chunk, row group by row group.
    pages: Box<[OnceLock<Box<[Page]>>]>,
    /// The page index of the sort key, for each row group.
    page_indexes: Box<[OnceLock<Box<[PageIndexEntry]>>]>,
    blooms: Box<[OnceLock<BloomFilter>]>,
    dictionaries: Box<[OnceLock<Vec<u8>>]>,
    /// The directory of each blob column, in the order of the footer.
    blob_directories: Box<[OnceLock<BlobDirectory>]>,
    /// Held while headers of pages of a row group are read ahead.
    #[cfg(feature = "remote")]
    reading_ahead: Box<[tokio::sync::Mutex<()>]>,
}

impl TatamiFile {
    /// Opens a file.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, [`Error::Malformed`] if it breaks a rule of the format,
    /// has another version than 1.1 or a later 1.x, or if the parts of the footer contradict each other.
    pub fn open(path: impl AsRef<Path>, access: Access) -> Result<Self> {
        Self::open_in(&path.as_ref().into(), access)
    }

    /// Opens a file like [`Self::open`], also one in an object store.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    pub(crate) fn open_in(place: &Place, access: Access) -> Result<Self> {
        let storage = place.open()?;
        let access = storage.usable(access);
        Self::read(Arc::new(storage), access)
    }

    /// Opens a file in an object store.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    #[cfg(feature = "remote")]
    pub fn open_remote(object: Arc<RemoteObject>) -> Result<Self> {
        Self::read(Arc::new(Storage::remote(object)), Access::Pread)
    }

    fn read(storage: Arc<Storage>, access: Access) -> Result<Self> {
        let location = |part: &str| ErrorLocation::part(storage.path(), part);
        let length = storage.length();
        let smallest = HEADER_BYTES + TRAILER_BYTES;
        if length < smallest {
            let fault = Fault::new(
                "file length",
                format!("{length} bytes"),
                format!("{smallest} bytes or more"),
            );
            return Err(fault.at(ErrorLocation::file(storage.path())));
        }
        let mut bytes = [0; TRAILER_BYTES as usize];
        storage.copy_range(access, length - TRAILER_BYTES, &mut bytes)?;
        let trailer = Trailer::parse(&bytes).map_err(|fault| fault.at(location("trailer")))?;
        let footer_end = length - TRAILER_BYTES;
        let footer_start = footer_end
            .checked_sub(u64::from(trailer.footer_length))
            .filter(|start| *start >= HEADER_BYTES)
            .ok_or_else(|| {
                let expected = format!("at most {}, up to the header", footer_end - HEADER_BYTES);
                Fault::new("footer length", trailer.footer_length, expected).at(location("trailer"))
            })?;
        let mut bytes = [0; HEADER_BYTES as usize];
        storage.copy_range(access, 0, &mut bytes)?;
        let header = FileHeader::parse(&bytes).map_err(|fault| fault.at(location("header")))?;
        if header.footer_offset != footer_start {
            let expected = format!("{footer_start}, according to the trailer");
            let fault = Fault::new("footer offset", header.footer_offset, expected);
            return Err(fault.at(location("header")));
        }
        let bytes = storage.read_range(access, footer_start..footer_end)?;
        let footer = check_crc("footer checksum", &bytes, trailer.footer_crc)
            .and_then(|()| Footer::parse(&bytes))
            .map_err(|fault| fault.at(location("footer")))?;
        if header.rows != footer.stats.rows {
            let expected = format!("{}, as in the footer", footer.stats.rows);
            return Err(Fault::new("row count", header.rows, expected).at(location("header")));
        }
        checks::check_footer(&footer, footer_start)
            .map_err(|(part, fault)| fault.at(location(&part)))?;
        let groups = footer.row_groups.len();
        Ok(Self {
            // `check_footer` has checked that each row group has one chunk per column.
            pages: caches(groups * footer.schema.fields.len()),
            page_indexes: caches(groups),
            blooms: caches(footer.blooms.len()),
            dictionaries: caches(footer.dictionaries.len()),
            blob_directories: caches(footer.blobs.len()),
            #[cfg(feature = "remote")]
            reading_ahead: std::iter::repeat_with(tokio::sync::Mutex::default)
                .take(groups)
                .collect(),
            storage,
            access,
            header,
            footer,
            trailer,
        })
    }

    /// The path as given to [`Self::open`].
    pub fn path(&self) -> &Path {
        self.storage.path()
    }

    /// The length of the file in bytes.
    pub fn length(&self) -> u64 {
        self.storage.length()
    }

    /// The access mode.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The header.
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// The footer.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// The length and the checksum of the footer.
    pub fn trailer(&self) -> Trailer {
        self.trailer
    }

    /// The columns.
    pub fn schema(&self) -> &Schema {
        &self.footer.schema
    }

    /// The row groups, in the order of the rows.
    pub fn row_groups(&self) -> &[RowGroup] {
        &self.footer.row_groups
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.header.rows
    }

    /// Returns the index record at an extent from the footer. `name` names the record in error messages, for
    /// example `"term dictionary"`.
    ///
    /// # Errors
    /// Fails if the header of the record cannot be read or contradicts the footer.
    pub fn index_record(&self, name: &'static str, extent: Extent) -> Result<IndexRecord> {
        let end = self.header.footer_offset;
        IndexRecord::open(&self.storage, self.access, name, extent, end)
    }

    /// Returns the type of a column.
    ///
    /// # Errors
    /// Fails if there is no such column.
    pub fn column_type(&self, column: usize) -> Result<ColumnType> {
        match self.schema().fields.get(column) {
            Some(field) => Ok(field.column_type),
            None => Err(Error::invalid(
                self.path(),
                format!("there is no column {column}"),
            )),
        }
    }

    /// Returns the pages of a column in a row group. Their headers are read and checked on first use.
    ///
    /// # Errors
    /// Fails if the headers cannot be read, or contradict each other or the footer.
    pub fn pages(&self, group: usize, column: usize) -> Result<&[Page]> {
        let chunk = self.chunk(group, column)?;
        let cache = &self.pages[group * self.schema().fields.len() + column];
        if let Some(pages) = cache.get() {
            return Ok(pages);
        }
        let pages = read_pages(&self.storage, self.access, chunk)?
            .map_err(|fault| self.error(self.part(Some(group), column, ""), fault))?;
        Ok(cache.get_or_init(|| pages))
    }

    /// Returns `true` if the headers of a column's pages in a row group have been read.
    #[cfg(feature = "remote")]
    pub(crate) fn knows_pages(&self, group: usize, column: usize) -> bool {
        let cache = self.pages.get(group * self.schema().fields.len() + column);
        cache.is_some_and(|pages| pages.get().is_some())
    }

    /// Returns the locks to hold while headers of pages of these row groups are read ahead. `groups` are
    /// ascending.
    #[cfg(feature = "remote")]
    pub(crate) fn reading_ahead(
        &self,
        groups: impl Iterator<Item = usize>,
    ) -> Vec<&tokio::sync::Mutex<()>> {
        let mut groups: Vec<usize> = groups.collect();
        groups.dedup();
        let locks = groups.into_iter();
        locks
            .filter_map(|group| self.reading_ahead.get(group))
            .collect()
    }

    /// Returns the row ranges of the pages of a row group, counted from its start, if the pages of all
    /// `columns` have the same rows. Without columns, the row group is one range.
    ///
    /// # Errors
    /// As [`Self::pages`].
    pub fn aligned_pages(
        &self,
        group: usize,
        columns: &[usize],
    ) -> Result<Option<Vec<Range<u64>>>> {
        let Some((first, others)) = columns.split_first() else {
            let rows = self.group(group)?.rows;
            return Ok(Some(std::iter::once(0..rows).collect()));
        };
        let first = self.pages(group, *first)?;
        for column in others {
            let pages = self.pages(group, *column)?;
            let is_aligned = first.len() == pages.len()
                && first
                    .iter()
                    .zip(pages)
                    .all(|(a, b)| a.first_row == b.first_row);
            if !is_aligned {
                return Ok(None);
            }
        }
        Ok(Some(first.iter().map(Page::rows).collect()))
    }

    /// Returns the bounds of the values of a column in a row group, from its zone. Both bounds are unknown if
    /// the column has no values or no zone.
    ///
    /// # Errors
    /// Fails if there is no such row group or column.
    pub fn bounds(&self, group: usize, column: usize) -> Result<ValueBounds<'_>> {
        let zone = self.chunk(group, column)?.zone.as_ref();
        Ok(ValueBounds::new(self.column_type(column)?, zone))
    }

    /// Returns the page index of the sort key in a row group, one entry per page, if the group has one.
    ///
    /// # Errors
    /// Fails if the index cannot be read, or contradicts the pages.
    pub fn page_index(&self, group: usize) -> Result<Option<&[PageIndexEntry]>> {
        let Some(key) = self.schema().sort_key() else {
            return Ok(None);
        };
        let Some(offset) = self.chunk(group, key)?.page_index else {
            return Ok(None);
        };
        let cache = &self.page_indexes[group];
        if let Some(entries) = cache.get() {
            return Ok(Some(entries));
        }
        let pages = self.pages(group, key)?;
        let length = u64::from(self.record_header(offset)?.stored_size);
        let record = self.index_record("page index", Extent { offset, length })?;
        let mut buffer = RangeBuffer::default();
        let payload = record.read_checked(&mut buffer)?;
        let entries = PageIndexEntry::parse_all(payload, pages, self.column_type(key)?)
            .map_err(|fault| self.error(self.part(Some(group), key, ", page index"), fault))?;
        Ok(Some(cache.get_or_init(|| entries)))
    }

    /// Returns the Bloom filter of a column in a row group, if there is one.
    ///
    /// # Errors
    /// Fails if the filter cannot be read or breaks a rule of the format.
    pub fn bloom(&self, group: usize, column: usize) -> Result<Option<&BloomFilter>> {
        let Some(index) = self.chunk(group, column)?.bloom else {
            return Ok(None);
        };
        let (Some(stored), Some(cache)) = (self.footer.blooms.get(index), self.blooms.get(index))
        else {
            return Ok(None);
        };
        if let Some(bloom) = cache.get() {
            return Ok(Some(bloom));
        }
        let extent = Extent {
            offset: stored.offset,
            length: stored.length,
        };
        let record = self.index_record("Bloom filter", extent)?;
        let bloom = BloomFilter::open(record, stored.kind)?;
        Ok(Some(cache.get_or_init(|| bloom)))
    }

    /// Returns `false` if the Bloom filter of a column in a row group rules out that the column contains
    /// `value`. Returns `true` if there is no filter.
    ///
    /// # Errors
    /// As [`Self::bloom`].
    pub fn may_contain(&self, group: usize, column: usize, value: &Scalar<'_>) -> Result<bool> {
        match self.bloom(group, column)? {
            Some(bloom) => bloom.may_equal(self.column_type(column)?, value),
            None => Ok(true),
        }
    }

    /// Returns the raw content of a dictionary.
    pub(crate) fn dictionary(&self, index: usize) -> Result<&[u8]> {
        let (Some(stored), Some(cache)) = (
            self.footer.dictionaries.get(index),
            self.dictionaries.get(index),
        ) else {
            return Err(Error::invalid(
                self.path(),
                format!("there is no dictionary {index}"),
            ));
        };
        if let Some(dictionary) = cache.get() {
            return Ok(dictionary);
        }
        let location = |fault| self.error(format!("dictionary {index}"), fault);
        let header = self.record_header(stored.offset)?;
        let start = stored.offset + RECORD_HEADER_BYTES;
        let end = start + u64::from(header.stored_size);
        // Overlapping dictionaries would let a small file use much memory.
        let next = self.footer.dictionaries.get(index + 1);
        let most = next.map_or(self.header.footer_offset, |next| next.offset);
        if end > most || u64::from(header.raw_size) != stored.raw_size {
            let found = format!("{} bytes ({} stored)", header.raw_size, header.stored_size);
            let expected = format!("{} bytes, stored before offset {most}", stored.raw_size);
            return Err(location(Fault::new("dictionary length", found, expected)));
        }
        let mut buffer = RangeBuffer::default();
        let bytes = buffer.read(&self.storage, self.access, start..end)?;
        let mut decompressor = Decompressor::default();
        let content = decompressor
            .payload(&header, bytes)
            .map_err(location)?
            .to_vec();
        Ok(cache.get_or_init(|| content))
    }

    /// Returns the runs and the directory of a blob column.
    pub(crate) fn blobs(&self, column: usize) -> Result<(&BlobColumn, &BlobDirectory)> {
        let mut columns = self.footer.blobs.iter().zip(&self.blob_directories);
        match columns.find(|(blobs, _)| blobs.column == column) {
            Some((blobs, directory)) => {
                let directory = directory.get_or_init(|| BlobDirectory::new(&self.footer, blobs));
                Ok((blobs, directory))
            }
            None => {
                let message = format!("column {column} is not a blob column");
                Err(Error::invalid(self.path(), message))
            }
        }
    }

    /// Returns the number and the lengths of the values of a blob column; `None` for other columns.
    pub fn blob_totals(&self, column: usize) -> Option<BlobTotals> {
        self.blobs(column)
            .ok()
            .map(|(_, directory)| directory.totals())
    }

    /// Returns the parts of the inverted index, if there is one.
    pub(crate) fn inverted_parts(&self) -> Vec<(RegionKind, Extent)> {
        let Some(inverted) = &self.footer.inverted else {
            return Vec::new();
        };
        let mut parts = vec![
            (RegionKind::TermDictionary, inverted.term_dictionary),
            (RegionKind::Postings, inverted.postings),
            (RegionKind::Skips, inverted.skips),
        ];
        parts.extend(inverted.live.map(|live| (RegionKind::LiveDocuments, live)));
        parts
    }

    /// Reads the header of a record. Its location was checked when the file was opened.
    pub(crate) fn record_header(&self, offset: u64) -> Result<RecordHeader> {
        let mut bytes = [0; RECORD_HEADER_BYTES as usize];
        self.storage.copy_range(self.access, offset, &mut bytes)?;
        Ok(RecordHeader::parse(&bytes))
    }

    fn group(&self, group: usize) -> Result<&RowGroup> {
        self.row_groups()
            .get(group)
            .ok_or_else(|| Error::invalid(self.path(), format!("there is no row group {group}")))
    }

    /// Returns the chunk of a column in a row group.
    ///
    /// # Errors
    /// Fails if there is no such row group or column.
    pub fn chunk(&self, group: usize, column: usize) -> Result<&ColumnChunk> {
        let chunks = &self.group(group)?.chunks;
        chunks
            .get(column)
            .ok_or_else(|| Error::invalid(self.path(), format!("there is no column {column}")))
    }

    /// Returns the text that names a column, and its row group if there is one, in an error message.
    pub(crate) fn part(&self, group: Option<usize>, column: usize, rest: &str) -> String {
        let column = checks::column_part(&self.footer, column);
        match group {
            Some(group) => format!("row group {group}{column}{rest}"),
            None => format!("{}{rest}", column.trim_start_matches(", ")),
        }
    }

    /// Turns a fault in a page into an error.
    pub(crate) fn page_error(
        &self,
        group: usize,
        column: usize,
        page: usize,
        fault: Fault,
    ) -> Error {
        self.error(
            self.part(Some(group), column, &format!(", page {page}")),
            fault,
        )
    }

    /// The storage that reads the file's bytes.
    pub(crate) fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// Turns a fault into an error about a part of this file.
    pub(crate) fn error(&self, part: String, fault: Fault) -> Error {
        fault.at(ErrorLocation::part(self.path(), part))
    }
}

fn caches<T>(count: usize) -> Box<[OnceLock<T>]> {
    std::iter::repeat_with(OnceLock::new).take(count).collect()
}

/// Returns `true` if these are the first bytes of a `.tatami` file.
pub fn is_tatami(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}
