//! Decodes the payload of a page into the values of a column.

use bytes::Bytes;

use crate::format::fault::Fault;
use crate::format::tatami::bytes::Cursor;
use crate::format::tatami::encoding::{Word, decode_integers};
use crate::format::tatami::layout::record::{RECORD_FLAG_INLINE_BOUNDS, RecordHeader};
use crate::format::tatami::layout::types::{ColumnType, Encoding};
use crate::format::tatami::pages::bitmap::{Bitmap, bit, count_set};
use crate::format::tatami::pages::strings::Strings;
use crate::format::tatami::pages::values::{ColumnValues, Values};

/// A page split into its parts.
pub(crate) struct PageParts<'a> {
    /// The number of rows.
    pub rows: usize,
    /// One bit per row, set if the row has a value. `None` without nulls.
    pub validity: Option<&'a [u8]>,
    /// The number of rows with a value.
    pub present: usize,
    /// The encoded values of these rows.
    pub encoded: &'a [u8],
}

impl<'a> PageParts<'a> {
    /// Splits a payload, and checks the number of nulls.
    pub fn split(header: &RecordHeader, payload: &'a [u8]) -> Result<Self, Fault> {
        if header.flags & RECORD_FLAG_INLINE_BOUNDS != 0 {
            let found = "set for inline min and max";
            return Err(Fault::new(
                "page flags",
                found,
                "only flags with a defined layout",
            ));
        }
        let rows = header.values as usize;
        let (validity, present, encoded) = match header.has_nulls() {
            true => {
                let mut fields = Cursor::new(payload);
                let bits = fields.take("validity bitmap", rows.div_ceil(8))?;
                (Some(bits), count_set(bits, 0, rows), fields.rest())
            }
            false => (None, rows, payload),
        };
        if rows - present != header.nulls as usize {
            let expected = format!("{}, as the validity bitmap has it", rows - present);
            return Err(Fault::new("number of nulls", header.nulls, expected));
        }
        Ok(Self {
            rows,
            validity: validity.filter(|_| present < rows),
            present,
            encoded,
        })
    }
}

/// Appends the values of a page: all rows, or the `selected` ones, which ascend and lie in the page. Must
/// not be called for blobs. After an error, the values must be cleared.
pub(crate) fn append_page(
    header: &RecordHeader,
    payload: &[u8],
    selected: Option<&[u32]>,
    out: &mut ColumnValues,
) -> Result<(), Fault> {
    let page = PageParts::split(header, payload)?;
    let encoding = encoding(header, out.column_type())?;
    match &mut out.values {
        Values::Bits(bits) => append_bits(&page, selected, bits)?,
        Values::Width1(words) => append_words(&page, encoding, selected, words)?,
        Values::Width2(words) => append_words(&page, encoding, selected, words)?,
        Values::Width4(words) => append_words(&page, encoding, selected, words)?,
        Values::Width8(words) => append_words(&page, encoding, selected, words)?,
        Values::Strings(strings) => match selected {
            Some(selected) => append_selected_strings(&page, selected, strings)?,
            None => {
                return append_strings_page(header, &Bytes::copy_from_slice(payload), None, out);
            }
        },
    }
    out.validity.push_page(page.validity, page.rows, selected);
    Ok(())
}

/// Appends the strings of all rows of a page, or of the `selected` ones, which share its payload.
pub(crate) fn append_strings_page(
    header: &RecordHeader,
    payload: &Bytes,
    selected: Option<&[u32]>,
    out: &mut ColumnValues,
) -> Result<(), Fault> {
    let page = PageParts::split(header, payload)?;
    encoding(header, out.column_type())?;
    let is_text = out.column_type() == ColumnType::String;
    if let Values::Strings(strings) = &mut out.values {
        append_strings(&page, payload, selected, is_text, strings)?;
    }
    out.validity.push_page(page.validity, page.rows, selected);
    Ok(())
}

/// Returns the encoding of a page, after checking that columns of this type can have it.
pub(crate) fn encoding(header: &RecordHeader, column_type: ColumnType) -> Result<Encoding, Fault> {
    let Some(encoding) = header.encoding() else {
        return Err(Fault::new(
            "encoding",
            header.encoding,
            "an encoding from 0 to 8",
        ));
    };
    let expected = match (column_type, encoding) {
        (_, Encoding::Dictionary | Encoding::Fsst) => {
            let found = format!("{encoding}, which has no defined layout");
            return Err(Fault::new(
                "encoding",
                found,
                "an encoding with a defined layout",
            ));
        }
        (ColumnType::List, _) => {
            let found = "a list, which has no defined layout";
            return Err(Fault::new(
                "column type",
                found,
                "a type with a defined layout",
            ));
        }
        (ColumnType::Bool, Encoding::Bitmap | Encoding::Plain) => return Ok(encoding),
        (ColumnType::Bool, _) => "bitmap or plain",
        (_, Encoding::Plain) => return Ok(encoding),
        _ if column_type.is_integer() && encoding != Encoding::Bitmap => return Ok(encoding),
        _ if column_type.is_integer() => "an encoding of integers",
        _ => "plain",
    };
    Err(Fault::new(
        "encoding",
        format!("{encoding} of a {column_type}"),
        expected,
    ))
}

