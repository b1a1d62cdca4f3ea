//! Splits text into statements and meta-commands.
//!
//! The tokenizer of the SQL parser decides the meaning of a `;`, so quotes, comments and dollar
//! quotes are handled correctly in every dialect.

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenizerError};
use tet_sql::provider::sql::budget::lex;

/// A statement or a meta-command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptItem<'a> {
    /// The text without the terminating `;` or line end.
    pub text: &'a str,
    /// The kind of the text.
    pub kind: ItemKind,
    /// The offset in the whole text after this item and its terminator.
    pub end: usize,
}

impl ScriptItem<'_> {
    /// Returns the offset of the item in the whole text.
    pub fn start(&self, text: &str) -> usize {
        // `self.text` is a slice of `text`, so the difference of the pointers is its offset.
        self.text.as_ptr() as usize - text.as_ptr() as usize
    }
}

/// The kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    /// A SQL statement. At a prompt, the user may continue a statement that is not complete.
    Statement {
        /// `true` if the statement ends with `;`, or has an error that no further text could
        /// repair.
        complete: bool,
    },
    /// A line that begins with `.` or `\` where a statement could begin.
    Meta,
    /// A SQL statement that ends with `\g` or `\gx`.
    Sent {
        /// The offset in the item's text at which the SQL ends and the command begins.
        end: usize,
    },
}

/// Splits a text into statements and meta-commands, in order. Empty statements are left out.
///
/// ```text
/// SELECT 1;            Statement { complete: true }   "SELECT 1"
/// .mode csv            Meta                           ".mode csv"
/// SELECT 2 \gx         Sent { end: 9 }                "SELECT 2 \gx"
/// SELECT               Statement { complete: false }  "SELECT"
/// ```
///
/// Text that cannot be tokenized is a statement, too, because the parser gives the best error
/// message.
pub fn split<'a>(text: &'a str, dialect: &dyn Dialect) -> Vec<ScriptItem<'a>> {
    let mut pieces = Vec::new();
    let mut start = 0;
    // A meta-command is not SQL and could confuse the tokenizer, so tokenizing starts again after
    // each one.
    while let Some(next) = split_to_meta(text, start, dialect, &mut pieces) {
        start = next;
    }
    pieces
}

/// Returns `true` if a prompt should run the text rather than ask for more lines.
pub fn is_complete(text: &str, dialect: &dyn Dialect) -> bool {
    let last = split(text, dialect).pop();
    last.is_none_or(|piece| piece.kind != ItemKind::Statement { complete: false })
}

/// Splits from `start` to the end of the first meta-command. Returns the offset of that end, or
/// `None` if the text has no further meta-command.
fn split_to_meta<'a>(
    text: &'a str,
    start: usize,
    dialect: &dyn Dialect,
    pieces: &mut Vec<ScriptItem<'a>>,
) -> Option<usize> {
    let mut begin: Option<usize> = None;
    let mut last = start;
    let lexed = lex(dialect, &text[start..], |token, range| {
        let (offset, end) = (start + range.start, start + range.end);
        last = end;
        match token.token {
            Token::Whitespace(_) => {}
            // Some dialects expand comments into tokens whose ranges do not match the text.
            Token::SemiColon if text[offset..end].ends_with(';') => {
                if let Some(begin) = begin.take() {
                    pieces.push(ScriptItem {
                        text: text[begin..offset].trim_end(),
                        kind: ItemKind::Statement { complete: true },
                        end,
                    });
                }
            }
            Token::Backslash if begin.is_some() && is_go(&text[offset..]) => {
                // The guard says that a statement has begun, so the default is never used.
                let begin = begin.take().unwrap_or(offset);
                let line = text[offset..].lines().next().unwrap_or_default();
                let end = offset + line.len();
                pieces.push(ScriptItem {
                    text: text[begin..end].trim_end(),
                    kind: ItemKind::Sent {
                        end: offset - begin,
                    },
                    end,
                });
                return Err(end);
            }
            _ if begin.is_none() && text[offset..].starts_with(['.', '\\']) => {
                let line = text[offset..].lines().next().unwrap_or_default();
                let end = offset + line.len();
                pieces.push(ScriptItem {
                    text: line.trim_end(),
                    kind: ItemKind::Meta,
                    end,
                });
                return Err(end);
            }
            _ => {
                begin.get_or_insert(offset);
            }
        }
        Ok(())
    });
    let broken = match lexed {
        Ok(broken) => broken,
        Err(end) => return Some(end),
    };
    let begin = match &broken {
        None => begin?,
        Some(_) => begin.unwrap_or(last),
    };
    let complete = broken.is_some_and(|broken| !is_open(&broken));
    let rest = text[begin..].trim();
    if !rest.is_empty() {
        pieces.push(ScriptItem {
            text: rest,
            kind: ItemKind::Statement { complete },
            end: text.len(),
        });
    }
    None
}

