//! The tokens of SQL with their places in its text.

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};
use std::ops::Range;
use std::str::Chars;

/// The tokens of a text.
pub struct Tokens {
    /// Tokens and where they are, in bytes.
    pub tokens: Vec<(Token, Range<usize>)>,
    /// What follows them, if it cannot be a token.
    pub broken: Option<Broken>,
}

/// What cannot be a token, such as a text that is not closed.
pub struct Broken {
    /// Where it begins, in bytes.
    pub start: usize,
    /// What the tokenizer says of it.
    pub message: String,
}

impl Tokens {
    /// The tokens of a text, as far as it has any.
    pub fn of(text: &str, dialect: &dyn Dialect) -> Self {
        let mut found = Vec::new();
        let result = Tokenizer::new(dialect, text).tokenize_with_location_into_buf(&mut found);
        // Tokens are in order, so the text is gone through once.
        let mut cursor = Cursor::new(text);
        let mut tokens = Vec::with_capacity(found.len());
        for token in found {
            // Some dialects expand comments into tokens whose places are not in the text.
            cursor.advance(token.span.start);
            let start = cursor.offset;
            cursor.advance(token.span.end);
            tokens.push((token.token, start..cursor.offset));
        }
        let broken = result.err().map(|error| Broken {
            start: cursor.offset,
            message: error.message,
        });
        Self { tokens, broken }
    }
}

/// The place in bytes of a line and column.
pub fn offset(text: &str, location: Location) -> usize {
    let mut cursor = Cursor::new(text);
    cursor.advance(location);
    cursor.offset
}

/// Follows lines and columns, which count characters from 1, to offsets in bytes.
struct Cursor<'a> {
    rest: Chars<'a>,
    offset: usize,
    location: Location,
}

impl<'a> Cursor<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            rest: text.chars(),
            offset: 0,
            location: Location::new(1, 1),
        }
    }

    fn advance(&mut self, to: Location) {
        while self.location < to
            && let Some(character) = self.rest.next()
        {
            self.offset += character.len_utf8();
            if character == '\n' {
                self.location.line += 1;
                self.location.column = 1;
            } else {
                self.location.column += 1;
            }
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
        assert_eq!(&text[tokens.broken.unwrap().start..], "'x");
        assert_eq!(&text[offset(text, Location::new(2, 2))..], " 'x");
    }
}
