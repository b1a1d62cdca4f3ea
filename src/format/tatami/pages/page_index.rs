//! The page index of the sort key: bounds for each page of a chunk.

use crate::format::fault::Fault;
use crate::format::tatami::bytes::{Cursor, put_varint};
use crate::format::tatami::layout::bounds::ValueBounds;
use crate::format::tatami::layout::checks::check_bounds;
use crate::format::tatami::layout::row_group::Bounds;
use crate::format::tatami::layout::types::ColumnType;
use crate::format::tatami::pages::page::Page;

/// The entry of one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageIndexEntry {
    /// The first row of the page, counted from the start of the row group.
    pub first_row: u64,
    /// The offset of the page's header in the file.
    pub offset: u64,
    /// The bounds of the values that are not null. `None` if all values of the page are null.
    pub bounds: Option<Bounds>,
}

impl PageIndexEntry {
    /// Returns the bounds of the values of the page.
    pub fn value_bounds(&self, column_type: ColumnType) -> ValueBounds<'_> {
        ValueBounds::new(column_type, self.bounds.as_ref())
    }

    /// Parses the entries of a chunk, and checks them against its pages.
    pub(crate) fn parse_all(
        payload: &[u8],
        pages: &[Page],
        column_type: ColumnType,
    ) -> Result<Box<[Self]>, Fault> {
        let mut fields = Cursor::new(payload);
        let count = fields.count("number of pages", 3)?;
        if count != pages.len() {
            let expected = format!("{}, the pages of the chunk", pages.len());
            return Err(Fault::new("number of pages", count, expected));
        }
        let mut entries = Vec::with_capacity(count);
        for page in pages {
            let first_row = fields.varint("first row")?;
            let offset = fields.varint("page offset")?;
            if (first_row, offset) != (page.first_row, page.offset) {
                let found = format!("at {offset} with first row {first_row}");
                let expected = format!("at {} with first row {}", page.offset, page.first_row);
                return Err(Fault::new("page", found, expected));
            }
            let bounds = match fields.byte("bounds flag")? {
                0 => None,
                _ => Some(Bounds::parse(&mut fields)?),
            };
            if let Some(bounds) = &bounds {
                check_bounds(column_type, bounds)?;
            }
            entries.push(Self {
                first_row,
                offset,
                bounds,
            });
        }
        fields.finish("page index")?;
        Ok(entries.into_boxed_slice())
    }

    /// Returns the payload of a page index, as stored.
    pub fn encode_all(entries: &[Self]) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, entries.len() as u64);
        for entry in entries {
            put_varint(&mut out, entry.first_row);
            put_varint(&mut out, entry.offset);
            out.push(u8::from(entry.bounds.is_some()));
            if let Some(bounds) = &entry.bounds {
                bounds.encode(&mut out);
            }
        }
        out
    }
}
