//! The values of blob columns, which are stored in runs apart from the pages.

use crate::error::Result;
use crate::format::fault::Fault;
use crate::format::tatami::bytes::{Cursor, MAX_VARINT_BYTES};
use crate::format::tatami::file::TatamiFile;
use crate::format::tatami::layout::footer::{BlobColumn, BlobRun, Footer};
use crate::format::tatami::layout::record::{RECORD_HEADER_BYTES, RecordHeader};
use crate::format::tatami::pages::payload::PartialPayload;
use crate::format::tatami::pages::strings::Strings;
use crate::format::tatami::ranges::RangeBuffer;

/// Locates the values of a blob column. The ordinal of a value counts the values before it in the file,
/// without nulls.
#[derive(Debug)]
pub(crate) struct BlobDirectory {
    /// The ordinal of the first value of each row group.
    group_starts: Vec<u64>,
    /// The ordinal of the first value of each run, and then the number of all values.
    run_starts: Vec<u64>,
    totals: BlobTotals,
}

/// The number and the lengths of all values of a blob column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobTotals {
    /// The number of values, without nulls.
    pub values: u64,
    /// Their length before compression, in bytes.
    pub raw_bytes: u64,
    /// Their stored length in bytes.
    pub stored_bytes: u64,
}

impl BlobTotals {
    /// Returns the average length of a value before compression, and its stored length.
    pub fn average(&self) -> (u64, u64) {
        let values = self.values.max(1);
        (self.raw_bytes / values, self.stored_bytes / values)
    }
}

impl BlobDirectory {
    /// Computes the ordinals from the numbers of values in row groups and runs.
    pub fn new(footer: &Footer, blobs: &BlobColumn) -> Self {
        let mut group_starts = Vec::with_capacity(footer.row_groups.len());
        let mut start = 0;
        for group in &footer.row_groups {
            group_starts.push(start);
            // Checked when the file was opened: one chunk per column, and no more nulls than values.
            start += group
                .chunks
                .get(blobs.column)
                .map_or(0, |chunk| chunk.values - chunk.nulls);
        }
        let mut run_starts = vec![0];
        let mut totals = BlobTotals {
            values: 0,
            raw_bytes: 0,
            stored_bytes: 0,
        };
        for run in &blobs.runs {
            totals.values += run.values;
            run_starts.push(totals.values);
            totals.raw_bytes = totals.raw_bytes.saturating_add(run.raw_size);
            totals.stored_bytes = totals.stored_bytes.saturating_add(run.stored_size);
        }
        Self {
            group_starts,
            run_starts,
            totals,
        }
    }

    /// The number and the lengths of all values.
    pub fn totals(&self) -> BlobTotals {
        self.totals
    }

    /// Returns the ordinal of the first value of a row group.
    pub fn group_start(&self, group: usize) -> u64 {
        self.group_starts.get(group).copied().unwrap_or(0)
    }

    /// Returns the run that holds the value with this ordinal, and the index of the value in the run.
    fn locate(&self, value: u64) -> Option<(usize, usize)> {
        let run = self
            .run_starts
            .partition_point(|start| *start <= value)
            .checked_sub(1)?;
        if run + 1 >= self.run_starts.len() {
            return None;
        }
        let index = usize::try_from(value - self.run_starts[run]).ok()?;
        Some((run, index))
    }
}

/// The run of a blob column that was used last, decompressed as far as needed.
#[derive(Debug, Default)]
pub(crate) struct DecodedRun {
    run: Option<usize>,
    payload: PartialPayload,
    /// The offsets of the values in the payload, and the end of the last one.
    starts: Vec<u32>,
    range: RangeBuffer,
    /// The stored bytes of all runs that were read.
    bytes_read: u64,
}

impl DecodedRun {
    /// Appends the value with this ordinal to `out`. Reads its run, unless it is the run that was used
    /// last. With `is_whole`, for readers of all values, decompresses all of the run at once, and shares
    /// it; otherwise decompresses it up to the value, and copies the value.
    pub fn append(
        &mut self,
        file: &TatamiFile,
        blobs: &BlobColumn,
        directory: &BlobDirectory,
        value: u64,
        is_whole: bool,
        out: &mut Strings,
    ) -> Result<()> {
        let part = || file.part(None, blobs.column, ", blobs");
        let Some((run, index)) = directory.locate(value) else {
            let fault = Fault::new("blob", value, "less than the values of all runs");
            return Err(file.error(part(), fault));
        };
        if self.run != Some(run) {
            self.open(file, blobs, run, is_whole)?;
            self.run = Some(run);
        }
        self.append_of_run(run, index, is_whole, out)
            .inspect_err(|_| self.run = None)
            .map_err(|fault| file.error(part(), fault))
    }

