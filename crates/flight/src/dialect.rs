//! Plans SQL and describes errors.

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use std::ops::Range;
use std::sync::Arc;

/// Plans SQL and describes errors. Implement this trait to extend the SQL of a
/// [`Server`](crate::Server).
///
/// The provided methods behave like DataFusion.
///
/// ```
/// use datafusion::common::{Result, plan_err};
/// use datafusion::prelude::SessionContext;
/// use tet_sql_flight::Dialect;
///
/// /// DataFusion's SQL, limited to short statements.
/// struct ShortStatements;
///
/// impl Dialect for ShortStatements {
///     fn check(&self, _context: &SessionContext, sql: &str) -> Result<()> {
///         match sql.len() {
///             0..=10_000 => Ok(()),
///             length => plan_err!("the statement has {length} bytes, more than 10000"),
///         }
///     }
/// }
/// ```
pub trait Dialect: Send + Sync + 'static {
    /// Checks the text of a statement before it is parsed.
    ///
    /// # Errors
    /// Fails if the statement is too large to be planned.
    fn check(&self, _context: &SessionContext, _sql: &str) -> Result<()> {
        Ok(())
    }

    /// Returns the placeholders of a statement (`?`, `$1`, `$name`) with their byte ranges, or
    /// `None` if the text cannot be tokenized.
    fn placeholders(&self, sql: &str) -> Option<Vec<(String, Range<usize>)>> {
        let tokens = Tokenizer::new(&GenericDialect {}, sql)
            .tokenize_with_location()
            .ok()?;
        let lines: Vec<&str> = sql.split('\n').collect();
        let starts = lines.iter().scan(0, |start, line| {
            let this = *start;
            *start += line.len() + 1;
            Some(this)
        });
        let starts: Vec<usize> = starts.collect();
        // Locations count lines and characters from 1.
        let offset = |location: Location| {
            let line = usize::try_from(location.line.checked_sub(1)?).ok()?;
            let column = usize::try_from(location.column.checked_sub(1)?).ok()?;
            let text = lines.get(line)?;
            let within = text.char_indices().nth(column);
            Some(starts.get(line)? + within.map_or(text.len(), |(offset, _)| offset))
        };
        let mut placeholders = Vec::new();
        for token in tokens {
            if let Token::Placeholder(name) = token.token {
                let start = offset(token.span.start)?;
                placeholders.push((name.clone(), start..start + name.len()));
            }
        }
        Some(placeholders)
    }

    /// Plans a statement.
    fn plan<'a>(
        &'a self,
        state: &'a SessionState,
        sql: &'a str,
    ) -> BoxFuture<'a, Result<LogicalPlan>> {
        state.create_logical_plan(sql).boxed()
    }

    /// Returns the schema of a query's result.
    fn result_schema(&self, plan: &LogicalPlan) -> SchemaRef {
        Arc::clone(plan.schema().inner())
    }

    /// Returns the schema of a table as shown in the catalog.
    fn table_schema(&self, table: &dyn TableProvider) -> SchemaRef {
        table.schema()
    }

    /// Returns the message for an error.
    fn describe(&self, error: &DataFusionError) -> String {
        error.find_root().strip_backtrace()
    }

    /// Returns the message for an error in a statement, which may quote the statement.
    fn describe_statement<'a>(
        &'a self,
        _context: &'a SessionContext,
        _sql: &'a str,
        error: &'a DataFusionError,
    ) -> BoxFuture<'a, String> {
        ready(self.describe(error)).boxed()
    }
}

/// DataFusion's own SQL.
#[derive(Debug, Clone, Copy, Default)]
pub struct DataFusionDialect;

impl Dialect for DataFusionDialect {}

/// A session and its dialect.
#[derive(Clone)]
pub struct Session {
    /// The session.
    pub context: SessionContext,
    /// The dialect of its statements.
    pub dialect: Arc<dyn Dialect>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_have_ranges_of_bytes() {
        let sql = "SELECT 'é?',\n '日', ? -- ?\n, $1";
        let found = DataFusionDialect.placeholders(sql).unwrap();
        let texts: Vec<&str> = found.iter().map(|(_, range)| &sql[range.clone()]).collect();
        assert_eq!(texts, ["?", "$1"]);
        assert!(DataFusionDialect.placeholders("SELECT 'open").is_none());
    }
}
