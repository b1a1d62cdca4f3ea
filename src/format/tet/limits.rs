//! Limits on a file's metadata, which the reference implementation enforces on writing and on
//! verifying.

use crate::format::array::Limits;
use crate::format::tet::superblock::MAX_RANK;

/// The limits on one dataset.
pub(crate) const LIMITS: Limits = Limits {
    dimensions: MAX_RANK,
    attributes: MAX_ATTRIBUTES,
    text_bytes: MAX_TEXT,
    labels: MAX_LABELS,
    allow_i8: false,
};

/// Maximum number of labels per axis.
pub(crate) const MAX_LABELS: usize = 64;
/// Maximum number of attributes per dataset.
pub(crate) const MAX_ATTRIBUTES: usize = 64;
/// Maximum length of a string in bytes. Empty strings are not allowed either.
pub(crate) const MAX_TEXT: usize = 1024;
/// Maximum number of datasets with metadata.
pub(crate) const MAX_DESCRIBED: usize = 256;
/// Maximum number of history rows in a footer.
pub(crate) const MAX_HISTORY: usize = 4096;

/// Returns `true` if the length of `text` is within the limits for metadata.
pub(crate) fn is_allowed(text: &str) -> bool {
    (1..=MAX_TEXT).contains(&text.len())
}
