//! The term dictionary: all terms in bytewise order, each with its only posting or the ordinal
//! of its posting list.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use zstd::bulk::Decompressor;

use crate::error::{Error, Result};
use crate::format::fault::Fault;
use crate::format::tatami::bytes::{Cursor, MAX_VARINT_BYTES};
use crate::format::tatami::pages::payload::MAX_ZSTD_RATIO;
use crate::format::tatami::ranges::{IndexRecord, RangeBuffer};
use crate::format::tatami::search::entries::{Entries, Layout, TermEntry, out_of_order};

/// The version of the block tree.
pub(super) const BLOCK_TREE_VERSION: u8 = 2;
/// The number of terms per block, in dictionaries that this crate writes and in the index of a flat
/// dictionary.
pub(super) const TERMS_PER_BLOCK: u64 = 64;
/// Maximum size of a block of terms in bytes, before compression.
pub const MAX_TERM_BLOCK_BYTES: u64 = 256 << 20;
/// The maximum number of decompressed blocks in the cache.
const CACHED_BLOCKS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);
/// The maximum size of a block in the cache, in bytes.
const MAX_CACHED_BLOCK_BYTES: usize = 64 << 10;
/// Bytes read at a time while indexing a flat dictionary, unless a term is longer.
const WINDOW_BYTES: u64 = 64 << 10;
/// The maximum length of the head of a block tree, in bytes.
const MAX_HEAD_BYTES: u64 = 1 + 4 * MAX_VARINT_BYTES as u64;

/// The term dictionary of a segment, with the first term of each block in memory.
#[derive(Debug)]
pub(super) struct TermDictionary {
    record: IndexRecord,
    layout: Layout,
    terms: u64,
    terms_per_block: u64,
    documents: u64,
    /// The first terms of all blocks, one after the other.
    first_terms: Vec<u8>,
    blocks: Vec<Block>,
    loaded: Mutex<Loaded>,
}

/// A block of terms.
#[derive(Debug)]
struct Block {
    /// The end of the first term in [`TermDictionary::first_terms`].
    term_end: usize,
    /// The bytes of the block in the record.
    range: Range<u64>,
    raw_size: usize,
}

struct Loaded {
    buffer: RangeBuffer,
    context: Option<Decompressor<'static>>,
    blocks: LruCache<usize, Arc<[u8]>>,
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded")
            .field("blocks", &self.blocks.len())
            .finish_non_exhaustive()
    }
}

impl TermDictionary {
    /// Opens a dictionary of `terms` terms in a segment of `documents` documents.
    ///
    /// A block tree stores an index of its blocks, and only the index is read. A flat dictionary has no
    /// index, so all of its terms are read.
    pub fn open(
        record: IndexRecord,
        is_block_tree: bool,
        terms: u64,
        documents: u64,
    ) -> Result<Self> {
        let mut dictionary = Self {
            record,
            layout: Layout::Flat,
            terms,
            terms_per_block: TERMS_PER_BLOCK,
            documents,
            first_terms: Vec::new(),
            blocks: Vec::new(),
            loaded: Mutex::new(Loaded {
                buffer: RangeBuffer::default(),
                context: None,
                blocks: LruCache::new(CACHED_BLOCKS),
            }),
        };
        match is_block_tree {
            true => {
                dictionary.layout = Layout::BlockTree;
                dictionary.read_index()?;
            }
            false => dictionary.build_index()?,
        }
        Ok(dictionary)
    }

    /// The record of the dictionary.
    pub fn record(&self) -> &IndexRecord {
        &self.record
    }

    /// The number of terms.
    pub fn terms(&self) -> u64 {
        self.terms
    }

    /// The number of blocks.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Returns a reader of the entries of blocks.
    pub fn entries(&self) -> Entries {
        Entries::new(self.layout, self.documents)
    }

    fn read_index(&mut self) -> Result<()> {
        let mut buffer = RangeBuffer::default();
        let start = self.record.length().min(MAX_HEAD_BYTES);
        let mut cursor = Cursor::new(self.record.read(0..start, &mut buffer)?);
        let head = self.parse_head(&mut cursor);
        let (terms_per_block, blocks, index) = head.map_err(|fault| self.record.error(fault))?;
        let start = start - cursor.remaining() as u64;
        let area = start + index;
        let mut cursor = Cursor::new(self.record.read(start..area, &mut buffer)?);
        self.terms_per_block = terms_per_block;
        let parsed = self.parse_index(&mut cursor, blocks, area);
        parsed.map_err(|fault| self.record.error(fault))
    }

