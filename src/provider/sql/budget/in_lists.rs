//! Turns long chains of equality comparisons with numbers into IN lists.

use std::collections::HashMap;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, ValueWithSpan};

/// Replaces the terms `x = 1`, `x = 2`, ... of a chain of OR by `x IN (1, 2, ...)`, and the terms `x <> 1`,
/// `x <> 2`, ... of a chain of AND by `x NOT IN (1, 2, ...)`, if a column has at least `min_terms` of them. A list
/// is planned and evaluated as one expression. Integers and other numbers are kept apart: the numbers
/// of a list are converted to one type.
pub(super) fn with_in_lists(
    terms: Vec<Expr>,
    chain: &BinaryOperator,
    min_terms: usize,
) -> Vec<Expr> {
    let key = |term: &Expr| key(term, chain);
    let mut counts: HashMap<(String, bool), usize> = HashMap::new();
    for key in terms.iter().filter_map(key) {
        *counts.entry(key).or_default() += 1;
    }
    counts.retain(|_, count| *count >= min_terms);
    if counts.is_empty() {
        return terms;
    }
    let mut lists: HashMap<(String, bool), usize> = HashMap::new();
    let mut merged: Vec<Expr> = Vec::new();
    for term in terms {
        let key = key(&term).filter(|key| counts.contains_key(key));
        let (Some(key), Expr::BinaryOp { left, right, .. }) = (key, &term) else {
            merged.push(term);
            continue;
        };
        let index = *lists.entry(key).or_insert_with(|| {
            merged.push(Expr::InList {
                expr: left.clone(),
                list: Vec::new(),
                negated: *chain == BinaryOperator::And,
            });
            merged.len() - 1
        });
        if let Expr::InList { list, .. } = &mut merged[index] {
            list.push(right.as_ref().clone());
        }
    }
    merged
}

/// Returns the column that a term of `chain` compares with a number, and `true` if the number is an integer.
/// Returns `None` if the term cannot be in a list: another operator, anything but a column on the left, or
/// an integer beyond 64 bits.
fn key(term: &Expr, chain: &BinaryOperator) -> Option<(String, bool)> {
    let Expr::BinaryOp { left, op, right } = term else {
        return None;
    };
    let is_equality = matches!(
        (chain, op),
        (BinaryOperator::Or, BinaryOperator::Eq) | (BinaryOperator::And, BinaryOperator::NotEq)
    ) && matches!(
        left.as_ref(),
        Expr::Identifier(_) | Expr::CompoundIdentifier(_)
    );
    let number = match right.as_ref() {
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => expr.as_ref(),
        number => number,
    };
    let Expr::Value(ValueWithSpan {
        value: Value::Number(number, _),
        ..
    }) = number
    else {
        return None;
    };
    let is_integer = number.parse::<i64>().is_ok();
    let is_double =
        !is_integer && number.parse::<f64>().is_ok() && number.contains(['.', 'e', 'E']);
    (is_equality && (is_integer || is_double)).then(|| (left.to_string(), is_integer))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    /// Returns the terms of a chain with lists of at least two numbers.
    fn listed(terms: &[&str], chain: &BinaryOperator) -> Vec<String> {
        let parsed = terms.iter().map(|sql| {
            let mut parser = Parser::new(&GenericDialect {}).try_with_sql(sql).unwrap();
            parser.parse_expr().unwrap()
        });
        let terms = with_in_lists(parsed.collect(), chain, 2).into_iter();
        terms.map(|term| term.to_string()).collect()
    }

    #[test]
    fn numbers_of_a_column_become_a_list() {
        let terms = [
            "x = 1",
            "t.y = 0.5",
            "x = -2",
            "x = 3.5",
            "x > 4",
            "t.y = 1e3",
            "y = 7",
        ];
        assert_eq!(
            listed(&terms, &BinaryOperator::Or),
            [
                "x IN (1, -2)",
                "t.y IN (0.5, 1e3)",
                "x = 3.5",
                "x > 4",
                "y = 7"
            ]
        );
        assert_eq!(listed(&terms, &BinaryOperator::And), terms);
        let terms = ["x <> 1", "x != 2", "x = 3"];
        assert_eq!(
            listed(&terms, &BinaryOperator::And),
            ["x NOT IN (1, 2)", "x = 3"]
        );
        assert_eq!(
            listed(&terms, &BinaryOperator::Or),
            ["x <> 1", "x <> 2", "x = 3"]
        );
    }

    #[test]
    fn other_comparisons_stay() {
        for terms in [
            ["x = 'a'", "x = 'b'"],
            ["x = y", "x = z"],
            ["x + 1 = 1", "x + 1 = 2"],
            ["1 = x", "2 = x"],
            ["x = 18446744073709551615", "x = 18446744073709551614"],
        ] {
            assert_eq!(listed(&terms, &BinaryOperator::Or), terms);
        }
    }
}