/// Returns `true` if a text begins with `\g` or `\gx`.
fn is_go(text: &str) -> bool {
    let word = text.split(|c: char| c.is_whitespace() || c == ';').next();
    matches!(word, Some("\\g" | "\\gx"))
}

/// Returns `true` if the error is an open quote or comment, which further text could close.
fn is_open(broken: &TokenizerError) -> bool {
    broken.message.contains("Unterminated") || broken.message.contains("EOF")
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::{GenericDialect, MySqlDialect};

    fn texts(text: &str) -> Vec<&str> {
        split(text, &GenericDialect {})
            .into_iter()
            .map(|piece| piece.text)
            .collect()
    }

    fn complete(text: &str) -> bool {
        is_complete(text, &GenericDialect {})
    }

    #[test]
    fn semicolons_end_statements() {
        assert_eq!(texts("SELECT 1; SELECT 2 ;;\n"), ["SELECT 1", "SELECT 2"]);
        assert_eq!(texts("SELECT 1"), ["SELECT 1"]);
        assert!(texts("").is_empty());
        assert!(texts(" ;; -- nothing\n /* here */ ").is_empty());
    }

    #[test]
    fn quotes_and_comments_hide_semicolons() {
        for text in [
            "SELECT ';'",
            "SELECT 'it''s;'",
            "SELECT \"a;b\"",
            "SELECT 1 -- ;\n + 2",
            "SELECT /* ; */ 1",
            "SELECT $$;$$",
            "SELECT $x$;$$;$x$",
        ] {
            assert_eq!(texts(&format!("{text}; SELECT 2")), [text, "SELECT 2"]);
        }
    }

    #[test]
    fn offsets_count_bytes_across_wide_characters_and_lines() {
        let text = "SELECT 'é\r\n日本';\n\tSELECT 'ü;' AS \"ж\" ; SELECT 3";
        assert_eq!(
            texts(text),
            ["SELECT 'é\r\n日本'", "SELECT 'ü;' AS \"ж\"", "SELECT 3"]
        );
        let pieces = split(text, &GenericDialect {});
        assert!(text[..pieces[0].end].ends_with("';"));
        assert_eq!(pieces[2].end, text.len());
    }

    #[test]
    fn meta_commands_take_a_line() {
        let pieces = split(
            "SELECT 1;\n.output it's\n  \\dt;\r\nSELECT\n.5",
            &GenericDialect {},
        );
        let kinds: Vec<(ItemKind, &str)> = pieces.iter().map(|p| (p.kind, p.text)).collect();
        assert_eq!(
            kinds,
            [
                (ItemKind::Statement { complete: true }, "SELECT 1"),
                (ItemKind::Meta, ".output it's"),
                (ItemKind::Meta, "\\dt;"),
                (ItemKind::Statement { complete: false }, "SELECT\n.5"),
            ]
        );
    }

    #[test]
    fn statements_can_end_in_a_meta_command() {
        let text = "SELECT 1 \\gx\nSELECT '\\g' \\g out.csv\n\\g;\nSELECT \\h";
        let pieces = split(text, &GenericDialect {});
        let found: Vec<(ItemKind, &str)> = pieces.iter().map(|p| (p.kind, p.text)).collect();
        assert_eq!(
            found,
            [
                (ItemKind::Sent { end: 9 }, "SELECT 1 \\gx"),
                (ItemKind::Sent { end: 12 }, "SELECT '\\g' \\g out.csv"),
                (ItemKind::Meta, "\\g;"),
                (ItemKind::Statement { complete: false }, "SELECT \\h"),
            ]
        );
        assert!(complete("SELECT\n1 \\g"));
    }

    #[test]
    fn what_cannot_be_tokenized_is_kept() {
        assert_eq!(texts("SELECT 1; SELECT 'x;"), ["SELECT 1", "SELECT 'x;"]);
        assert_eq!(texts("/* open ;"), ["/* open ;"]);
    }

    #[test]
    fn the_prompt_asks_for_more_only_where_more_can_help() {
        for text in [
            "",
            "  ",
            "SELECT 1;",
            ".tables",
            "\\q",
            "SELECT 1; -- done",
            ";",
        ] {
            assert!(complete(text), "{text}");
        }
        for text in [
            "SELECT 1",
            "SELECT ';",
            "SELECT 1; SELECT",
            "/* ;",
            "SELECT 1 -- ;",
        ] {
            assert!(!complete(text), "{text}");
        }
    }

    #[test]
    fn the_dialect_decides() {
        let text = r"SELECT 'a\'; b'; SELECT 2";
        assert_eq!(split(text, &MySqlDialect {}).len(), 2);
        assert_eq!(split(text, &GenericDialect {})[0].text, r"SELECT 'a\'");
    }
}
