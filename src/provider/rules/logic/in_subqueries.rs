//! `IN (SELECT ...)` below OR and NOT.
//!
//! DataFusion plans such an `IN` as a mark join, whose mark is true or false, but never NULL:
//! `x NOT IN (SELECT y ...) OR p` keeps rows where `x` or a `y` is NULL. This rule adds the cases
//! in which the result is NULL to the predicate. If the subquery is correlated, `IN` in such a predicate, and `NOT IN` as a
//! conjunct of its own, become `EXISTS`, because DataFusion's null-aware anti join has only one key.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, ExprSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetQuantifier};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
    binary_expr, lit, when,
};
use datafusion::optimizer::AnalyzerRule;

use crate::provider::plans::conjunction::joined;
use crate::provider::rules::logic::correlated::has_subqueries;
use crate::provider::rules::logic::correlated::names::with_item;

/// A rule that makes `IN (SELECT ...)` evaluate to NULL where SQL requires it, in filters that
/// combine `IN` with other predicates.
#[derive(Debug, Default)]
pub(crate) struct NullAwareInSubqueries;

impl AnalyzerRule for NullAwareInSubqueries {
    fn name(&self) -> &str {
        "null_aware_in_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|node| {
            let LogicalPlan::Filter(filter) = node else {
                return Ok(Transformed::no(node));
            };
            if !has_subquery(&filter.predicate)? {
                return Ok(Transformed::no(LogicalPlan::Filter(filter)));
            }
            let schema = Arc::clone(filter.input.schema());
            let mut tested = Vec::new();
            let conjuncts = split_conjunction_owned(filter.predicate).into_iter();
            let conjuncts = conjuncts.map(|conjunct| null_aware(conjunct, &schema, &mut tested));
            let predicate = joined(conjuncts.collect::<Result<_>>()?, Expr::and);
            let predicate = predicate.unwrap_or_else(|| lit(true));
            if tested.is_empty() {
                let filter = Filter::try_new(predicate, filter.input)?;
                return Ok(Transformed::yes(LogicalPlan::Filter(filter)));
            }
            let columns: Vec<_> = schema.iter().map(Expr::from).collect();
            let rows = LogicalPlanBuilder::new_from_arc(filter.input);
            let rows = rows.project(columns.iter().cloned().chain(tested))?;
            Ok(Transformed::yes(
                rows.filter(predicate)?.project(columns)?.build()?,
            ))
        })?;
        Ok(plan.data)
    }
}

fn has_subquery(expression: &Expr) -> Result<bool> {
    expression.exists(|one| Ok(matches!(one, Expr::InSubquery(_))))
}

/// Rewrites the `IN` subqueries of a conjunct so that they can be NULL. A conjunct that is nothing but `IN`, or `NOT IN` of a column
/// over a subquery that is not correlated, stays, because DataFusion plans it as a semi join or a null-aware anti join. Another
/// expression becomes a column in `tested`: DataFusion decides by the columns of the expression whether the anti join is
/// null-aware, and pushes a constant into the subquery, where it drops the NULLs.
fn null_aware(conjunct: Expr, schema: &DFSchema, tested: &mut Vec<Expr>) -> Result<Expr> {
    let alone = match &conjunct {
        Expr::InSubquery(found) => Some((found, found.negated)),
        Expr::Not(inner) => match inner.as_ref() {
            Expr::InSubquery(found) => Some((found, !found.negated)),
            _ => None,
        },
        _ => None,
    };
    if let Some((found, is_negated)) = alone {
        if !is_negated {
            return Ok(conjunct);
        }
        if !found.subquery.outer_ref_columns.is_empty() {
            return match may_compare(found)? {
                true => not_exists(found, schema),
                false => Ok(conjunct),
            };
        }
        if is_cast_column(&found.expr) {
            return Ok(conjunct);
        }
        let name = format!("__tested_{}", tested.len());
        tested.push(found.expr.as_ref().clone().alias(&name));
        return Ok(Expr::InSubquery(InSubquery {
            expr: Box::new(Expr::Column(Column::new_unqualified(name))),
            subquery: found.subquery.clone(),
            negated: true,
        }));
    }
    let named = conjunct.transform_up(|one| match one {
        Expr::InSubquery(found) => with_named_item(found),
        other => Ok(Transformed::no(other)),
    })?;
    let conjunct = named.data;
    if !depends_on_null(&conjunct)? {
        return Ok(conjunct);
    }
    let predicate = conjunct.transform_up(|one| match one {
        Expr::InSubquery(found) => null_aware_in(found, schema),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(predicate.data)
}

/// Names the output column of a subquery, if it is an expression: DataFusion gives mark joins two columns of the name of such an
/// expression.
fn with_named_item(found: InSubquery) -> Result<Transformed<Expr>> {
    let (table, _) = found.subquery.subquery.schema().qualified_field(0);
    Ok(match table {
        Some(_) => Transformed::no(Expr::InSubquery(found)),
        None => Transformed::yes(Expr::InSubquery(InSubquery {
            subquery: with_item(&found.subquery)?,
            ..found
        })),
    })
}

/// Returns `true` if the result may depend on whether an `IN` is false or NULL. Below AND and OR
/// alone it does not: the filter drops the row in either case.
pub(super) fn depends_on_null(predicate: &Expr) -> Result<bool> {
    match predicate {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::And | Operator::Or,
            right,
        }) => Ok(depends_on_null(left)? || depends_on_null(right)?),
        Expr::InSubquery(found) if !found.negated => has_subquery(&found.expr),
        other => has_subquery(other),
    }
}

