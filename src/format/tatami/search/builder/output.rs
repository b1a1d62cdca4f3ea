//! Encodes terms with their postings.

use std::path::{Path, PathBuf};

use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use crate::error::{Error, Result};
use crate::format::tatami::bytes::{put_byte_string, put_varint};
use crate::format::tatami::encoding::lists::{put_group_varint, put_list, put_pfor};
use crate::format::tatami::encoding::packing::bit_width;
use crate::format::tatami::search::builder::parts::{Part, SegmentParts};
use crate::format::tatami::search::dictionary::{
    BLOCK_TREE_VERSION, MAX_TERM_BLOCK_BYTES, TERMS_PER_BLOCK,
};
use crate::format::tatami::search::postings::BLOCK_DOCUMENTS;

/// The zstd level for terms, which compresses about as well as the reference implementation.
const ZSTD_LEVEL: i32 = 7;

/// Writes the parts of an inverted index, term by term.
pub(super) struct SegmentWriter {
    directory: PathBuf,
    postings: Part,
    skips: Part,
    lists: u64,
    list: PostingList,
    terms: TermBlocks,
}

/// The posting list of the current term.
#[derive(Default)]
struct PostingList {
    documents: Vec<u32>,
    frequencies: Vec<u32>,
    /// The encoded blocks, and their skip entries.
    blocks: Vec<u8>,
    skips: Vec<u8>,
    count: u64,
    block_count: u64,
}

impl PostingList {
    fn end_block(&mut self) {
        let (Some(&first), Some(&last)) = (self.documents.first(), self.documents.last()) else {
            return;
        };
        let most = self
            .frequencies
            .iter()
            .fold(0, |most, &frequency| most.max(frequency));
        let count = self.documents.len();
        for field in [first, last, most] {
            put_varint(&mut self.skips, u64::from(field));
        }
        put_varint(&mut self.skips, self.blocks.len() as u64);
        put_varint(&mut self.skips, count as u64);
        let mut gaps = [0; BLOCK_DOCUMENTS];
        for (gap, pair) in gaps.iter_mut().zip(self.documents.windows(2)) {
            *gap = pair[1] - pair[0];
        }
        let gaps = &gaps[..count - 1];
        if count == BLOCK_DOCUMENTS {
            let width = bit_width(gaps.iter().fold(0, |all, gap| all | gap).into());
            self.blocks.push(width as u8);
            put_list(&mut self.blocks, width, gaps);
        } else {
            put_group_varint(&mut self.blocks, gaps);
        }
        put_pfor(&mut self.blocks, &self.frequencies);
        self.block_count += 1;
        self.documents.clear();
        self.frequencies.clear();
    }
}

impl SegmentWriter {
    /// Creates temporary files.
    pub fn create(directory: &Path) -> Result<Self> {
        Ok(Self {
            directory: directory.to_path_buf(),
            postings: Part::create(directory)?,
            skips: Part::create(directory)?,
            lists: 0,
            list: PostingList::default(),
            terms: TermBlocks::create(directory)?,
        })
    }

    /// Adds a posting of the current term. Documents must ascend.
    pub fn add(&mut self, document: u32, frequency: u32) {
        let list = &mut self.list;
        if list.documents.len() == BLOCK_DOCUMENTS {
            list.end_block();
        }
        list.documents.push(document);
        list.frequencies.push(frequency);
        list.count += 1;
    }

    /// Ends the current term. Terms must come in bytewise order.
    pub fn end_term(&mut self, term: &[u8]) -> Result<()> {
        let list = &mut self.list;
        let mut entry = Vec::with_capacity(24);
        put_varint(&mut entry, list.count);
        match (list.count, &*list.documents, &*list.frequencies) {
            (1, [document], [frequency]) => {
                entry.push(1);
                put_varint(&mut entry, u64::from(*document));
                put_varint(&mut entry, u64::from(*frequency));
            }
            _ => {
                entry.push(0);
                put_varint(&mut entry, self.lists);
                self.lists += 1;
                list.end_block();
                let mut head = Vec::with_capacity(20);
                put_varint(&mut head, list.blocks.len() as u64);
                self.postings.write(&head)?;
                self.postings.write(&list.blocks)?;
                head.clear();
                put_varint(&mut head, list.count);
                put_varint(&mut head, list.block_count);
                self.skips.write(&head)?;
                self.skips.write(&list.skips)?;
            }
        }
        for bytes in [&mut list.blocks, &mut list.skips] {
            bytes.clear();
        }
        list.documents.clear();
        list.frequencies.clear();
        (list.count, list.block_count) = (0, 0);
        self.terms.add(term, &entry)
    }

