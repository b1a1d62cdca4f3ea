//! Search segments: files whose documents are found by the words in them.
//!
//! ```text
//! query "rust arrays"
//!    | words in lower case                              analyzer
//!    v
//! term dictionary   term -> document frequency, n       dictionary
//!    v
//! n-th skip list    first, last, highest frequency ...  lists, postings
//! n-th posting list documents and frequencies, in blocks of 128
//!    v
//! matches in the order of documents, with BM25 scores   evaluation, score
//!    | without deleted documents                        live
//!    v
//! best matches                                          hits
//! ```
//!
//! A segment stores how often each document contains a term, in all indexed columns together. It stores
//! neither the positions of words in a text nor the columns that they come from.

mod analyzer;
mod builder;
mod dictionary;
mod entries;
mod evaluation;
mod hits;
mod lists;
mod live;
mod postings;
mod score;
mod segment;
mod terms;

pub use analyzer::{WordFilter, words};
pub use builder::{SegmentBuilder, SegmentParts};
pub use dictionary::MAX_TERM_BLOCK_BYTES;
pub use entries::TermEntry;
pub use hits::{Hit, Hits, Matches};
pub use live::LiveDocuments;
pub use postings::{BLOCK_DOCUMENTS, Posting, Postings, SkipEntry};
pub use score::{inverse_document_frequency, term_score};
pub use segment::{MAX_CHECKED_BYTES, Mode, Segment};
pub use terms::Terms;

/// The indexed texts of segments that the reference implementation writes, in the order of
/// [`NORM_COLUMNS`]. `title` and `url` are columns of the file, and so is `body`, unless the segment has a
/// `snippet` instead, which is not indexed. Anchor texts are indexed but not stored.
pub const INDEXED_TEXTS: [&str; 4] = ["body", "title", "anchor", "url"];

/// The columns of type UINT16 that hold the number of words of each text of a document, at most 65,535.
/// Scores do not use them.
pub const NORM_COLUMNS: [&str; 4] = ["norm_body", "norm_title", "norm_anchor", "norm_url"];
