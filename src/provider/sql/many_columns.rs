//! Statements with many columns that have no name.
//!
//! DataFusion 55.2 compares the name of each selected expression with those of all before it, and formats both names for
//! every comparison. Names of expressions are long, so the expressions get short aliases while they are planned.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, Limit, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr,
};

/// The minimum number of columns without a name for which aliases are used.
const MIN_UNNAMED: usize = 500;
/// The first character of the aliases, which no name should have.
const PREFIX: char = '\u{1}';

/// Plans a query of many columns that have no name. Returns `None` for other statements, if another clause could refer to
/// an alias, and if the query cannot be planned like this.
pub(super) async fn plan(state: &SessionState, statement: &Statement) -> Option<LogicalPlan> {
    let aliased = with_aliases(statement)?;
    let plan = state.statement_to_plan(aliased).await.ok()?;
    without_aliases(plan).ok()?
}

/// Returns a query of many columns with an alias for each that has no name.
fn with_aliases(statement: &Statement) -> Option<Statement> {
    let items = select(statement)?.projection.iter();
    let unnamed = items.filter(|item| match item {
        SelectItem::UnnamedExpr(expr) => is_unnamed(expr),
        _ => false,
    });
    if unnamed.count() < MIN_UNNAMED {
        return None;
    }
    let mut statement = statement.clone();
    let Statement::Statement(inner) = &mut statement else {
        return None;
    };
    let ast::Statement::Query(query) = inner.as_mut() else {
        return None;
    };
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    for (number, item) in select.projection.iter_mut().enumerate() {
        if let SelectItem::UnnamedExpr(expr) = item
            && is_unnamed(expr)
        {
            *item = SelectItem::ExprWithAlias {
                expr: expr.clone(),
                alias: Ident::with_quote('"', format!("{PREFIX}{number}")),
            };
        }
    }
    Some(statement)
}

/// Removes the aliases of [`with_aliases`] from the columns of a plan. Returns `None` if they are not in its last
/// projection.
///
/// # Errors
/// Fails if two columns have the same name.
fn without_aliases(plan: LogicalPlan) -> Result<Option<LogicalPlan>> {
    match plan {
        LogicalPlan::Limit(Limit { skip, fetch, input }) => {
            let input = without_aliases(Arc::unwrap_or_clone(input))?;
            Ok(input.map(|input| {
                let input = Arc::new(input);
                LogicalPlan::Limit(Limit { skip, fetch, input })
            }))
        }
        LogicalPlan::Projection(projection) => {
            let columns = projection.expr.into_iter().map(|column| match column {
                Expr::Alias(alias) if alias.name.starts_with(PREFIX) => *alias.expr,
                column => column,
            });
            let input = Arc::unwrap_or_clone(projection.input);
            let plan = LogicalPlanBuilder::from(input).project(columns)?;
            plan.build().map(Some)
        }
        _ => Ok(None),
    }
}

/// Returns the SELECT of a query in which no clause can refer to an alias.
fn select(statement: &Statement) -> Option<&Select> {
    let Statement::Statement(statement) = statement else {
        return None;
    };
    let ast::Statement::Query(query) = statement.as_ref() else {
        return None;
    };
    let Query {
        body,
        order_by: None,
        pipe_operators,
        ..
    } = query.as_ref()
    else {
        return None;
    };
    let SetExpr::Select(select) = body.as_ref() else {
        return None;
    };
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(expressions, modifiers) => {
            !expressions.is_empty() || !modifiers.is_empty()
        }
        GroupByExpr::All(_) => true,
    };
    let mut aliases = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias),
        _ => None,
    });
    let has_prefix = aliases.any(|alias| alias.value.starts_with(PREFIX));
    let has_other_clauses = !pipe_operators.is_empty()
        || !select.distribute_by.is_empty()
        || select.distinct.is_some()
        || select.having.is_some()
        || select.qualify.is_some()
        || select.into.is_some();
    (!is_grouped && !has_other_clauses && !has_prefix).then_some(select)
}

/// Returns `true` for expressions other than a column.
fn is_unnamed(expr: &ast::Expr) -> bool {
    !matches!(
        expr,
        ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_)
    )
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::provider::sql::budget::parse;
    use crate::provider::sql::using_keys::create_logical_plan;

    #[tokio::test]
    async fn many_columns_keep_their_names() {
        let ctx = SessionContext::new();
        let state = ctx.state();
        let numbers: Vec<_> = (0..MIN_UNNAMED)
            .map(|number| format!("a + {number}"))
            .collect();
        let numbers = numbers.join(", ");
        let table = "(VALUES (1, 2), (3, 4)) t(a, b)";
        for (sql, is_many) in [
            (format!("SELECT {numbers} FROM {table}"), true),
            (format!("SELECT *, t.b AS c, {numbers} FROM {table}"), true),
            (
                format!("SELECT t.b AS c, {numbers}, t.a FROM {table} LIMIT 1"),
                true,
            ),
            (
                format!("SELECT max(b), {numbers} FROM (SELECT 1 AS a, 2 AS b) GROUP BY a"),
                false,
            ),
            (
                format!("SELECT {} FROM {table}", numbers.replace("a +", "max(a) +")),
                true,
            ),
            (
                format!("SELECT {numbers} FROM {table} ORDER BY a + 1"),
                false,
            ),
            (
                format!("SELECT row_number() OVER (ORDER BY b), {numbers} FROM {table}"),
                true,
            ),
            (format!("SELECT a + 1, {numbers} FROM {table}"), true),
            (
                format!("SELECT {numbers}, unnest([a, b]) FROM {table}"),
                true,
            ),
            (format!("SELECT x + 1, {numbers} FROM {table}"), true),
            (format!("SELECT {numbers} FROM {table} |> SELECT *"), false),
        ] {
            let statement = parse(&state, &sql).unwrap();
            assert_eq!(with_aliases(&statement).is_some(), is_many, "{sql}");
            let mut answers = Vec::new();
            let ours = create_logical_plan(&state, &sql).await;
            for plan in [ours, state.create_logical_plan(&sql).await] {
                answers.push(match plan {
                    Ok(plan) => {
                        let rows = ctx.execute_logical_plan(plan).await.unwrap();
                        Ok(rows.to_string().await.unwrap())
                    }
                    Err(error) => Err(error.strip_backtrace()),
                });
            }
            assert_eq!(answers[0], answers[1], "{sql}");
        }
    }
}