/// Returns `true` if a predicate on the rows of a correlated subquery may compare them with the expression of `IN`. DataFusion 55 takes
/// a column of the outer query for one of the subquery that has the same name and table, and a column of a query further out for
/// one of the outer query.
fn may_compare(found: &InSubquery) -> Result<bool> {
    if found.expr.contains_outer() {
        return Ok(false);
    }
    let columns = found.expr.column_refs();
    let takes = found.subquery.subquery.exists(|node| {
        let mut columns = columns.iter();
        Ok(node.contains_outer_reference()
            && columns.any(|column| node.schema().has_column(column)))
    })?;
    Ok(!takes)
}

/// Returns a predicate that is true where `x NOT IN (q)` is: no row of `q` equals `x`, none is NULL, and `x` is not NULL unless
/// `q` is empty.
fn not_exists(found: &InSubquery, schema: &DFSchema) -> Result<Expr> {
    if has_subqueries(&found.subquery.subquery)? {
        // Copies of the subquery would copy those in it.
        let equal = |tested: Expr, item| tested.eq(item).is_not_false();
        let equal = exists_compared(&found.expr, &found.subquery, schema, equal)?;
        return Ok(Expr::Not(Box::new(equal)));
    }
    let equal = exists_equal(found, schema)?;
    let cases = unknown_cases(found, schema)?.into_iter();
    let none = cases.map(|case| Expr::Not(Box::new(case)));
    Ok(none.fold(Expr::Not(Box::new(equal)), Expr::and))
}

/// Returns `true` for a column, and for casts of a column.
fn is_cast_column(expression: &Expr) -> bool {
    match expression {
        Expr::Cast(cast) => is_cast_column(&cast.expr),
        other => matches!(other, Expr::Column(_)),
    }
}

/// Returns the cases in which `x IN (q)` is NULL if no row of `q` equals `x`: `q` has a NULL, or `x` is NULL and `q` has a row.
fn unknown_cases(found: &InSubquery, schema: &DFSchema) -> Result<Vec<Expr>> {
    let rows = &found.subquery;
    let (item_column, item) = item(rows);
    let mut cases = Vec::new();
    if item.is_nullable() {
        cases.push(exists(rows, filtered(rows, item_column.is_null())?)?);
    }
    if found.expr.nullable(schema).unwrap_or(true) {
        let any = exists(rows, rows.subquery.as_ref().clone())?;
        cases.push(found.expr.as_ref().clone().is_null().and(any));
    }
    Ok(cases)
}

/// Returns the column that a subquery of `IN` outputs.
fn item(rows: &Subquery) -> (Expr, &FieldRef) {
    let (table, item) = rows.subquery.schema().qualified_field(0);
    (Expr::Column(Column::new(table.cloned(), item.name())), item)
}

fn filtered(rows: &Subquery, predicate: Expr) -> Result<LogicalPlan> {
    let rows = LogicalPlanBuilder::new_from_arc(Arc::clone(&rows.subquery));
    rows.filter(predicate)?.build()
}

/// Returns a predicate that is true where a row of the subquery equals the tested expression, else false.
fn exists_equal(found: &InSubquery, schema: &DFSchema) -> Result<Expr> {
    exists_compared(&found.expr, &found.subquery, schema, Expr::eq)
}

/// Returns a predicate that is true where the subquery has a row that passes a predicate of the tested expression and the column of the
/// subquery, in this order.
fn exists_compared(
    tested: &Expr,
    rows: &Subquery,
    schema: &DFSchema,
    predicate: impl Fn(Expr, Expr) -> Expr,
) -> Result<Expr> {
    let mut references = rows.outer_ref_columns.clone();
    let tested = with_references(tested.clone(), schema, &mut references)?;
    let passing = filtered(rows, predicate(tested, item(rows).0))?;
    let passing = Subquery {
        subquery: Arc::new(passing),
        outer_ref_columns: references,
        spans: rows.spans.clone(),
    };
    Ok(Expr::Exists(Exists::new(passing, false)))
}

