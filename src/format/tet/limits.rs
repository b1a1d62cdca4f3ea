//! The limits of a file's metadata, which the reference checks when it writes and verifies.

/// Labels that an axis may have.
pub(crate) const MAX_LABELS: usize = 64;
/// Attributes that a dataset may have.
pub(crate) const MAX_ATTRIBUTES: usize = 64;
/// Bytes that a text may have; none may be empty.
pub(crate) const MAX_TEXT: usize = 1024;
/// Datasets that may be described.
pub(crate) const MAX_DESCRIBED: usize = 256;
/// History rows that a footer may have.
pub(crate) const MAX_HISTORY: usize = 4096;

/// Whether the metadata can hold this text.
pub(crate) fn is_allowed(text: &str) -> bool {
    (1..=MAX_TEXT).contains(&text.len())
}
