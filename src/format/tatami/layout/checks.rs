//! Checks of a footer against the file and against itself, made when a file is opened.

use std::ops::Range;

use crate::format::fault::Fault;
use crate::format::tatami::layout::footer::{Extent, Footer};
use crate::format::tatami::layout::header::HEADER_BYTES;
use crate::format::tatami::layout::record::RECORD_HEADER_BYTES;
use crate::format::tatami::layout::row_group::{Bounds, ColumnChunk, RowGroup};
use crate::format::tatami::layout::types::ColumnType;
use crate::format::tatami::pages::page::MAX_PAGE_ROWS;

/// A fault, and the part of the footer that it is in.
type Located = (String, Fault);

/// Checks all counts, offsets and references of a footer that starts at `footer_offset`. Returns the part
/// of the file and the fault.
pub(crate) fn check_footer(footer: &Footer, footer_offset: u64) -> Result<(), Located> {
    let mut rows = 0u64;
    // Pages and blob runs must be stored in order. Otherwise many chunks of a small file could refer to the
    // same bytes.
    let mut end = HEADER_BYTES;
    for (index, group) in footer.row_groups.iter().enumerate() {
        check_group(footer, group, rows, &mut end, footer_offset).map_err(|(column, fault)| {
            let column = column.map(|column| column_part(footer, column));
            let part = format!("row group {index}{}", column.unwrap_or_default());
            (part, fault)
        })?;
        rows = rows.checked_add(group.rows).ok_or_else(|| {
            let fault = Fault::new("number of rows", group.rows, "a total within 64 bits");
            (format!("row group {index}"), fault)
        })?;
    }
    if rows != footer.stats.rows {
        let expected = format!("{rows}, the sum over all row groups");
        let fault = Fault::new("number of rows", footer.stats.rows, expected);
        return Err(("footer".to_string(), fault));
    }
    check_blobs(footer, end, footer_offset)?;
    for (index, bloom) in footer.blooms.iter().enumerate() {
        let extent = Extent {
            offset: bloom.offset,
            length: bloom.length,
        };
        check_extent(extent, footer_offset)
            .map_err(|fault| (format!("Bloom filter {index}"), fault))?;
    }
    for (index, dictionary) in footer.dictionaries.iter().enumerate() {
        let extent = Extent {
            offset: dictionary.offset,
            length: 0,
        };
        check_extent(extent, footer_offset)
            .map_err(|fault| (format!("dictionary {index}"), fault))?;
    }
    if let Some(inverted) = &footer.inverted {
        let parts = [inverted.term_dictionary, inverted.postings, inverted.skips];
        for extent in parts.into_iter().chain(inverted.live) {
            check_extent(extent, footer_offset)
                .map_err(|fault| ("inverted index".to_string(), fault))?;
        }
    }
    Ok(())
}

/// Returns the text that names a column in an error message.
pub(crate) fn column_part(footer: &Footer, column: usize) -> String {
    match footer.schema.fields.get(column) {
        Some(field) => format!(", column {:?}", field.name),
        None => format!(", column {column}"),
    }
}

/// A fault, and the column that it is in.
type InColumn = (Option<usize>, Fault);

fn check_group(
    footer: &Footer,
    group: &RowGroup,
    first_row: u64,
    end: &mut u64,
    footer_offset: u64,
) -> Result<(), InColumn> {
    if group.first_row != first_row {
        let expected = format!("{first_row}, after the rows before");
        return Err((None, Fault::new("first row", group.first_row, expected)));
    }
    let columns = footer.schema.fields.len();
    if group.chunks.len() != columns {
        let expected = format!("{columns}, one per column");
        let fault = Fault::new("number of chunks", group.chunks.len(), expected);
        return Err((None, fault));
    }
    for (column, chunk) in group.chunks.iter().enumerate() {
        *end = check_chunk(footer, group, column, chunk, *end..footer_offset)
            .map_err(|fault| (Some(column), fault))?;
    }
    if let Some(bounds) = &group.sort_bounds {
        let Some(key) = footer.schema.sort_key() else {
            let fault = Fault::new("sort bounds", "present", "none without a sort key");
            return Err((None, fault));
        };
        check_bounds(footer.schema.fields[key].column_type, bounds)
            .map_err(|fault| (None, fault))?;
    }
    Ok(())
}

