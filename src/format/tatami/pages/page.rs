//! The pages of a column chunk.

use std::ops::Range;

use crate::error::Result;
use crate::format::fault::Fault;
use crate::format::io::storage::{Access, Storage};
use crate::format::tatami::layout::record::{RECORD_HEADER_BYTES, RecordHeader};
use crate::format::tatami::layout::row_group::ColumnChunk;

/// The maximum number of rows of a page.
pub const MAX_PAGE_ROWS: u32 = 1 << 22;

/// A page of a column chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// The offset of the page's header in the file.
    pub offset: u64,
    /// The header. Do not use its `first_row`, which readers do not check; use [`Self::first_row`].
    pub header: RecordHeader,
    /// The first row, counted from the start of the row group.
    pub first_row: u64,
    /// The number of non-null values in all earlier pages of the chunk.
    pub present_before: u64,
}

impl Page {
    /// The rows, counted from the start of the row group.
    pub fn rows(&self) -> Range<u64> {
        self.first_row..self.first_row + u64::from(self.header.values)
    }

    /// The range of the stored payload in the file.
    pub fn payload(&self) -> Range<u64> {
        let start = self.offset + RECORD_HEADER_BYTES;
        start..start + u64::from(self.header.stored_size)
    }
}

/// Reads the headers of all pages of a chunk. Checks that the totals of the pages equal those in the
/// footer, which have been checked against the length of the file.
pub(crate) fn read_pages(
    storage: &Storage,
    access: Access,
    chunk: &ColumnChunk,
) -> Result<Result<Box<[Page]>, Fault>> {
    let mut pages = Vec::with_capacity(chunk.pages as usize);
    let mut total = Totals {
        offset: chunk.first_page_offset,
        ..Totals::default()
    };
    let end = chunk.end().unwrap_or(0);
    for _ in 0..chunk.pages {
        if total.offset.saturating_add(RECORD_HEADER_BYTES) > end {
            let expected = format!("at most {end}, the end of the chunk");
            return Ok(Err(Fault::new("page offset", total.offset, expected)));
        }
        let mut bytes = [0; RECORD_HEADER_BYTES as usize];
        storage.copy_range(access, total.offset, &mut bytes)?;
        let header = RecordHeader::parse(&bytes);
        match total.add(&header, end) {
            Ok(page) => pages.push(page),
            Err(fault) => return Ok(Err(fault)),
        }
    }
    for (field, found, expected) in [
        ("number of values", total.rows, chunk.values),
        ("number of nulls", total.nulls, chunk.nulls),
        ("stored bytes", total.stored_bytes, chunk.stored_bytes),
        ("uncompressed bytes", total.raw_bytes, chunk.raw_bytes),
    ] {
        if found != expected {
            let found = format!("{found} in all pages");
            return Ok(Err(Fault::new(
                field,
                found,
                format!("{expected}, as in the footer"),
            )));
        }
    }
    Ok(Ok(pages.into_boxed_slice()))
}

#[derive(Default)]
struct Totals {
    offset: u64,
    rows: u64,
    nulls: u64,
    stored_bytes: u64,
    raw_bytes: u64,
}

impl Totals {
    fn add(&mut self, header: &RecordHeader, end: u64) -> Result<Page, Fault> {
        if header.values == 0 || header.values > MAX_PAGE_ROWS {
            let expected = format!("1 to {MAX_PAGE_ROWS}");
            return Err(Fault::new(
                "number of values of a page",
                header.values,
                expected,
            ));
        }
        if header.nulls > header.values {
            let expected = format!("at most {}, the number of values", header.values);
            return Err(Fault::new(
                "number of nulls of a page",
                header.nulls,
                expected,
            ));
        }
        let page = Page {
            offset: self.offset,
            header: *header,
            first_row: self.rows,
            present_before: self.rows - self.nulls,
        };
        if page.payload().end > end {
            let expected = format!("at most {end}, the end of the chunk");
            return Err(Fault::new("end of a page", page.payload().end, expected));
        }
        self.offset = page.payload().end;
        self.rows += u64::from(header.values);
        self.nulls += u64::from(header.nulls);
        self.stored_bytes += u64::from(header.stored_size);
        self.raw_bytes += u64::from(header.raw_size);
        Ok(page)
    }
}
