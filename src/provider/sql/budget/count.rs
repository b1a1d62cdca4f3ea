//! Measures a statement by its tokens, before it is parsed.

use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::provider::sql::budget::nodes::too_many_nodes;
use crate::provider::sql::budget::{ANDS_PER_OPERATOR, Limits, ORS_PER_OPERATOR};

/// Counts the operators of expressions, the depth of brackets and the queries of a statement.
///
/// The tree of `1 + 1 + 1` is as deep as the number of its operators, and every function that walks
/// the tree recursively needs that much stack. Operators are therefore summed up until a token
/// separates two expressions, and those between brackets are added to those around the brackets.
/// The sum is an upper bound of the depth of the tree.
pub struct Counter<'a> {
    limits: &'a Limits,
    /// Maximum depth of brackets and CASEs.
    nesting: usize,
    /// The open brackets and CASEs, innermost last. Never empty: the first frame is the statement.
    frames: Vec<Frame>,
    queries: usize,
    /// `true` if the last token is an operator. A word after an operator is an operand: the parser
    /// accepts most keywords as names there, so that none of them separates two expressions.
    is_after_operator: bool,
    /// The length of the current run of operators. Operators before an operand are nested:
    /// `NOT NOT x`.
    operators_in_a_row: usize,
    /// For the last two tokens, oldest first: `true` if the token is a period.
    periods: [bool; 2],
}

/// The tokens between two brackets, or between CASE and END.
#[derive(Debug, Default)]
struct Frame {
    is_case: bool,
    /// The count of the expression that the last token belongs to.
    last: Count,
    /// The maximum over all earlier expressions of the frame.
    most: Count,
    /// The BETWEENs that still wait for their AND.
    betweens: usize,
}

#[derive(Debug, Default, Clone, Copy)]
struct Count {
    operators: usize,
    ands: usize,
    ors: usize,
}

impl<'a> Counter<'a> {
    /// Creates a counter with these limits, of which `nesting` applies to brackets and CASE.
    pub fn new(limits: &'a Limits, nesting: usize) -> Self {
        Self {
            limits,
            nesting,
            frames: vec![Frame::default()],
            queries: 0,
            is_after_operator: false,
            operators_in_a_row: 0,
            periods: [false; 2],
        }
    }

    /// Counts the next token.
    ///
    /// # Errors
    /// Fails if a limit is exceeded.
    pub fn add(&mut self, token: &Token) -> Result<()> {
        let mut is_operator = false;
        match token {
            Token::Whitespace(_) => return Ok(()),
            Token::Comma | Token::SemiColon => self.separate(),
            Token::LParen | Token::LBracket | Token::LBrace => {
                self.frame().last.operators += 1;
                self.open(false)?;
            }
            Token::RParen | Token::RBracket | Token::RBrace => self.close(),
            Token::Word(word) => is_operator = self.word(word.keyword)?,
            // The first period of `a.b.c` belongs to a qualified name.
            Token::Period if !self.periods[0] => {}
            Token::VerticalBarRightAngleBracket => self.queries += 1,
            token => is_operator = !is_literal(token),
        }
        if is_operator {
            self.frame().last.operators += 1;
            self.operators_in_a_row += 1;
            if self.operators_in_a_row > self.nesting {
                return too_deep(self.nesting);
            }
        } else {
            self.operators_in_a_row = 0;
        }
        self.is_after_operator = is_operator;
        self.periods = [self.periods[1], *token == Token::Period];
        self.check()
    }

    /// Counts a word, and returns `true` if it is an operator.
    fn word(&mut self, keyword: Keyword) -> Result<bool> {
        if keyword == Keyword::CASE {
            self.frame().last.operators += 1;
            self.open(true)?;
            return Ok(false);
        }
        // Comes before the check for an operand, because BETWEEN is an operator after NOT as well.
        if keyword == Keyword::BETWEEN {
            self.frame().betweens += 1;
            return Ok(true);
        }
        if self.is_after_operator {
            return Ok(OPERATORS.contains(&keyword));
        }
        let frame = self.frame();
        match keyword {
            Keyword::AND if frame.betweens > 0 => {
                frame.betweens -= 1;
                return Ok(true);
            }
            Keyword::AND | Keyword::OR => {
                frame.most.operators = frame.most.operators.max(frame.last.operators);
                frame.last.operators = 0;
                match keyword {
                    Keyword::AND => frame.last.ands += 1,
                    _ => frame.last.ors += 1,
                }
            }
            Keyword::WHEN | Keyword::THEN | Keyword::ELSE if frame.is_case => self.separate(),
            Keyword::END if frame.is_case => self.close(),
            Keyword::SELECT => {
                self.separate();
                self.queries += 1;
            }
            Keyword::UNION
            | Keyword::EXCEPT
            | Keyword::INTERSECT
            | Keyword::MINUS
            | Keyword::JOIN
            | Keyword::VALUES => self.queries += 1,
            _ => return Ok(OPERATORS.contains(&keyword)),
        }
        Ok(false)
    }

