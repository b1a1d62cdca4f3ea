//! [`SegmentBuilder`]: builds the inverted index of a file that is being written.

mod output;
mod parts;
mod recent;
mod runs;

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::tatami::bytes::put_varint;
use crate::format::tatami::search::analyzer::for_each_word;
use crate::format::tatami::search::builder::output::SegmentWriter;
pub use crate::format::tatami::search::builder::parts::SegmentParts;
use crate::format::tatami::search::builder::recent::RecentTerms;
use crate::format::tatami::search::builder::runs::{Run, RunWriter, for_each_posting, merge};
use crate::format::tatami::search::live::put_live;

/// The maximum number of runs. If there is one more, all runs are merged into one.
const MAX_RUNS: usize = 64;

/// Collects the words of documents, and writes the inverted index.
///
/// The postings of recent documents are kept in memory, 2 to 4 bytes each. When they exceed a budget, they
/// spill to a temporary file, a *run*, in the order of terms. Finally all runs are merged. In addition to
/// the budget, merging keeps the encoded postings of one term and every 64th term in memory.
#[derive(Debug)]
pub struct SegmentBuilder {
    directory: PathBuf,
    budget: usize,
    documents: u64,
    recent: RecentTerms,
    runs: Vec<Run>,
    word: Vec<u8>,
}

impl SegmentBuilder {
    /// Creates a builder that keeps temporary files in `directory`, and uses about `budget` bytes of
    /// memory.
    pub fn new(directory: &Path, budget: usize) -> Self {
        Self {
            directory: directory.to_path_buf(),
            budget,
            documents: 0,
            recent: RecentTerms::new(),
            runs: Vec::new(),
            word: Vec::new(),
        }
    }

    /// Adds the next document. Its row number is the number of documents added before. `texts` are its
    /// indexed columns in UTF-8; bytes that are not valid UTF-8 separate words. Returns the number of words
    /// of each text, at most 65,535: the values of the columns `norm_*`.
    ///
    /// # Errors
    /// Fails if there are more than 2^32 documents, or if temporary files cannot be written.
    pub fn add<const N: usize>(&mut self, texts: [&[u8]; N]) -> Result<[u16; N]> {
        let Ok(document) = u32::try_from(self.documents) else {
            let message = "a search segment has at most 2^32 documents";
            return Err(Error::invalid(&self.directory, message));
        };
        let (recent, buffer) = (&mut self.recent, &mut self.word);
        let counts = texts.map(|text| {
            let mut count = 0u16;
            for_each_word(text, buffer, |word| {
                count = count.saturating_add(1);
                recent.add(document, word);
            });
            count
        });
        self.documents += 1;
        if self.recent.memory() > self.budget {
            self.spill()?;
        }
        Ok(counts)
    }

    /// Writes the recent postings to a run.
    fn spill(&mut self) -> Result<()> {
        let mut run = RunWriter::create(&self.directory)?;
        let recent = std::mem::replace(&mut self.recent, RecentTerms::new());
        recent.drain(|term, postings| run.write(term, postings))?;
        self.runs.push(run.finish()?);
        if self.runs.len() > MAX_RUNS {
            self.merge_runs()?;
        }
        Ok(())
    }

    /// Merges all runs into one.
    fn merge_runs(&mut self) -> Result<()> {
        let mut merged = RunWriter::create(&self.directory)?;
        let mut bytes = Vec::new();
        merge(std::mem::take(&mut self.runs), |term, lists| {
            bytes.clear();
            let mut previous = 0;
            for_each_posting(lists, |document, frequency| {
                put_varint(&mut bytes, u64::from(document - previous));
                put_varint(&mut bytes, u64::from(frequency));
                previous = document;
            });
            merged.write(term, &bytes)
        })?;
        self.runs.push(merged.finish()?);
        Ok(())
    }

    /// Merges all postings, and returns the index. `is_live` returns `false` for deleted documents. Pass
    /// `None` if no document is deleted, as in any new file.
    ///
    /// # Errors
    /// Fails if temporary files cannot be written, or if a part of the index exceeds 4 GiB, the limit of
    /// the format.
    pub fn finish(mut self, is_live: Option<&dyn Fn(u64) -> bool>) -> Result<SegmentParts> {
        if !self.recent.is_empty() {
            self.spill()?;
        }
        let mut writer = SegmentWriter::create(&self.directory)?;
        merge(std::mem::take(&mut self.runs), |term, lists| {
            for_each_posting(lists, |document, frequency| writer.add(document, frequency));
            writer.end_term(term)
        })?;
        let live = is_live.map(|is_live| {
            let mut live = Vec::new();
            put_live(&mut live, self.documents, is_live);
            live
        });
        writer.finish(self.documents, live)
    }
}
