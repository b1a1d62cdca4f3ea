//! Finds the matching documents of a query, with their scores, in the order of documents.
//!
//! Documents are evaluated in windows. In a window, every term has at most one block. The highest
//! frequencies of these blocks give an upper bound of the scores in the window. If the upper bound does not
//! exceed the threshold, the window is skipped without reading its blocks.
//!
//! ```text
//! term a   [  block  ][ block ]     [    block    ]
//! term b        [        block         ]     [  block  ]
//! windows  |    |    ||      |      |  |     |    |   |
//! ```

use std::sync::Arc;

use crate::error::Result;
use crate::format::tatami::search::hits::Hit;
use crate::format::tatami::search::live::LiveDocuments;
use crate::format::tatami::search::postings::{BLOCK_DOCUMENTS, Postings};
use crate::format::tatami::search::score::{score_bound, term_score};

/// The maximum number of documents in a window.
const MAX_WINDOW: u64 = 2048;

/// A term of a query.
#[derive(Debug)]
struct Term {
    postings: Postings,
    idf: f32,
    /// The number of times that the query contains the term.
    repeats: f64,
    /// The scores in the decoded block.
    scores: [f32; BLOCK_DOCUMENTS],
    scored: Option<u32>,
    /// The upper bound of scores in the window: 0 if the term has no block there.
    bound: f32,
    /// `true` if a document above the threshold must contain this term or another essential one: the
    /// upper bounds of the non-essential terms together do not exceed the threshold.
    is_essential: bool,
}

impl Term {
    /// Returns the documents of a window that contain the term, and the scores of the term in them.
    fn scored(&mut self, start: u64, end: u64) -> Result<(&[u32], &[f32])> {
        let (documents, frequencies) = self.postings.decode()?;
        let first = documents.first().copied();
        if self.scored != first {
            for (score, &frequency) in self.scores.iter_mut().zip(frequencies) {
                *score = term_score(self.idf, frequency);
            }
            self.scored = first;
        }
        let from = documents.partition_point(|&document| u64::from(document) < start);
        let to = documents.partition_point(|&document| u64::from(document) < end);
        Ok((&documents[from..to], &self.scores[from..to]))
    }
}

/// The progress of a query through the documents.
#[derive(Debug)]
pub(super) struct Evaluation {
    /// The distinct terms, rarest first.
    terms: Vec<Term>,
    /// The words of the query in order, as indices of `terms`.
    words: Vec<usize>,
    is_all: bool,
    live: Option<Arc<LiveDocuments>>,
    /// The first document that is not evaluated yet.
    next: u64,
    /// Terms in the order of their bounds.
    order: Vec<usize>,
    /// The scores of the window's documents.
    scores: Vec<f32>,
    /// A bit for each document of the window that may match.
    candidates: Vec<u64>,
    /// The matching documents of the window, if all terms are required.
    matches: Vec<u32>,
}

impl Evaluation {
    /// Starts a query. `terms` are the distinct terms, at least one: the inverse document frequency, the
    /// document frequency and the postings of each. `words` are the words of the query in order, as indices
    /// of `terms`. A document must contain one term, or with `is_all`, all terms.
    pub fn new(
        terms: Vec<(f32, u64, Postings)>,
        words: &[usize],
        is_all: bool,
        live: Option<Arc<LiveDocuments>>,
    ) -> Self {
        let mut rarest: Vec<_> = terms.into_iter().enumerate().collect();
        rarest.sort_by_key(|(_, (_, document_frequency, _))| *document_frequency);
        let mut rank = vec![0; rarest.len()];
        for (position, (term, _)) in rarest.iter().enumerate() {
            rank[*term] = position;
        }
        let mut terms: Vec<Term> = rarest
            .into_iter()
            .map(|(_, (idf, _, postings))| Term {
                postings,
                idf,
                repeats: 0.0,
                scores: [0.0; BLOCK_DOCUMENTS],
                scored: None,
                bound: 0.0,
                is_essential: true,
            })
            .collect();
        let words: Vec<usize> = words.iter().map(|&word| rank[word]).collect();
        for &word in &words {
            terms[word].repeats += 1.0;
        }
        Self {
            order: (0..terms.len()).collect(),
            terms,
            words,
            is_all,
            live,
            next: 0,
            scores: vec![0.0; MAX_WINDOW as usize],
            candidates: vec![0; MAX_WINDOW as usize / 64],
            matches: Vec::new(),
        }
    }

    /// Appends the matches of the next window with matches to `out`, in the order of documents. Returns
    /// `false` after the last window. Matches with a score of at most `threshold` are left out.
    pub fn advance(&mut self, threshold: f32, out: &mut Vec<Hit>) -> Result<bool> {
        let before = out.len();
        while out.len() == before {
            let Some((start, end)) = self.window() else {
                return Ok(false);
            };
            self.next = end;
            let mut bound = 0.0;
            for &word in &self.words {
                bound += self.terms[word].bound;
            }
            // Rounding is monotonic, so that the bounds, added in the order of the words, bound the score.
            if bound <= threshold {
                continue;
            }
            match self.is_all {
                true => self.intersect(start, end, threshold, out)?,
                false => self.unite(start, end, threshold, out)?,
            }
        }
        Ok(true)
    }

    /// Returns the next range of documents in which each term has at most one block, and sets the bounds
    /// of the terms.
    fn window(&mut self) -> Option<(u64, u64)> {
        let start = match self.is_all {
            true => self.start_of_all()?,
            false => self.start_of_any()?,
        };
        let mut end = start + MAX_WINDOW;
        for term in &mut self.terms {
            term.bound = 0.0;
            if let Some(skip) = term.postings.block() {
                if u64::from(skip.first) > start {
                    end = end.min(u64::from(skip.first));
                } else {
                    end = end.min(u64::from(skip.last) + 1);
                    term.bound = score_bound(term.idf, skip.max_frequency);
                }
            }
        }
        Some((start, end))
    }

