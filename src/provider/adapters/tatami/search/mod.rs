//! Full-text search over documents: the table functions `tatami_search` and `tatami_terms`, and the
//! predicate `matches`.

#[cfg(feature = "proto")]
mod encoded;
mod function;
mod hits;
mod matches;
mod scan;
mod terms;

#[cfg(feature = "proto")]
pub(in crate::provider) use encoded::EncodedSearch;
pub(in crate::provider) use function::{Search, Terms};
pub(in crate::provider) use matches::Matches;
pub(super) use matches::{Searched, evaluate, matching_blocks};