    /// Returns the terms per block, the number of blocks, and the length of the index.
    fn parse_head(&self, cursor: &mut Cursor<'_>) -> Result<(u64, u64, u64), Fault> {
        let version = cursor.byte("block tree version")?;
        if version != BLOCK_TREE_VERSION {
            return Err(Fault::new(
                "block tree version",
                version,
                BLOCK_TREE_VERSION,
            ));
        }
        let terms_per_block = cursor.varint("terms per block")?;
        if terms_per_block == 0 {
            return Err(Fault::new("terms per block", 0, "at least 1"));
        }
        let terms = cursor.varint("number of terms")?;
        self.check_terms(terms)?;
        let blocks = cursor.varint("number of blocks")?;
        if blocks != terms.div_ceil(terms_per_block) {
            let expected = format!("enough for {terms} terms, {terms_per_block} per block");
            return Err(Fault::new("number of blocks", blocks, expected));
        }
        let index = cursor.varint("index length")?;
        let read = self.record.length().min(MAX_HEAD_BYTES) - cursor.remaining() as u64;
        if index > self.record.length() - read {
            let expected = format!("at most {}", self.record.length() - read);
            return Err(Fault::new("index length", index, expected));
        }
        Ok((terms_per_block, blocks, index))
    }

    fn check_terms(&self, terms: u64) -> Result<(), Fault> {
        match terms == self.terms {
            true => Ok(()),
            false => Err(Fault::new(
                "number of terms",
                terms,
                format!("{}, as in the footer", self.terms),
            )),
        }
    }

    fn parse_index(
        &mut self,
        cursor: &mut Cursor<'_>,
        blocks: u64,
        area: u64,
    ) -> Result<(), Fault> {
        // An entry takes at least four bytes.
        if blocks > cursor.remaining() as u64 / 4 {
            let expected = format!(
                "at most {}, as many as fit the index",
                cursor.remaining() / 4
            );
            return Err(Fault::new("number of blocks", blocks, expected));
        }
        self.blocks.reserve_exact(blocks as usize);
        let available = self.record.length() - area;
        for _ in 0..blocks {
            let term = cursor.byte_string("first term of a block")?;
            let offset = cursor.varint("offset of a block")?;
            let size = cursor.varint("stored size of a block")?;
            let raw_size = cursor.varint("raw size of a block")?;
            let end = offset.checked_add(size).filter(|&end| end <= available);
            let Some(end) = end else {
                let found = format!("{size} bytes from {offset} on");
                return Err(Fault::new(
                    "range of a block",
                    found,
                    format!("up to {available}"),
                ));
            };
            if raw_size > MAX_TERM_BLOCK_BYTES {
                let expected = format!("at most {MAX_TERM_BLOCK_BYTES}");
                return Err(Fault::new("raw size of a block", raw_size, expected));
            }
            self.push_block(term, area + offset..area + end, raw_size as usize)?;
        }
        cursor.finish("index length")
    }

    fn push_block(&mut self, term: &[u8], range: Range<u64>, raw_size: usize) -> Result<(), Fault> {
        if !self.blocks.is_empty() && self.first_term(self.blocks.len() - 1) >= term {
            return Err(out_of_order(term));
        }
        self.first_terms.extend_from_slice(term);
        self.blocks.push(Block {
            term_end: self.first_terms.len(),
            range,
            raw_size,
        });
        Ok(())
    }

