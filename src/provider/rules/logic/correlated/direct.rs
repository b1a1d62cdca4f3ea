//! Subqueries that DataFusion turns into joins correctly.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::{merge_schema, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, Distinct, Expr, FetchType, Filter, Join, Limit, LogicalPlan, Operator, SkipType,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use super::references::{is_correlated, lateral_of, outer_columns};
use super::subquery_of;

/// Returns `true` if only the filters next to the tables of a subquery of EXISTS, IN, ANY, ALL or LATERAL refer to the query around it.
pub(super) fn is_filtered(plan: &LogicalPlan) -> Result<bool> {
    Ok(match plan {
        LogicalPlan::Projection(projection) => {
            !plan.contains_outer_reference()
                && !has_correlated_subqueries(plan)?
                && is_filtered(&projection.input)?
        }
        LogicalPlan::Filter(filter) => {
            has_direct_subqueries(plan)?
                && match is_correlated(&filter.input)? {
                    true => is_filtered(&filter.input)?,
                    false => true,
                }
        }
        _ => false,
    })
}

/// Returns `true` if a scalar subquery aggregates, without GROUP BY, rows whose columns equal values of the query around it.
pub(super) fn is_aggregated(plan: &LogicalPlan) -> Result<bool> {
    let (item, input) = match plan {
        LogicalPlan::Projection(projection) => (projection.expr.first(), projection.input.as_ref()),
        other => (None, other),
    };
    let LogicalPlan::Aggregate(aggregate) = input else {
        return Ok(false);
    };
    if !aggregate.group_expr.is_empty()
        || plan.contains_outer_reference()
        || input.contains_outer_reference()
        || !has_direct_subqueries(plan)?
        || !has_direct_subqueries(input)?
    {
        return Ok(false);
    }
    if let Some(item) = item {
        let schema = Arc::clone(&aggregate.schema);
        let simplifier = SimplifyContext::builder().with_schema(schema).build();
        let item = ExprSimplifier::new(simplifier).simplify(item.clone().unalias())?;
        // DataFusion finds out by a column whether there was a row.
        if !item.any_column_refs() {
            return Ok(false);
        }
    }
    let mut rows = &aggregate.input;
    while let LogicalPlan::Filter(filter) = rows.as_ref() {
        if !compares_columns(filter) || !has_direct_subqueries(rows)? {
            return Ok(false);
        }
        rows = &filter.input;
    }
    Ok(!is_correlated(rows)?)
}

/// Returns `true` if a filter refers to the query around it only where it compares a column with it by `=`.
fn compares_columns(filter: &Filter) -> bool {
    let is_column = |one: &Expr, other: &Expr| {
        matches!(one, Expr::Column(_)) && other.contains_outer() && !other.any_column_refs()
    };
    split_conjunction(&filter.predicate)
        .into_iter()
        .all(|conjunct| match conjunct {
            conjunct if !conjunct.contains_outer() => true,
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: Operator::Eq,
                right,
            }) => is_column(left, right) || is_column(right, left),
            _ => false,
        })
}

