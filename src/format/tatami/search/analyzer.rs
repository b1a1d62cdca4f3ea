//! Splits text into words, in documents and in queries.

use std::collections::HashMap;

use unicode_general_category::{GeneralCategory, get_general_category};

use crate::format::tatami::search::segment::Mode;

/// Calls `use_word` with each word of `text` in order, in lower case.
///
/// A word is a maximal run of letters (Unicode categories L*) and decimal digits (Nd). Everything else
/// separates words, including combining marks and bytes that are not UTF-8. Each letter is mapped to lower
/// case by the simple mapping, one code point for one. `word` is a buffer that is reused from call to call.
pub(super) fn for_each_word(text: &[u8], word: &mut Vec<u8>, mut use_word: impl FnMut(&[u8])) {
    word.clear();
    for chunk in text.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(&byte) = rest.as_bytes().first() {
            let length = if byte.is_ascii() {
                match byte.is_ascii_alphanumeric() {
                    true => word.push(byte.to_ascii_lowercase()),
                    false => end_word(word, &mut use_word),
                }
                1
            } else {
                let letter = rest.chars().next().unwrap_or_default();
                match is_word_character(letter) {
                    true => word.extend_from_slice(
                        simple_lowercase(letter).encode_utf8(&mut [0; 4]).as_bytes(),
                    ),
                    false => end_word(word, &mut use_word),
                }
                letter.len_utf8()
            };
            rest = rest.get(length..).unwrap_or_default();
        }
        if !chunk.invalid().is_empty() {
            end_word(word, &mut use_word);
        }
    }
    end_word(word, &mut use_word);
}

/// Returns the words of `text` in order, in lower case. See [`Segment`](super::Segment) for their rules.
pub fn words(text: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    for_each_word(text.as_bytes(), &mut Vec::new(), |word| {
        words.push(word.to_vec())
    });
    words
}

/// Tests whether texts contain the words of a query, without an index.
///
/// ```
/// use tet_sql::format::tatami::search::{Mode, WordFilter};
///
/// let mut filter = WordFilter::new("sparse Arrays", Mode::All);
/// assert!(filter.matches(b"Arrays, dense and sparse"));
/// assert!(!filter.matches(b"sparse arrayss"));
/// ```
#[derive(Debug, Clone)]
pub struct WordFilter {
    /// The distinct words, each with the last text that contained it.
    words: HashMap<Vec<u8>, u64>,
    mode: Mode,
    texts: u64,
    word: Vec<u8>,
}

impl WordFilter {
    /// Creates a filter for any or all of the words in `query`.
    pub fn new(query: &str, mode: Mode) -> Self {
        Self {
            words: words(query).into_iter().map(|word| (word, 0)).collect(),
            mode,
            texts: 0,
            word: Vec::new(),
        }
    }

    /// Returns `true` if the text matches the query. No text matches a query without words.
    pub fn matches(&mut self, text: &[u8]) -> bool {
        self.texts += 1;
        let mut found = 0;
        for_each_word(text, &mut self.word, |word| {
            if let Some(last) = self.words.get_mut(word)
                && *last != self.texts
            {
                *last = self.texts;
                found += 1;
            }
        });
        match self.mode {
            Mode::Any => found > 0,
            Mode::All => found > 0 && found == self.words.len(),
        }
    }
}

fn end_word(word: &mut Vec<u8>, use_word: &mut impl FnMut(&[u8])) {
    if !word.is_empty() {
        use_word(word);
        word.clear();
    }
}

fn is_word_character(character: char) -> bool {
    use GeneralCategory::{
        DecimalNumber, LowercaseLetter, ModifierLetter, OtherLetter, TitlecaseLetter,
        UppercaseLetter,
    };
    matches!(
        get_general_category(character),
        UppercaseLetter
            | LowercaseLetter
            | TitlecaseLetter
            | ModifierLetter
            | OtherLetter
            | DecimalNumber
    )
}

/// The full mapping of the standard library differs from the simple one for a single code point.
fn simple_lowercase(character: char) -> char {
    match character {
        '\u{130}' => 'i',
        _ => character.to_lowercase().next().unwrap_or(character),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_words(text: &[u8]) -> Vec<String> {
        let mut words = Vec::new();
        for_each_word(text, &mut Vec::new(), |word| {
            words.push(String::from_utf8(word.to_vec()).unwrap());
        });
        words
    }

    #[test]
    fn words_are_letters_and_decimal_digits_in_lower_case() {
        assert_eq!(text_words(b"Hello, World-2x  "), ["hello", "world", "2x"]);
        assert_eq!(
            text_words("Straße ÉTÉ ΣΊΣΥΦΟΣ".as_bytes()),
            ["straße", "été", "σίσυφοσ"]
        );
        // A dotted capital I becomes one letter; a circled digit and a combining mark separate.
        assert_eq!(
            text_words("İstanbul a①b e\u{301}t".as_bytes()),
            ["istanbul", "a", "b", "e", "t"]
        );
        assert_eq!(text_words("१२ ǅ 東京".as_bytes()), ["१२", "ǆ", "東京"]);
        assert_eq!(text_words(b"ab\xffcd\xe2\x82"), ["ab", "cd"]);
        assert!(text_words(b"").is_empty());
    }

    #[test]
    fn filters_find_whole_words() {
        for (query, mode, text, is_match) in [
            ("a b", Mode::Any, "x B", true),
            ("a b", Mode::Any, "xb", false),
            ("a b a", Mode::All, "b a b", true),
            ("a b", Mode::All, "b b", false),
            ("", Mode::All, "b", false),
            ("", Mode::Any, "b", false),
        ] {
            let mut filter = WordFilter::new(query, mode);
            for _ in 0..2 {
                assert_eq!(filter.matches(text.as_bytes()), is_match, "{query}, {text}");
                assert!(!filter.matches(b""));
            }
        }
    }

    #[test]
    fn only_one_code_point_has_a_longer_full_mapping() {
        let longer = ('\0'..=char::MAX).filter(|c| c.to_lowercase().count() > 1);
        assert_eq!(longer.collect::<Vec<_>>(), ['\u{130}']);
    }
}
