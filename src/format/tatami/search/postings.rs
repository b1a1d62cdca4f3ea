//! Posting lists: the documents that contain a term, in blocks of 128.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::format::fault::Fault;
use crate::format::tatami::bytes::{Cursor, MAX_VARINT_BYTES};
use crate::format::tatami::encoding::lists::{read_group_varint, read_packed, read_pfor};
use crate::format::tatami::ranges::RangeBuffer;
use crate::format::tatami::search::lists::{Lists, SKIP_FIELDS};

/// The number of documents in a block. The last block of a list may have fewer.
pub const BLOCK_DOCUMENTS: usize = 128;

/// The maximum length of an integer in a skip entry, in bytes. Integers have at most 32 bits.
const MAX_SKIP_FIELD_BYTES: u64 = 5;

/// One document of a posting list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posting {
    /// The document, which is its row number in the file.
    pub document: u32,
    /// The number of times that the document contains the term, in all indexed columns together.
    pub frequency: u32,
}

/// A skip entry, which describes a block without decoding it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkipEntry {
    /// The first document.
    pub first: u32,
    /// The last document.
    pub last: u32,
    /// The highest frequency.
    pub max_frequency: u32,
    /// The number of documents.
    pub count: u32,
    /// The offset of the block in the list.
    offset: u32,
}

/// A cursor over a posting list, in the order of documents.
///
/// Opening a cursor reads all skip entries of the list, which take 20 bytes of memory per 128 documents.
/// Blocks are read and decoded one at a time, when the cursor reaches a document in them.
#[derive(Debug)]
pub struct Postings {
    lists: Arc<Lists>,
    /// The bytes of the list in the record.
    range: Range<u64>,
    skips: Vec<SkipEntry>,
    block: usize,
    /// The block in `documents` and `frequencies`.
    decoded: Option<usize>,
    documents: [u32; BLOCK_DOCUMENTS],
    frequencies: [u32; BLOCK_DOCUMENTS],
    /// The next posting of the decoded block.
    position: usize,
    buffer: RangeBuffer,
}

impl Postings {
    /// Returns the list of a term in one document.
    pub(super) fn single(lists: &Arc<Lists>, posting: Posting) -> Self {
        let mut postings = Self::new(
            lists,
            0..0,
            vec![SkipEntry {
                first: posting.document,
                last: posting.document,
                max_frequency: posting.frequency,
                count: 1,
                offset: 0,
            }],
        );
        postings.documents[0] = posting.document;
        postings.frequencies[0] = posting.frequency;
        postings.decoded = Some(0);
        postings
    }

    /// Reads the skip entries of a list of `count` of all `documents` documents.
    pub(super) fn open(
        lists: &Arc<Lists>,
        skip_lists: &Lists,
        ordinal: u64,
        count: u64,
        documents: u64,
    ) -> Result<Self> {
        let mut buffer = RangeBuffer::default();
        let record = lists.record();
        let start = lists.offset(ordinal)?;
        let end = record.length().min(start + MAX_VARINT_BYTES as u64);
        let mut cursor = Cursor::new(record.read(start..end, &mut buffer)?);
        let length = cursor
            .varint("length of a list")
            .map_err(|fault| record.error(fault))?;
        let start = end - cursor.remaining() as u64;
        if length > record.length() - start {
            let expected = format!("at most {}", record.length() - start);
            return Err(record.error(Fault::new("length of a list", length, expected)));
        }
        let skips = read_skips(skip_lists, ordinal, count, documents, length)?;
        Ok(Self::new(lists, start..start + length, skips))
    }

    fn new(lists: &Arc<Lists>, range: Range<u64>, skips: Vec<SkipEntry>) -> Self {
        Self {
            lists: Arc::clone(lists),
            range,
            skips,
            block: 0,
            decoded: None,
            documents: [0; BLOCK_DOCUMENTS],
            frequencies: [0; BLOCK_DOCUMENTS],
            position: 0,
            buffer: RangeBuffer::default(),
        }
    }