/// Returns `true` if a subquery in the expressions of an operator refers to columns around it.
fn has_correlated_subqueries(node: &LogicalPlan) -> Result<bool> {
    let mut has_any = false;
    node.apply_expressions(|expression| {
        expression.apply(|one| {
            if let Some(subquery) = subquery_of(one) {
                has_any |= is_correlated(&subquery.subquery)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(has_any)
}

/// Returns `true` if the subqueries in the expressions of an operator refer to its input alone, and DataFusion turns them into joins
/// correctly.
fn has_direct_subqueries(node: &LogicalPlan) -> Result<bool> {
    let mut is_direct = true;
    node.apply_expressions(|expression| {
        expression.apply(|one| {
            if let Some(subquery) = subquery_of(one) {
                let scope = merge_schema(&node.inputs());
                let mut columns = outer_columns(&subquery.subquery)?.into_iter();
                is_direct &= columns.all(|(_, column)| scope.has_column(&column))
                    && is_direct_subquery(one, &subquery.subquery)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(is_direct)
}

/// Returns `true` if DataFusion turns a subquery expression into a join correctly. `plan` is its plan.
pub(super) fn is_direct_subquery(expression: &Expr, plan: &LogicalPlan) -> Result<bool> {
    if !is_correlated(plan)? {
        return Ok(true);
    }
    match expression {
        Expr::ScalarSubquery(_) => is_aggregated(plan),
        _ => is_filtered(plan),
    }
}

/// Returns a plan without the order and the duplicates of its rows and, if `is_exists` is true, without a limit that keeps a row.
pub(super) fn distinct_rows(plan: &Arc<LogicalPlan>, is_exists: bool) -> Result<Arc<LogicalPlan>> {
    let input = match plan.as_ref() {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => &sort.input,
        LogicalPlan::Distinct(Distinct::All(input)) => input,
        LogicalPlan::Limit(limit) if is_exists && keeps_a_row(limit)? => &limit.input,
        LogicalPlan::Projection(projection) => {
            let input = distinct_rows(&projection.input, is_exists)?;
            let plan =
                plan.with_new_exprs(plan.expressions(), vec![Arc::unwrap_or_clone(input)])?;
            return Ok(Arc::new(plan));
        }
        _ => return Ok(Arc::clone(plan)),
    };
    distinct_rows(input, is_exists)
}

/// Returns `true` if a limit keeps a row of all inputs that have a row.
fn keeps_a_row(limit: &Limit) -> Result<bool> {
    let is_null = |expression: &Option<Box<Expr>>| match expression.as_deref() {
        Some(Expr::Literal(value, _)) => value.is_null(),
        Some(Expr::Cast(cast)) => {
            matches!(cast.expr.as_ref(), Expr::Literal(value, _) if value.is_null())
        }
        _ => false,
    };
    let skips_none = is_null(&limit.skip) || matches!(limit.get_skip_type()?, SkipType::Literal(0));
    let fetches_some = is_null(&limit.fetch)
        || matches!(limit.get_fetch_type()?, FetchType::Literal(fetch) if fetch != Some(0));
    Ok(skips_none && fetches_some)
}

/// Returns `true` if a plan has at most one row.
pub(super) fn has_one_row(plan: &LogicalPlan) -> Result<bool> {
    Ok(match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Limit(limit)
            if matches!(limit.get_fetch_type()?, FetchType::Literal(Some(0 | 1))) =>
        {
            true
        }
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Limit(_) => match plan.inputs().first() {
            Some(input) => has_one_row(input)?,
            None => false,
        },
        _ => false,
    })
}

/// Returns `true` if a plan always has a row.
pub(super) fn always_has_row(plan: &LogicalPlan) -> Result<bool> {
    Ok(match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(table) => table.produce_one_row,
        LogicalPlan::Limit(limit) => keeps_a_row(limit)? && always_has_row(&limit.input)?,
        LogicalPlan::Projection(projection) => always_has_row(&projection.input)?,
        LogicalPlan::SubqueryAlias(alias) => always_has_row(&alias.input)?,
        LogicalPlan::Sort(sort) => sort.fetch != Some(0) && always_has_row(&sort.input)?,
        LogicalPlan::Distinct(distinct) => always_has_row(distinct.input())?,
        LogicalPlan::Window(window) => always_has_row(&window.input)?,
        _ => false,
    })
}

/// Returns `true` if a join's LATERAL subquery is one that DataFusion turns into a join correctly.
pub(super) fn is_direct_lateral(join: &Join) -> Result<bool> {
    let Some(lateral) = lateral_of(join) else {
        return Ok(true);
    };
    let rows = match lateral.subquery.as_ref() {
        LogicalPlan::SubqueryAlias(alias) => alias.input.as_ref(),
        rows => rows,
    };
    is_filtered(rows)
}
