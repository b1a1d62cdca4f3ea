//! [`Segment`]: the inverted index of an open file.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::fault::Fault;
use crate::format::tatami::file::TatamiFile;
use crate::format::tatami::layout::footer::Extent;
use crate::format::tatami::layout::header::FLAG_BLOCK_TREE;
use crate::format::tatami::search::analyzer::words;
use crate::format::tatami::search::dictionary::TermDictionary;
use crate::format::tatami::search::entries::{PostingsLocation, TermEntry};
use crate::format::tatami::search::evaluation::Evaluation;
use crate::format::tatami::search::hits::{Hit, Hits, Matches, top};
use crate::format::tatami::search::lists::{ListKind, Lists};
use crate::format::tatami::search::live::LiveDocuments;
use crate::format::tatami::search::postings::Postings;
use crate::format::tatami::search::score::inverse_document_frequency;
use crate::format::tatami::search::terms::Terms;

/// The maximum size of a record whose checksum is verified when the segment is opened. The checksum covers
/// the whole record, of which a search reads a small part; [`Segment::verify`] verifies all records.
pub const MAX_CHECKED_BYTES: u64 = 16 << 20;

/// The documents that match a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Documents that contain at least one word. Words that no document contains are ignored.
    #[default]
    Any,
    /// Documents that contain all words.
    All,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any",
            Self::All => "all",
        })
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "any" => Ok(Self::Any),
            "all" => Ok(Self::All),
            "phrase" => Err(
                "mode is \"phrase\", expected any or all: search segments store how often \
                             a document contains a word, but not where"
                    .to_string(),
            ),
            _ => Err(format!("mode is {text:?}, expected any or all")),
        }
    }
}

/// The inverted index of a search segment: its terms, and for each term the documents that contain it.
///
/// Text is split into words, which are maximal runs of letters (Unicode categories L*) and decimal digits
/// (Nd), in lower case by the simple mapping. There is no stemming, and there are no stop words. The words
/// of the texts `body`, `title`, `anchor` and `url` of a document are indexed together.
///
/// Scores are those of BM25 with `k1 = 1.2` and without length normalisation, bit-equal to those of the
/// reference implementation. Words that a query repeats count again. Deleted documents are left out of
/// results, but count in document frequencies, and so in scores. Scores depend on the documents of this
/// file only.
///
/// A segment can be used by several threads, and queries hold a reference to it.
///
/// # Cost
/// Opening a segment reads the index of the term dictionary, and keeps every 64th term in memory. Versions
/// of the reference implementation up to 0.2 write flat dictionaries, of which all terms are read. Finding
/// a term decompresses one block of 64 terms; recently used blocks are cached.
///
/// Posting lists are numbered, but the format has no table of their offsets. The first use of the n-th
/// list walks over the lengths of all lists before it; 32 bytes per 64 lists are kept, so that
/// each list is walked over once. A query keeps 20 bytes per 128 documents of each of its terms.
#[derive(Debug, Clone)]
pub struct Segment {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    dictionary: Arc<TermDictionary>,
    postings: Arc<Lists>,
    skips: Lists,
    live: Option<Arc<LiveDocuments>>,
    documents: u64,
}

impl Segment {
    /// Opens the inverted index of a file. Returns `None` if the file has none.
    ///
    /// # Errors
    /// Fails if the index cannot be read or is malformed. Posting lists are checked when they are read.
    pub fn open(file: &TatamiFile) -> Result<Option<Self>> {
        let Some(inverted) = &file.footer().inverted else {
            return Ok(None);
        };
        let documents = inverted.documents;
        let fault = if documents != file.rows() {
            Fault::new(
                "number of documents",
                documents,
                format!("{}, one per row", file.rows()),
            )
        } else if documents > 1 << 32 {
            Fault::new("number of documents", documents, "at most 2^32")
        } else {
            let record = |name, extent: Extent| {
                let record = file.index_record(name, extent)?;
                if record.length() <= MAX_CHECKED_BYTES {
                    record.check_crc()?;
                }
                Ok::<_, Error>(record)
            };
            let dictionary = record("term dictionary", inverted.term_dictionary)?;
            let postings = Lists::open(record("postings", inverted.postings)?, ListKind::Postings)?;
            let skips = Lists::open(record("skips", inverted.skips)?, ListKind::Skips)?;
            let live = match inverted.live {
                Some(extent) => {
                    let live = file.index_record("live documents", extent)?;
                    Some(Arc::new(LiveDocuments::read(&live, documents)?))
                }
                None => None,
            };
            if postings.count() != skips.count() {
                let expected = format!("{}, one per posting list", postings.count());
                let fault = Fault::new("number of lists", skips.count(), expected);
                return Err(skips.record().error(fault));
            }
            let is_block_tree = file.header().has_flag(FLAG_BLOCK_TREE);
            let dictionary =
                TermDictionary::open(dictionary, is_block_tree, inverted.terms, documents)?;
            return Ok(Some(Self {
                inner: Arc::new(Inner {
                    dictionary: Arc::new(dictionary),
                    postings: Arc::new(postings),
                    skips,
                    live,
                    documents,
                }),
            }));
        };
        Err(fault.at(ErrorLocation::part(file.path(), "footer")))
    }

