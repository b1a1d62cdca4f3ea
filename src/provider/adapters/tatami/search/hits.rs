//! Merges the hits of several files in the order of their scores.

use std::sync::Arc;

use datafusion::common::{Result, plan_err};

use crate::format::tatami::search::{Hit, Hits, Mode};
use crate::provider::adapters::tatami::table::DocumentTable;

/// The hits of a search in several files, by descending score, then by file, then by document.
#[derive(Debug)]
pub(super) struct MergedHits {
    files: Vec<FileHits>,
}

/// The remaining hits of one file.
#[derive(Debug)]
struct FileHits {
    hits: Hits,
    /// The remaining hits of the current batch, last hit first.
    left: Vec<Hit>,
    is_finished: bool,
}

impl MergedHits {
    /// Starts a search in all files. `first` is the expected number of hits: the first hits of each file
    /// are found together, and further hits need another search.
    pub fn try_new(
        documents: &[Arc<DocumentTable>],
        words: &str,
        mode: Mode,
        first: usize,
    ) -> Result<Self> {
        let mut files = Vec::with_capacity(documents.len());
        for table in documents {
            let Some(segment) = table.segment()? else {
                let path = table.file().path().display();
                return plan_err!("{path} has no search segment");
            };
            files.push(FileHits {
                hits: segment.hits(words, mode, first),
                left: Vec::new(),
                is_finished: false,
            });
        }
        Ok(Self { files })
    }

    /// Returns at most `count` further hits, each with the index of its file. Returns no hits at the end.
    pub fn take(&mut self, count: usize) -> Result<Vec<(usize, Hit)>> {
        let mut taken = Vec::new();
        while taken.len() < count {
            let mut best: Option<(usize, f32)> = None;
            for (number, file) in self.files.iter_mut().enumerate() {
                if let Some(hit) = file.peek()?
                    && best.is_none_or(|(_, score)| hit.score > score)
                {
                    best = Some((number, hit.score));
                }
            }
            let Some(file) = best.map(|(number, _)| number) else {
                break;
            };
            taken.extend(self.files[file].left.pop().map(|hit| (file, hit)));
        }
        Ok(taken)
    }
}

impl FileHits {
    fn peek(&mut self) -> Result<Option<Hit>> {
        while self.left.is_empty() && !self.is_finished {
            match self.hits.next_batch()? {
                Some(batch) => self.left.extend(batch.iter().rev().copied()),
                None => self.is_finished = true,
            }
        }
        Ok(self.left.last().copied())
    }
}
