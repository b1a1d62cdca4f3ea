//! Parses and plans statements within their budget.

use std::future::{Future, poll_fn};
use std::pin::pin;

use datafusion::common::{DataFusionError, Result, not_impl_err, plan_datafusion_err, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::dialect::dialect_from_str;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use crate::provider::adapters::registry::FormatRegistry;
use crate::provider::catalog::settings::config::ArraySettings;
use crate::provider::rules::logic::syntax::correct;
use crate::provider::sql::budget::balance::Balance;
use crate::provider::sql::budget::count::{Counter, too_deep};
use crate::provider::sql::budget::unanalyzed::Unanalyzed;
use crate::provider::sql::budget::{inlined, lex, nodes};
use crate::provider::sql::changed_names;
use crate::provider::sql::clauses;
use crate::provider::sql::rewrites::{grouping_sets, named_arguments, row_subqueries};
use crate::provider::sql::walk::walk_statement_mut;

/// The stack for parsing and planning a statement within the default limits. Unused stack takes no
/// memory.
const STACK_BYTES: usize = 64 << 20;

/// Checks the size of a plan.
///
/// # Errors
/// Fails if a limit is exceeded.
pub fn check_plan(options: &ConfigOptions, plan: &LogicalPlan) -> Result<()> {
    inlined::check_plan(plan, &ArraySettings::limits_of(options))
}

/// Parses a single statement within its budget, and balances its long chains of AND and OR.
///
/// # Errors
/// Fails if a limit is exceeded, or the text is not exactly one statement.
pub fn parse(state: &SessionState, sql: &str) -> Result<Statement> {
    let options = state.config_options();
    let limits = ArraySettings::limits_of(options);
    check_bytes(options, sql)?;
    let name = &options.sql_parser.dialect;
    let dialect = dialect_from_str(name)
        .ok_or_else(|| plan_datafusion_err!("unknown SQL dialect '{name}'"))?;
    let nesting = options.sql_parser.recursion_limit.get();
    let mut counter = Counter::new(&limits, nesting);
    let mut tokens: Vec<TokenWithSpan> = Vec::new();
    let broken = lex(dialect.as_ref(), sql, |token, _| {
        counter.add(&token.token)?;
        match tokens.last_mut() {
            Some(last) if is_blank(&last.token) && is_blank(&token.token) => {
                // Some dialects concatenate two strings only if there is a newline between them.
                if token.token == Token::Whitespace(Whitespace::Newline) {
                    last.token = token.token;
                }
                last.span.end = token.span.end;
            }
            _ => tokens.push(token),
        }
        Ok::<(), DataFusionError>(())
    })?;
    if let Some(error) = broken {
        return Err(ParserError::from(error).into());
    }
    if dialect.supports_from_first_select() {
        clauses::complete_selects(&mut tokens);
    }
    stacker::maybe_grow(STACK_BYTES / 2, STACK_BYTES, || {
        let parser = DFParserBuilder::new(tokens)
            .with_dialect(dialect.as_ref())
            .with_recursion_limit(nesting)
            .build();
        let mut statements = match parser?.parse_statements() {
            Ok(statements) => statements,
            Err(error) if is_recursion(&error) => return too_deep(nesting),
            Err(error) => return Err(error),
        };
        let Some(mut statement) = statements.pop_front() else {
            return plan_err!("no SQL statement");
        };
        if !statements.is_empty() {
            return not_impl_err!("more than one SQL statement");
        }
        nodes::check_statement(&statement, limits.plan_nodes)?;
        let normalizes = state.config_options().sql_parser.enable_ident_normalization;
        changed_names::resolve(&mut statement, normalizes);
        clauses::check(&statement)?;
        named_arguments::place(&mut statement)?;
        grouping_sets::resolve_positions(&mut statement)?;
        row_subqueries::combine_columns(&mut statement);
        check_format(state, &statement)?;
        correct(&mut statement);
        balance(&mut statement);
        Ok(statement)
    })
}

/// Checks the format of a `COPY`, because DataFusion would use the one of the target's extension
/// instead of an unknown one.
fn check_format(state: &SessionState, statement: &Statement) -> Result<()> {
    const OF_ROWS: [&str; 6] = ["PARQUET", "CSV", "TSV", "JSON", "NDJSON", "ARROW"];
    let is_known = |name: &str| {
        let factory = state.get_file_format_factory(&name.to_lowercase());
        factory.is_some()
    };
    match statement {
        Statement::Explain(explain) => check_format(state, &explain.statement),
        Statement::CopyTo(copy) => match &copy.stored_as {
            Some(name) if !is_known(name) => {
                let formats = FormatRegistry::of(state.config());
                let formats = formats.formats().iter();
                let names = formats.flat_map(|format| format.keywords().iter().copied());
                let mut known: Vec<&str> = Vec::new();
                for name in names.chain(OF_ROWS) {
                    if is_known(name) && !known.contains(&name) {
                        known.push(name);
                    }
                }
                plan_err!(
                    "COPY cannot write STORED AS {name}: expected one of {}",
                    known.join(", ")
                )
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Checks the length of a statement's text.
///
/// # Errors
/// Fails if the text is longer than the limit.
pub fn check_bytes(options: &ConfigOptions, sql: &str) -> Result<()> {
    let limit = ArraySettings::limits_of(options).statement_bytes;
    match sql.len() > limit {
        true => plan_err!(
            "the statement has {} bytes, more than {limit}; shorten it, or raise tet.max_statement_bytes",
            sql.len()
        ),
        false => Ok(()),
    }
}

fn is_blank(token: &Token) -> bool {
    matches!(
        token,
        Token::Whitespace(Whitespace::Space | Whitespace::Tab | Whitespace::Newline)
    )
}

fn is_recursion(error: &DataFusionError) -> bool {
    matches!(error, DataFusionError::SQL(error, _) if **error == ParserError::RecursionLimitExceeded)
}

fn balance(statement: &mut Statement) {
    // The visitors never break.
    let _ = walk_statement_mut(statement, &mut Balance);
    let _ = walk_statement_mut(statement, &mut Unanalyzed);
}

/// Polls a future with enough stack for planning deep trees, on any thread.
pub async fn with_stack<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        stacker::maybe_grow(STACK_BYTES / 2, STACK_BYTES, || {
            future.as_mut().poll(context)
        })
    })
    .await
}
