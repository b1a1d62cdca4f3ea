//! The tokens of a text with their places in it.

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};
use std::ops::Range;

/// The tokens of a text.
pub struct Tokens {
    /// Tokens and where they are, in bytes.
    pub tokens: Vec<(Token, Range<usize>)>,
    /// Where what cannot be a token begins, such as a text that is not closed.
    pub broken: Option<usize>,
}

impl Tokens {
    /// The tokens of a text, as far as it has any.
    pub fn of(text: &str, dialect: &dyn Dialect) -> Self {
        let mut found = Vec::new();
        let result = Tokenizer::new(dialect, text).tokenize_with_location_into_buf(&mut found);
        let mut end = 0;
        // Tokens are in order, so the text is gone through once.
        let mut rest = text.char_indices();
        let mut location = Location { line: 1, column: 1 };
        let mut tokens = Vec::with_capacity(found.len());
        for token in found {
            let start = end;
            while location < token.span.end
                && let Some((place, character)) = rest.next()
            {
                end = place + character.len_utf8();
                if character == '\n' {
                    location.line += 1;
                    location.column = 1;
                } else {
                    location.column += 1;
                }
            }
            tokens.push((token.token, start..end));
        }
        Self {
            tokens,
            broken: result.is_err().then_some(end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    #[test]
    fn places_are_in_bytes() {
        let text = "SELECT 'é',\n日 'x";
        let tokens = Tokens::of(text, &GenericDialect {});
        let texts: Vec<&str> = tokens
            .tokens
            .iter()
            .map(|(_, place)| &text[place.clone()])
            .collect();
        assert_eq!(texts, ["SELECT", " ", "'é'", ",", "\n", "日", " "]);
        assert_eq!(&text[tokens.broken.unwrap()..], "'x");
    }
}
