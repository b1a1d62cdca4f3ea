//! [`PageReader`]: decodes pages and the blobs of their rows.

use std::collections::HashMap;
use std::sync::Arc;

#[cfg(feature = "remote")]
use bytes::Bytes;

use crate::error::{Error, Result};
use crate::format::fault::Fault;
use crate::format::tatami::blobs::DecodedRun;
use crate::format::tatami::file::TatamiFile;
use crate::format::tatami::layout::types::ColumnType;
use crate::format::tatami::pages::bitmap::{Validity, bit, count_set};
use crate::format::tatami::pages::decode::{PageParts, append_page, append_strings_page, encoding};
use crate::format::tatami::pages::page::Page;
use crate::format::tatami::pages::payload::Decompressor;
use crate::format::tatami::pages::values::{ColumnValues, Values};
use crate::format::tatami::ranges::RangeBuffer;

/// Selected strings share a page if at least one row in four is selected: a page stays in memory as long
/// as one of its strings.
const ROWS_PER_SHARED: usize = 4;

/// Reads the pages of a file. Give each thread its own reader. A reader reuses its buffers, and keeps the
/// last decoded blob run of each column.
#[derive(Debug)]
pub struct PageReader {
    file: Arc<TatamiFile>,
    range: RangeBuffer,
    decompressor: Decompressor,
    runs: HashMap<usize, DecodedRun>,
    /// The stored bytes of all pages that were read.
    bytes_read: u64,
}

impl PageReader {
    /// Creates a reader.
    pub fn new(file: &Arc<TatamiFile>) -> Self {
        Self {
            file: Arc::clone(file),
            range: RangeBuffer::default(),
            decompressor: Decompressor::default(),
            runs: HashMap::new(),
            bytes_read: 0,
        }
    }

    /// Replaces the ranges of the file that were fetched from an object store ahead.
    #[cfg(feature = "remote")]
    pub(crate) fn set_fetched(&mut self, fetched: Vec<(u64, Bytes)>) {
        self.range.set_fetched(fetched);
    }

    /// The file.
    pub fn file(&self) -> &Arc<TatamiFile> {
        &self.file
    }

    /// Creates empty buffers for the values of a column.
    ///
    /// # Errors
    /// Fails if the file has no such column.
    pub fn buffers(&self, column: usize) -> Result<ColumnValues> {
        self.file.column_type(column).map(ColumnValues::new)
    }

    /// The stored bytes of all pages and blob runs that were read.
    pub fn bytes_read(&self) -> u64 {
        let runs = self.runs.values().map(DecodedRun::bytes_read);
        self.bytes_read + runs.sum::<u64>()
    }

    /// Appends the values of a page to `out`: of all rows, or of the `selected` ones. Selected rows are
    /// counted from the start of the page, in ascending order. Without `selected`, strings and blobs share
    /// the pages and runs they are in, and so do strings if many are selected. Otherwise the selected ones
    /// are copied, and blob runs without a selected row are not decoded.
    ///
    /// # Errors
    /// Fails if the page cannot be read or breaks a rule of the format, if the type or the encoding has
    /// no defined layout. Clear `out` after an error.
    pub fn read(
        &mut self,
        group: usize,
        column: usize,
        page: usize,
        selected: Option<&[u32]>,
        out: &mut ColumnValues,
    ) -> Result<()> {
        let column_type = self.file.column_type(column)?;
        if out.column_type() != column_type {
            let message = format!("a {column_type} column is read as {}", out.column_type());
            return Err(Error::invalid(self.file.path(), message));
        }
        let (stored, page) = self.page(group, column, page, selected)?;
        self.bytes_read += u64::from(stored.header.stored_size);
        if column_type == ColumnType::BlobRef {
            return self.read_blobs(group, column, stored, page, selected, out);
        }
        let bytes = self
            .range
            .read(self.file.storage(), self.file.access(), stored.payload())?;
        let (header, decompressor) = (&stored.header, &mut self.decompressor);
        let rows = header.values as usize;
        let is_shared = selected.is_none_or(|selected| selected.len() >= rows / ROWS_PER_SHARED);
        let appended = match &out.values {
            Values::Strings(_) if is_shared => decompressor
                .shared_payload(header, bytes)
                .and_then(|payload| append_strings_page(header, &payload, selected, out)),
            _ => decompressor
                .payload(header, bytes)
                .and_then(|payload| append_page(header, payload, selected, out)),
        };
        appended.map_err(|fault| self.file.page_error(group, column, page, fault))
    }

