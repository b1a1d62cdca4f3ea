//! The tokens of SQL with their byte ranges.

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Whitespace};
use std::convert::Infallible;
use std::ops::Range;
use tet_sql::provider::sql::budget::{Cursor, lex};

/// The tokens of a text.
pub struct Tokens {
    /// The tokens with their byte ranges.
    pub tokens: Vec<(Token, Range<usize>)>,
    /// The rest of the text, if it does not start with a valid token.
    pub broken: Option<InvalidToken>,
}

/// Text that is not a valid token, such as a quote that is not closed.
pub struct InvalidToken {
    /// The byte offset at which the text begins.
    pub start: usize,
    /// The error message of the tokenizer.
    pub message: String,
}

impl Tokens {
    /// Tokenizes a text up to its end or to the first error. Consecutive spaces, tabs and line ends
    /// are one token.
    pub fn of(text: &str, dialect: &dyn Dialect) -> Self {
        let mut tokens: Vec<(Token, Range<usize>)> = Vec::new();
        let mut end = 0;
        let Ok(broken) = lex(dialect, text, |token, range| {
            end = range.end;
            match tokens.last_mut() {
                Some((last, run)) if is_blank(last) && is_blank(&token.token) => run.end = end,
                _ => tokens.push((token.token, range)),
            }
            Ok::<(), Infallible>(())
        });
        let broken = broken.map(|error| InvalidToken {
            start: end,
            message: error.message,
        });
        Self { tokens, broken }
    }
}

/// Returns the byte offset of a line and column.
pub fn offset(text: &str, location: Location) -> usize {
    let mut cursor = Cursor::new(text);
    cursor.advance(location);
    cursor.offset
}

fn is_blank(token: &Token) -> bool {
    use Whitespace::{Newline, Space, Tab};
    matches!(token, Token::Whitespace(Space | Tab | Newline))
}

/// Returns the first word of a statement, after spaces and comments, and the text that follows it.
pub fn word(sql: &str) -> (&str, &str) {
    let mut rest = sql.trim_start();
    loop {
        rest = if let Some(comment) = rest.strip_prefix("--") {
            comment.split_once('\n').map_or("", |(_, rest)| rest)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/").map_or("", |(_, rest)| rest)
        } else {
            break;
        }
        .trim_start();
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()))
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
            .map(|(_, range)| &text[range.clone()])
            .collect();
        assert_eq!(texts, ["SELECT", " ", "'é'", ",", "\n", "日", " "]);
        assert_eq!(&text[tokens.broken.unwrap().start..], "'x");
        assert_eq!(&text[offset(text, Location::new(2, 2))..], " 'x");
    }

    #[test]
    fn words_are_behind_comments() {
        assert_eq!(word(" -- a\n /* b */ show x"), ("show", " x"));
        assert_eq!(word("(SELECT 1)"), ("", "(SELECT 1)"));
        assert_eq!(word("/* open"), ("", ""));
    }
}
