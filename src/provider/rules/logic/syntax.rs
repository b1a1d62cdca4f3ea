//! Corrections of statements that the parser or DataFusion misinterprets.
//!
//! - `a IS DISTINCT FROM b AND c` is `(a IS DISTINCT FROM b) AND c`. sqlparser 0.62 lets the right
//!   operand reach to the end of the expression.
//! - `(a, b) IN ((1, 2), (3, -4))` is `(a = 1 AND b = 2) OR (a = 3 AND b = -4)`, which selects a
//!   slice of an array. DataFusion makes structs of tuples, and accepts neither negative nor typed
//!   literals as their items.

use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, VisitorMut};

use crate::provider::sql::walk::walk_statement_mut;

/// Corrects a parsed statement.
pub(crate) fn correct(statement: &mut Statement) {
    let _ = walk_statement_mut(statement, &mut Correction);
}

struct Correction;

impl VisitorMut for Correction {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        correct_expression(expression);
        ControlFlow::Continue(())
    }
}

/// Corrects an expression whose operands are correct.
fn correct_expression(expression: &mut Expr) {
    let lifted = match expression {
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => lift(right, IS),
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr,
        } => lift(expr, NOT),
        Expr::BinaryOp { op, right, .. } => match strength(op) {
            Some(strength) => lift(right, strength),
            None => None,
        },
        Expr::InList {
            expr: columns,
            list,
            negated,
        } => {
            if let Some(any) = expand_tuples(columns, list) {
                *expression = match negated {
                    true => Expr::UnaryOp {
                        op: UnaryOperator::Not,
                        expr: Box::new(any),
                    },
                    false => any,
                };
            }
            None
        }
        _ => None,
    };
    if let Some(mut whole) = lifted {
        // The operators removed from the right operand apply to the whole expression instead.
        let operand = leftmost(&mut whole);
        *operand = mem::replace(expression, placeholder());
        *expression = whole;
    }
}

/// Precedences of operators, from weak to strong.
const OR: u8 = 1;
const XOR: u8 = 2;
const AND: u8 = 3;
const NOT: u8 = 4;
const IS: u8 = 5;

fn strength(op: &BinaryOperator) -> Option<u8> {
    match op {
        BinaryOperator::Or => Some(OR),
        BinaryOperator::Xor => Some(XOR),
        BinaryOperator::And => Some(AND),
        _ => None,
    }
}

/// Reduces an operand without brackets to its leftmost part, by removing all operators that bind at
/// most as strongly as `than`. Returns the removed expression, with [`placeholder`] in place of that
/// part.
///
/// ```text
///  a IS DISTINCT FROM (b AND c)      operand: b AND c
///                                    left in place: b, returned: nothing AND c
/// ```
fn lift(operand: &mut Expr, than: u8) -> Option<Expr> {
    let is_weak = |one: &Expr| match one {
        Expr::BinaryOp { op, .. } => strength(op).is_some_and(|strength| strength <= than),
        _ => false,
    };
    if !is_weak(operand) {
        return None;
    }
    let mut whole = mem::replace(operand, placeholder());
    let mut part = &mut whole;
    while is_weak(part) {
        match part {
            Expr::BinaryOp { left, .. } => part = left,
            _ => break,
        }
    }
    *operand = mem::replace(part, placeholder());
    Some(whole)
}

/// The leftmost operand of a chain of operators.
fn leftmost(mut expression: &mut Expr) -> &mut Expr {
    loop {
        match expression {
            Expr::BinaryOp { left, .. } => expression = left,
            found => return found,
        }
    }
}

/// A placeholder for an expression that was moved out of the tree.
fn placeholder() -> Expr {
    Expr::value(Value::Null)
}