    /// Finds the first terms of blocks in a flat dictionary.
    fn build_index(&mut self) -> Result<()> {
        let record = self.record.clone();
        let length = record.length();
        let mut buffer = RangeBuffer::default();
        let start = length.min(MAX_VARINT_BYTES as u64);
        let mut cursor = Cursor::new(record.read(0..start, &mut buffer)?);
        let terms = cursor
            .varint("number of terms")
            .and_then(|terms| self.check_terms(terms));
        terms.map_err(|fault| record.error(fault))?;
        let mut offset = start - cursor.remaining() as u64;
        let mut window = WINDOW_BYTES;
        let mut ordinal = 0;
        let mut entries = Entries::new(Layout::Flat, self.documents);
        while ordinal < self.terms {
            let end = length.min(offset.saturating_add(window));
            let bytes = record.read(offset..end, &mut buffer)?;
            entries.position = 0;
            while ordinal < self.terms {
                let start = offset + entries.position as u64;
                match entries.next(bytes) {
                    // The entry may go on after the window.
                    Err(_) if end < length => break,
                    Err(fault) => return Err(record.error(fault)),
                    Ok(_) => {}
                }
                if ordinal.is_multiple_of(TERMS_PER_BLOCK) {
                    self.end_block(start);
                    let pushed = self.push_block(&entries.term, start..length, 0);
                    pushed.map_err(|fault| record.error(fault))?;
                }
                ordinal += 1;
            }
            // A term longer than the window needs a longer one.
            if entries.position == 0 {
                window = window.saturating_mul(2);
            }
            offset += entries.position as u64;
        }
        self.end_block(offset);
        match length - offset {
            0 => Ok(()),
            left => {
                let found = format!("followed by {left} bytes");
                Err(record.error(Fault::new("last term", found, "the end of the record")))
            }
        }
    }

    /// Ends the last block of a flat dictionary.
    fn end_block(&mut self, end: u64) {
        if let Some(block) = self.blocks.last_mut() {
            block.range.end = end;
            block.raw_size = (end - block.range.start) as usize;
        }
    }

    fn first_term(&self, block: usize) -> &[u8] {
        let start = match block.checked_sub(1) {
            Some(before) => self.blocks[before].term_end,
            None => 0,
        };
        &self.first_terms[start..self.blocks[block].term_end]
    }

    /// Returns the number of blocks whose first term is at most `term`.
    pub fn blocks_up_to(&self, term: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.blocks.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.first_term(middle) <= term {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// Finds a term: a binary search over first terms, and one block of terms.
    pub fn find(&self, term: &[u8]) -> Result<Option<TermEntry>> {
        let Some(block) = self.blocks_up_to(term).checked_sub(1) else {
            return Ok(None);
        };
        let bytes = self.load(block)?;
        let mut entries = self.entries();
        for _ in 0..self.terms_of(block) {
            let entry = entries
                .next(&bytes)
                .map_err(|fault| self.record.error(fault))?;
            match entries.term.as_slice().cmp(term) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Ok(Some(entry)),
                std::cmp::Ordering::Greater => break,
            }
        }
        Ok(None)
    }

    /// The number of terms in a block.
    pub fn terms_of(&self, block: usize) -> u64 {
        let before = self.terms_per_block.saturating_mul(block as u64);
        self.terms_per_block.min(self.terms.saturating_sub(before))
    }

    /// Returns the bytes of a block, decompressed.
    pub fn load(&self, block: usize) -> Result<Arc<[u8]>> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let Loaded {
            buffer,
            context,
            blocks,
        } = &mut *loaded;
        if let Some(bytes) = blocks.get(&block) {
            return Ok(Arc::clone(bytes));
        }
        let Block {
            range, raw_size, ..
        } = &self.blocks[block];
        let stored = self.record.read(range.clone(), buffer)?;
        let bytes: Arc<[u8]> = match self.layout {
            Layout::Flat => stored.into(),
            Layout::BlockTree => {
                let context = match context {
                    Some(context) => context,
                    None => context.insert(Decompressor::new().map_err(|error| {
                        Error::invalid(self.record.path(), format!("cannot use zstd: {error}"))
                    })?),
                };
                let raw = decompress(context, stored, *raw_size);
                raw.map_err(|fault| self.record.error(fault))?.into()
            }
        };
        if bytes.len() <= MAX_CACHED_BLOCK_BYTES {
            blocks.put(block, Arc::clone(&bytes));
        }
        Ok(bytes)
    }
}

/// Decompresses a frame of exactly `raw_size` bytes.
fn decompress(
    context: &mut Decompressor<'_>,
    stored: &[u8],
    raw_size: usize,
) -> Result<Vec<u8>, Fault> {
    // Checked first, so that a wrong size allocates nothing.
    let most = (stored.len() as u64).saturating_mul(MAX_ZSTD_RATIO);
    if raw_size as u64 > most {
        let expected = format!("at most {most} for {} stored bytes", stored.len());
        return Err(Fault::new("size of a block", raw_size, expected));
    }
    let raw = context.decompress(stored, raw_size);
    let raw = raw.map_err(|error| Fault::new("block of terms", error, "a zstd frame"))?;
    match raw.len() == raw_size {
        true => Ok(raw),
        false => Err(Fault::new("size of a block", raw.len(), raw_size)),
    }
}
