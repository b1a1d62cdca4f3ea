//! Names of the columns of subqueries that refer to the query around them.
//!
//! DataFusion gives all columns of such a subquery one table name, and then finds columns by their names alone.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, LogicalPlanBuilder, Subquery, lit};

use super::unnesting::Names;
use crate::provider::plans::conjunction::joined;

/// The name of the output column of a subquery of IN, ANY and ALL.
const ITEM: &str = "__item";

/// Returns the names that the subqueries of a plan give to expressions above the filters that refer to the query around them.
pub(super) fn given(plan: &LogicalPlan) -> Result<HashSet<String>> {
    let mut names = HashSet::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Subquery(subquery) = node {
            add_names(&subquery.subquery, &mut names)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(names)
}

fn add_names(plan: &LogicalPlan, names: &mut HashSet<String>) -> Result<()> {
    plan.apply(|node| {
        if node.contains_outer_reference() {
            return Ok(TreeNodeRecursion::Jump);
        }
        node.apply_expressions(|expression| {
            expression.apply(|one| {
                match one {
                    Expr::Alias(alias) => {
                        names.insert(alias.name.clone());
                    }
                    // A cast has the name of the column.
                    Expr::Cast(cast) => {
                        names.extend(cast.expr.try_as_col().map(|column| column.name.clone()));
                    }
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(())
}

/// Gives the columns that a filter compares with the query around it names of their own, if other columns have the same names: those of
/// other tables, or those in `given`.
pub(super) fn distinct_keys(
    filter: Filter,
    given: &HashSet<String>,
    names: &Names,
) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(filter.input.schema());
    let mut keys: Vec<(Expr, String)> = Vec::new();
    let conjuncts = split_conjunction_owned(filter.predicate.clone()).into_iter();
    let conjuncts = conjuncts.map(|conjunct| {
        if !conjunct.contains_outer() {
            return Ok(conjunct);
        }
        let conjunct = conjunct.transform_up(|one| {
            let Expr::Column(column) = &one else {
                return Ok(Transformed::no(one));
            };
            let all = schema.fields().iter();
            let same = all.filter(|other| other.name() == column.name()).count();
            if same < 2 && !given.contains(column.name()) {
                return Ok(Transformed::no(one));
            }
            let name = match keys.iter().find(|(key, _)| *key == one) {
                Some((_, name)) => name.clone(),
                None => {
                    let name = names.next("key");
                    keys.push((one, name.clone()));
                    name
                }
            };
            let key = Column::new_unqualified(name);
            Ok(Transformed::yes(Expr::Column(key)))
        })?;
        Ok(conjunct.data)
    });
    let predicate = joined(conjuncts.collect::<Result<_>>()?, Expr::and);
    let Some(predicate) = predicate.filter(|_| !keys.is_empty()) else {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    };
    let columns: Vec<_> = schema.iter().map(Expr::from).collect();
    let keys = keys.into_iter().map(|(key, name)| key.alias(name));
    let rows = LogicalPlanBuilder::new_from_arc(filter.input);
    let rows = rows.project(columns.iter().cloned().chain(keys))?;
    Ok(Transformed::yes(
        rows.filter(predicate)?.project(columns)?.build()?,
    ))
}

/// Returns a subquery of EXISTS without its output columns.
pub(super) fn without_columns(subquery: Subquery) -> Result<Subquery> {
    match subquery.subquery.as_ref() {
        LogicalPlan::Projection(rows) => with_columns(&subquery, &rows.input, lit(true)),
        _ => Ok(subquery),
    }
}

/// Returns a subquery of IN, ANY or ALL whose output column has a name of its own.
pub(in crate::provider::rules::logic) fn with_item(subquery: &Subquery) -> Result<Subquery> {
    let (table, field) = subquery.subquery.schema().qualified_field(0);
    if field.name() == ITEM {
        return Ok(subquery.clone());
    }
    let item = Expr::from((table, field));
    with_columns(subquery, &subquery.subquery, item)
}

fn with_columns(subquery: &Subquery, rows: &Arc<LogicalPlan>, column: Expr) -> Result<Subquery> {
    let rows = LogicalPlanBuilder::new_from_arc(Arc::clone(rows));
    Ok(Subquery {
        subquery: Arc::new(rows.project([column.alias(ITEM)])?.build()?),
        ..subquery.clone()
    })
}
