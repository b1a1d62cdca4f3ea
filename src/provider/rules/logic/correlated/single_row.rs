//! Subqueries over aggregations without GROUP BY, which have one row even if no row matches.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, JoinType, Result};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::{SetComparison, SetQuantifier};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, binary_expr,
    lit, when,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use super::refusals::keeps_a_row;
use super::{subquery_of, substituted};
use crate::provider::plans::conjunction::joined;

/// Rewrites a correlated subquery over an aggregation without GROUP BY. With `p` for the condition of HAVING, `EXISTS` is `p IS TRUE`,
/// `x IN (SELECT a ...)` is `p IS TRUE AND x = a`, and a scalar subquery is `CASE WHEN p THEN a END`, where `p` and `a` are
/// made of scalar subqueries. `schema` has the columns of the query around the subquery.
pub(super) fn rewritten(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let row = subquery_of(&expression).map_or(Ok(None), |rows| SingleRow::of(&rows.subquery))?;
    let Some(row) = row else {
        return Ok(Transformed::no(expression));
    };
    let is_kept = joined(row.having.clone(), Expr::and);
    let is_kept = is_kept
        .map(|is_kept| row.value(is_kept, schema))
        .transpose()?;
    let is_kept = is_kept.map(|is_kept| is_kept.is_true());
    let item = || row.value(row.columns[0].clone(), schema);
    let any = |value: Expr, operator: Operator| {
        let compared = binary_expr(value, operator, item()?);
        Ok::<_, DataFusionError>(match is_kept.clone() {
            Some(is_kept) => is_kept.and(compared),
            None => compared,
        })
    };
    Ok(Transformed::yes(match expression {
        Expr::Exists(exists) => negated(is_kept.unwrap_or_else(|| lit(true)), exists.negated),
        Expr::InSubquery(found) => negated(any(*found.expr, Operator::Eq)?, found.negated),
        Expr::SetComparison(SetComparison {
            expr,
            op,
            quantifier,
            ..
        }) => match (quantifier, is_kept.clone()) {
            (SetQuantifier::All, Some(is_kept)) => {
                Expr::Not(Box::new(is_kept)).or(binary_expr(*expr, op, item()?))
            }
            _ => any(*expr, op)?,
        },
        expression => match is_kept {
            Some(is_kept) => when(is_kept, item()?).end()?,
            None if row.is_plain()? => return Ok(Transformed::no(expression)),
            None => item()?,
        },
    }))
}

fn negated(predicate: Expr, is_negated: bool) -> Expr {
    match is_negated {
        true => Expr::Not(Box::new(predicate)),
        false => predicate,
    }
}

/// A plan that outputs at most the one row of an aggregation without GROUP BY.
pub(super) struct SingleRow {
    aggregate: Aggregate,
    /// The output columns, over those of the aggregation.
    columns: Vec<Expr>,
    /// The predicates that keep the row.
    pub having: Vec<Expr>,
    /// `true` if DataFusion restores the row of a group without rows above the other operators.
    is_restored: bool,
}

