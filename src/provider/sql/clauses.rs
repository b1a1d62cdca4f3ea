//! Clauses that the parser accepts, and that DataFusion would ignore silently.
//!
//! - `FROM t WHERE x > 1` is `SELECT * FROM t WHERE x > 1`, as in DuckDB.
//! - Samples and versions of tables, positional joins, several assignments to one column, and computed columns are errors.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::common::{Result, plan_err};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, Assignment, AssignmentTarget, ColumnOption, CreateTable, JoinConstraint, JoinOperator,
    Select, SelectFlavor, TableFactor, TableWithJoins, Visitor,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use crate::provider::sql::walk::walk_statement;

/// Words between the start of a statement, or a set operator, and its query.
const BEFORE_QUERY: [Keyword; 6] = [
    Keyword::ALL,
    Keyword::ANALYZE,
    Keyword::BY,
    Keyword::DISTINCT,
    Keyword::NAME,
    Keyword::VERBOSE,
];

/// The maximum number of queries of a statement that may begin with FROM.
const MAX_COMPLETED: usize = 1000;

/// Puts `SELECT *` in front of each FROM that begins a query without SELECT.
pub(crate) fn complete_selects(tokens: &mut Vec<TokenWithSpan>) {
    let mut starts = Vec::new();
    let mut levels = vec![Level::default()];
    for (index, token) in tokens.iter().enumerate() {
        let top = levels.len() - 1;
        let level = &mut levels[top];
        match &token.token {
            Token::Whitespace(_) => {}
            Token::LParen => {
                let is_trim = level.last == Keyword::TRIM;
                level.begins = false;
                levels.push(Level {
                    begins: !is_trim,
                    ..Level::default()
                });
            }
            Token::RParen => {
                if top > 0 {
                    levels.pop();
                }
                let level = &mut levels[top.saturating_sub(1)];
                // The query of `WITH a AS (...) FROM a` begins after the bracket.
                level.begins = level.first == Keyword::WITH;
                level.has_operand = true;
            }
            Token::SemiColon => levels = vec![Level::default()],
            Token::Word(word) => {
                if word.keyword == Keyword::FROM && level.begins && !has_select(&tokens[index..]) {
                    starts.push(index);
                }
                level.begins = match word.keyword {
                    Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT => level.has_operand,
                    Keyword::EXPLAIN => level.first == Keyword::NoKeyword,
                    Keyword::AS => level.first == Keyword::CREATE,
                    keyword => level.begins && BEFORE_QUERY.contains(&keyword),
                };
                level.has_operand = !matches!(word.keyword, Keyword::SELECT | Keyword::AS);
                level.last = word.keyword;
                let is_query = matches!(word.keyword, Keyword::SELECT | Keyword::FROM);
                if is_query || level.first == Keyword::NoKeyword {
                    level.first = word.keyword;
                }
            }
            token => {
                level.begins = false;
                level.has_operand = matches!(
                    token,
                    Token::Number(..) | Token::SingleQuotedString(_) | Token::Mul
                );
                level.last = Keyword::NoKeyword;
            }
        }
    }
    if starts.len() > MAX_COMPLETED {
        return;
    }
    let mut completed = Vec::with_capacity(tokens.len() + 4 * starts.len());
    let mut starts = starts.into_iter().peekable();
    for (index, token) in std::mem::take(tokens).into_iter().enumerate() {
        if starts.next_if_eq(&index).is_some() {
            let span = token.span;
            let blank = Token::Whitespace(Whitespace::Space);
            let added = [
                Token::make_keyword("SELECT"),
                blank.clone(),
                Token::Mul,
                blank,
            ];
            completed.extend(added.map(|token| TokenWithSpan { token, span }));
        }
        completed.push(token);
    }
    *tokens = completed;
}

/// The tokens between two brackets.
struct Level {
    /// `true` if a query may begin at the next token.
    begins: bool,
    /// `true` if the last token may end an operand of UNION, rather than stand before a column
    /// with that name.
    has_operand: bool,
    /// The first and the last word so far.
    first: Keyword,
    last: Keyword,
}

impl Default for Level {
    fn default() -> Self {
        Self {
            begins: true,
            has_operand: false,
            first: Keyword::NoKeyword,
            last: Keyword::NoKeyword,
        }
    }
}

/// Returns `true` if the query that begins with these tokens has a SELECT of its own.
fn has_select(tokens: &[TokenWithSpan]) -> bool {
    let mut depth = 0usize;
    for token in tokens {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return false,
            Token::RParen => depth -= 1,
            Token::SemiColon | Token::VerticalBarRightAngleBracket => return false,
            Token::Word(word) if depth == 0 => match word.keyword {
                Keyword::SELECT => return true,
                Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT => return false,
                _ => {}
            },
            _ => {}
        }
    }
    false
}

