//! Subqueries of EXISTS and IN, scalar subqueries and LATERAL subqueries that refer to the query around them.
//!
//! DataFusion plans them as joins, and moves the predicates that refer to the query around them above their other operators. Windows
//! and limits then see more rows, and an aggregation without GROUP BY has no row where none matches.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{Exists, InSubquery, WindowFunction};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Expr, FetchType, Filter, LogicalPlan, LogicalPlanBuilder, Operator, SkipType,
    Subquery, binary_expr, lit,
};
use datafusion::optimizer::AnalyzerRule;

/// A rule that rewrites EXISTS and IN over an aggregation without GROUP BY, and refuses windows and limits that would see other rows.
#[derive(Debug, Default)]
pub(crate) struct CorrelatedSubqueries;

impl AnalyzerRule for CorrelatedSubqueries {
    fn name(&self) -> &str {
        "correlated_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::Subquery(subquery) = node {
                check(subquery, false)?;
            }
            node.apply_expressions(|expression| expression.apply(check_expression))
        })?;
        let plan = plan.transform_up_with_subqueries(|node| {
            let LogicalPlan::Filter(filter) = node else {
                return Ok(Transformed::no(node));
            };
            let predicate = filter.predicate.transform_up(of_single_row)?;
            let is_changed = predicate.transformed;
            let filter = Filter::try_new(predicate.data, filter.input)?;
            let filter = LogicalPlan::Filter(filter);
            Ok(Transformed::new_transformed(filter, is_changed))
        })?;
        Ok(plan.data)
    }
}

fn check_expression(expression: &Expr) -> Result<TreeNodeRecursion> {
    match expression {
        Expr::Exists(exists) => check(&exists.subquery, true)?,
        Expr::InSubquery(found) => check(&found.subquery, false)?,
        Expr::ScalarSubquery(subquery) => check(subquery, false)?,
        _ => {}
    }
    Ok(TreeNodeRecursion::Continue)
}

/// Refuses windows and limits whose input refers to the query around the subquery, unless the windows are partitioned by the
/// compared columns. DataFusion itself refuses limits except in EXISTS.
fn check(subquery: &Subquery, is_exists: bool) -> Result<()> {
    if subquery.outer_ref_columns.is_empty() {
        return Ok(());
    }
    subquery.subquery.apply(|node| {
        match node {
            LogicalPlan::Subquery(_) => return Ok(TreeNodeRecursion::Jump),
            LogicalPlan::Window(window) => {
                let keys = compared(&window.input)?;
                let is_partitioned = |window: &Expr| match window.clone().unalias() {
                    Expr::WindowFunction(window) => partitions_by(&window, keys.as_deref()),
                    _ => false,
                };
                if !window.window_expr.iter().all(is_partitioned) {
                    return plan_err!(
                        "a window in a subquery that refers to the query around it must be partitioned by the columns that the \
                         subquery compares with that query, by = in its WHERE; add them to PARTITION BY"
                    );
                }
            }
            LogicalPlan::Limit(limit) if is_exists => {
                let keeps_a_row = matches!(limit.get_skip_type()?, SkipType::Literal(0))
                    && matches!(limit.get_fetch_type()?, FetchType::Literal(fetch) if fetch != Some(0));
                if !keeps_a_row && !limit.input.all_out_ref_exprs().is_empty() {
                    return plan_err!(
                        "EXISTS with a subquery that refers to the query around it must not have OFFSET or LIMIT 0; compare a count \
                         of the rows instead"
                    );
                }
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Returns the expressions that a plan compares with the query around it by `=`; `None` if it refers to that query otherwise.
fn compared(plan: &LogicalPlan) -> Result<Option<Vec<Expr>>> {
    let mut keys = Some(Vec::new());
    plan.apply(|node| {
        for expression in node.expressions() {
            for conjunct in split_conjunction(&expression) {
                if !conjunct.contains_outer() {
                    continue;
                }
                let key = match (node, conjunct) {
                    (
                        LogicalPlan::Filter(_),
                        Expr::BinaryExpr(BinaryExpr {
                            left,
                            op: Operator::Eq,
                            right,
                        }),
                    ) if left.contains_outer() != right.contains_outer() => {
                        Some(if left.contains_outer() { right } else { left })
                    }
                    _ => None,
                };
                keys = keys.take().zip(key).map(|(mut keys, key)| {
                    keys.push(key.as_ref().clone());
                    keys
                });
            }
        }
        Ok(match keys {
            Some(_) => TreeNodeRecursion::Continue,
            None => TreeNodeRecursion::Stop,
        })
    })?;
    Ok(keys)
}

fn partitions_by(window: &WindowFunction, keys: Option<&[Expr]>) -> bool {
    let partition = &window.params.partition_by;
    keys.is_some_and(|keys| keys.iter().all(|key| partition.contains(key)))
}

/// Rewrites EXISTS and IN over a correlated aggregation without GROUP BY, which has one row even if no row matches:
/// `EXISTS (q)` is true, `EXISTS (q HAVING p)` is `(SELECT p FROM q) IS TRUE`, and `x IN (q)` is `x = (q)`.
fn of_single_row(expression: Expr) -> Result<Transformed<Expr>> {
    let (Expr::Exists(Exists { subquery, negated })
    | Expr::InSubquery(InSubquery {
        subquery, negated, ..
    })) = &expression
    else {
        return Ok(Transformed::no(expression));
    };
    let (rows, is_negated) = (subquery.subquery.as_ref(), *negated);
    if subquery.outer_ref_columns.is_empty() {
        return Ok(Transformed::no(expression));
    }
    if let (Expr::Exists(_), Some(having)) = (&expression, having(rows)) {
        let input = LogicalPlanBuilder::new_from_arc(Arc::clone(&having.input));
        let is_true = Subquery {
            subquery: Arc::new(input.project([having.predicate.clone()])?.build()?),
            ..subquery.clone()
        };
        let scalar = Box::new(Expr::ScalarSubquery(is_true));
        return Ok(Transformed::yes(match is_negated {
            true => Expr::IsNotTrue(scalar),
            false => Expr::IsTrue(scalar),
        }));
    }
    if !has_one_row(rows) {
        return Ok(Transformed::no(expression));
    }
    Ok(Transformed::yes(match expression {
        Expr::InSubquery(found) => {
            let operator = match is_negated {
                true => Operator::NotEq,
                false => Operator::Eq,
            };
            binary_expr(*found.expr, operator, Expr::ScalarSubquery(found.subquery))
        }
        _ => lit(!is_negated),
    }))
}

/// Returns `true` if a plan always has one row.
fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_one_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        _ => false,
    }
}

/// Returns the HAVING of an aggregation without GROUP BY, if it does not refer to the query around it.
fn having(plan: &LogicalPlan) -> Option<&Filter> {
    match plan {
        LogicalPlan::Projection(projection) => having(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => having(&alias.input),
        LogicalPlan::Filter(filter) => {
            (has_one_row(&filter.input) && !filter.predicate.contains_outer()).then_some(filter)
        }
        _ => None,
    }
}
