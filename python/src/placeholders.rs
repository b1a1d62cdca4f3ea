//! The placeholders of parameters in the text of a statement.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// Returns a statement with its placeholders `?` numbered, as `$1`, `$2` and so on.
pub fn numbered(sql: &str) -> String {
    let mut count = 0;
    replaced(sql, |name| {
        (name == "?").then(|| {
            count += 1;
            format!("${count}")
        })
    })
}

/// Returns a statement with replacements for its placeholders. A placeholder without a replacement and the
/// rest of the text are not changed.
pub fn replaced(sql: &str, mut replacement: impl FnMut(&str) -> Option<String>) -> String {
    let tokens = Tokenizer::new(&GenericDialect {}, sql)
        .with_unescape(false)
        .tokenize_with_location();
    let Ok(tokens) = tokens else {
        // Planning reports the error.
        return sql.to_owned();
    };
    let placeholders = tokens.into_iter().filter_map(|token| match token.token {
        Token::Placeholder(name) => Some((token.span.start, name)),
        _ => None,
    });
    let mut placeholders = placeholders.peekable();
    let mut text = String::with_capacity(sql.len());
    let mut copied = 0;
    let (mut line, mut column) = (1, 1);
    for (offset, character) in sql.char_indices() {
        let here = placeholders.next_if(|(start, _)| (start.line, start.column) == (line, column));
        if let Some((_, name)) = here
            && let Some(new) = replacement(&name)
        {
            text.push_str(&sql[copied..offset]);
            text.push_str(&new);
            copied = offset + name.len();
        }
        (line, column) = match character {
            '\n' => (line + 1, 1),
            _ => (line, column + 1),
        };
    }
    text.push_str(&sql[copied..]);
    text
}
