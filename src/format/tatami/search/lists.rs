//! Finds a posting list, or a list of skip entries, by its ordinal.
//!
//! The term dictionary holds the ordinals of lists, and the file stores no offsets of lists. A list is
//! found by walking over all lists before it. Every 64th offset is kept in memory, so that each list is
//! walked over at most once.

use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use crate::format::fault::Fault;
use crate::format::tatami::bytes::{Cursor, MAX_VARINT_BYTES};
use crate::format::tatami::ranges::{IndexRecord, RangeBuffer};

/// The number of lists between two offsets that are kept in memory.
const LISTS_PER_CHECKPOINT: u64 = 64;
/// The bytes of skip entries between two offsets that are kept in memory, unless a single list is longer.
const SKIP_BYTES_PER_CHECKPOINT: u64 = 4096;
/// Bytes read at a time while walking over lists.
const WINDOW_BYTES: u64 = 64 << 10;
/// The number of integers in a skip entry.
pub(super) const SKIP_FIELDS: u64 = 5;

/// The contents of the lists in a record. They determine how the end of a list is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListKind {
    /// A length in bytes, and the blocks.
    Postings,
    /// Documents, a number of blocks, and five integers per block.
    Skips,
}

/// The lists of one record.
#[derive(Debug)]
pub(super) struct Lists {
    record: IndexRecord,
    kind: ListKind,
    count: u64,
    known: Mutex<KnownOffsets>,
}

/// The offsets found so far. They take 16 bytes per 64 lists.
#[derive(Debug)]
struct KnownOffsets {
    /// Ordinals and offsets of lists, ascending.
    checkpoints: Vec<(u64, u64)>,
    /// The first list whose end is not known.
    frontier: Walk,
}

/// The start of a list: its ordinal and its offset.
#[derive(Debug, Clone, Copy)]
struct Walk {
    ordinal: u64,
    offset: u64,
}

impl Lists {
    /// Reads the number of lists.
    pub fn open(record: IndexRecord, kind: ListKind) -> Result<Self> {
        let mut buffer = RangeBuffer::default();
        let start = record.length().min(MAX_VARINT_BYTES as u64);
        let mut cursor = Cursor::new(record.read(0..start, &mut buffer)?);
        let count = cursor.varint("number of lists");
        let count = count.map_err(|fault| record.error(fault))?;
        let offset = start - cursor.remaining() as u64;
        // Each list takes at least one byte.
        if count > record.length() - offset {
            let expected = format!("at most {}, one byte each", record.length() - offset);
            return Err(record.error(Fault::new("number of lists", count, expected)));
        }
        let frontier = Walk { ordinal: 0, offset };
        Ok(Self {
            record,
            kind,
            count,
            known: Mutex::new(KnownOffsets {
                checkpoints: Vec::new(),
                frontier,
            }),
        })
    }

    /// The record that holds the lists.
    pub fn record(&self) -> &IndexRecord {
        &self.record
    }

