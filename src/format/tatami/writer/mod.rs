//! Writes `.tatami` files.
//!
//! ```text
//! batches -> open page of each column -> encoded pages of the open row group -> file
//!         -> open run of each blob column ------------------> spool -> file, after all row groups
//!            Bloom filters of each row group ---------------> spool -> file, after the dictionaries
//! ```

mod blobs;
mod blooms;
mod column;
mod compressor;
mod finish;
mod input;
mod integers;
mod manifest;
mod options;
mod output;
mod segment;
mod zones;

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::tatami::layout::footer::Footer;
use crate::format::tatami::layout::header::{FileHeader, HEADER_BYTES, Trailer};
use crate::format::tatami::layout::row_group::RowGroup;
use crate::format::tatami::layout::schema::{FIELD_SORT_KEY, Schema};
use crate::format::tatami::layout::types::ColumnType;
use crate::format::tatami::pages::page_index::PageIndexEntry;
use crate::format::tatami::writer::blobs::BlobRuns;
use crate::format::tatami::writer::column::{ColumnBuffer, FinishedChunk, Scratch};
use crate::format::tatami::writer::compressor::Compressor;
use crate::format::tatami::writer::output::{Output, Spooled};
use crate::format::tatami::writer::segment::index_header;

pub use input::{BitSlice, InputColumn, InputValues};
pub use manifest::CollectionChange;
pub use options::{MAX_ROW_GROUP_BYTES, MAX_ROW_GROUP_ROWS, MAX_ZSTD_LEVEL, WriterOptions};
pub use segment::SearchSegment;

/// Writes one `.tatami` file.
///
/// The file is written beside the target under a temporary name. [`Self::finish`] syncs it and renames it
/// to the target. Dropping an unfinished writer deletes the temporary files.
///
/// The writer keeps in memory the encoded pages of one row group, one page of values per column, and for
/// each blob column one run, or up to 8 MiB until it is decided whether the column gets a dictionary. The
/// format stores blob runs and Bloom filters after the last row group, so they are written to a second
/// temporary file first, the *spool*.
pub struct TatamiWriter {
    output: Output,
    /// The temporary file of blob runs and Bloom filters.
    spool: Option<Output>,
    options: WriterOptions,
    compressor: Compressor,
    scratch: Scratch,
    /// One per field of the schema, which has at least one. All have the same open rows.
    columns: Vec<ColumnBuffer>,
    blobs: Vec<Option<BlobRuns>>,
    blooms: Vec<(Spooled, u64)>,
    footer: Footer,
    /// The number of rows in the open row group. `group_bytes` is their approximate size.
    group_rows: usize,
    group_bytes: u64,
    first_unsorted_row: Option<u64>,
    has_failed: bool,
}

/// Describes a file that was written.
#[derive(Debug, Clone)]
pub struct WrittenFile {
    /// The header.
    pub header: FileHeader,
    /// The footer.
    pub footer: Footer,
    /// The trailer.
    pub trailer: Trailer,
    /// The length of the file in bytes.
    pub length: u64,
    /// The first row whose sort key is less than the sort key of an earlier row, if there is one.
    pub first_unsorted_row: Option<u64>,
}

impl std::fmt::Debug for TatamiWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TatamiWriter")
            .field("path", &self.output.target())
            .field("rows", &self.rows())
            .finish_non_exhaustive()
    }
}

impl TatamiWriter {
    /// Starts a file with these columns.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are no columns, a name is empty or repeated, a column is a list, the
    /// sort key is a blob, there are several sort keys, or an option is out of range. [`Error::Io`] if the
    /// temporary file cannot be created.
    pub fn create(path: impl AsRef<Path>, schema: Schema, options: WriterOptions) -> Result<Self> {
        let path = path.as_ref();
        options.check(path)?;
        schema
            .check()
            .map_err(|fault| Error::invalid(path, fault.to_string()))?;
        for field in &schema.fields {
            let reason = match field.column_type {
                ColumnType::List => "is a list, which has no defined layout",
                ColumnType::BlobRef if field.has_flag(FIELD_SORT_KEY) => {
                    "is a blob column, which cannot be the sort key"
                }
                _ => continue,
            };
            let message = format!("column {:?} {reason}", field.name);
            return Err(Error::invalid(path, message));
        }
        let mut output = Output::create(path)?;
        // Space for the header, which is known only when everything else is written.
        output.write(&[0; HEADER_BYTES as usize])?;
        let fields = schema.fields.iter().enumerate();
        let columns = fields
            .clone()
            .map(|(column, field)| ColumnBuffer::new(column, field, options.encoding));
        let codec = options.codec();
        let blobs = fields.map(|(column, field)| {
            let is_blob = field.column_type == ColumnType::BlobRef;
            is_blob.then(|| {
                BlobRuns::new(
                    column,
                    options.blob_run_bytes,
                    codec,
                    options.has_blob_dictionary,
                )
            })
        });
        Ok(Self {
            output,
            spool: None,
            compressor: Compressor::new(options.compression),
            scratch: Scratch::default(),
            columns: columns.collect(),
            blobs: blobs.collect(),
            blooms: Vec::new(),
            footer: Footer {
                schema,
                ..Footer::default()
            },
            group_rows: 0,
            group_bytes: 0,
            first_unsorted_row: None,
            has_failed: false,
            options,
        })
    }