/// Expands `columns IN (list)` into comparisons of single items, in brackets. Returns `None` unless
/// all are tuples of the same length.
fn expand_tuples(columns: &Expr, list: &[Expr]) -> Option<Expr> {
    let Expr::Tuple(columns) = columns else {
        return None;
    };
    let equal = |item: &Expr| match item {
        Expr::Tuple(items) if items.len() == columns.len() => {
            let pairs = columns.iter().zip(items);
            let pairs = pairs.map(|(column, item)| {
                binary(column.clone(), BinaryOperator::Eq, bracketed(item.clone()))
            });
            Some(bracketed(joined(pairs.collect(), &BinaryOperator::And)?))
        }
        _ => None,
    };
    let all = list.iter().map(equal).collect::<Option<Vec<_>>>()?;
    Some(bracketed(joined(all, &BinaryOperator::Or)?))
}

/// Joins expressions with an operator, as a balanced tree. Returns `None` if there are none.
fn joined(mut all: Vec<Expr>, op: &BinaryOperator) -> Option<Expr> {
    if all.len() < 2 {
        return all.pop();
    }
    let right = all.split_off(all.len() / 2);
    let left = bracketed(joined(all, op)?);
    Some(binary(left, op.clone(), bracketed(joined(right, op)?)))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }
}

fn bracketed(expression: Expr) -> Expr {
    match expression {
        one @ (Expr::Nested(_) | Expr::Value(_) | Expr::Identifier(_)) => one,
        other => Expr::Nested(Box::new(other)),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;
    use datafusion::sql::sqlparser::ast::visit_expressions_mut;

    use super::*;

    /// Parses and corrects a statement, and prints it with all operators in brackets.
    fn corrected(sql: &str) -> String {
        let mut statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
        correct(&mut statement);
        if let Statement::Statement(statement) = &mut statement {
            let _ = visit_expressions_mut(statement, |one| {
                if matches!(
                    one,
                    Expr::BinaryOp { .. }
                        | Expr::UnaryOp { .. }
                        | Expr::IsDistinctFrom(..)
                        | Expr::IsNotDistinctFrom(..)
                ) {
                    let inner = mem::replace(one, placeholder());
                    *one = Expr::Nested(Box::new(inner));
                }
                ControlFlow::<()>::Continue(())
            });
        }
        statement.to_string()
    }

    #[test]
    fn distinct_binds_more_strongly_than_logic() {
        for (sql, expected) in [
            (
                "a IS DISTINCT FROM b AND c",
                "((a IS DISTINCT FROM b) AND c)",
            ),
            (
                "a IS DISTINCT FROM b AND c OR d",
                "(((a IS DISTINCT FROM b) AND c) OR d)",
            ),
            (
                "x AND a IS NOT DISTINCT FROM b OR c",
                "((x AND (a IS NOT DISTINCT FROM b)) OR c)",
            ),
            (
                "x OR a IS DISTINCT FROM b AND c",
                "(x OR ((a IS DISTINCT FROM b) AND c))",
            ),
            (
                "NOT a IS DISTINCT FROM b AND c",
                "((NOT (a IS DISTINCT FROM b)) AND c)",
            ),
            (
                "a IS DISTINCT FROM b AND c IS DISTINCT FROM d AND e",
                "(((a IS DISTINCT FROM b) AND (c IS DISTINCT FROM d)) AND e)",
            ),
            (
                "a IS DISTINCT FROM b + 1 OR c = d",
                "((a IS DISTINCT FROM (b + 1)) OR (c = d))",
            ),
        ] {
            let sql = format!("SELECT {sql}");
            assert_eq!(corrected(&sql), format!("SELECT {expected}"), "{sql}");
        }
        // Explicit brackets are kept.
        let sql = "SELECT a IS DISTINCT FROM (b AND c)";
        assert_eq!(corrected(sql), "SELECT (a IS DISTINCT FROM ((b AND c)))");
    }

    #[test]
    fn tuples_are_compared_one_by_one() {
        let mut statement =
            DFParser::parse_sql("SELECT (a, b) NOT IN ((1, -2), (3, DATE '2024-01-01'))").unwrap();
        let mut statement = statement.pop_front().unwrap();
        correct(&mut statement);
        let expected =
            "SELECT NOT (((a = 1) AND (b = (-2))) OR ((a = 3) AND (b = (DATE '2024-01-01'))))";
        assert_eq!(statement.to_string(), expected);
    }
}