    /// Moves every term to its first block that ends at `self.next` or later. Returns the first document that
    /// one of these blocks may contain.
    fn start_of_any(&mut self) -> Option<u64> {
        let next = u32::try_from(self.next).ok()?;
        let blocks = self
            .terms
            .iter_mut()
            .filter_map(|term| term.postings.seek_block(next));
        blocks.map(|skip| u64::from(skip.first.max(next))).min()
    }

    /// Moves every term to its first block that ends at `self.next` or later, and `self.next` forward until
    /// all of these blocks may contain it. Returns this document.
    fn start_of_all(&mut self) -> Option<u64> {
        loop {
            let next = u32::try_from(self.next).ok()?;
            let mut start = next;
            for term in &mut self.terms {
                start = start.max(term.postings.seek_block(next)?.first);
            }
            self.next = u64::from(start);
            if start == next {
                return Some(self.next);
            }
        }
    }

    /// Appends the documents of a window that contain any term.
    fn unite(&mut self, start: u64, end: u64, threshold: f32, out: &mut Vec<Hit>) -> Result<()> {
        self.find_essential(threshold);
        let length = (end - start) as usize;
        let candidates = &mut self.candidates[..length.div_ceil(64)];
        candidates.fill(0);
        for term in self
            .terms
            .iter_mut()
            .filter(|term| term.is_essential && term.has_block(start))
        {
            for &document in term.scored(start, end)?.0 {
                let at = (u64::from(document) - start) as usize;
                candidates[at / 64] |= 1 << (at % 64);
            }
        }
        if candidates.iter().all(|&word| word == 0) {
            return Ok(());
        }
        let scores = &mut self.scores[..length];
        scores.fill(0.0);
        for &word in &self.words {
            let term = &mut self.terms[word];
            if term.has_block(start) {
                let (documents, term_scores) = term.scored(start, end)?;
                for (&document, score) in documents.iter().zip(term_scores) {
                    scores[(u64::from(document) - start) as usize] += score;
                }
            }
        }
        for (index, &word) in candidates.iter().enumerate() {
            let mut word = word;
            while word != 0 {
                let at = index * 64 + word.trailing_zeros() as usize;
                word &= word - 1;
                let document = (start + at as u64) as u32;
                if scores[at] > threshold && is_live(&self.live, document) {
                    out.push(Hit {
                        document,
                        score: scores[at],
                    });
                }
            }
        }
        Ok(())
    }

    /// Decides which terms are essential: a document without any of them has a score of at most
    /// `threshold`, by the bounds of the others.
    fn find_essential(&mut self, threshold: f32) {
        let terms = &mut self.terms;
        self.order
            .sort_unstable_by(|&a, &b| terms[a].bound.total_cmp(&terms[b].bound));
        let mut sum = 0.0;
        let mut is_essential = false;
        for &index in &self.order {
            let term = &mut terms[index];
            sum += f64::from(term.bound) * term.repeats;
            // Scores are added with single precision, in another order.
            let error = self.words.len() as f64 * f64::from(f32::EPSILON);
            is_essential |= sum * (1.0 + error) > f64::from(threshold);
            term.is_essential = is_essential;
        }
    }

    /// Appends the documents of a window that contain all terms.
    fn intersect(
        &mut self,
        start: u64,
        end: u64,
        threshold: f32,
        out: &mut Vec<Hit>,
    ) -> Result<()> {
        let matches = &mut self.matches;
        matches.clear();
        for (index, term) in self.terms.iter_mut().enumerate() {
            let (documents, _) = term.scored(start, end)?;
            match index {
                0 => matches.extend_from_slice(documents),
                _ => intersect(matches, documents),
            }
            if matches.is_empty() {
                // The next match has the next document of the rarest term, or of a later block.
                let (documents, _) = self.terms[0].postings.decode()?;
                let after = documents.partition_point(|&document| u64::from(document) < end);
                if let Some(&document) = documents.get(after) {
                    self.next = u64::from(document);
                }
                return Ok(());
            }
        }
        let scores = &mut self.scores[..matches.len()];
        scores.fill(0.0);
        for &word in &self.words {
            let (documents, term_scores) = self.terms[word].scored(start, end)?;
            let mut at = 0;
            for (score, &document) in scores.iter_mut().zip(matches.iter()) {
                // Every match is among the documents of every term.
                at += documents[at..].partition_point(|&found| found < document);
                *score += term_scores[at];
            }
        }
        for (&document, &score) in matches.iter().zip(scores.iter()) {
            if score > threshold && is_live(&self.live, document) {
                out.push(Hit { document, score });
            }
        }
        Ok(())
    }
}

impl Term {
    /// Returns `true` if the current block covers the start of the window.
    fn has_block(&self, start: u64) -> bool {
        self.postings
            .block()
            .is_some_and(|skip| u64::from(skip.first) <= start)
    }
}

fn is_live(live: &Option<Arc<LiveDocuments>>, document: u32) -> bool {
    live.as_ref().is_none_or(|live| live.contains(document))
}

/// Keeps those of `matches` that are also among `documents`. Both ascend.
fn intersect(matches: &mut Vec<u32>, documents: &[u32]) {
    let mut rest = documents;
    matches.retain(|&document| {
        let passed = rest.partition_point(|&found| found < document);
        rest = &rest[passed..];
        rest.first() == Some(&document)
    });
}
