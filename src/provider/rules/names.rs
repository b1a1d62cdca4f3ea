//! Changes of expressions that keep the names of columns.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Changes the expressions of a node of a plan, and keeps the names of its columns.
///
/// ROLLUP, CUBE and GROUPING SETS have one column for each expression in them. These expressions get aliases
/// in any case, because DataFusion 55 replaces the names of all of them by one when it coerces a type.
///
/// # Errors
/// Fails if `change` fails.
pub(crate) fn change_expressions(
    node: LogicalPlan,
    mut change: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let is_set = |group: &Expr| matches!(group, Expr::GroupingSet(_));
    let has_sets = matches!(&node, LogicalPlan::Aggregate(aggregate)
        if aggregate.group_expr.iter().any(is_set));
    let names = NamePreserver::new(&node);
    node.map_expressions(|expression| match has_sets {
        true => change_in_sets(expression, &names, &mut change),
        false => change_named(expression, &names, &mut change),
    })
}

fn change_named(
    expression: Expr,
    names: &NamePreserver,
    change: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    let name = names.save(&expression);
    let changed = change(expression)?;
    Ok(match changed.transformed {
        true => changed.update_data(|expression| name.restore(expression)),
        false => changed,
    })
}

/// Changes an expression of an aggregation with grouping sets.
fn change_in_sets(
    expression: Expr,
    names: &NamePreserver,
    change: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    // DataFusion compares the arguments of `grouping` with the grouping expressions.
    let is_grouping = |expression: &Expr| matches!(expression, Expr::AggregateFunction(function) if function.func.name() == "grouping");
    match &expression {
        Expr::Alias(alias) if is_grouping(&alias.expr) => {
            return expression.map_children(|one| change_in_sets(one, names, change));
        }
        Expr::GroupingSet(_) => {}
        other if is_grouping(other) => {}
        _ => return change_named(expression, names, change),
    }
    expression.map_children(|one| {
        let is_named = matches!(one, Expr::Column(_) | Expr::Alias(_));
        let (relation, name) = one.qualified_name();
        let changed = change(one)?;
        Ok(match is_named && !changed.transformed {
            true => changed,
            false => Transformed::yes(changed.data.unalias().alias_qualified(relation, name)),
        })
    })
}
