//! Error messages with excerpts of the statement, and hints and suggestions.

pub mod advice;
pub mod excerpt;
pub mod hints;
pub mod labels;
pub mod suggestion;
