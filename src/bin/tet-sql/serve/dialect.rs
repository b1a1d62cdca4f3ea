//! Plans statements and describes errors for the server as the prompt does.

use crate::diagnostics::excerpt;
use crate::failure::Failure;
use crate::statement::tokens::Tokens;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::Token;
use futures::FutureExt;
use futures::future::BoxFuture;
use std::ops::Range;
use tet_sql::provider::sql::budget::check_bytes;
use tet_sql_flight::Dialect;

/// The width of the excerpts in error messages: that of a usual terminal.
const EXCERPT_WIDTH: usize = 80;

/// SQL over arrays.
pub struct ArrayDialect;

impl Dialect for ArrayDialect {
    fn check(&self, context: &SessionContext, sql: &str) -> Result<()> {
        check_bytes(context.copied_config().options(), sql)
    }

    fn placeholders(&self, sql: &str) -> Option<Vec<(String, Range<usize>)>> {
        let Tokens { tokens, broken } = Tokens::of(sql, &GenericDialect {});
        if broken.is_some() {
            return None;
        }
        let placeholders = tokens.into_iter().filter_map(|(token, range)| match token {
            Token::Placeholder(name) => Some((name, range)),
            _ => None,
        });
        Some(placeholders.collect())
    }

    fn plan<'a>(
        &'a self,
        state: &'a SessionState,
        sql: &'a str,
    ) -> BoxFuture<'a, Result<LogicalPlan>> {
        tet_sql::create_logical_plan(state, sql).boxed()
    }

    fn result_schema(&self, plan: &LogicalPlan) -> SchemaRef {
        tet_sql::result_schema(plan)
    }

    fn table_schema(&self, table: &dyn TableProvider) -> SchemaRef {
        tet_sql::annotated_schema(table)
    }

    fn describe(&self, error: &DataFusionError) -> String {
        tet_sql::provider::error::describe(error)
    }

    fn describe_statement<'a>(
        &'a self,
        context: &'a SessionContext,
        sql: &'a str,
        error: &'a DataFusionError,
    ) -> BoxFuture<'a, String> {
        async move {
            match excerpt::failure(context, sql, error, EXCERPT_WIDTH).await {
                Failure::Message(message) => message,
                _ => self.describe(error),
            }
        }
        .boxed()
    }
}