    /// The columns.
    pub fn schema(&self) -> &Schema {
        &self.footer.schema
    }

    /// The number of rows written so far.
    pub fn rows(&self) -> u64 {
        self.footer.stats.rows + self.group_rows as u64
    }

    /// Appends rows. The columns are in the order of the schema.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the columns do not have the types of the schema or this number of rows, if a
    /// column that is not nullable has a null, if a value is larger than [`MAX_ROW_GROUP_BYTES`], if rows
    /// written so far are not in the order of the sort key, or if an earlier write failed. [`Error::Io`]
    /// if the file cannot be written.
    pub fn write(&mut self, rows: usize, columns: &[InputColumn<'_>]) -> Result<()> {
        self.check_not_failed()?;
        self.check(rows, columns)
            .map_err(|fault| Error::invalid(self.output.target(), fault))?;
        self.has_failed = true;
        let mut next = 0;
        while next < rows {
            let most = self.options.row_group_rows - self.group_rows;
            let most = most.min(self.options.page_rows - self.columns[0].open_rows());
            let mut end = rows.min(next.saturating_add(most));
            let mut bytes = self.size(columns, next..end);
            while self.group_bytes + bytes > self.options.row_group_bytes && end > next + 1 {
                end = next + (end - next) / 2;
                bytes = self.size(columns, next..end);
            }
            if self.group_rows > 0 && self.group_bytes + bytes > self.options.row_group_bytes {
                self.finish_group()?;
                continue;
            }
            self.append(columns, next..end)?;
            self.group_bytes += bytes;
            self.group_rows += end - next;
            if self.columns[0].open_rows() == self.options.page_rows {
                self.finish_pages()?;
            }
            if self.group_rows == self.options.row_group_rows {
                self.finish_group()?;
            }
            next = end;
        }
        self.has_failed = false;
        Ok(())
    }

    fn check_not_failed(&self) -> Result<()> {
        match self.has_failed {
            true => Err(Error::invalid(
                self.output.target(),
                "an earlier write failed",
            )),
            false => Ok(()),
        }
    }

    fn check(&self, rows: usize, columns: &[InputColumn<'_>]) -> Result<(), String> {
        let fields = &self.schema().fields;
        if columns.len() != fields.len() {
            let (found, expected) = (columns.len(), fields.len());
            return Err(format!("there are {found} columns, expected {expected}"));
        }
        for (field, column) in fields.iter().zip(columns) {
            let mut checked = column.check(field.column_type, rows);
            if checked.is_ok()
                && !field.is_nullable()
                && let Some(row) = (0..rows).find(|row| !column.is_valid(*row))
            {
                let row = self.rows() + row as u64;
                checked = Err(format!("row {row} is null, but the column is not nullable"));
            }
            checked.map_err(|fault| format!("column {:?}: {fault}", field.name))?;
        }
        Ok(())
    }

    fn size(&self, columns: &[InputColumn<'_>], rows: std::ops::Range<usize>) -> u64 {
        let fields = self.schema().fields.iter();
        fields
            .zip(columns)
            .map(|(field, column)| column.size(field.column_type, &rows))
            .sum()
    }

    fn append(&mut self, columns: &[InputColumn<'_>], rows: std::ops::Range<usize>) -> Result<()> {
        for (index, input) in columns.iter().enumerate() {
            self.columns[index].append(input, rows.clone(), &mut self.scratch);
            let Some(blobs) = &mut self.blobs[index] else {
                continue;
            };
            let spool = spool(&mut self.spool, &self.output)?;
            for row in rows.clone().filter(|row| input.is_valid(*row)) {
                let value = input.bytes(row).unwrap_or_default();
                blobs.push(value, &mut self.compressor, spool)?;
            }
        }
        Ok(())
    }

    /// Encodes the open page of all columns.
    fn finish_pages(&mut self) -> Result<()> {
        let codec = self.options.codec();
        let page_row = self.rows() - self.columns[0].open_rows() as u64;
        let fields = &self.footer.schema.fields;
        for (column, field) in self.columns.iter_mut().zip(fields) {
            let descent = column
                .finish_page(&mut self.compressor, codec, &mut self.scratch)
                .map_err(|fault| {
                    let message = format!("column {:?}: {fault}", field.name);
                    Error::invalid(self.output.target(), message)
                })?;
            let Some(row) = descent.map(|row| page_row + row as u64) else {
                continue;
            };
            if !self.options.allow_unsorted {
                let message = format!(
                    "column {:?}, row {row}: the value is less than the one before, but the column \
                     is the sort key, so rows must ascend by it",
                    field.name
                );
                return Err(Error::invalid(self.output.target(), message));
            }
            self.first_unsorted_row.get_or_insert(row);
        }
        Ok(())
    }

    /// Writes the open row group.
    fn finish_group(&mut self) -> Result<()> {
        self.finish_pages()?;
        let mut group = RowGroup {
            first_row: self.footer.stats.rows,
            rows: self.group_rows as u64,
            total_bytes: 0,
            sort_bounds: None,
            chunks: Vec::with_capacity(self.columns.len()),
        };
        let start = self.output.position();
        for column in &mut self.columns {
            let FinishedChunk {
                mut chunk,
                index,
                pages,
                hashes,
            } = column.take_chunk();
            chunk.first_page_offset = self.output.position();
            self.footer.stats.raw_bytes += chunk.raw_bytes;
            self.footer.stats.stored_bytes += chunk.stored_bytes;
            self.output.write(&pages)?;
            if let Some(mut entries) = index {
                for entry in &mut entries {
                    entry.offset += chunk.first_page_offset;
                }
                let payload = PageIndexEntry::encode_all(&entries);
                chunk.page_index = Some(self.output.position());
                write_index(&payload, "page index", &mut self.output)?;
                group.sort_bounds = chunk.zone.clone();
            }
            if let Some(hashes) = hashes.filter(|hashes| !hashes.is_empty()) {
                let payload = blooms::filter(&hashes);
                let spool = spool(&mut self.spool, &self.output)?;
                let record = write_index(&payload, "Bloom filter", spool)?;
                chunk.bloom = Some(self.blooms.len());
                self.blooms.push((record, payload.len() as u64));
            }
            group.chunks.push(chunk);
        }
        group.total_bytes = self.output.position() - start;
        self.footer.row_groups.push(group);
        self.footer.stats.rows += self.group_rows as u64;
        self.group_rows = 0;
        self.group_bytes = 0;
        Ok(())
    }

    /// Writes the rest of the file, syncs it and renames it to the target.
    ///
    /// # Errors
    /// [`Error::Invalid`] if an earlier write failed, rows are not in the order of the sort key, or the
    /// footer exceeds 4 GiB; [`Error::Io`] if the file cannot be written. The target is unchanged then.
    pub fn finish(self) -> Result<WrittenFile> {
        self.finish_with(None)
    }

    /// Writes the inverted index of a search segment and the rest of the file, as [`Self::finish`] does.
    ///
    /// # Errors
    /// As [`Self::finish`]; also [`Error::Invalid`] if there is not one document per row, or if a part of
    /// the index exceeds 4 GiB.
    pub fn finish_segment(self, segment: SearchSegment<'_>) -> Result<WrittenFile> {
        self.finish_with(Some(segment))
    }
}

/// Returns the spool. Creates it on first use.
fn spool<'a>(spool: &'a mut Option<Output>, output: &Output) -> Result<&'a mut Output> {
    match spool {
        Some(spool) => Ok(spool),
        empty => Ok(empty.insert(Output::create(output.target())?)),
    }
}

/// Writes an index record. `name` names the record in error messages.
fn write_index(payload: &[u8], name: &str, output: &mut Output) -> Result<Spooled> {
    let Ok(size) = u32::try_from(payload.len()) else {
        let length = payload.len();
        let message = format!(
            "a {name} takes {length} bytes, expected at most {}",
            u32::MAX
        );
        return Err(Error::invalid(output.target(), message));
    };
    output.write_record(&index_header(size, crc32c::crc32c(payload)), payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sinks move writers between threads.
    #[test]
    fn writers_can_be_sent() {
        fn is_send<T: Send>() {}
        is_send::<TatamiWriter>();
    }
}