/// Replaces the columns of an expression, for a subquery of the operator that has them, and adds them to the subquery's references.
pub(super) fn with_references(
    tested: Expr,
    schema: &DFSchema,
    references: &mut Vec<Expr>,
) -> Result<Expr> {
    let tested = tested.transform_up(|one| {
        let Expr::Column(column) = one else {
            return Ok(Transformed::no(one));
        };
        let field = Arc::clone(schema.field_from_column(&column)?);
        let reference = Expr::OuterReferenceColumn(field, column);
        references.push(reference.clone());
        Ok(Transformed::yes(reference))
    })?;
    Ok(tested.data)
}

/// Rewrites `x IN (q)` as `x IN (q) OR (NULL AND (q has a NULL OR (x IS NULL AND q has a row)))`. If `q` is correlated and
/// [`may_compare`] allows it, `EXISTS` takes the place of `x IN (q)`: DataFusion simplifies `NOT (x IN (q) OR p)` to
/// `x NOT IN (q) AND NOT p`, and plans the former as a null-aware anti join.
fn null_aware_in(found: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let cases = unknown_cases(&found, schema)?;
    let is_negated = found.negated;
    let is_in = match !found.subquery.outer_ref_columns.is_empty() && may_compare(&found)? {
        true => exists_equal(&found, schema)?,
        false => Expr::InSubquery(InSubquery {
            negated: false,
            ..found
        }),
    };
    let unknown = lit(ScalarValue::Boolean(None));
    let result = match cases.into_iter().reduce(Expr::or) {
        Some(is_unknown) => is_in.or(is_unknown.and(unknown)),
        None => is_in,
    };
    Ok(Transformed::yes(match is_negated {
        true => Expr::Not(Box::new(result)),
        false => result,
    }))
}

/// Makes `CASE` of the subqueries of `IN`, `ANY` and `ALL` of an operator other than a filter, whose values may be NULL.
pub(super) fn as_values(node: LogicalPlan) -> Result<LogicalPlan> {
    let schema = merge_schema(&node.inputs());
    let names = NamePreserver::new(&node);
    let node = node.map_expressions(|expression| {
        let name = names.save(&expression);
        let expression = expression.transform_up(|one| match one {
            Expr::InSubquery(found) => {
                let is_in = exists_equal(&found, &schema)?;
                let unknown = unknown_cases(&found, &schema)?;
                Ok(Transformed::yes(as_value(is_in, unknown, found.negated)?))
            }
            Expr::SetComparison(compared) => {
                let is_all = compared.quantifier == SetQuantifier::All;
                let exists = |test: &dyn Fn(Expr) -> Expr| {
                    exists_compared(
                        &compared.expr,
                        &compared.subquery,
                        &schema,
                        |tested, item| test(binary_expr(tested, compared.op, item)),
                    )
                };
                let decides = match is_all {
                    true => exists(&Expr::is_false)?,
                    false => exists(&Expr::is_true)?,
                };
                let unknown = exists(&Expr::is_null)?;
                Ok(Transformed::yes(as_value(decides, vec![unknown], is_all)?))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(expression.update_data(|expression| name.restore(expression)))
    })?;
    Ok(node.data)
}

/// Returns a value that is true in one case, NULL in other cases, and else false, or its negation.
pub(super) fn as_value(is_true: Expr, unknown: Vec<Expr>, is_negated: bool) -> Result<Expr> {
    let mut value = when(is_true, lit(!is_negated));
    for case in unknown {
        value = value.when(case, lit(ScalarValue::Boolean(None)));
    }
    value.otherwise(lit(is_negated))
}

/// Returns a predicate that is true if a plan derived from the subquery `of` has a row. An
/// uncorrelated subquery becomes a scalar subquery, which is executed once.
pub(super) fn exists(of: &Subquery, plan: LogicalPlan) -> Result<Expr> {
    let with_plan = |plan| Subquery {
        subquery: Arc::new(plan),
        outer_ref_columns: of.outer_ref_columns.clone(),
        spans: of.spans.clone(),
    };
    if !of.outer_ref_columns.is_empty() {
        return Ok(Expr::Exists(Exists::new(with_plan(plan), false)));
    }
    let first = LogicalPlanBuilder::from(plan).limit(0, Some(1))?;
    let none: [Expr; 0] = [];
    let counted = first.aggregate(none, [count(lit(1i64))])?.build()?;
    Ok(Expr::ScalarSubquery(with_plan(counted)).gt(lit(0i64)))
}