    /// Returns the next posting, or `None` after the last one.
    ///
    /// # Errors
    /// Fails if the next block cannot be read or is malformed.
    #[expect(clippy::should_implement_trait, reason = "reading can fail")]
    pub fn next(&mut self) -> Result<Option<Posting>> {
        loop {
            let Some(block) = self.block() else {
                return Ok(None);
            };
            if self.decoded != Some(self.block) {
                self.decode()?;
            }
            if self.position < block.count as usize {
                let posting = Posting {
                    document: self.documents[self.position],
                    frequency: self.frequencies[self.position],
                };
                self.position += 1;
                return Ok(Some(posting));
            }
            self.block += 1;
            self.position = 0;
        }
    }

    /// Returns the next posting whose document is `document` or a later one, or `None` if there is none. The
    /// cursor never moves back. Blocks before the posting are skipped without reading them.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn seek(&mut self, document: u32) -> Result<Option<Posting>> {
        let before = self.block;
        if self.seek_block(document).is_some() {
            if before != self.block {
                self.position = 0;
            }
            let position = self.position;
            let (documents, _) = self.decode()?;
            let at = documents.partition_point(|&found| found < document);
            self.position = at.max(position);
        }
        self.next()
    }

    /// The skip entry of the current block, or `None` after the last one. Its `max_frequency` bounds the
    /// scores of the block.
    pub fn block(&self) -> Option<SkipEntry> {
        self.skips.get(self.block).copied()
    }

    /// The skip entries of all blocks.
    pub fn skip_entries(&self) -> &[SkipEntry] {
        &self.skips
    }

    /// Moves to the next block that ends with `document` or a later one, without reading it. Does not move if
    /// the current block does. Returns the skip entry of the block.
    pub(super) fn seek_block(&mut self, document: u32) -> Option<SkipEntry> {
        // Most seeks stay in the block or move to a block nearby, so the search steps start at 1 and double.
        let mut step = 1;
        while self
            .skips
            .get(self.block + step - 1)
            .is_some_and(|skip| skip.last < document)
        {
            self.block += step;
            step *= 2;
        }
        if step > 1 {
            let end = self.skips.len().min(self.block + step - 1);
            let rest = self.skips.get(self.block..end).unwrap_or_default();
            self.block += rest.partition_point(|skip| skip.last < document);
        }
        self.block()
    }

    /// Returns the documents and frequencies of the current block, which must exist.
    pub(super) fn decode(&mut self) -> Result<(&[u32], &[u32])> {
        let skip = self.skips[self.block];
        let count = skip.count as usize;
        if self.decoded != Some(self.block) {
            self.decoded = None;
            let end = self
                .skips
                .get(self.block + 1)
                .map(|next| u64::from(next.offset));
            let end = end.map_or(self.range.end, |end| self.range.start + end);
            let range = self.range.start + u64::from(skip.offset)..end;
            let record = self.lists.record();
            let mut cursor = Cursor::new(record.read(range, &mut self.buffer)?);
            let documents = &mut self.documents[..count];
            let frequencies = &mut self.frequencies[..count];
            decode_block(&mut cursor, &skip, documents, frequencies)
                .map_err(|fault| record.error(fault))?;
            self.decoded = Some(self.block);
        }
        Ok((&self.documents[..count], &self.frequencies[..count]))
    }
}

/// Decodes a block of as many documents as fit.
fn decode_block(
    cursor: &mut Cursor<'_>,
    skip: &SkipEntry,
    documents: &mut [u32],
    frequencies: &mut [u32],
) -> Result<(), Fault> {
    let count = documents.len();
    let Some((first, gaps)) = documents.split_first_mut() else {
        return Ok(());
    };
    match count {
        BLOCK_DOCUMENTS => {
            let width = cursor.byte("bit width")?;
            read_packed(cursor, u32::from(width), gaps)?;
        }
        _ => read_group_varint(cursor, gaps)?,
    }
    *first = skip.first;
    let (mut document, mut is_ascending) = (skip.first, true);
    for gap in gaps {
        let next = document.wrapping_add(*gap);
        is_ascending &= next > document;
        document = next;
        *gap = document;
    }
    if !is_ascending || document != skip.last {
        let found = match is_ascending {
            true => document.to_string(),
            false => "not in ascending order".to_string(),
        };
        let expected = format!("{}, as in the skip entry", skip.last);
        return Err(Fault::new("last document of a block", found, expected));
    }
    read_pfor(cursor, frequencies)?;
    let most = frequencies
        .iter()
        .fold(0, |most, &frequency| most.max(frequency));
    if most != skip.max_frequency {
        let expected = format!("{}, as in the skip entry", skip.max_frequency);
        return Err(Fault::new("highest frequency of a block", most, expected));
    }
    cursor.finish("block")
}

