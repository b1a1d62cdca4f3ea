//! Subqueries of rows: `(lat, lon) IN (SELECT lat, lon FROM stations)`.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection, Subquery, lit,
};
use datafusion::optimizer::AnalyzerRule;

use crate::provider::plans::conjunction::joined;
use crate::provider::rules::logic::in_subqueries::{as_value, depends_on_null, with_references};

/// The name of the struct of a row, and of the derived table with its columns, whose names are this one and a number.
pub(crate) const ROW: &str = "__row";

/// A rule that compares rows with those of a subquery column by column.
///
/// A comparison of structs would find a row of NULL equal to another, and an array could not be filtered by it.
#[derive(Debug)]
pub(crate) struct RowSubqueries;

impl AnalyzerRule for RowSubqueries {
    fn name(&self) -> &str {
        "row_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|node| {
            let is_filter = matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            node.map_expressions(|expression| {
                if !expression.exists(|one| Ok(row(one).is_some()))? {
                    return Ok(Transformed::no(expression));
                }
                let name = names.save(&expression);
                let compared = match is_filter {
                    true => filtered(expression, &schema)?,
                    false => compared(expression, &schema, false)?,
                };
                Ok(Transformed::yes(name.restore(compared)))
            })
        })?;
        Ok(plan.data)
    }
}

/// The parts of `IN`, if its subquery outputs rows: the expressions of the compared row, and the projection of the subquery.
fn row(expression: &Expr) -> Option<(&InSubquery, &[Expr], &Projection)> {
    let Expr::InSubquery(found) = expression else {
        return None;
    };
    let LogicalPlan::Projection(projection) = found.subquery.subquery.as_ref() else {
        return None;
    };
    let ([Expr::Alias(item)], Expr::ScalarFunction(tested)) =
        (projection.expr.as_slice(), found.expr.as_ref())
    else {
        return None;
    };
    let is_row = match item.expr.as_ref() {
        Expr::ScalarFunction(made) => item.name == ROW && made.func == tested.func,
        _ => false,
    };
    is_row.then_some((found, tested.args.as_slice(), projection))
}

/// Compares the rows in a predicate, of which NULL need not be told from false.
fn filtered(predicate: Expr, schema: &DFSchema) -> Result<Expr> {
    let conjuncts = split_conjunction_owned(predicate).into_iter();
    let conjuncts = conjuncts.map(|conjunct| {
        let alone = match &conjunct {
            Expr::Not(inner) => row(inner).map(|row| (row, !row.0.negated)),
            other => row(other).map(|row| (row, row.0.negated)),
        };
        if let Some((row, true)) = alone {
            return Ok(Expr::Not(Box::new(exists(row, schema, true)?)));
        }
        let is_positive = !depends_on_null(&conjunct)?;
        compared(conjunct, schema, is_positive)
    });
    let conjuncts = conjuncts.collect::<Result<_>>()?;
    Ok(joined(conjuncts, Expr::and).unwrap_or_else(|| lit(true)))
}

/// Compares the rows in an expression. If `is_positive` is true, the comparisons are false where they would be NULL.
fn compared(expression: Expr, schema: &DFSchema, is_positive: bool) -> Result<Expr> {
    let expression = expression.transform_up(|one| {
        let Some(row) = row(&one) else {
            return Ok(Transformed::no(one));
        };
        let is_in = exists(row, schema, false)?;
        Ok(Transformed::yes(match is_positive {
            true => is_in,
            false => {
                let unknown = exists(row, schema, true)?;
                as_value(is_in, vec![unknown], row.0.negated)?
            }
        }))
    })?;
    Ok(expression.data)
}

/// Returns a predicate that is true if the compared row equals one of the subquery, or if `or_null` is true and a comparison with one of
/// them is NULL.
fn exists(
    (found, tested, projection): (&InSubquery, &[Expr], &Projection),
    schema: &DFSchema,
    or_null: bool,
) -> Result<Expr> {
    let rows = &found.subquery;
    let mut references = rows.outer_ref_columns.clone();
    let mut pairs = Vec::with_capacity(tested.len());
    let columns = projection.input.schema();
    for (tested, (table, field)) in tested.iter().zip(columns.iter()) {
        let may_be_null = field.is_nullable() || tested.nullable(schema).unwrap_or(true);
        let tested = with_references(tested.clone(), schema, &mut references)?;
        let equal = tested.eq(Expr::from((table, field)));
        pairs.push(match or_null && may_be_null {
            true => equal.is_not_false(),
            false => equal,
        });
    }
    let equal = joined(pairs, Expr::and).unwrap_or_else(|| lit(true));
    let passing = LogicalPlanBuilder::new_from_arc(Arc::clone(&projection.input)).filter(equal)?;
    Ok(Expr::Exists(Exists::new(
        Subquery {
            subquery: Arc::new(passing.build()?),
            outer_ref_columns: references,
            spans: rows.spans.clone(),
        },
        false,
    )))
}
