//! [`Region`]: divides the bytes of a file into records, header, footer and unused bytes.

use std::fmt;

use crate::error::Result;
use crate::format::tatami::file::TatamiFile;
use crate::format::tatami::layout::header::{HEADER_BYTES, TRAILER_BYTES};
use crate::format::tatami::layout::record::RECORD_HEADER_BYTES;

/// The contents of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegionKind {
    /// The header of the file.
    Header,
    /// A page, with its header.
    Page {
        /// The index of the row group.
        group: usize,
        /// The index of the column.
        column: usize,
        /// The index of the page in its chunk.
        page: usize,
    },
    /// The page index of a chunk.
    PageIndex {
        /// The index of the row group.
        group: usize,
        /// The index of the column.
        column: usize,
    },
    /// A run of blobs.
    BlobRun {
        /// The index of the column.
        column: usize,
        /// The index of the run.
        run: usize,
    },
    /// A dictionary, by its index.
    Dictionary(usize),
    /// A Bloom filter, by its index.
    Bloom(usize),
    /// The term dictionary of a search segment.
    TermDictionary,
    /// The posting lists of a search segment.
    Postings,
    /// The skip entries of a search segment.
    Skips,
    /// The bitset of live documents of a search segment.
    LiveDocuments,
    /// The footer.
    Footer,
    /// The trailer.
    Trailer,
    /// Bytes that nothing refers to.
    Unused,
}

impl fmt::Display for RegionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("header"),
            Self::Page {
                group,
                column,
                page,
            } => write!(f, "row group {group}, column {column}, page {page}"),
            Self::PageIndex { group, column } => {
                write!(f, "row group {group}, column {column}, page index")
            }
            Self::BlobRun { column, run } => write!(f, "column {column}, blob run {run}"),
            Self::Dictionary(index) => write!(f, "dictionary {index}"),
            Self::Bloom(index) => write!(f, "Bloom filter {index}"),
            Self::TermDictionary => f.write_str("term dictionary"),
            Self::Postings => f.write_str("postings"),
            Self::Skips => f.write_str("skips"),
            Self::LiveDocuments => f.write_str("live documents"),
            Self::Footer => f.write_str("footer"),
            Self::Trailer => f.write_str("trailer"),
            Self::Unused => f.write_str("unused"),
        }
    }
}

/// A range of bytes of a file. Records include their headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// The contents.
    pub kind: RegionKind,
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
}

impl TatamiFile {
    /// Returns all regions of the file, in the order of their offsets. Bytes between regions are
    /// [`RegionKind::Unused`]. Regions of a damaged file may overlap. Reads the headers of all pages.
    ///
    /// # Errors
    /// Fails if headers of pages cannot be read, or contradict the footer.
    pub fn regions(&self) -> Result<Vec<Region>> {
        let mut regions = vec![Region {
            kind: RegionKind::Header,
            offset: 0,
            length: HEADER_BYTES,
        }];
        let mut record = |kind, offset, payload| {
            regions.push(Region {
                kind,
                offset,
                length: RECORD_HEADER_BYTES + payload,
            });
        };
        for (group, row_group) in self.row_groups().iter().enumerate() {
            for (column, chunk) in row_group.chunks.iter().enumerate() {
                for (page, stored) in self.pages(group, column)?.iter().enumerate() {
                    let payload = u64::from(stored.header.stored_size);
                    let kind = RegionKind::Page {
                        group,
                        column,
                        page,
                    };
                    record(kind, stored.offset, payload);
                }
                if let Some(offset) = chunk.page_index {
                    let payload = u64::from(self.record_header(offset)?.stored_size);
                    record(RegionKind::PageIndex { group, column }, offset, payload);
                }
            }
        }
        let footer = self.footer();
        for blobs in &footer.blobs {
            let column = blobs.column;
            for (run, stored) in blobs.runs.iter().enumerate() {
                record(
                    RegionKind::BlobRun { column, run },
                    stored.offset,
                    stored.stored_size,
                );
            }
        }
        for (index, dictionary) in footer.dictionaries.iter().enumerate() {
            let payload = u64::from(self.record_header(dictionary.offset)?.stored_size);
            record(RegionKind::Dictionary(index), dictionary.offset, payload);
        }
        for (index, bloom) in footer.blooms.iter().enumerate() {
            record(RegionKind::Bloom(index), bloom.offset, bloom.length);
        }
        for (kind, extent) in self.inverted_parts() {
            record(kind, extent.offset, extent.length);
        }
        let footer_offset = self.header().footer_offset;
        let footer_length = u64::from(self.trailer().footer_length);
        for (kind, offset, length) in [
            (RegionKind::Footer, footer_offset, footer_length),
            (
                RegionKind::Trailer,
                footer_offset + footer_length,
                TRAILER_BYTES,
            ),
        ] {
            regions.push(Region {
                kind,
                offset,
                length,
            });
        }
        regions.sort_by_key(|region| region.offset);
        Ok(with_unused(&regions))
    }
}

/// Inserts regions for the bytes between the others.
fn with_unused(regions: &[Region]) -> Vec<Region> {
    let mut all = Vec::with_capacity(regions.len());
    let mut end = 0;
    for region in regions {
        if region.offset > end {
            all.push(Region {
                kind: RegionKind::Unused,
                offset: end,
                length: region.offset - end,
            });
        }
        all.push(*region);
        end = end.max(region.offset + region.length);
    }
    all
}
