//! Errors of statements with the place in their text, and hints and suggestions about them.

pub mod advice;
pub mod excerpt;
pub mod hints;
pub mod labels;
pub mod suggestion;
