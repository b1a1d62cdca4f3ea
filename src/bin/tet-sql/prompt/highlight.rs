//! Highlights statements and meta-commands.

use crate::prompt::keywords::KEYWORDS;
use crate::statement::tokens::Tokens;
use anstyle::{AnsiColor, Style};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Whitespace};

/// Returns a line with colours. `before` contains the lines of the statement above.
pub fn coloured(before: &str, line: &str, dialect: &dyn Dialect) -> String {
    if before.is_empty() && line.trim_start().starts_with(['.', '\\']) {
        return meta(line);
    }
    let text = format!("{before}{line}");
    let tokens = Tokens::of(&text, dialect);
    let unmatched = unmatched(&tokens);
    let mut coloured = String::with_capacity(2 * line.len());
    let mut append = |start: usize, end: usize, style: Style| {
        // A token may have begun in a line above.
        let (start, end) = (start.max(before.len()), end.max(before.len()));
        if start < end {
            coloured += &format!("{style}{}{style:#}", &text[start..end]);
        }
    };
    for (number, (token, range)) in tokens.tokens.iter().enumerate() {
        let style = match unmatched.contains(&number) {
            true => wrong(),
            false => style(token),
        };
        append(range.start, range.end, style);
    }
    if let Some(broken) = tokens.broken {
        append(broken.start, text.len(), wrong());
    }
    coloured
}

/// Returns a hint in its style.
pub fn hint(text: &str) -> String {
    let style = Style::new().dimmed();
    format!("{style}{text}{style:#}")
}

/// Returns the style of a token that is not closed, or closes nothing.
fn wrong() -> Style {
    AnsiColor::Red.on_default().underline()
}

fn meta(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let end = line[indent..].find(char::is_whitespace);
    let (name, rest) = line.split_at(end.map_or(line.len(), |end| indent + end));
    let style = AnsiColor::Magenta.on_default().bold();
    format!("{style}{name}{style:#}{rest}")
}

fn style(token: &Token) -> Style {
    match token {
        Token::Word(word) if word.quote_style.is_none() => {
            let upper = word.value.to_ascii_uppercase();
            match KEYWORDS.binary_search(&upper.as_str()) {
                Ok(_) => AnsiColor::Blue.on_default().bold(),
                Err(_) => Style::new(),
            }
        }
        Token::Number(..) => AnsiColor::Cyan.on_default(),
        Token::SingleQuotedString(_)
        | Token::DollarQuotedString(_)
        | Token::EscapedStringLiteral(_)
        | Token::NationalStringLiteral(_) => AnsiColor::Green.on_default(),
        Token::Whitespace(
            Whitespace::SingleLineComment { .. } | Whitespace::MultiLineComment(_),
        ) => Style::new().dimmed(),
        _ => Style::new(),
    }
}

/// Returns the indices of closing brackets that close nothing.
fn unmatched(tokens: &Tokens) -> Vec<usize> {
    let mut open = Vec::new();
    let mut unmatched = Vec::new();
    for (number, (token, _)) in tokens.tokens.iter().enumerate() {
        match token {
            Token::LParen => open.push(Token::RParen),
            Token::LBracket => open.push(Token::RBracket),
            Token::RParen | Token::RBracket => {
                if open.last() == Some(token) {
                    open.pop();
                } else {
                    unmatched.push(number);
                }
            }
            _ => {}
        }
    }
    unmatched
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    fn shown(before: &str, line: &str) -> String {
        coloured(before, line, &GenericDialect {})
            .replace('\u{1b}', "")
            .replace("[0m", "]")
    }

    #[test]
    fn tokens_have_colours() {
        assert_eq!(
            shown("", "SELECT value, 1.5 -- x"),
            "[1m[34mSELECT] value, [36m1.5] [2m-- x]"
        );
        assert_eq!(shown("", "  .mode csv"), "[1m[35m  .mode] csv");
    }

    #[test]
    fn what_is_not_closed_is_red() {
        assert_eq!(shown("", "a 'b c"), "a [4m[31m'b c]");
        assert_eq!(shown("", "(a))"), "(a)[4m[31m)]");
    }

    #[test]
    fn lines_above_count() {
        assert_eq!(shown("SELECT 'a\n", "b' 'c"), "[32mb'] [4m[31m'c]");
    }

    #[test]
    fn keywords_are_in_order() {
        assert!(KEYWORDS.is_sorted());
    }
}
