//! Keeps DataFusion from analysing the value ranges of long expressions in filters.
//!
//! DataFusion 55.2 estimates how many rows a comparison in a filter selects from the value ranges of
//! its operands. The estimate takes cubic time: half a minute for `a + a + ... > 3` with 1,000 terms.
//! `(a + a + ... > 3) IS TRUE` selects the same rows and is not analysed.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, JoinConstraint, JoinOperator, Query, Select, Visitor, VisitorMut,
};

use crate::provider::sql::walk::walk;

/// The number of operators from which a comparison is not analysed. Shorter comparisons keep their
/// plans.
const LONG: usize = 64;

/// A visitor that adds IS TRUE to the long comparisons of filters and join conditions.
pub struct Unanalyzed;

impl VisitorMut for Unanalyzed {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let joins = select.from.iter_mut().flat_map(|tables| &mut tables.joins);
        let conditions = joins.filter_map(|join| match &mut join.join_operator {
            JoinOperator::Join(JoinConstraint::On(condition))
            | JoinOperator::Inner(JoinConstraint::On(condition)) => Some(condition),
            _ => None,
        });
        conditions
            .chain(&mut select.selection)
            .chain(&mut select.having)
            .for_each(hide);
        ControlFlow::Continue(())
    }
}

/// Adds IS TRUE to the long comparisons that a predicate joins by AND and OR. None of them may be
/// below a NOT, which would tell NULL from false.
fn hide(predicate: &mut Expr) {
    match predicate {
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And | BinaryOperator::Or,
            right,
        } => {
            hide(left);
            hide(right);
        }
        Expr::Nested(inner) => hide(inner),
        // The key of a join, which DataFusion must be able to find.
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Eq,
            right,
        } if has_column(left) && has_column(right) => {}
        Expr::BinaryOp { .. } | Expr::Between { .. } | Expr::InList { .. } => {
            let mut operators = Operators(0);
            let visited = match &*predicate {
                // The length of the list does not matter.
                Expr::InList { expr, .. } => walk(expr, &mut operators),
                comparison => walk(comparison, &mut operators),
            };
            if visited.is_continue() && operators.0 >= LONG {
                let comparison = std::mem::replace(predicate, Expr::Tuple(Vec::new()));
                *predicate = Expr::IsTrue(Box::new(Expr::Nested(Box::new(comparison))));
            }
        }
        _ => {}
    }
}

/// Returns `true` if an expression refers to a column.
fn has_column(expr: &Expr) -> bool {
    struct Columns;
    impl Visitor for Columns {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    walk(expr, &mut Columns).is_break()
}

/// A visitor that counts operators, and stops at a subquery, which DataFusion must be able to find.
struct Operators(usize);

impl Visitor for Operators {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.0 += usize::from(matches!(expr, Expr::BinaryOp { .. }));
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::ast::VisitMut;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn hidden(sql: &str) -> String {
        let mut statements = Parser::parse_sql(&GenericDialect {}, sql).unwrap();
        let _ = VisitMut::visit(&mut statements, &mut Unanalyzed);
        statements[0].to_string()
    }

    #[test]
    fn long_comparisons_of_filters_are_hidden() {
        let long_sum = vec!["a"; LONG].join(" + ");
        let long = format!("{long_sum} > 3");
        for (sql, expected) in [
            (
                format!("SELECT 1 FROM t WHERE {long}"),
                format!("SELECT 1 FROM t WHERE ({long}) IS TRUE"),
            ),
            (
                format!("SELECT 1 FROM t WHERE x = 1 AND (y OR {long}) HAVING {long}"),
                format!(
                    "SELECT 1 FROM t WHERE x = 1 AND (y OR ({long}) IS TRUE) HAVING ({long}) IS TRUE"
                ),
            ),
            (
                format!("SELECT 1 FROM t JOIN u ON {long}"),
                format!("SELECT 1 FROM t JOIN u ON ({long}) IS TRUE"),
            ),
            (
                format!("SELECT 1 FROM t JOIN u ON {long_sum} = u.b"),
                format!("SELECT 1 FROM t JOIN u ON {long_sum} = u.b"),
            ),
        ] {
            assert_eq!(hidden(&sql), expected);
        }
        let short = format!("{} > 3", vec!["a"; LONG - 1].join(" + "));
        for same in [
            format!("SELECT 1 FROM t WHERE {short}"),
            format!("SELECT {long} FROM t WHERE NOT ({long})"),
            format!("SELECT 1 FROM t WHERE {long} + (SELECT 1)"),
            format!("SELECT 1 FROM t LEFT JOIN u ON {long}"),
        ] {
            assert_eq!(hidden(&same), same);
        }
    }
}
