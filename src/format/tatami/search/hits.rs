//! The results of a query: the best matches, or all matches by score or by document.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::error::Result;
use crate::format::tatami::search::evaluation::Evaluation;
use crate::format::tatami::search::segment::{Mode, Segment};

/// The maximum size of a batch of [`Hits`] that [`Segment::search`] finds, which skips blocks. For further
/// hits, all matches are scored once.
const MAX_SEARCHED: usize = 4096;
/// The factor from one batch to the next.
const GROWTH: usize = 4;

/// A matching document.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// The document, which is its row number in the file.
    pub document: u32,
    /// The BM25 score.
    pub score: f32,
}

/// The order of results: by score, highest first, then by document.
impl Ord for Hit {
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .score
            .total_cmp(&self.score)
            .then(self.document.cmp(&other.document))
    }
}

impl PartialOrd for Hit {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Hit {}

/// Returns the first `k` matches in the order of results.
pub(super) fn top(evaluation: &mut Evaluation, k: usize) -> Result<Vec<Hit>> {
    // The worst of the best matches is on top of the heap.
    let mut best = BinaryHeap::new();
    let mut threshold = f32::NEG_INFINITY;
    let mut window = Vec::new();
    while k > 0 && evaluation.advance(threshold, &mut window)? {
        for hit in window.drain(..) {
            if best.len() < k {
                best.push(hit);
            } else if let Some(mut last) = best.peek_mut().filter(|last| hit < **last) {
                *last = hit;
            }
        }
        if best.len() == k {
            // Equal scores are ordered by document, so a later document needs a higher score.
            threshold = best.peek().map_or(threshold, |last| last.score);
        }
    }
    Ok(best.into_sorted_vec())
}

/// All matches of a query by score, highest first, and then by document.
///
/// Each batch is found by a new search, for four times as many matches as before. After 4096 matches, all
/// matches are scored and sorted once, which takes 8 bytes of memory per match.
#[derive(Debug)]
pub struct Hits {
    segment: Segment,
    query: String,
    mode: Mode,
    /// The size of the next search.
    size: usize,
    /// The matches found so far, in order.
    found: Vec<Hit>,
    /// The matches returned so far.
    returned: usize,
    is_complete: bool,
}

impl Hits {
    pub(super) fn new(segment: Segment, query: &str, mode: Mode, first: usize) -> Self {
        Self {
            segment,
            query: query.to_string(),
            mode,
            size: first.max(1),
            found: Vec::new(),
            returned: 0,
            is_complete: false,
        }
    }

    /// Returns the next matches, in order, or `None` after the last one.
    ///
    /// # Errors
    /// Fails if the index cannot be read or is malformed.
    pub fn next_batch(&mut self) -> Result<Option<&[Hit]>> {
        if self.returned == self.found.len() && !self.is_complete {
            if self.size <= MAX_SEARCHED {
                self.found = self.segment.search(&self.query, self.mode, self.size)?;
                self.is_complete = self.found.len() < self.size;
                self.size = self.size.saturating_mul(GROWTH);
            } else {
                self.found.clear();
                let mut matches = self.segment.matches(&self.query, self.mode)?;
                while matches.next_batch(&mut self.found)? {}
                self.found.sort_unstable();
                self.is_complete = true;
            }
        }
        let batch = &self.found[self.returned.min(self.found.len())..];
        self.returned = self.found.len();
        Ok((!batch.is_empty()).then_some(batch))
    }
}

/// All matches of a query in the order of documents.
///
/// Memory is bounded by the skip entries of the terms, 20 bytes per 128 documents of each.
#[derive(Debug)]
pub struct Matches {
    evaluation: Option<Evaluation>,
}

impl Matches {
    pub(super) fn new(evaluation: Option<Evaluation>) -> Self {
        Self { evaluation }
    }

    /// Appends the next matches to `hits`, at most 2048. Returns `false` after the last one.
    ///
    /// # Errors
    /// Fails if the index cannot be read or is malformed.
    pub fn next_batch(&mut self, hits: &mut Vec<Hit>) -> Result<bool> {
        match &mut self.evaluation {
            Some(evaluation) => evaluation.advance(f32::NEG_INFINITY, hits),
            None => Ok(false),
        }
    }
}
