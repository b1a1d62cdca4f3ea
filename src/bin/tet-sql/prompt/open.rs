//! Finds the construct that an incomplete statement leaves open.

use crate::statement::dialect::dialect;
use crate::statement::tokens::Tokens;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::Token;

/// The construct that must be closed before the statement can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenConstruct {
    /// No construct is open, but the statement has not ended.
    Statement,
    /// A string literal.
    Text,
    /// A quoted identifier.
    Name,
    /// A comment.
    Comment,
    /// A parenthesis.
    Bracket,
}

impl OpenConstruct {
    /// Returns the construct that the text leaves open, in the SQL dialect of the session.
    pub fn of(text: &str, context: &SessionContext) -> Self {
        let (_, dialect) = dialect(context);
        Self::in_dialect(text, dialect.as_ref())
    }

    fn in_dialect(text: &str, dialect: &dyn Dialect) -> Self {
        let tokens = Tokens::of(text, dialect);
        if let Some(broken) = tokens.broken {
            return match broken.message.as_str() {
                message if message.contains("comment") => Self::Comment,
                message if message.contains("close delimiter") => Self::Name,
                _ => Self::Text,
            };
        }
        let mut depth = 0u32;
        for (token, _) in tokens.tokens {
            match token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                Token::SemiColon => depth = 0,
                _ => {}
            }
        }
        if depth > 0 {
            Self::Bracket
        } else {
            Self::Statement
        }
    }

    /// Returns the continuation prompt for the construct, as in psql.
    pub fn prompt(self) -> &'static str {
        match self {
            Self::Statement => "  -> ",
            Self::Text => "  '> ",
            Self::Name => "  \"> ",
            Self::Comment => "  *> ",
            Self::Bracket => "  (> ",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    #[test]
    fn what_is_open_is_told() {
        for (text, open) in [
            ("SELECT", OpenConstruct::Statement),
            ("SELECT 'a", OpenConstruct::Text),
            ("SELECT \"a", OpenConstruct::Name),
            ("SELECT /* a", OpenConstruct::Comment),
            ("SELECT (1 + (2)", OpenConstruct::Bracket),
            ("SELECT (1; SELECT", OpenConstruct::Statement),
            ("SELECT $$ a", OpenConstruct::Text),
        ] {
            assert_eq!(
                OpenConstruct::in_dialect(text, &GenericDialect {}),
                open,
                "{text}"
            );
        }
    }
}