/// Checks that a statement has no clause that DataFusion would ignore silently.
///
/// # Errors
/// Fails if there is such a clause.
pub(crate) fn check(statement: &Statement) -> Result<()> {
    let mut ignored = Ignored { found: None };
    let _ = walk_statement(statement, &mut ignored);
    match ignored.found {
        None => Ok(()),
        Some(message) => plan_err!("{message}"),
    }
}

/// A visitor that stops at the first clause that DataFusion would ignore, with an error message.
struct Ignored {
    /// The message about the clause.
    found: Option<Cow<'static, str>>,
}

impl Ignored {
    fn stop_at(&mut self, found: ControlFlow<&'static str>) -> ControlFlow<()> {
        self.found = found.break_value().map(Cow::Borrowed);
        match self.found {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }
}

impl Visitor for Ignored {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &ast::Statement) -> ControlFlow<()> {
        if let ast::Statement::Update(update) = statement
            && let Some(column) = find_repeated(&update.assignments)
        {
            let message = format!("SET has more than one value for the column {column:?}");
            self.found = Some(Cow::Owned(message));
            return ControlFlow::Break(());
        }
        if let ast::Statement::CreateTable(table) = statement {
            return self.stop_at(check_columns(table));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let found = match select.flavor {
            SelectFlavor::FromFirstNoSelect => {
                ControlFlow::Break("this query has no SELECT; write SELECT * FROM ...")
            }
            _ => select.from.iter().try_for_each(check_joins),
        };
        self.stop_at(found)
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let found = match factor {
            TableFactor::Table {
                sample: Some(_), ..
            }
            | TableFactor::Derived {
                sample: Some(_), ..
            } => ControlFlow::Break(
                "TABLESAMPLE is not supported; for about a tenth of the rows, use WHERE random() < 0.1",
            ),
            TableFactor::Table {
                version: Some(_), ..
            } => ControlFlow::Break(
                "tables have no versions to travel to; open the older file, or leave the clause out",
            ),
            TableFactor::Table {
                with_ordinality: true,
                ..
            } => ControlFlow::Break(
                "WITH ORDINALITY is not supported; use row_number() OVER () in the SELECT list",
            ),
            TableFactor::NestedJoin {
                table_with_joins, ..
            } => check_joins(table_with_joins),
            _ => ControlFlow::Continue(()),
        };
        self.stop_at(found)
    }
}

/// Returns a column with several assignments. DataFusion looks for columns of these names as they are written.
fn find_repeated(assignments: &[Assignment]) -> Option<&str> {
    let mut columns = HashSet::new();
    let mut names = assignments.iter().filter_map(|one| match &one.target {
        AssignmentTarget::ColumnName(name) => Some(name.0.last()?.as_ident()?.value.as_str()),
        AssignmentTarget::Tuple(_) => None,
    });
    names.find(|name| !columns.insert(*name))
}

/// Rejects options of columns that CREATE TABLE does not have.
fn check_columns(table: &CreateTable) -> ControlFlow<&'static str> {
    let options = table.columns.iter().flat_map(|column| &column.options);
    for option in options {
        match &option.option {
            ColumnOption::Generated { .. } => {
                return ControlFlow::Break(
                    "columns are not GENERATED; compute the column in a view, CREATE VIEW v AS SELECT *, ... FROM t",
                );
            }
            ColumnOption::Identity(_) | ColumnOption::DialectSpecific(_) => {
                return ControlFlow::Break(
                    "columns have no IDENTITY and AUTO_INCREMENT; insert the numbers, as with row_number() OVER ()",
                );
            }
            ColumnOption::NotNull if table.query.is_some() => {
                return ControlFlow::Break(
                    "CREATE TABLE AS does not check NOT NULL; create the table without AS, and insert the rows",
                );
            }
            _ => {}
        }
    }
    ControlFlow::Continue(())
}

