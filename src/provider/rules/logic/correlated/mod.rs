//! Subqueries of EXISTS, IN, ANY and ALL, scalar subqueries and LATERAL subqueries that refer to the query around them.
//!
//! DataFusion plans them as joins, and moves the predicates that refer to the query around them above their other operators. Windows,
//! limits and outer joins then see more rows, and an aggregation without GROUP BY has no row where none matches.
//!
//! - [`limits`]: ORDER BY and LIMIT.
//! - [`names`]: names of columns.
//! - [`single_row`]: aggregations without GROUP BY.
//! - [`windows`]: windows, which are also partitioned by the compared columns.
//! - [`refusals`]: what DataFusion would answer wrongly.

mod limits;
pub(super) mod names;
mod refusals;
mod single_row;
mod windows;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, JoinType, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan, Subquery};
use datafusion::optimizer::AnalyzerRule;

use crate::provider::plans::conjunction::joined;

/// A rule that rewrites subqueries that refer to the query around them, so that DataFusion plans them correctly, and refuses others.
#[derive(Debug, Default)]
pub(crate) struct CorrelatedSubqueries;

impl AnalyzerRule for CorrelatedSubqueries {
    fn name(&self) -> &str {
        "correlated_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let end = plan.apply_with_subqueries(|node| {
            Ok(match node {
                LogicalPlan::Subquery(_) => TreeNodeRecursion::Stop,
                _ => TreeNodeRecursion::Continue,
            })
        })?;
        if end != TreeNodeRecursion::Stop {
            return Ok(plan);
        }
        let plan = plan.transform_up_with_subqueries(|node| {
            let node = match node {
                LogicalPlan::Join(join) => filtered_above(join)?,
                node => Transformed::no(node),
            };
            node.transform_data(with_subqueries)
        })?;
        // The limits of scalar subqueries and of EXISTS are gone.
        let plan = plan.data.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Window(window) => windows::partitioned(window),
            LogicalPlan::Limit(limit) => limits::numbered(limit),
            node => Ok(Transformed::no(node)),
        })?;
        let (given, mut next) = (names::given(&plan.data)?, 0);
        let plan = plan.data.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Filter(filter) => names::distinct_keys(filter, &given, &mut next),
            node => Ok(Transformed::no(node)),
        })?;
        let plan = plan.data;
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::Subquery(subquery) = node {
                refusals::check(subquery, false)?;
            }
            for input in node.inputs() {
                if let LogicalPlan::Subquery(lateral) = input {
                    refusals::check_lateral(&lateral.subquery)?;
                }
            }
            node.apply_expressions(|expression| {
                expression.apply(|one| {
                    match one {
                        Expr::Exists(exists) => refusals::check(&exists.subquery, true)?,
                        // DataFusion makes EXISTS of them.
                        Expr::SetComparison(compared) => {
                            refusals::check(&compared.subquery, true)?;
                        }
                        _ => {}
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        Ok(plan)
    }
}

/// Moves the predicates of an inner join's ON that have subqueries, or refer to the query around them, into a filter above the join,
/// where rules look for them.
fn filtered_above(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let Some(filter) = join.filter.take_if(|_| join.join_type == JoinType::Inner) else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let (mut above, mut within) = (Vec::new(), Vec::new());
    for predicate in split_conjunction_owned(filter) {
        let is_moved = predicate.contains_outer() || has_subquery(&predicate)?;
        match is_moved {
            true => above.push(predicate),
            false => within.push(predicate),
        }
    }
    join.filter = joined(within, Expr::and);
    let join = LogicalPlan::Join(join);
    Ok(match joined(above, Expr::and) {
        Some(above) => {
            let filter = Filter::try_new(above, Arc::new(join))?;
            Transformed::yes(LogicalPlan::Filter(filter))
        }
        None => Transformed::no(join),
    })
}

fn has_subquery(expression: &Expr) -> Result<bool> {
    expression.exists(|one| Ok(subquery_of(one).is_some()))
}

fn subquery_of(expression: &Expr) -> Option<&Subquery> {
    match expression {
        Expr::Exists(exists) => Some(&exists.subquery),
        Expr::InSubquery(found) => Some(&found.subquery),
        Expr::SetComparison(compared) => Some(&compared.subquery),
        Expr::ScalarSubquery(subquery) => Some(subquery),
        _ => None,
    }
}

/// Returns a subquery expression with another subquery.
fn with_subquery(mut expression: Expr, new: Subquery) -> Expr {
    match &mut expression {
        Expr::Exists(exists) => exists.subquery = new,
        Expr::InSubquery(found) => found.subquery = new,
        Expr::SetComparison(compared) => compared.subquery = new,
        Expr::ScalarSubquery(subquery) => *subquery = new,
        _ => {}
    }
    expression
}

/// Returns an expression over the columns of `schema` as one over what these columns are computed from.
fn substituted(expression: &Expr, schema: &DFSchema, computed: &[Expr]) -> Result<Expr> {
    let expression = expression.clone().transform_up(|one| match one {
        Expr::Column(column) => {
            let index = schema.index_of_column(&column)?;
            let computed = computed[index].clone().unalias_nested().data;
            Ok(Transformed::yes(computed))
        }
        one => Ok(Transformed::no(one)),
    })?;
    Ok(expression.data)
}

/// Rewrites the subqueries in the expressions of a node.
fn with_subqueries(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut has_any = false;
    node.apply_expressions(|expression| {
        has_any |= has_subquery(expression)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !has_any {
        return Ok(Transformed::no(node));
    }
    let schema = merge_schema(&node.inputs());
    let names = NamePreserver::new(&node);
    node.map_expressions(|expression| {
        let name = names.save(&expression);
        let expression = expression.transform_up(|one| rewritten(one, &schema))?;
        Ok(expression.update_data(|expression| name.restore(expression)))
    })
}

/// Rewrites an expression. `schema` has the columns of the query around it.
fn rewritten(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Some(subquery) = subquery_of(&expression) else {
        return Ok(Transformed::no(expression));
    };
    if !windows::refers_outward(&subquery.subquery) {
        return independent(expression);
    }
    let mut expression = Transformed::no(expression);
    if let Some(rows) = limits::rewritten(&expression.data)?
        && let Some(subquery) = subquery_of(&expression.data)
    {
        let new = Subquery {
            subquery: Arc::new(rows),
            ..subquery.clone()
        };
        expression = Transformed::yes(with_subquery(expression.data, new));
    }
    expression
        .transform_data(|one| single_row::rewritten(one, schema))?
        .transform_data(|one| {
            let new = match &one {
                Expr::Exists(exists) => names::without_columns(&exists.subquery)?,
                Expr::InSubquery(found) => Some(names::with_item(&found.subquery)?),
                Expr::SetComparison(compared) => Some(names::with_item(&compared.subquery)?),
                _ => None,
            };
            Ok(match new {
                Some(new) => Transformed::yes(with_subquery(one, new)),
                None => Transformed::no(one),
            })
        })
}

/// Rewrites a subquery that does not refer to the query around it.
fn independent(expression: Expr) -> Result<Transformed<Expr>> {
    let new = match &expression {
        // DataFusion makes a correlated EXISTS of it.
        Expr::SetComparison(compared) => Some(names::with_item(&compared.subquery)?),
        Expr::ScalarSubquery(subquery) => single_row::nullable(subquery)?,
        _ => None,
    };
    let Some(subquery) = subquery_of(&expression) else {
        return Ok(Transformed::no(expression));
    };
    if new.is_none() && subquery.outer_ref_columns.is_empty() {
        return Ok(Transformed::no(expression));
    }
    // References of LATERAL subqueries within are none to the query around it.
    let new = Subquery {
        outer_ref_columns: Vec::new(),
        ..new.unwrap_or_else(|| subquery.clone())
    };
    Ok(Transformed::yes(with_subquery(expression, new)))
}
