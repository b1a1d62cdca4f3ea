//! Balances long chains of AND and OR.
//!
//! The parser makes a tree of `a OR b OR c OR d` that is as deep as the chain is long. Planning
//! takes quadratic time in that depth: types and nullability of every OR are computed from
//! everything below it, and simplification compares each term with all previous terms. Both
//! operators are associative, even with NULLs, so a balanced tree of the same terms in the same
//! order is equivalent:
//!
//! ```text
//!         OR                OR
//!        /  \             /    \
//!       OR   d    =>    OR      OR
//!      /  \            /  \    /  \
//!     OR   c          a    b  c    d
//!    /  \
//!   a    b
//! ```
//!
//! Long chains of comparisons of one column with numbers become IN lists first (`in_lists`).

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, VisitorMut};

use crate::provider::plans::conjunction::{LONG, joined};
use crate::provider::sql::budget::in_lists::with_in_lists;

/// A visitor that balances the long chains of AND and OR.
pub struct Balance;

impl VisitorMut for Balance {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::BinaryOp { op, .. } = expr
            && matches!(op, BinaryOperator::And | BinaryOperator::Or)
        {
            let op = op.clone();
            let count = terms(expr, &op);
            if count >= LONG {
                balance(expr, &op, count);
            }
        }
        ControlFlow::Continue(())
    }
}

/// The number of terms of a chain.
fn terms(mut expr: &Expr, chain: &BinaryOperator) -> usize {
    let mut count = 1;
    while let Expr::BinaryOp { left, op, .. } = expr
        && op == chain
    {
        expr = left;
        count += 1;
    }
    count
}

fn balance(expr: &mut Expr, chain: &BinaryOperator, count: usize) {
    let mut terms = Vec::with_capacity(count);
    let mut rest = std::mem::replace(expr, Expr::value(Value::Null));
    // Recursion would need as much stack as the chain is long.
    loop {
        match rest {
            Expr::BinaryOp { left, op, right } if op == *chain => {
                terms.push(*right);
                rest = *left;
            }
            first => {
                terms.push(first);
                break;
            }
        }
    }
    // The chain was taken apart from its end.
    terms.reverse();
    let join = |left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: chain.clone(),
        right: Box::new(right),
    };
    if let Some(balanced) = joined(with_in_lists(terms, chain, LONG), join) {
        *expr = balanced;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::ast::VisitMut;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn parsed(sql: &str) -> Expr {
        let mut parser = Parser::new(&GenericDialect {}).try_with_sql(sql).unwrap();
        parser.parse_expr().unwrap()
    }

    fn depth(expr: &Expr) -> usize {
        match expr {
            Expr::BinaryOp { left, right, .. } => 1 + depth(left).max(depth(right)),
            Expr::Nested(inner) => depth(inner),
            _ => 0,
        }
    }

    #[test]
    fn long_chains_become_shallow_and_keep_their_order() {
        let terms: Vec<String> = (0..1000).map(|n| format!("x{n} = {n}")).collect();
        for operator in [" OR ", " AND "] {
            let sql = terms.join(operator);
            let mut expr = parsed(&sql);
            assert_eq!(depth(&expr), 1000);
            let _ = expr.visit(&mut Balance);
            assert_eq!(depth(&expr), 11);
            // The printed expression has no brackets, so the shape of the tree does not show.
            assert_eq!(expr.to_string(), sql);
        }
    }

    #[test]
    fn chains_within_chains_are_balanced_too() {
        let ands: Vec<String> = (0..100).map(|n| format!("a{n}")).collect();
        let ors = vec![ands.join(" AND "); 100];
        let sql = format!("NOT ({})", ors.join(" OR "));
        let mut expr = parsed(&sql);
        let _ = expr.visit(&mut Balance);
        assert_eq!(expr.to_string(), sql);
        let Expr::UnaryOp { expr, .. } = expr else {
            panic!("{expr}");
        };
        assert!(depth(&expr) <= 14, "{}", depth(&expr));
    }

    #[test]
    fn short_chains_stay() {
        let sql = vec!["x"; LONG - 1].join(" OR ");
        let mut expr = parsed(&sql);
        let before = expr.clone();
        let _ = expr.visit(&mut Balance);
        assert_eq!(expr, before);
    }
}