impl SingleRow {
    /// Returns `None` for other plans.
    pub fn of(plan: &LogicalPlan) -> Result<Option<Self>> {
        let input = match plan {
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
                let columns = aggregate.schema.columns();
                return Ok(Some(Self {
                    aggregate: aggregate.clone(),
                    columns: columns.into_iter().map(Expr::Column).collect(),
                    having: Vec::new(),
                    is_restored: true,
                }));
            }
            LogicalPlan::Projection(projection) => &projection.input,
            LogicalPlan::Filter(filter) => &filter.input,
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::Sort(sort) if sort.fetch != Some(0) => &sort.input,
            LogicalPlan::Distinct(Distinct::All(input)) => input,
            LogicalPlan::Limit(limit) if keeps_a_row(limit)? => &limit.input,
            _ => return Ok(None),
        };
        let Some(mut row) = Self::of(input)? else {
            return Ok(None);
        };
        let expressions = plan.expressions();
        // References of a subquery within to columns of the aggregation would have to be replaced, too.
        let has_references = |one: &Expr| {
            let subquery = subquery_of(one);
            Ok(subquery.is_some_and(|subquery| !subquery.outer_ref_columns.is_empty()))
        };
        for expression in &expressions {
            if expression.exists(has_references)? {
                return Ok(None);
            }
        }
        let over_aggregate = |expression: &Expr| row.over_aggregate(expression, input.schema());
        match plan {
            LogicalPlan::Projection(projection) => {
                let columns = projection.expr.iter().map(over_aggregate);
                row.columns = columns.collect::<Result<_>>()?;
            }
            LogicalPlan::Filter(filter) => {
                let predicate = over_aggregate(&filter.predicate)?;
                row.having.push(predicate);
            }
            LogicalPlan::SubqueryAlias(_) => {}
            _ => row.is_restored = false,
        }
        Ok(Some(row))
    }

    /// Returns an expression over the output columns, whose schema is `schema`, as one over the columns of the aggregation.
    fn over_aggregate(&self, expression: &Expr, schema: &DFSchema) -> Result<Expr> {
        let expression = expression.clone().unalias_nested().data;
        let expression = substituted(&expression, schema, &self.columns)?;
        let schema = Arc::clone(&self.aggregate.schema);
        let simplifier = SimplifyContext::builder().with_schema(schema).build();
        ExprSimplifier::new(simplifier).simplify(expression)
    }

    /// Returns `true` if DataFusion plans the scalar subquery correctly: its value depends on a column of the aggregation.
    fn is_plain(&self) -> Result<bool> {
        let [item] = self.columns.as_slice() else {
            return Ok(true);
        };
        Ok(self.is_restored && item.any_column_refs())
    }

    /// Returns an expression over the columns of the aggregation as one over the columns of the query around the subquery.
    fn value(&self, expression: Expr, schema: &DFSchema) -> Result<Expr> {
        let has_subquery = expression.exists(|one| Ok(subquery_of(one).is_some()))?;
        if expression.any_column_refs() && !expression.contains_outer() && !has_subquery {
            return self.scalar(expression);
        }
        let value = expression.transform_up(|one| {
            Ok(match one {
                Expr::Column(_) => Transformed::yes(self.scalar(one)?),
                Expr::OuterReferenceColumn(_, column) if schema.has_column(&column) => {
                    Transformed::yes(Expr::Column(column))
                }
                one => Transformed::no(one),
            })
        })?;
        Ok(value.data)
    }

    /// Returns a scalar subquery for an expression over the columns of the aggregation.
    fn scalar(&self, expression: Expr) -> Result<Expr> {
        let rows = LogicalPlan::Aggregate(self.aggregate.clone());
        let outer_ref_columns = rows.all_out_ref_exprs();
        let rows = LogicalPlanBuilder::from(rows)
            .project([expression])?
            .build()?;
        Ok(Expr::ScalarSubquery(Subquery {
            subquery: Arc::new(rows),
            outer_ref_columns,
            spans: Default::default(),
        }))
    }
}

/// Returns an uncorrelated scalar subquery whose column may be null, because DataFusion takes the nullability of the column for that of
/// the subquery, which is null without rows. Returns `None` if the column is nullable, or if there always is a row.
pub(super) fn nullable(subquery: &Subquery) -> Result<Option<Subquery>> {
    let rows = &subquery.subquery;
    let has_row = SingleRow::of(rows)?.is_some_and(|row| row.having.is_empty());
    if has_row
        || rows
            .schema()
            .fields()
            .iter()
            .any(|field| field.is_nullable())
    {
        return Ok(None);
    }
    let columns: Vec<_> = rows.schema().iter().map(Expr::from).collect();
    let none: (Vec<Column>, Vec<Column>) = (Vec::new(), Vec::new());
    let outer = LogicalPlanBuilder::empty(true);
    let outer = outer.join(rows.as_ref().clone(), JoinType::Left, none, Some(lit(true)))?;
    Ok(Some(Subquery {
        subquery: Arc::new(outer.project(columns)?.build()?),
        ..subquery.clone()
    }))
}