    /// Appends a value of the run that was opened last.
    fn append_of_run(
        &mut self,
        run: usize,
        index: usize,
        is_whole: bool,
        out: &mut Strings,
    ) -> Result<(), Fault> {
        let (Some(start), Some(end)) = (self.starts.get(index), self.starts.get(index + 1)) else {
            let expected = format!("less than the values of run {run}");
            return Err(Fault::new("blob", index, expected));
        };
        let (start, end) = (*start as usize, *end as usize);
        if is_whole {
            let mut shared = out.share(self.payload.shared()?);
            shared.push(start, end - start);
            shared.set_unchecked();
        } else {
            out.push_copy(&self.payload.first(end)?[start..end]);
        }
        Ok(())
    }

    /// The stored bytes of all runs that were read.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Reads a run, and finds its values. Decompresses all of it with `is_whole`.
    pub fn open(
        &mut self,
        file: &TatamiFile,
        blobs: &BlobColumn,
        run: usize,
        is_whole: bool,
    ) -> Result<()> {
        self.run = None;
        let Some(stored_run) = blobs.runs.get(run) else {
            return Ok(());
        };
        let location = |fault| {
            file.error(
                file.part(None, blobs.column, &format!(", blob run {run}")),
                fault,
            )
        };
        let dictionary = match blobs.dictionary {
            Some(dictionary) => Some(file.dictionary(dictionary)?),
            None => None,
        };
        let end = stored_run.offset + RECORD_HEADER_BYTES + stored_run.stored_size;
        self.bytes_read += stored_run.stored_size;
        let Self {
            payload,
            starts,
            range,
            ..
        } = self;
        let record = range.read(file.storage(), file.access(), stored_run.offset..end)?;
        let mut fields = Cursor::new(record);
        RecordHeader::read(&mut fields)
            .and_then(|header| {
                check_run(&header, stored_run)?;
                payload.start(&header, fields.rest(), dictionary, is_whole)?;
                split(payload, header.values, starts)
            })
            .map_err(location)
    }
}

/// Computes the offsets of the values from their lengths, which are at the start of the payload.
fn split(run: &mut PartialPayload, values: u32, starts: &mut Vec<u32>) -> Result<(), Fault> {
    let size = run.size();
    let mut needed = MAX_VARINT_BYTES + 2 * values as usize;
    let before = loop {
        let payload = run.first(needed)?;
        match split_lengths(payload, values, starts) {
            Ok(before) => break before,
            Err(_) if payload.len() < size => needed = 2 * payload.len().max(1),
            Err(fault) => return Err(fault),
        }
    };
    let end = starts.last().copied().unwrap_or(0);
    if before.checked_add(end as usize) != Some(size) {
        let expected = format!("{}, the bytes of the run", size.saturating_sub(before));
        return Err(Fault::new(
            "length of the blobs",
            format!("{end} in all"),
            expected,
        ));
    }
    // Cannot overflow: the sum for the last value is the size of the payload.
    for start in starts {
        *start += before as u32;
    }
    Ok(())
}

/// Reads the lengths at the start of a run. Fills `starts` with the offsets of the values from the end of
/// the lengths, and returns this end.
fn split_lengths(payload: &[u8], values: u32, starts: &mut Vec<u32>) -> Result<usize, Fault> {
    let mut fields = Cursor::new(payload);
    let count = fields.count("number of blobs", 1)?;
    if count != values as usize {
        let expected = format!("{values}, as in the header");
        return Err(Fault::new("number of blobs", count, expected));
    }
    starts.clear();
    starts.reserve(count + 1);
    starts.push(0);
    let mut end = 0u32;
    for _ in 0..count {
        let length = fields.varint("length of a blob")?;
        // A sum that is too large is compared with the size of the payload, and refused.
        end = end.saturating_add(u32::try_from(length).unwrap_or(u32::MAX));
        starts.push(end);
    }
    Ok(payload.len() - fields.remaining())
}

/// Checks the header of a run against the footer.
fn check_run(header: &RecordHeader, run: &BlobRun) -> Result<(), Fault> {
    for (field, found, expected) in [
        ("stored size", header.stored_size, run.stored_size),
        ("uncompressed size", header.raw_size, run.raw_size),
        ("number of values", header.values, run.values),
    ] {
        if u64::from(found) != expected {
            return Err(Fault::new(
                field,
                found,
                format!("{expected}, as in the footer"),
            ));
        }
    }
    Ok(())
}
