//! Errors of decoders, which do not know the file that their bytes come from.

use std::fmt;

use crate::error::{Error, ErrorLocation};

/// A broken rule of the format, without its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    field: &'static str,
    found: String,
    expected: String,
}

/// The result type of decoders.
pub(crate) type Decoded<T> = Result<T, Fault>;

impl Fault {
    /// Creates a fault of a field, with the value found and the values that the format allows.
    pub fn new(field: &'static str, found: impl fmt::Display, expected: impl fmt::Display) -> Self {
        Self {
            field,
            found: found.to_string(),
            expected: expected.to_string(),
        }
    }

    /// Adds the place of the fault.
    pub fn at(self, location: ErrorLocation) -> Error {
        Error::malformed(location, self.field, self.found, self.expected)
    }
}