    /// Completes all parts.
    pub fn finish(self, documents: u64, live: Option<Vec<u8>>) -> Result<SegmentParts> {
        let mut lists = Vec::new();
        put_varint(&mut lists, self.lists);
        let terms = self.terms.terms;
        let live = match live {
            Some(bytes) => {
                let part = Part::create(&self.directory)?;
                Some(part.finish(bytes)?)
            }
            None => None,
        };
        Ok(SegmentParts {
            terms,
            documents,
            term_dictionary: self.terms.finish()?,
            postings: self.postings.finish(lists.clone())?,
            skips: self.skips.finish(lists)?,
            live,
        })
    }
}

/// Writes the block tree of terms.
struct TermBlocks {
    directory: PathBuf,
    area: Part,
    index: Vec<u8>,
    context: Compressor<'static>,
    first: Vec<u8>,
    last: Vec<u8>,
    block: Vec<u8>,
    block_terms: u64,
    blocks: u64,
    terms: u64,
}

impl TermBlocks {
    fn create(directory: &Path) -> Result<Self> {
        let failed = |error| Error::invalid(directory, format!("cannot use zstd: {error}"));
        let mut context = Compressor::new(ZSTD_LEVEL).map_err(failed)?;
        // The reference implementation writes checksums, so that blocks are checked one by one.
        context
            .set_parameter(CParameter::ChecksumFlag(true))
            .map_err(failed)?;
        Ok(Self {
            directory: directory.to_path_buf(),
            area: Part::create(directory)?,
            index: Vec::new(),
            context,
            first: Vec::new(),
            last: Vec::new(),
            block: Vec::new(),
            block_terms: 0,
            blocks: 0,
            terms: 0,
        })
    }

    fn add(&mut self, term: &[u8], entry: &[u8]) -> Result<()> {
        if self.block_terms == TERMS_PER_BLOCK {
            self.end_block()?;
        }
        if self.block_terms == 0 {
            self.first.clear();
            self.first.extend_from_slice(term);
            self.last.clear();
        }
        let shared = term
            .iter()
            .zip(&self.last)
            .take_while(|(a, b)| a == b)
            .count();
        put_varint(&mut self.block, shared as u64);
        put_byte_string(&mut self.block, &term[shared..]);
        self.block.extend_from_slice(entry);
        self.last.truncate(shared);
        self.last.extend_from_slice(&term[shared..]);
        self.block_terms += 1;
        self.terms += 1;
        Ok(())
    }

    fn end_block(&mut self) -> Result<()> {
        if self.block_terms == 0 {
            return Ok(());
        }
        if self.block.len() as u64 > MAX_TERM_BLOCK_BYTES {
            let message = format!(
                "{TERMS_PER_BLOCK} words in succession take more than {MAX_TERM_BLOCK_BYTES} bytes"
            );
            return Err(Error::invalid(&self.directory, message));
        }
        let stored = self.context.compress(&self.block).map_err(|error| {
            Error::invalid(&self.directory, format!("cannot compress terms: {error}"))
        })?;
        put_byte_string(&mut self.index, &self.first);
        for field in [
            self.area.length(),
            stored.len() as u64,
            self.block.len() as u64,
        ] {
            put_varint(&mut self.index, field);
        }
        self.area.write(&stored)?;
        self.block.clear();
        self.block_terms = 0;
        self.blocks += 1;
        Ok(())
    }

    fn finish(mut self) -> Result<Part> {
        self.end_block()?;
        let mut head = vec![BLOCK_TREE_VERSION];
        for field in [
            TERMS_PER_BLOCK,
            self.terms,
            self.blocks,
            self.index.len() as u64,
        ] {
            put_varint(&mut head, field);
        }
        head.extend_from_slice(&self.index);
        self.area.finish(head)
    }
}
