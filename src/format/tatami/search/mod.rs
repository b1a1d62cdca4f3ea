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
//!
//! The reference implementation indexes the columns `body` (unless the file has a `snippet` instead), `title` and
//! `url`, and anchor texts, which the file does not store. Its columns `norm_body`, `norm_title`, `norm_anchor`
//! and `norm_url` hold the number of words of each text, at most 65,535. Scores do not use them.

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
