//! Windows of aggregates with a FILTER clause.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{Expr, LogicalPlan, WindowFunctionDefinition, when};

use crate::provider::aggregate::plan::conditional::skips_nulls;
use crate::provider::rules::names::change_expressions;

/// Rewrites `avg(x) FILTER (WHERE p) OVER (..)` as `avg(CASE WHEN p THEN x END) OVER (..)`, for functions that ignore NULLs.
/// Returns other nodes as they are.
///
/// The physical window of DataFusion 55 does not show its filter to rules such as
/// [`AxisWindows`](crate::provider::window::AxisWindows).
pub(super) fn without_filters(node: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Window(windows) = &node else {
        return Ok(node);
    };
    // DataFusion 55 fails if two windows of a node are equal.
    let mut taken = windows.window_expr.clone();
    let node = change_expressions(node, |expr| {
        expr.transform_up(|expr| match conditional(&expr)? {
            Some(window) if !taken.contains(&window) => {
                taken.push(window.clone());
                Ok(Transformed::yes(window))
            }
            _ => Ok(Transformed::no(expr)),
        })
    })?;
    Ok(node.data)
}

/// Returns a window without its FILTER clause; `None` for other expressions.
fn conditional(expr: &Expr) -> Result<Option<Expr>> {
    let Expr::WindowFunction(window) = expr else {
        return Ok(None);
    };
    let (Some(argument), Some(filter)) = (argument(window), &window.params.filter) else {
        return Ok(None);
    };
    let mut window = window.clone();
    window.params.args = vec![when(filter.as_ref().clone(), argument.clone()).end()?];
    window.params.filter = None;
    Ok(Some(Expr::WindowFunction(window)))
}

/// Returns the argument of an aggregate that ignores NULLs; `None` for other windows.
fn argument(window: &WindowFunction) -> Option<&Expr> {
    let WindowFunctionDefinition::AggregateUDF(function) = &window.fun else {
        return None;
    };
    let [argument] = window.params.args.as_slice() else {
        return None;
    };
    #[expect(deprecated, reason = "DataFusion still has the variant")]
    let is_value = !matches!(argument, Expr::Wildcard { .. });
    (is_value && skips_nulls(function.name())).then_some(argument)
}