/// Reads the skip entries of a list of `count` documents and `length` bytes.
fn read_skips(
    lists: &Lists,
    ordinal: u64,
    count: u64,
    documents: u64,
    length: u64,
) -> Result<Vec<SkipEntry>> {
    let mut buffer = RangeBuffer::default();
    let record = lists.record();
    let start = lists.offset(ordinal)?;
    let end = record.length().min(start + 2 * MAX_VARINT_BYTES as u64);
    let mut cursor = Cursor::new(record.read(start..end, &mut buffer)?);
    let blocks = check_list(&mut cursor, count).map_err(|fault| record.error(fault))?;
    let start = end - cursor.remaining() as u64;
    let end = record
        .length()
        .min(start.saturating_add(blocks * SKIP_FIELDS * MAX_SKIP_FIELD_BYTES));
    let mut cursor = Cursor::new(record.read(start..end, &mut buffer)?);
    parse_skips(&mut cursor, blocks, count, documents, length).map_err(|fault| record.error(fault))
}

/// Reads the head of a list of skip entries. Returns the number of blocks.
fn check_list(cursor: &mut Cursor<'_>, count: u64) -> Result<u64, Fault> {
    let found = cursor.varint("documents of a list")?;
    if found != count {
        let expected = format!("{count}, as in the term dictionary");
        return Err(Fault::new("documents of a list", found, expected));
    }
    let blocks = cursor.varint("blocks of a list")?;
    // Blocks have 1 to 128 documents.
    if blocks > count || blocks < count.div_ceil(BLOCK_DOCUMENTS as u64) {
        let expected = format!("enough for {count} documents");
        return Err(Fault::new("blocks of a list", blocks, expected));
    }
    Ok(blocks)
}

fn parse_skips(
    cursor: &mut Cursor<'_>,
    blocks: u64,
    count: u64,
    documents: u64,
    length: u64,
) -> Result<Vec<SkipEntry>, Fault> {
    if blocks > cursor.remaining() as u64 / SKIP_FIELDS {
        let found = format!("cut off with {} bytes left", cursor.remaining());
        return Err(Fault::new(
            "skip entries",
            found,
            format!("{blocks} entries"),
        ));
    }
    let mut skips = Vec::with_capacity(blocks as usize);
    let (mut next_document, mut next_offset, mut total) = (0, 0, 0);
    for _ in 0..blocks {
        let mut field = |name: &'static str, from: u64, below: u64| {
            let value = cursor.varint(name)?;
            let is_allowed = (from..below).contains(&value);
            match u32::try_from(value).ok().filter(|_| is_allowed) {
                Some(value) => Ok(value),
                None => Err(Fault::new(
                    name,
                    value,
                    format!("{from} to {below}, exclusive"),
                )),
            }
        };
        let first = field("first document of a block", next_document, documents)?;
        let last = field("last document of a block", u64::from(first), documents)?;
        let max_frequency = field("highest frequency of a block", 0, 1 << 32)?;
        let offset = field("offset of a block", next_offset, length)?;
        let count = field("documents of a block", 1, BLOCK_DOCUMENTS as u64 + 1)?;
        skips.push(SkipEntry {
            first,
            last,
            max_frequency,
            count,
            offset,
        });
        next_document = u64::from(last) + 1;
        next_offset = u64::from(offset) + 1;
        total += u64::from(count);
    }
    if skips.first().is_some_and(|skip| skip.offset != 0) {
        return Err(Fault::new("offset of the first block", skips[0].offset, 0));
    }
    if total != count {
        let expected = format!("{count}, as in the term dictionary");
        return Err(Fault::new("documents of all blocks", total, expected));
    }
    Ok(skips)
}