    /// The number of documents, deleted ones included. Documents are numbered like the file's rows.
    pub fn documents(&self) -> u64 {
        self.inner.documents
    }

    /// The documents that are not deleted, or `None` if no document is.
    pub fn live(&self) -> Option<&Arc<LiveDocuments>> {
        self.inner.live.as_ref()
    }

    /// The number of documents that are not deleted.
    pub fn live_documents(&self) -> u64 {
        self.live().map_or(self.documents(), |live| live.count())
    }

    /// The number of terms.
    pub fn terms(&self) -> u64 {
        self.inner.dictionary.terms()
    }

    /// Finds a term, which is a word in lower case.
    ///
    /// # Errors
    /// Fails if the dictionary cannot be read or is malformed.
    pub fn find(&self, term: &[u8]) -> Result<Option<TermEntry>> {
        self.inner.dictionary.find(term)
    }

    /// Returns the terms from `start` on that begin with `prefix`, in bytewise order. Empty strings give
    /// all terms.
    pub fn terms_from(&self, start: &[u8], prefix: &[u8]) -> Terms {
        Terms::new(&self.inner.dictionary, start, prefix)
    }

    /// Returns the postings of a term of this segment. They include deleted documents.
    ///
    /// # Errors
    /// Fails if the list's skip entries cannot be read or are malformed.
    pub fn postings(&self, term: &TermEntry) -> Result<Postings> {
        let Inner {
            postings,
            skips,
            documents,
            ..
        } = &*self.inner;
        match term.postings {
            PostingsLocation::Single(posting) => Ok(Postings::single(postings, posting)),
            PostingsLocation::List(ordinal) => Postings::open(
                postings,
                skips,
                ordinal,
                term.document_frequency,
                *documents,
            ),
        }
    }

    /// Returns the `k` best matches of a query by score, highest first. Equal scores are ordered by
    /// document. Blocks of postings without one of the best matches are skipped. Memory is bounded by `k`.
    ///
    /// # Errors
    /// Fails if the index cannot be read or is malformed.
    pub fn search(&self, query: &str, mode: Mode, k: usize) -> Result<Vec<Hit>> {
        match self.evaluation(query, mode, self.inner.live.clone())? {
            Some(mut evaluation) => top(&mut evaluation, k),
            None => Ok(Vec::new()),
        }
    }

    /// Returns all matches of a query in the order of [`Self::search`]. Matches are computed in batches, on
    /// demand; the first batch has `first` matches.
    pub fn hits(&self, query: &str, mode: Mode, first: usize) -> Hits {
        Hits::new(self.clone(), query, mode, first)
    }

    /// Returns all matches of a query in the order of documents, with their scores.
    ///
    /// # Errors
    /// Fails if the index cannot be read or is malformed.
    pub fn matches(&self, query: &str, mode: Mode) -> Result<Matches> {
        self.evaluation(query, mode, self.inner.live.clone())
            .map(Matches::new)
    }

    /// Does the same as [`Self::matches`], and also returns documents that are deleted. A scan of the
    /// file returns them too.
    ///
    /// # Errors
    /// As [`Self::matches`].
    pub fn matches_with_deleted(&self, query: &str, mode: Mode) -> Result<Matches> {
        self.evaluation(query, mode, None).map(Matches::new)
    }

    /// Starts a query over the `live` documents, or all. Returns `None` if nothing matches.
    pub(super) fn evaluation(
        &self,
        query: &str,
        mode: Mode,
        live: Option<Arc<LiveDocuments>>,
    ) -> Result<Option<Evaluation>> {
        let mut known: HashMap<Vec<u8>, Option<usize>> = HashMap::new();
        let (mut terms, mut indices) = (Vec::new(), Vec::new());
        for word in words(query) {
            let index = match known.get(&word) {
                Some(index) => *index,
                None => {
                    let entry = self.find(&word)?;
                    let index = entry.is_some().then_some(terms.len());
                    if let Some(entry) = entry {
                        let frequency = entry.document_frequency;
                        let idf = inverse_document_frequency(self.documents(), frequency);
                        terms.push((idf, frequency, self.postings(&entry)?));
                    }
                    known.insert(word, index);
                    index
                }
            };
            match index {
                Some(index) => indices.push(index),
                None if mode == Mode::All => return Ok(None),
                None => {}
            }
        }
        Ok((!terms.is_empty()).then(|| Evaluation::new(terms, &indices, mode == Mode::All, live)))
    }

    /// Checks the checksums of all records, and reads all terms, skip entries and postings.
    ///
    /// # Errors
    /// Fails if the index cannot be read or is malformed.
    pub fn verify(&self) -> Result<()> {
        let Inner {
            dictionary,
            postings,
            skips,
            ..
        } = &*self.inner;
        for record in [dictionary.record(), postings.record(), skips.record()] {
            record.check_crc()?;
        }
        postings.check_all()?;
        skips.check_all()?;
        let mut terms = self.terms_from(b"", b"");
        let mut count = 0;
        while let Some((_, entry)) = terms.next()? {
            let mut list = self.postings(&entry)?;
            while list.next()?.is_some() {}
            count += 1;
        }
        if count != self.terms() {
            let fault = Fault::new("number of terms", count, self.terms());
            return Err(dictionary.record().error(fault));
        }
        Ok(())
    }
}
