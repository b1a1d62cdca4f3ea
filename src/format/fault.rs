//! [`Fault`]: a broken rule of the format, to which the caller adds the location in the file.

use std::fmt;

use crate::error::{Error, ErrorLocation};

/// A field that breaks a rule of the format. The caller knows the file and the part of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The name of the field.
    pub field: &'static str,
    /// The value found.
    pub found: String,
    /// The values that the format allows.
    pub expected: String,
}

impl Fault {
    /// Creates a fault.
    pub fn new(field: &'static str, found: impl fmt::Display, expected: impl fmt::Display) -> Self {
        Self {
            field,
            found: found.to_string(),
            expected: expected.to_string(),
        }
    }

    /// Converts the fault to an error with its location.
    pub fn at(self, location: ErrorLocation) -> Error {
        Error::malformed(location, self.field, self.found, self.expected)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is {}, expected {}",
            self.field, self.found, self.expected
        )
    }
}
