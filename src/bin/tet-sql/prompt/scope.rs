//! Finds the tables that a statement names, and the context of the cursor.

use crate::statement::tokens::Tokens;
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::Token;

/// A table after FROM or JOIN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTable {
    /// The parts of the qualified name, ending with the table, or a single path.
    pub parts: Vec<String>,
    /// The alias, if the statement gives one.
    pub alias: Option<String>,
}

/// Keywords after a table that are not its alias, sorted for binary search.
const NO_ALIAS: [&str; 22] = [
    "CROSS",
    "EXCEPT",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "INNER",
    "INTERSECT",
    "JOIN",
    "LEFT",
    "LIMIT",
    "NATURAL",
    "OFFSET",
    "ON",
    "ORDER",
    "RIGHT",
    "SELECT",
    "SET",
    "UNION",
    "USING",
    "WHERE",
    "WINDOW",
];

/// Returns the tables that a statement names.
pub fn tables(text: &str, dialect: &dyn Dialect) -> Vec<NamedTable> {
    let tokens = Tokens::of(text, dialect);
    let tokens: Vec<&Token> = tokens
        .tokens
        .iter()
        .map(|(token, _)| token)
        .filter(|token| !matches!(token, Token::Whitespace(_)))
        .collect();
    let mut tables = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        let begins = is_word(tokens[index], "FROM") || is_word(tokens[index], "JOIN");
        index += 1;
        // Commas separate further tables.
        let mut goes_on = begins;
        while goes_on {
            let Some((named, next)) = table(&tokens, index) else {
                break;
            };
            tables.push(named);
            index = next;
            goes_on = tokens.get(index) == Some(&&Token::Comma);
            index += usize::from(goes_on);
        }
    }
    tables
}

fn table(tokens: &[&Token], mut index: usize) -> Option<(NamedTable, usize)> {
    let mut parts = Vec::new();
    loop {
        match tokens.get(index)? {
            Token::Word(word) => parts.push(word.value.clone()),
            Token::SingleQuotedString(path) => parts.push(path.clone()),
            _ => return None,
        }
        index += 1;
        match tokens.get(index) {
            Some(Token::Period) => index += 1,
            // The columns of a table function are unknown.
            Some(Token::LParen) => return None,
            _ => break,
        }
    }
    if tokens.get(index).is_some_and(|token| is_word(token, "AS")) {
        index += 1;
    }
    let alias = match tokens.get(index) {
        Some(Token::Word(word)) if word.quote_style.is_some() || is_alias(&word.value) => {
            index += 1;
            Some(word.value.clone())
        }
        _ => None,
    };
    Some((NamedTable { parts, alias }, index))
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

fn is_alias(word: &str) -> bool {
    NO_ALIAS
        .binary_search(&word.to_ascii_uppercase().as_str())
        .is_err()
}

/// The context of the cursor, which determines what can be completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CursorContext {
    /// The name of a table.
    Table,
    /// The name of a setting.
    Setting,
    /// A string that is the path of a file. The string's content begins at this offset.
    File(usize),
    /// A string that is compared with this column. The string's content begins at this offset.
    Label(String, usize),
    /// Any other string, or a comment.
    Text,
    /// Any other context.
    Anywhere,
}

/// Returns the context of the end of a text.
pub fn place(text: &str, dialect: &dyn Dialect) -> CursorContext {
    let tokens = Tokens::of(text, dialect);
    let before = |end: usize| -> Vec<&Token> {
        let tokens = tokens.tokens.iter();
        let tokens = tokens.take_while(|(_, range)| range.end <= end);
        tokens
            .map(|(token, _)| token)
            .filter(|token| !matches!(token, Token::Whitespace(_)))
            .collect()
    };
    if let Some(broken) = tokens.broken.as_ref().map(|broken| broken.start) {
        if !text[broken..].starts_with('\'') {
            return match text[broken..].starts_with('"') {
                true => of_word(&before(broken)),
                false => CursorContext::Text,
            };
        }
        return in_quotes(&before(broken), broken + 1);
    }
    // The word at the end is the one to complete, so the tokens before it determine the context.
    let mut tokens = before(text.len());
    if text.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
        tokens.pop();
    }
    of_word(&tokens)
}