    /// The number of lists.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the offset of a list in the payload.
    pub fn offset(&self, ordinal: u64) -> Result<u64> {
        if ordinal >= self.count {
            let fault = Fault::new(
                "ordinal of a list",
                ordinal,
                format!("less than {}", self.count),
            );
            return Err(self.record.error(fault));
        }
        let mut walk = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let KnownOffsets {
                checkpoints,
                frontier,
            } = &mut *known;
            if ordinal >= frontier.ordinal {
                self.walk(frontier, ordinal + 1, |list| {
                    let is_far = checkpoints.last().is_none_or(|&(ordinal, offset)| {
                        let bytes = list.offset.saturating_sub(offset);
                        list.ordinal >= ordinal + LISTS_PER_CHECKPOINT
                            || self.kind == ListKind::Skips
                                && list.ordinal > ordinal
                                && bytes >= SKIP_BYTES_PER_CHECKPOINT
                    });
                    if is_far {
                        checkpoints.push((list.ordinal, list.offset));
                    }
                })?;
            }
            let after = checkpoints.partition_point(|&(first, _)| first <= ordinal);
            // The first list is a checkpoint, so there is one at or before every list walked over.
            let (ordinal, offset) = checkpoints[after - 1];
            Walk { ordinal, offset }
        };
        self.walk(&mut walk, ordinal, |_| {})?;
        Ok(walk.offset)
    }

    /// Walks over all lists, and fails unless the record ends with the last one.
    pub fn check_all(&self) -> Result<()> {
        let mut walk = self
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .frontier;
        self.walk(&mut walk, self.count, |_| {})?;
        match self.record.length() - walk.offset {
            0 => Ok(()),
            left => {
                let found = format!("followed by {left} bytes");
                Err(self
                    .record
                    .error(Fault::new("last list", found, "the end of the record")))
            }
        }
    }

    /// Walks over the lists before ordinal `until`. Calls `on_list` with each of them.
    fn walk(&self, walk: &mut Walk, until: u64, mut on_list: impl FnMut(&Walk)) -> Result<()> {
        let mut buffer = RangeBuffer::default();
        let length = self.record.length();
        let mut at = *walk;
        // Integers of the current list that are still to be passed.
        let mut left = 0u64;
        while at.ordinal < until || left > 0 {
            let end = length.min(at.offset + WINDOW_BYTES);
            let window = self.record.read(at.offset..end, &mut buffer)?;
            let mut rest = window;
            let mut beyond = 0;
            while beyond == 0 && (at.ordinal < until || left > 0) {
                if left > 0 {
                    rest = pass_varints(rest, &mut left);
                    if rest.is_empty() {
                        break;
                    }
                    continue;
                }
                if rest.len() < 2 * MAX_VARINT_BYTES && end < length {
                    break;
                }
                let offset = end - rest.len() as u64;
                on_list(&Walk { offset, ..at });
                let mut cursor = Cursor::new(rest);
                let passed = self.pass_head(&mut cursor, length - offset);
                let (bytes, varints) = passed.map_err(|fault| self.record.error(fault))?;
                left = varints;
                let bytes_here = bytes.min(cursor.remaining() as u64);
                beyond = bytes - bytes_here;
                rest = &cursor.rest()[bytes_here as usize..];
                at.ordinal += 1;
            }
            at.offset = end - rest.len() as u64 + beyond;
            if end == length && left > 0 {
                let fault = Fault::new("skip entries", "cut off", format!("{left} more integers"));
                return Err(self.record.error(fault));
            }
        }
        *walk = at;
        Ok(())
    }

    /// Reads the head of a list. Returns the bytes and the integers that follow it.
    fn pass_head(&self, cursor: &mut Cursor<'_>, available: u64) -> Result<(u64, u64), Fault> {
        let head = cursor.remaining() as u64;
        let (field, size, unit) = match self.kind {
            ListKind::Postings => ("length of a list", cursor.varint("length of a list")?, 1),
            ListKind::Skips => {
                cursor.varint("documents of a list")?;
                let blocks = cursor.varint("blocks of a list")?;
                ("blocks of a list", blocks, SKIP_FIELDS)
            }
        };
        let available = available - (head - cursor.remaining() as u64);
        if size > available / unit {
            let expected = format!("at most {}, as many as fit", available / unit);
            return Err(Fault::new(field, size, expected));
        }
        Ok(match self.kind {
            ListKind::Postings => (size, 0),
            ListKind::Skips => (0, size * SKIP_FIELDS),
        })
    }
}

/// Passes up to `left` variable-length integers, counts them off, and returns the bytes after them.
fn pass_varints<'a>(bytes: &'a [u8], left: &mut u64) -> &'a [u8] {
    const CONTINUED: u64 = 0x8080_8080_8080_8080;
    let mut rest = bytes;
    // Whole words while the last integer ends after them.
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        let ends = u64::from((!u64::from_le_bytes(*word) & CONTINUED).count_ones());
        if ends >= *left {
            break;
        }
        *left -= ends;
        rest = after;
    }
    while let Some((byte, after)) = rest.split_first().filter(|_| *left > 0) {
        *left -= u64::from(byte & 0x80 == 0);
        rest = after;
    }
    rest
}