fn append_words<T: Word>(
    page: &PageParts<'_>,
    encoding: Encoding,
    selected: Option<&[u32]>,
    out: &mut Vec<T>,
) -> Result<(), Fault> {
    let start = out.len();
    // A page without values is plain and empty.
    match page.present {
        0 if page.encoded.is_empty() => {}
        present => decode_integers(encoding, page.encoded, present, out)?,
    }
    if let Some(validity) = page.validity {
        out.resize(start + page.rows, T::default());
        spread(validity, page.present, &mut out[start..]);
    }
    if let Some(selected) = selected {
        let page_values = &mut out[start..];
        // Rows ascend, so no value is overwritten before it is moved.
        for (index, row) in selected.iter().enumerate() {
            page_values[index] = page_values[*row as usize];
        }
        out.truncate(start + selected.len());
    }
    Ok(())
}

/// Moves the first `present` values to the rows whose bits are set, and fills the other rows with zeros.
fn spread<T: Copy + Default>(validity: &[u8], present: usize, values: &mut [T]) {
    let mut dense = present;
    for row in (0..values.len()).rev() {
        if dense > row {
            // All rows before this one have values, which need not be moved.
            return;
        }
        values[row] = match bit(validity, row) {
            true => {
                // The bits were counted: there is one value per set bit.
                dense -= 1;
                values[dense]
            }
            false => T::default(),
        };
    }
}

fn append_bits(
    page: &PageParts<'_>,
    selected: Option<&[u32]>,
    out: &mut Bitmap,
) -> Result<(), Fault> {
    let bytes = page.present.div_ceil(8);
    if page.encoded.len() != bytes {
        let found = format!("{} bytes for {} booleans", page.encoded.len(), page.present);
        return Err(Fault::new("page payload", found, format!("{bytes} bytes")));
    }
    match (page.validity, selected) {
        (None, None) => out.push_bits(page.encoded, page.rows),
        (None, Some(selected)) => {
            for row in selected {
                out.push(bit(page.encoded, *row as usize));
            }
        }
        (Some(validity), selected) => {
            let all = 0..page.rows as u32;
            let (mut rank, mut next) = (0, 0);
            let mut push = |row: usize| {
                rank += count_set(validity, next, row);
                next = row;
                out.push(bit(validity, row) && bit(page.encoded, rank));
            };
            match selected {
                None => all.for_each(|row| push(row as usize)),
                Some(selected) => selected.iter().for_each(|row| push(*row as usize)),
            }
        }
    }
    Ok(())
}

fn append_strings(
    page: &PageParts<'_>,
    payload: &Bytes,
    selected: Option<&[u32]>,
    is_text: bool,
    out: &mut Strings,
) -> Result<(), Fault> {
    if page.present > page.encoded.len() {
        let found = format!("{} bytes for {} strings", page.encoded.len(), page.present);
        return Err(Fault::new("page payload", found, "1 byte or more for each"));
    }
    out.reserve(selected.map_or(page.rows, <[u32]>::len));
    let mut shared = out.share(payload);
    let mut strings = Cursor::new(page.encoded);
    let is_start = |byte: Option<&u8>| byte.is_none_or(|byte| byte & 0xc0 != 0x80);
    let is_ascii = page.encoded.is_ascii();
    let mut are_divided = is_text;
    let mut next = 0;
    for row in 0..page.rows {
        let is_selected = selected.is_none_or(|rows| rows.get(next) == Some(&(row as u32)));
        next += usize::from(is_selected);
        if page.validity.is_some_and(|validity| !bit(validity, row)) {
            if is_selected {
                shared.push_empty();
            }
            continue;
        }
        let string = strings.byte_string("string")?;
        let after = strings.rest();
        if !is_ascii {
            are_divided &= is_start(string.first().or(after.first())) && is_start(after.first());
        }
        if is_selected {
            let start = payload.len() - after.len() - string.len();
            shared.push(start, string.len());
        }
    }
    // If the strings with the lengths between them are one valid text, and no character crosses the
    // border of a string, each of them is valid: one check of a page is faster than one of each string.
    let is_valid = is_ascii || std::str::from_utf8(page.encoded).is_ok();
    if !are_divided || !is_valid {
        shared.set_unchecked();
    }
    strings.finish("page payload")
}

fn append_selected_strings(
    page: &PageParts<'_>,
    selected: &[u32],
    out: &mut Strings,
) -> Result<(), Fault> {
    let mut strings = Cursor::new(page.encoded);
    let mut next = 0;
    for row in selected.iter().map(|row| *row as usize) {
        let skipped = match page.validity {
            Some(validity) => count_set(validity, next, row),
            None => row - next,
        };
        for _ in 0..skipped {
            strings.byte_string("string")?;
        }
        match page.validity.is_none_or(|validity| bit(validity, row)) {
            true => out.push_copy(strings.byte_string("string")?),
            false => out.push_empty(),
        }
        next = row + 1;
    }
    Ok(())
}