/// Checks a chunk, which must lie within `bounds`. Returns its end.
fn check_chunk(
    footer: &Footer,
    group: &RowGroup,
    column: usize,
    chunk: &ColumnChunk,
    bounds: Range<u64>,
) -> Result<u64, Fault> {
    if chunk.column != column {
        return Err(Fault::new("chunk column", chunk.column, column));
    }
    if chunk.values != group.rows {
        let expected = format!("{}, the rows of the group", group.rows);
        return Err(Fault::new("number of values", chunk.values, expected));
    }
    let most = chunk.pages.saturating_mul(u64::from(MAX_PAGE_ROWS));
    if chunk.values > most {
        let expected = format!("at most {most} in {} pages", chunk.pages);
        return Err(Fault::new("number of values", chunk.values, expected));
    }
    if chunk.nulls > chunk.values {
        let expected = format!("at most {}, the number of values", chunk.values);
        return Err(Fault::new("number of nulls", chunk.nulls, expected));
    }
    let end = chunk.end().filter(|end| *end <= bounds.end);
    let Some(end) = end.filter(|_| chunk.first_page_offset >= bounds.start) else {
        let found = format!(
            "{} pages of {} bytes at {}",
            chunk.pages, chunk.stored_bytes, chunk.first_page_offset
        );
        let expected = format!("within bytes {} to {}", bounds.start, bounds.end);
        return Err(Fault::new("extent of the pages", found, expected));
    };
    if let Some(zone) = &chunk.zone {
        check_bounds(footer.schema.fields[column].column_type, zone)?;
    }
    if let Some(bloom) = chunk.bloom.filter(|bloom| *bloom >= footer.blooms.len()) {
        let expected = format!("at most {}", footer.blooms.len());
        return Err(Fault::new("bloom reference", bloom + 1, expected));
    }
    if let Some(offset) = chunk.page_index {
        check_extent(Extent { offset, length: 0 }, bounds.end)?;
    }
    Ok(end)
}

/// Checks that bounds have the width of the type.
pub(crate) fn check_bounds(column_type: ColumnType, bounds: &Bounds) -> Result<(), Fault> {
    let width = column_type.width();
    for bound in [&bounds.min, &bounds.max] {
        if width.is_some_and(|width| bound.len() != width) {
            let expected = format!("as long as a {column_type}");
            let found = format!("{} bytes long", bound.len());
            return Err(Fault::new("bound", found, expected));
        }
    }
    Ok(())
}

fn check_blobs(footer: &Footer, mut end: u64, footer_offset: u64) -> Result<(), Located> {
    for (index, blobs) in footer.blobs.iter().enumerate() {
        let located = |fault| (format!("blobs{}", column_part(footer, blobs.column)), fault);
        let field = footer.schema.fields.get(blobs.column);
        let is_repeated = footer.blobs[..index]
            .iter()
            .any(|other| other.column == blobs.column);
        if is_repeated || field.is_none_or(|field| field.column_type != ColumnType::BlobRef) {
            let expected = "a blob column that is not listed before";
            return Err(located(Fault::new("blob column", blobs.column, expected)));
        }
        if let Some(dictionary) = blobs.dictionary
            && dictionary >= footer.dictionaries.len()
        {
            let expected = format!("at most {}", footer.dictionaries.len());
            let fault = Fault::new("dictionary reference", dictionary + 1, expected);
            return Err(located(fault));
        }
        let mut values = 0u64;
        for run in &blobs.runs {
            let extent = Extent {
                offset: run.offset,
                length: run.stored_size,
            };
            check_extent(extent, footer_offset).map_err(located)?;
            if run.offset < end {
                let expected = format!("{end} or more, after the records before");
                return Err(located(Fault::new("blob run offset", run.offset, expected)));
            }
            end = run.offset + RECORD_HEADER_BYTES + run.stored_size;
            values = values.checked_add(run.values).ok_or_else(|| {
                located(Fault::new(
                    "blob run values",
                    run.values,
                    "a total within 64 bits",
                ))
            })?;
        }
        let chunks = footer
            .row_groups
            .iter()
            .map(|group| &group.chunks[blobs.column]);
        let present: u64 = chunks.map(|chunk| chunk.values - chunk.nulls).sum();
        if values != present {
            let expected = format!("{present}, the present values of the column");
            return Err(located(Fault::new("number of blobs", values, expected)));
        }
    }
    for (column, field) in footer.schema.fields.iter().enumerate() {
        let is_listed = footer.blobs.iter().any(|blobs| blobs.column == column);
        if field.column_type == ColumnType::BlobRef && !is_listed {
            let part = format!("footer{}", column_part(footer, column));
            return Err((
                part,
                Fault::new("blob column", "not listed", "a list of its runs"),
            ));
        }
    }
    Ok(())
}

/// Checks that a record with this payload lies between the header and the footer.
fn check_extent(extent: Extent, footer_offset: u64) -> Result<(), Fault> {
    let end = extent.offset.checked_add(extent.length);
    let end = end.and_then(|end| end.checked_add(RECORD_HEADER_BYTES));
    if extent.offset < HEADER_BYTES || end.is_none_or(|end| end > footer_offset) {
        let found = format!("{} bytes at {}", extent.length, extent.offset);
        let expected = format!("within bytes {HEADER_BYTES} to {footer_offset}");
        return Err(Fault::new("extent of the record", found, expected));
    }
    Ok(())
}
