//! Changes of expressions that keep the names of columns.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Changes the expressions of a node of a plan, and keeps the names of its columns.
///
/// ROLLUP, CUBE and GROUPING SETS have one column for each expression in them, and the expressions keep
/// their names one by one.
///
/// # Errors
/// Fails if `change` fails.
pub(crate) fn change_expressions(
    node: LogicalPlan,
    mut change: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&node);
    node.map_expressions(|expression| change_named(expression, &names, &mut change))
}

fn change_named(
    expression: Expr,
    names: &NamePreserver,
    change: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    // DataFusion compares the arguments of `grouping` with the grouping expressions.
    let is_grouping = |expression: &Expr| matches!(expression, Expr::AggregateFunction(function) if function.func.name() == "grouping");
    let names_are_of_children = match &expression {
        Expr::GroupingSet(_) => true,
        Expr::Alias(alias) => is_grouping(&alias.expr),
        other => is_grouping(other),
    };
    if names_are_of_children {
        return expression.map_children(|one| change_named(one, names, change));
    }
    let name = names.save(&expression);
    let changed = change(expression)?;
    Ok(match changed.transformed {
        true => changed.update_data(|expression| name.restore(expression)),
        false => changed,
    })
}