    /// Appends the validity of the rows of a page, without decoding their values.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_validity(
        &mut self,
        group: usize,
        column: usize,
        page: usize,
        selected: Option<&[u32]>,
        out: &mut Validity,
    ) -> Result<()> {
        let (stored, page) = self.page(group, column, page, selected)?;
        let rows = stored.header.values as usize;
        if stored.header.nulls == 0 {
            out.push_page(None, rows, selected);
            return Ok(());
        }
        let payload = payload(&mut self.range, &mut self.decompressor, &self.file, &stored)?;
        payload
            .and_then(|payload| PageParts::split(&stored.header, payload))
            .map(|parts| out.push_page(parts.validity, rows, selected))
            .map_err(|fault| self.file.page_error(group, column, page, fault))
    }

    /// Returns a page, after checking the selected rows.
    fn page(
        &self,
        group: usize,
        column: usize,
        page: usize,
        selected: Option<&[u32]>,
    ) -> Result<(Page, usize)> {
        let pages = self.file.pages(group, column)?;
        let Some(stored) = pages.get(page) else {
            let message = format!("row group {group}, column {column} has no page {page}");
            return Err(Error::invalid(self.file.path(), message));
        };
        if let Some(selected) = selected {
            let ascends = selected.is_sorted_by(|a, b| a < b);
            if !ascends
                || selected
                    .last()
                    .is_some_and(|row| *row >= stored.header.values)
            {
                let rows = stored.header.values;
                let message = format!("selected rows must ascend and be less than {rows}");
                return Err(Error::invalid(self.file.path(), message));
            }
        }
        Ok((*stored, page))
    }

    fn read_blobs(
        &mut self,
        group: usize,
        column: usize,
        stored: Page,
        page: usize,
        selected: Option<&[u32]>,
        out: &mut ColumnValues,
    ) -> Result<()> {
        let file = &self.file;
        let (blobs, directory) = file.blobs(column)?;
        let payload = payload(&mut self.range, &mut self.decompressor, file, &stored)?;
        let parts = payload
            .and_then(|payload| {
                encoding(&stored.header, ColumnType::BlobRef)?;
                let parts = PageParts::split(&stored.header, payload)?;
                match parts.encoded.len() {
                    0 => Ok(parts),
                    left => Err(Fault::new(
                        "page payload",
                        format!("{left} bytes after the validity bitmap"),
                        "no further bytes",
                    )),
                }
            })
            .map_err(|fault| file.page_error(group, column, page, fault))?;
        let Values::Strings(strings) = &mut out.values else {
            return Err(Error::invalid(
                file.path(),
                "blobs are read into other buffers",
            ));
        };
        let run = self.runs.entry(column).or_default();
        let is_whole = selected.is_none_or(is_dense);
        let mut value = directory.group_start(group) + stored.present_before;
        let mut next = 0;
        let mut push = |row: usize| {
            value += match parts.validity {
                Some(validity) => count_set(validity, next, row),
                None => row - next,
            } as u64;
            next = row;
            if parts.validity.is_some_and(|validity| !bit(validity, row)) {
                strings.push_empty();
                return Ok(());
            }
            run.append(file, blobs, directory, value, is_whole, strings)
        };
        match selected {
            None => (0..parts.rows).try_for_each(&mut push)?,
            Some(rows) => rows.iter().try_for_each(|row| push(*row as usize))?,
        }
        out.validity.push_page(parts.validity, parts.rows, selected);
        Ok(())
    }
}

/// Returns `true` if most of the blobs between the first and the last selected row are selected, and
/// there are more than a few, so that runs are worth decompressing as a whole.
fn is_dense(selected: &[u32]) -> bool {
    match selected {
        [first, .., last] => selected.len() >= 16 && selected.len() > (last - first) as usize / 2,
        _ => false,
    }
}

/// Reads and decompresses the payload of a page.
pub(crate) fn payload<'a>(
    range: &'a mut RangeBuffer,
    decompressor: &'a mut Decompressor,
    file: &TatamiFile,
    page: &Page,
) -> Result<Result<&'a [u8], Fault>> {
    let stored = range.read(file.storage(), file.access(), page.payload())?;
    Ok(decompressor.payload(&page.header, stored))
}
