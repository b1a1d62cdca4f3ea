//! Charts of results as a whole.