fn of_word(tokens: &[&Token]) -> CursorContext {
    // The names of settings contain dots.
    let mut rest = tokens;
    while let [start @ .., Token::Word(_), Token::Period] = rest {
        rest = start;
    }
    match rest.last() {
        Some(token) if is_word(token, "SET") || is_word(token, "RESET") => CursorContext::Setting,
        Some(token) if is_word(token, "SHOW") => CursorContext::Setting,
        Some(token)
            if ["FROM", "JOIN", "DESCRIBE", "SUMMARIZE", "TABLE", "INTO"]
                .iter()
                .any(|word| is_word(token, word)) =>
        {
            CursorContext::Table
        }
        _ => CursorContext::Anywhere,
    }
}

fn in_quotes(tokens: &[&Token], start: usize) -> CursorContext {
    let Some(last) = tokens.last() else {
        return CursorContext::Text;
    };
    if ["FROM", "JOIN", "LOCATION", "TO"]
        .iter()
        .any(|word| is_word(last, word))
    {
        return CursorContext::File(start);
    }
    // Skip a list backwards to its column.
    let mut rest = tokens;
    while let [start @ .., Token::Comma | Token::SingleQuotedString(_)] = rest {
        rest = start;
    }
    if let [start @ .., word, Token::LParen] = rest
        && is_word(word, "IN")
    {
        rest = start;
    } else if let [
        start @ ..,
        Token::Eq | Token::Neq | Token::Lt | Token::LtEq | Token::Gt | Token::GtEq,
    ] = rest
    {
        rest = start;
    } else if let [start @ .., word] = rest
        && (is_word(word, "LIKE") || is_word(word, "ILIKE"))
    {
        rest = start;
    } else {
        return CursorContext::Text;
    }
    if let [start @ .., word] = rest
        && is_word(word, "NOT")
    {
        rest = start;
    }
    match rest.last() {
        Some(Token::Word(word)) => CursorContext::Label(word.value.clone(), start),
        _ => CursorContext::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    #[test]
    fn tables_and_aliases_are_found() {
        let found = tables(
            "SELECT x FROM demo.temperature t JOIN 'a.tet#b' AS f USING (time), c WHERE",
            &GenericDialect {},
        );
        let named = |parts: &[&str], alias: Option<&str>| NamedTable {
            parts: parts.iter().map(|part| (*part).to_owned()).collect(),
            alias: alias.map(str::to_owned),
        };
        assert_eq!(
            found,
            [
                named(&["demo", "temperature"], Some("t")),
                named(&["a.tet#b"], Some("f")),
            ]
        );
        let found = tables("SELECT FROM a, b GROUP BY", &GenericDialect {});
        assert_eq!(found, [named(&["a"], None), named(&["b"], None)]);
        assert!(tables("SELECT * FROM range(1)", &GenericDialect {}).is_empty());
    }

    #[test]
    fn the_place_of_the_cursor_is_known() {
        let at = |text: &str| place(text, &GenericDialect {});
        assert_eq!(at("SELECT * FROM te"), CursorContext::Table);
        assert_eq!(at("SELECT * FROM "), CursorContext::Table);
        assert_eq!(at("SELECT * FROM demo.te"), CursorContext::Table);
        assert_eq!(at("SET tet.na"), CursorContext::Setting);
        assert_eq!(at("SET "), CursorContext::Setting);
        assert_eq!(at("SELECT la"), CursorContext::Anywhere);
        assert_eq!(at("FROM 'a/b"), CursorContext::File(6));
        assert_eq!(at("COPY t TO '"), CursorContext::File(11));
        let label = |column: &str, start| CursorContext::Label(column.to_owned(), start);
        assert_eq!(at("WHERE station = 'KS"), label("station", 17));
        assert_eq!(at("WHERE p.station IN ('a', '"), label("station", 26));
        assert_eq!(at("WHERE station NOT LIKE 'K"), label("station", 24));
        assert_eq!(at("SELECT 'x"), CursorContext::Text);
        assert_eq!(at("/* FROM "), CursorContext::Text);
    }

    #[test]
    fn words_are_in_order() {
        assert!(NO_ALIAS.is_sorted());
    }
}
