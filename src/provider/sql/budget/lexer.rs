//! A tokenizer whose memory does not grow with whitespace.
//!
//! The tokenizer of sqlparser keeps a token of 80 bytes for every blank. This one tokenizes the
//! text in segments, and emits the tokens of each segment before it reads the next.

use std::ops::Range;

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{
    Location, Span, Token, TokenWithSpan, Tokenizer, TokenizerError, Whitespace,
};

/// The bytes of a segment, unless a single token is longer.
const SEGMENT: usize = 64 << 10;

/// Passes each token of a text to `each`, in order, with its byte range. If the text cannot be
/// tokenized to its end, returns the reason, such as an unterminated string.
///
/// # Errors
/// Returns the errors of `each`.
pub fn lex<E>(
    dialect: &dyn Dialect,
    text: &str,
    mut each: impl FnMut(TokenWithSpan, Range<usize>) -> Result<(), E>,
) -> Result<Option<TokenizerError>, E> {
    let mut cursor = Cursor::new(text);
    let mut segment = SEGMENT;
    let mut found = Vec::new();
    while cursor.offset < text.len() {
        let rest = &text[cursor.offset..];
        let end = segment_end(rest, segment);
        let is_last = end == rest.len();
        found.clear();
        let result =
            Tokenizer::new(dialect, &rest[..end]).tokenize_with_location_into_buf(&mut found);
        if !is_last && (result.is_err() || may_continue(&found)) {
            segment = 2 * end;
            continue;
        }
        segment = SEGMENT;
        let start = cursor.location;
        for TokenWithSpan { token, span } in found.drain(..) {
            let span = Span::new(moved(span.start, start), moved(span.end, start));
            // Tokens from a comment that the dialect expands may have locations outside the text.
            cursor.advance(span.start);
            let begin = cursor.offset;
            cursor.advance(span.end);
            each(TokenWithSpan { token, span }, begin..cursor.offset)?;
        }
        if let Err(mut error) = result {
            error.location = moved(error.location, start);
            return Ok(Some(error));
        }
    }
    Ok(None)
}

/// Returns the offset of the first blank at or after `length`. No word or number continues across a
/// blank.
fn segment_end(text: &str, length: usize) -> usize {
    let bytes = text.as_bytes().get(length..).unwrap_or_default();
    let blank = bytes
        .iter()
        .position(|byte| matches!(byte, b' ' | b'\t' | b'\n'));
    blank.map_or(text.len(), |blank| length + blank)
}

/// Returns `true` if the text after these tokens could change the last one: a comment that reaches
/// to the end of the line, or a bracket that might open a quoted name.
fn may_continue(tokens: &[TokenWithSpan]) -> bool {
    let mut last = tokens.iter().rev().map(|token| &token.token);
    match last.next() {
        None => true,
        Some(Token::Whitespace(Whitespace::SingleLineComment { comment, .. })) => {
            !comment.ends_with('\n')
        }
        Some(Token::Whitespace(_)) => {
            let token = last.find(|token| !matches!(token, Token::Whitespace(_)));
            token == Some(&Token::LBracket)
        }
        Some(token) => *token == Token::LBracket,
    }
}

/// Translates a location in a segment that starts at `start` into a location in the whole text.
fn moved(location: Location, start: Location) -> Location {
    match location.line {
        1 => Location::new(start.line, start.column + location.column - 1),
        line => Location::new(start.line + line - 1, location.column),
    }
}

/// Converts locations, whose lines and columns count characters from 1, to byte offsets.
pub struct Cursor<'a> {
    text: &'a str,
    /// The byte offset of the current location.
    pub offset: usize,
    location: Location,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the start of a text.
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            offset: 0,
            location: Location::new(1, 1),
        }
    }

    /// Moves forward to a location, or to the end of the text.
    pub fn advance(&mut self, to: Location) {
        let mut rest = self.text[self.offset..].chars();
        while self.location < to
            && let Some(character) = rest.next()
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
    use datafusion::sql::sqlparser::dialect::{GenericDialect, MySqlDialect};

    fn lexed(dialect: &dyn Dialect, text: &str) -> (Vec<TokenWithSpan>, Option<TokenizerError>) {
        let mut tokens = Vec::new();
        let result = lex(dialect, text, |token, _| {
            tokens.push(token);
            Ok::<(), ()>(())
        });
        (tokens, result.unwrap())
    }

    #[test]
    fn segments_do_not_show() {
        let long = "x".repeat(SEGMENT);
        for text in [
            format!("SELECT '{}', 7", "é \n".repeat(SEGMENT)),
            format!(
                "SELECT a{}.b -- {}\n + 1",
                " ".repeat(SEGMENT - 20),
                "c ".repeat(SEGMENT)
            ),
            format!("SELECT 1 /* {long} {long} ' */, \"{long} {long}\" $$ {long} ; $$"),
            format!(
                "SELECT {}\n 'open {long} {long}",
                "a + 1.5e3,\n".repeat(SEGMENT / 8)
            ),
            " ".repeat(3 * SEGMENT + 1),
            String::new(),
        ] {
            for dialect in [&GenericDialect {} as &dyn Dialect, &MySqlDialect {}] {
                let mut expected = Vec::new();
                let result =
                    Tokenizer::new(dialect, &text).tokenize_with_location_into_buf(&mut expected);
                let (tokens, error) = lexed(dialect, &text);
                assert!(tokens == expected, "{}", &text[..text.len().min(40)]);
                assert_eq!(error, result.err());
            }
        }
    }

    #[test]
    fn token_ranges_are_in_bytes() {
        let text = "SELECT 'é',\n日 'x";
        let mut texts = Vec::new();
        let broken = lex(&GenericDialect {}, text, |_, range| {
            texts.push(&text[range]);
            Ok::<(), ()>(())
        });
        assert_eq!(texts, ["SELECT", " ", "'é'", ",", "\n", "日", " "]);
        assert!(broken.unwrap().is_some());
    }
}