    /// The innermost frame.
    fn frame(&mut self) -> &mut Frame {
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    /// Ends the current expression of the frame.
    fn separate(&mut self) {
        let frame = self.frame();
        frame.most.operators = frame.most.operators.max(frame.last.operators);
        frame.most.ands = frame.most.ands.max(frame.last.ands);
        frame.most.ors = frame.most.ors.max(frame.last.ors);
        frame.last = Count::default();
        frame.betweens = 0;
    }

    fn open(&mut self, is_case: bool) -> Result<()> {
        if self.frames.len() > self.nesting {
            return too_deep(self.nesting);
        }
        self.frames.push(Frame {
            is_case,
            ..Frame::default()
        });
        Ok(())
    }

    fn close(&mut self) {
        // The outermost frame has no closing bracket.
        if self.frames.len() == 1 {
            return;
        }
        self.separate();
        if let Some(closed) = self.frames.pop() {
            let last = &mut self.frame().last;
            last.operators += closed.most.operators;
            last.ands += closed.most.ands;
            last.ors += closed.most.ors;
        }
    }

    fn check(&mut self) -> Result<()> {
        let limit = self.limits.expression_operators;
        let last = self.frame().last;
        if last.operators > limit {
            return plan_err!(
                "the statement has an expression of more than {limit} operators; shorten it, or raise \
                 tet.max_expression_operators"
            );
        }
        for (what, count, factor) in [
            ("ANDs", last.ands, ANDS_PER_OPERATOR),
            ("ORs", last.ors, ORS_PER_OPERATOR),
        ] {
            let most = limit.saturating_mul(factor);
            if count > most {
                return plan_err!(
                    "the statement has an expression of more than {most} {what}; use IN or a join with VALUES, or \
                     raise tet.max_expression_operators ({what} may be {factor} times as many)"
                );
            }
        }
        match self.queries > self.limits.plan_nodes {
            true => too_many_nodes(self.limits.plan_nodes),
            false => Ok(()),
        }
    }
}

/// The error for a statement that is nested too deeply.
pub fn too_deep<T>(limit: usize) -> Result<T> {
    plan_err!(
        "the statement is nested more than {limit} levels deep; simplify it, or raise \
         datafusion.sql_parser.recursion_limit"
    )
}

/// Keywords that make the tree of an expression or statement deeper, or that directly precede an
/// operand.
const OPERATORS: [Keyword; 25] = [
    Keyword::AT,
    Keyword::COLLATE,
    Keyword::CONNECT_BY_ROOT,
    Keyword::DESC,
    Keyword::DESCRIBE,
    Keyword::DIV,
    Keyword::EXPLAIN,
    Keyword::FROM,
    Keyword::ILIKE,
    Keyword::IN,
    Keyword::INTERVAL,
    Keyword::IS,
    Keyword::LIKE,
    Keyword::MATCH,
    Keyword::MEMBER,
    Keyword::NOT,
    Keyword::NOTNULL,
    Keyword::OPERATOR,
    Keyword::OVERLAPS,
    Keyword::PRIOR,
    Keyword::REGEXP,
    Keyword::RLIKE,
    Keyword::SIMILAR,
    Keyword::XOR,
    Keyword::ZONE,
];

/// Returns `true` for strings, numbers and parameters.
fn is_literal(token: &Token) -> bool {
    matches!(
        token,
        Token::Number(..)
            | Token::Char(_)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::TripleSingleQuotedString(_)
            | Token::TripleDoubleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::SingleQuotedByteStringLiteral(_)
            | Token::DoubleQuotedByteStringLiteral(_)
            | Token::TripleSingleQuotedByteStringLiteral(_)
            | Token::TripleDoubleQuotedByteStringLiteral(_)
            | Token::SingleQuotedRawStringLiteral(_)
            | Token::DoubleQuotedRawStringLiteral(_)
            | Token::TripleSingleQuotedRawStringLiteral(_)
            | Token::TripleDoubleQuotedRawStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::QuoteDelimitedStringLiteral(_)
            | Token::NationalQuoteDelimitedStringLiteral(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::Placeholder(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::sql::budget::lex;
    use datafusion::common::DataFusionError;
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    /// Counts the tokens of a text with limits of 100 operators, 800 ANDs, 1600 ORs and 1000 nodes.
    fn counted(sql: &str) -> Result<()> {
        let limits = Limits {
            expression_operators: 100,
            plan_nodes: 1000,
            ..Limits::default()
        };
        let mut counter = Counter::new(&limits, 50);
        let broken = lex(&GenericDialect {}, sql, |token, _| {
            counter.add(&token.token)?;
            Ok::<(), DataFusionError>(())
        })?;
        assert!(broken.is_none(), "{sql}");
        Ok(())
    }

    #[test]
    fn everything_that_deepens_an_expression_counts() {
        let columns = vec!["a"; 102];
        for operator in [
            "+",
            "=",
            "::int #",
            "||",
            " IS NOT DISTINCT FROM ",
            " COLLATE ",
        ] {
            assert!(
                counted(&format!("SELECT {}", columns.join(operator))).is_err(),
                "{operator}"
            );
            let few = columns[..30].join(operator);
            assert!(counted(&format!("SELECT {few}")).is_ok(), "{operator}");
        }
        for repeated in [
            "x BETWEEN 1 AND ",
            "x NOT BETWEEN 1 AND ",
            "1 + select ",
            "1 + CASE WHEN a THEN 1 END ",
            "1 + CASE WHEN end THEN 1 END ",
            "f(x) WITHIN GROUP (ORDER BY y) + ",
            "x + (SELECT a FROM b WHERE c) ",
            "b AT TIME ZONE where ",
            "ARRAY<",
        ] {
            let sql = format!("SELECT {}", repeated.repeat(101));
            let error = counted(&sql).unwrap_err().to_string();
            assert!(
                error.contains("tet.max_expression_operators"),
                "{repeated}: {error}"
            );
        }
        for repeated in [" IS NULL", "::int", "[1]", " BETWEEN 1 AND 2", ".b.c"] {
            let sql = format!("SELECT a{}", repeated.repeat(101));
            assert!(counted(&sql).is_err(), "{repeated}");
        }
    }

    #[test]
    fn operators_in_brackets_count_with_those_around() {
        let sum = vec!["1"; 60].join(" + ");
        assert!(counted(&format!("SELECT ({sum}), ({sum}), f({sum}, {sum})")).is_ok());
        assert!(counted(&format!("SELECT ({sum}) + ({sum})")).is_err());
        assert!(counted(&format!("SELECT ({sum}) AND ({sum}) OR ({sum})")).is_ok());
        let ands = vec!["x = 1"; 450].join(" AND ");
        assert!(counted(&format!("SELECT {ands}, {ands}")).is_ok());
        let error = counted(&format!("SELECT {ands} AND {ands}")).unwrap_err();
        assert!(error.to_string().contains("more than 800 ANDs"), "{error}");
        let ors = vec!["x = 1"; 900].join(" OR ");
        assert!(counted(&format!("SELECT ({ors}), ({ors})")).is_ok());
        let error = counted(&format!("SELECT ({ors}) AND ({ors})")).unwrap_err();
        assert!(error.to_string().contains("more than 1600 ORs"), "{error}");
    }

    #[test]
    fn long_lists_are_no_long_expressions() {
        let list: Vec<String> = (0..5000).map(|n| format!("-{n}")).collect();
        let list = list.join(", ");
        for sql in [
            format!("SELECT * FROM t WHERE x IN ({list})"),
            format!("SELECT {list} FROM t"),
            format!("INSERT INTO t VALUES ({list})"),
            format!("SELECT CASE {} END", "WHEN x = 1 THEN a + 1 ".repeat(500)),
            vec!["SELECT a + 1 FROM t.u.v WHERE b = 2"; 400].join(" UNION ALL "),
            format!("SELECT 1{}", " ".repeat(100_000)),
        ] {
            assert!(counted(&sql).is_ok(), "{}", &sql[..60]);
        }
    }

    #[test]
    fn nesting_and_queries_are_bounded() {
        let nested = |count: usize| format!("SELECT {}1{}", "(".repeat(count), ")".repeat(count));
        assert!(counted(&nested(50)).is_ok());
        for sql in [
            nested(51),
            "SELECT CAST(1 AS Tuple(".repeat(51),
            "CASE ".repeat(51),
            "NOT ".repeat(51),
            "- ".repeat(51),
            "EXPLAIN ".repeat(51),
        ] {
            let error = counted(&sql).unwrap_err().to_string();
            assert!(
                error.contains("datafusion.sql_parser.recursion_limit"),
                "{error}"
            );
        }
        for sql in [
            "SELECT 1 UNION ".repeat(600),
            format!("FROM t {}", "|> WHERE x ".repeat(1001)),
            format!("SELECT 1 FROM t {}", "JOIN t ".repeat(1001)),
        ] {
            let error = counted(&sql).unwrap_err().to_string();
            assert!(error.contains("tet.max_plan_nodes"), "{error}");
        }
    }
}
