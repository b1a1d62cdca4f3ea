//! Positions and parameters in ROLLUP, CUBE and GROUPING SETS.
//!
//! DataFusion 55.2 takes `GROUP BY 1` as the first selected column, but `GROUP BY ROLLUP (1)` as a constant. It
//! replaces the names of all grouping expressions by one when it replaces a parameter in one of them.

use std::ops::ControlFlow;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr as Planned, LogicalPlan};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select, SelectItem, Value, VisitorMut};

use crate::provider::rules::names::change_expressions;
use crate::provider::sql::walk::walk_statement_mut;

/// The maximum number of positions in a statement. Each is replaced by a copy of the selected expression.
const MAX_POSITIONS: usize = 100;

/// Replaces positions in grouping sets by the selected expressions.
///
/// # Errors
/// Fails if there is no expression at a position, or if there are more than 100 positions.
pub(crate) fn resolve_positions(statement: &mut Statement) -> Result<()> {
    let mut positions = Positions {
        count: 0,
        resolved: Ok(()),
    };
    let _ = walk_statement_mut(statement, &mut positions);
    positions.resolved
}

struct Positions {
    /// The number of positions so far.
    count: usize,
    resolved: Result<()>,
}

impl VisitorMut for Positions {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.resolved = self.resolve(select);
        match self.resolved {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

impl Positions {
    fn resolve(&mut self, select: &mut Select) -> Result<()> {
        let GroupByExpr::Expressions(groups, _) = &mut select.group_by else {
            return Ok(());
        };
        for group in groups {
            let (Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets)) = group else {
                continue;
            };
            for expression in sets.iter_mut().flatten() {
                let Some(position) = position(expression) else {
                    continue;
                };
                self.count += 1;
                if self.count > MAX_POSITIONS {
                    return plan_err!(
                        "more than {MAX_POSITIONS} positions in ROLLUP, CUBE and GROUPING SETS; write the names of columns"
                    );
                }
                *expression = selected(&select.projection, position)?;
            }
        }
        Ok(())
    }
}

/// Returns the position that an expression stands for, counted from 1.
fn position(expression: &Expr) -> Option<usize> {
    let Expr::Value(value) = expression else {
        return None;
    };
    match &value.value {
        Value::Number(number, _) => number.parse().ok(),
        _ => None,
    }
}

/// Returns the selected expression at a position.
fn selected(items: &[SelectItem], position: usize) -> Result<Expr> {
    for (index, item) in items.iter().enumerate() {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                if index + 1 == position {
                    return Ok(expr.clone());
                }
            }
            _ => {
                return plan_err!(
                    "position {position} in GROUP BY cannot be counted beside {item}; write the name of the column"
                );
            }
        }
    }
    plan_err!(
        "position {position} in GROUP BY is out of range: expected 1 to {}",
        items.len()
    )
}

/// Gives aliases to the expressions of grouping sets with parameters, so that they keep their names when
/// the parameters are replaced.
///
/// # Errors
/// Fails if the plan cannot be walked.
pub(crate) fn name_parameters(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|node| match has_parameters(&node)? {
        true => change_expressions(node, |expression| Ok(Transformed::no(expression))),
        false => Ok(Transformed::no(node)),
    })?;
    Ok(plan.data)
}

/// Returns `true` for an aggregation with a parameter in a grouping set.
fn has_parameters(node: &LogicalPlan) -> Result<bool> {
    let LogicalPlan::Aggregate(aggregate) = node else {
        return Ok(false);
    };
    for group in &aggregate.group_expr {
        if matches!(group, Planned::GroupingSet(_))
            && group.exists(|one| Ok(matches!(one, Planned::Placeholder(_))))?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;

    fn resolved(sql: &str) -> Result<String> {
        let mut statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
        resolve_positions(&mut statement)?;
        Ok(statement.to_string())
    }

    #[test]
    fn positions_are_those_of_selected_columns() {
        let sql = "SELECT a + 1 AS x, b, count(*) FROM t GROUP BY 1, ROLLUP (1, b), GROUPING SETS ((2, 1), ())";
        assert_eq!(
            resolved(sql).unwrap(),
            "SELECT a + 1 AS x, b, count(*) FROM t GROUP BY 1, ROLLUP (a + 1, b), GROUPING SETS ((b, a + 1), ())"
        );
        let nested = "SELECT * FROM (SELECT a FROM t GROUP BY CUBE (1)) AS u";
        assert_eq!(resolved(nested).unwrap(), nested.replace("(1)", "(a)"));
        for (sql, part) in [
            ("SELECT a FROM t GROUP BY ROLLUP (0)", "expected 1 to 1"),
            ("SELECT *, a FROM t GROUP BY ROLLUP (2)", "beside *"),
        ] {
            let message = resolved(sql).unwrap_err().to_string();
            assert!(message.contains(part), "{sql}: {message}");
        }
    }

    #[test]
    fn the_number_of_positions_is_limited() {
        let grouped = |count: usize| {
            let positions = vec!["(1)"; count].join(", ");
            resolved(&format!(
                "SELECT a FROM t GROUP BY GROUPING SETS ({positions})"
            ))
        };
        grouped(MAX_POSITIONS).unwrap();
        let message = grouped(MAX_POSITIONS + 1).unwrap_err().to_string();
        assert!(message.contains("more than 100 positions"), "{message}");
    }
}
