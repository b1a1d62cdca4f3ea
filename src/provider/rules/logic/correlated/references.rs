//! References of a plan to columns of the queries around it.
//!
//! A reference belongs to the innermost query around it that has such a column. Subqueries of expressions refer to the inputs of the
//! operator whose expression it is, and LATERAL subqueries to the left side of their join.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Subquery};

use super::{subquery_of, with_subquery};

/// Columns of the query around a plan.
pub(super) type OuterColumns = Vec<(FieldRef, Column)>;

/// Returns the columns of the queries around a plan to which it refers, including its own subqueries.
pub(super) fn outer_columns(plan: &LogicalPlan) -> Result<OuterColumns> {
    let mut found = Vec::new();
    collect(plan, &mut Vec::new(), &mut found)?;
    Ok(found)
}

/// Returns `true` if a plan refers to a column of the queries around it.
pub(super) fn is_correlated(plan: &LogicalPlan) -> Result<bool> {
    Ok(!outer_columns(plan)?.is_empty())
}

/// Returns the LATERAL subquery that is the right side of a join.
pub(super) fn lateral_of(join: &Join) -> Option<&Subquery> {
    let mut right = &join.right;
    loop {
        right = match right.as_ref() {
            LogicalPlan::Subquery(subquery) => return Some(subquery),
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::Projection(projection) => &projection.input,
            _ => return None,
        }
    }
}

fn collect(plan: &LogicalPlan, scopes: &mut Vec<DFSchema>, found: &mut OuterColumns) -> Result<()> {
    plan.apply(|node| {
        match node {
            // Visited with its join.
            LogicalPlan::Subquery(_) => return Ok(TreeNodeRecursion::Jump),
            LogicalPlan::Join(join) => {
                if let Some(lateral) = lateral_of(join) {
                    scopes.push(join.left.schema().as_ref().clone());
                    collect(&lateral.subquery, scopes, found)?;
                    scopes.pop();
                }
            }
            _ => {}
        }
        node.apply_expressions(|expression| {
            expression.apply(|one| {
                if let Expr::OuterReferenceColumn(field, column) = one {
                    let reference = (Arc::clone(field), column.clone());
                    let is_within = scopes.iter().any(|scope| scope.has_column(column));
                    if !is_within && !found.contains(&reference) {
                        found.push(reference);
                    }
                } else if let Some(subquery) = subquery_of(one) {
                    scopes.push(merge_schema(&node.inputs()));
                    collect(&subquery.subquery, scopes, found)?;
                    scopes.pop();
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(())
}

/// Returns an expression over columns of `schema` in which `replace` takes the place of references to the query around it. It returns
/// the column that a reference becomes.
pub(super) fn replaced(
    expression: Expr,
    schema: &DFSchema,
    replace: &dyn Fn(&Column) -> Option<Column>,
) -> Result<Expr> {
    let expression = expression.transform_up(|one| {
        if let Expr::OuterReferenceColumn(_, column) = &one {
            return Ok(match replace(column) {
                Some(column) => Transformed::yes(Expr::Column(column)),
                None => Transformed::no(one),
            });
        }
        let Some(subquery) = subquery_of(&one) else {
            return Ok(Transformed::no(one));
        };
        let subquery = replaced_in(subquery, schema.clone(), &mut Vec::new(), replace)?;
        Ok(Transformed::yes(with_subquery(one, subquery)))
    })?;
    Ok(expression.data)
}

/// Returns a subquery in which references to the columns that `replace` returns take the place of those to the query around its scopes.
/// `scope` has the columns of the query right around it, and `scopes` those of the queries further out.
pub(super) fn replaced_in(
    subquery: &Subquery,
    scope: DFSchema,
    scopes: &mut Vec<DFSchema>,
    replace: &dyn Fn(&Column) -> Option<Column>,
) -> Result<Subquery> {
    scopes.push(scope);
    let plan = replaced_within(subquery.subquery.as_ref().clone(), scopes, replace)?;
    scopes.pop();
    with_rows(subquery, plan)
}

fn replaced_within(
    plan: LogicalPlan,
    scopes: &mut Vec<DFSchema>,
    replace: &dyn Fn(&Column) -> Option<Column>,
) -> Result<LogicalPlan> {
    let plan = plan.transform_down(|node| {
        let node = match node {
            LogicalPlan::Subquery(_) => {
                return Ok(Transformed::new(node, false, TreeNodeRecursion::Jump));
            }
            LogicalPlan::Join(mut join) if lateral_of(&join).is_some() => {
                let scope = join.left.schema().as_ref();
                join.right = Arc::new(with_lateral(&join.right, &mut |lateral| {
                    let lateral = replaced_in(lateral, scope.clone(), scopes, replace)?;
                    Ok(LogicalPlan::Subquery(lateral))
                })?);
                LogicalPlan::Join(join)
            }
            node => node,
        };
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        node.map_expressions(|expression| {
            let name = names.save(&expression);
            let expression = expression.transform_up(|one| {
                if let Expr::OuterReferenceColumn(field, column) = &one {
                    let is_within = scopes.iter().any(|scope| scope.has_column(column));
                    return Ok(match replace(column).filter(|_| !is_within) {
                        Some(column) => {
                            let field = Arc::clone(field);
                            Transformed::yes(Expr::OuterReferenceColumn(field, column))
                        }
                        None => Transformed::no(one),
                    });
                }
                let Some(subquery) = subquery_of(&one) else {
                    return Ok(Transformed::no(one));
                };
                let subquery = replaced_in(subquery, schema.clone(), scopes, replace)?;
                Ok(Transformed::yes(with_subquery(one, subquery)))
            })?;
            Ok(expression.update_data(|expression| name.restore(expression)))
        })
    })?;
    Ok(plan.data)
}

/// Returns a plan in which `replace` takes the place of its LATERAL subquery.
pub(super) fn with_lateral(
    plan: &LogicalPlan,
    replace: &mut dyn FnMut(&Subquery) -> Result<LogicalPlan>,
) -> Result<LogicalPlan> {
    if let LogicalPlan::Subquery(lateral) = plan {
        return replace(lateral);
    }
    let inputs = plan.inputs().into_iter();
    let inputs = inputs.map(|input| with_lateral(input, replace));
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    plan.with_new_exprs(plan.expressions(), inputs)
}

/// Returns a subquery with another plan.
pub(super) fn with_rows(subquery: &Subquery, plan: LogicalPlan) -> Result<Subquery> {
    let columns = outer_columns(&plan)?.into_iter();
    let columns = columns.map(|(field, column)| Expr::OuterReferenceColumn(field, column));
    Ok(Subquery {
        subquery: Arc::new(plan),
        outer_ref_columns: columns.collect(),
        spans: subquery.spans.clone(),
    })
}
