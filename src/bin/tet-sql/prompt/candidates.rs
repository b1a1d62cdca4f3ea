//! Candidates for the completion of a word.

use crate::terminal::is_obeyed;
use datafusion::common::utils::quote_identifier;
use std::collections::BTreeMap;

/// A candidate for the completion of a word.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// The text in the list of candidates.
    pub shown: String,
    /// The text that replaces the word.
    pub text: String,
}

impl Candidate {
    /// Returns `true` if the candidate has no control characters. Names and labels from files may
    /// have some.
    pub fn is_visible(&self) -> bool {
        let mut characters = self.text.chars().chain(self.shown.chars());
        !characters.any(is_obeyed)
    }

    /// Creates a candidate whose listed text replaces the word.
    pub fn plain(text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            shown: text.clone(),
            text,
        }
    }
}

impl rustyline::completion::Candidate for Candidate {
    fn display(&self) -> &str {
        &self.shown
    }

    fn replacement(&self) -> &str {
        &self.text
    }
}

/// Returns the names that begin with a word, quoted where SQL requires quotes, in order and without
/// duplicates.
pub fn matching<'a>(names: impl IntoIterator<Item = &'a str>, word: &str) -> Vec<Candidate> {
    let (quoted, plain) = match word.strip_prefix('"') {
        Some(rest) => (true, rest),
        None => (false, word),
    };
    let plain = plain.to_lowercase();
    let found: BTreeMap<&str, String> = names
        .into_iter()
        .filter(|name| name.to_lowercase().starts_with(&plain))
        .map(|name| match quoted {
            true => (name, format!("\"{}\"", name.replace('"', "\"\""))),
            false => (name, quote_identifier(name).into_owned()),
        })
        .collect();
    found.into_values().map(Candidate::plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_they_have_to_be() {
        let texts = |word| {
            let found = matching(["lat", "Höhe", "lat", "sea level", "lon"], word);
            found
                .into_iter()
                .map(|candidate| candidate.text)
                .collect::<Vec<_>>()
        };
        assert_eq!(texts("l"), ["lat", "lon"]);
        assert_eq!(texts("h"), ["\"Höhe\""]);
        assert_eq!(texts("\"s"), ["\"sea level\""]);
    }
}