/// Rejects `a POSITIONAL JOIN b`, which the parser reads as a join of `a AS POSITIONAL` with `b`
/// without a condition.
fn check_joins(tables: &TableWithJoins) -> ControlFlow<&'static str> {
    let left = std::iter::once(&tables.relation);
    let left = left.chain(tables.joins.iter().map(|join| &join.relation));
    for (left, join) in left.zip(&tables.joins) {
        let (TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. }) = left else {
            continue;
        };
        let is_positional = alias.as_ref().is_some_and(|alias| {
            !alias.explicit && alias.name.value.eq_ignore_ascii_case("positional")
        });
        let is_unconditional = matches!(
            join.join_operator,
            JoinOperator::Join(JoinConstraint::None) | JoinOperator::Inner(JoinConstraint::None)
        );
        if is_positional && is_unconditional {
            return ControlFlow::Break(
                "POSITIONAL JOIN is not supported; join arrays on their dimensions (JOIN ... USING), or number the \
                 rows of both sides with row_number() OVER ()",
            );
        }
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn completed(sql: &str) -> String {
        let mut tokens = Tokenizer::new(&GenericDialect {}, sql)
            .tokenize_with_location()
            .unwrap();
        complete_selects(&mut tokens);
        tokens.iter().map(|token| token.token.to_string()).collect()
    }

    #[test]
    fn queries_may_begin_with_from() {
        let all = "SELECT * FROM";
        for (sql, expected) in [
            ("FROM t", format!("{all} t")),
            ("FROM t WHERE x > 1", format!("{all} t WHERE x > 1")),
            ("EXPLAIN ANALYZE FROM t", format!("EXPLAIN ANALYZE {all} t")),
            (
                "COPY (FROM t) TO 'x.csv'",
                format!("COPY ({all} t) TO 'x.csv'"),
            ),
            (
                "CREATE TABLE a AS FROM t",
                format!("CREATE TABLE a AS {all} t"),
            ),
            (
                "FROM a UNION ALL FROM b",
                format!("{all} a UNION ALL {all} b"),
            ),
            (
                "WITH a AS (FROM t), b AS (FROM a) FROM b LIMIT 1",
                format!("WITH a AS ({all} t), b AS ({all} a) {all} b LIMIT 1"),
            ),
            (
                "SELECT x IN (FROM t) FROM u",
                format!("SELECT x IN ({all} t) FROM u"),
            ),
            ("FROM t |> SELECT x", format!("{all} t |> SELECT x")),
            ("SELECT explain FROM t", "SELECT explain FROM t".to_string()),
            ("SELECT t.union FROM t", "SELECT t.union FROM t".to_string()),
            (
                "FROM (SELECT 1) WHERE x IN (SELECT 2)",
                format!("{all} (SELECT 1) WHERE x IN (SELECT 2)"),
            ),
        ] {
            assert_eq!(completed(sql), expected);
        }
        for same in [
            "SELECT 1 FROM t",
            "FROM t SELECT x",
            "SELECT (a) FROM t",
            "SELECT extract(year FROM time), trim(FROM x), substring(x FROM 2) FROM t",
            "WITH a AS (SELECT 1) SELECT (x) FROM a",
            "DELETE FROM t",
            "SELECT a IS DISTINCT FROM b",
            "SELECT x AS y FROM t",
        ] {
            assert_eq!(completed(same), same);
        }
    }

    #[test]
    fn ignored_clauses_are_errors() {
        let check = |sql: &str| {
            let mut statements = DFParser::parse_sql(sql).unwrap();
            check(&statements.pop_front().unwrap())
        };
        for (sql, clause) in [
            ("SELECT * FROM t TABLESAMPLE (10)", "TABLESAMPLE"),
            (
                "SELECT * FROM t TABLESAMPLE BERNOULLI (10 PERCENT)",
                "TABLESAMPLE",
            ),
            (
                "SELECT 1 WHERE 1 IN (SELECT x FROM t TABLESAMPLE (10 ROWS))",
                "TABLESAMPLE",
            ),
            (
                "COPY (SELECT * FROM t TABLESAMPLE (10)) TO 'x.csv'",
                "TABLESAMPLE",
            ),
            ("SELECT * FROM a POSITIONAL JOIN b", "POSITIONAL JOIN"),
            ("UPDATE t SET v = 1, t.v = 2", "\"v\""),
            ("EXPLAIN UPDATE t SET a = 0, v = 1, v = 2", "\"v\""),
            (
                "EXPLAIN SELECT * FROM a CROSS JOIN b positional JOIN c",
                "POSITIONAL JOIN",
            ),
        ] {
            let error = check(sql).unwrap_err().to_string();
            assert!(error.contains(clause), "{sql}: {error}");
        }
        for sql in [
            "SELECT * FROM a positional",
            "SELECT * FROM a AS positional JOIN b ON true",
            "SELECT * FROM a JOIN b USING (x)",
            "UPDATE t SET a = 1, b = 1",
        ] {
            check(sql).unwrap();
        }
    }
}
