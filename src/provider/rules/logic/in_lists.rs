//! Several IN lists over one expression.
//!
//! DataFusion's simplifier merges two lists by comparing their items, and replaces an empty
//! intersection by a constant: `x NOT IN (1, 2) OR x NOT IN (3, 4)` becomes `true`, although it is
//! NULL where `x` is. It also compares items that are columns by name, and treats `NULL` like any
//! other item. This rule merges such lists first, so that the simplifier finds at most one list of
//! constants per expression.

// Expressions have interior mutability, but their hash does not depend on it.
#![allow(clippy::mutable_key_type)]

use std::collections::HashMap;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{HashSet, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, lit};
use datafusion::optimizer::AnalyzerRule;

use crate::provider::rules::logic::zeros::constant;
use crate::provider::rules::names::change_expressions;

/// The number of operands from which a chain is balanced.
const MIN_BALANCED: usize = 32;

/// A rule that merges the IN lists over the same expression in every conjunction and disjunction.
#[derive(Debug, Default)]
pub(crate) struct CombinedInLists;

impl AnalyzerRule for CombinedInLists {
    fn name(&self) -> &str {
        "combined_in_lists"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|node| {
            change_expressions(node, |expression| match has_list(&expression)? {
                true => combine(expression),
                false => Ok(Transformed::no(expression)),
            })
        })?;
        Ok(plan.data)
    }
}

/// Returns `true` if the expression may need a merge: it has an IN list, or an OR of equalities,
/// which is equivalent to a list.
fn has_list(expression: &Expr) -> Result<bool> {
    expression.exists(|one| {
        Ok(match one {
            Expr::InList(_) => true,
            Expr::BinaryExpr(BinaryExpr { op, left, right }) if *op == Operator::Or => {
                equality(left).is_some() || equality(right).is_some()
            }
            _ => false,
        })
    })
}

/// Returns the column and the constant of `column = constant`; `None` for other expressions.
fn equality(expression: &Expr) -> Option<(&Expr, Expr)> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if *op == Operator::Eq && matches!(left.as_ref(), Expr::Column(_)) =>
        {
            Some((left, constant(right)?))
        }
        _ => None,
    }
}

/// Merges the lists in all subexpressions.
fn combine(expression: Expr) -> Result<Transformed<Expr>> {
    expression.transform_down(|one| {
        if !is_logic(&one) || !has_list(&one)? {
            return Ok(Transformed::no(one));
        }
        let rewritten = logic(one, false)?;
        Ok(Transformed::new(rewritten, true, TreeNodeRecursion::Jump))
    })
}

fn is_logic(expression: &Expr) -> bool {
    match expression {
        Expr::Not(_) | Expr::InList(_) => true,
        Expr::BinaryExpr(BinaryExpr { op, .. }) => matches!(op, Operator::And | Operator::Or),
        _ => false,
    }
}

/// Merges the lists of an expression, or of its negation. NOT is pushed down through AND, OR and
/// IN.
fn logic(expression: Expr, is_negated: bool) -> Result<Expr> {
    match expression {
        Expr::Not(inner) => logic(*inner, !is_negated),
        Expr::BinaryExpr(BinaryExpr {
            op: op @ (Operator::And | Operator::Or),
            left,
            right,
        }) => {
            let chain = BinaryExpr { left, op, right };
            let operands = operands(chain).into_iter();
            let operands = operands.map(|operand| logic(operand, is_negated));
            let operands = operands.collect::<Result<Vec<_>>>()?;
            match (op == Operator::And) != is_negated {
                true => Ok(chained(Operator::And, all_of(operands))),
                false => Ok(chained(Operator::Or, any_of(operands))),
            }
        }
        Expr::InList(list) => {
            let children = Expr::InList(list).map_children(combine)?;
            let Expr::InList(mut list) = children.data else {
                return Ok(children.data);
            };
            list.negated ^= is_negated;
            Ok(without_null(list))
        }
        other => {
            let other = other.map_children(combine)?.data;
            Ok(match is_negated {
                true => Expr::Not(Box::new(other)),
                false => other,
            })
        }
    }
}

/// The operands of a chain of the same operator, in order.
fn operands(chain: BinaryExpr) -> Vec<Expr> {
    let op = chain.op;
    let mut left = vec![*chain.right, *chain.left];
    let mut operands = Vec::new();
    while let Some(next) = left.pop() {
        match next {
            Expr::BinaryExpr(inner) if inner.op == op => {
                left.push(*inner.right);
                left.push(*inner.left);
            }
            other => operands.push(other),
        }
    }
    operands
}

/// Joins operands with an operator. Long chains are balanced, which bounds the depth of recursion
/// over them.
fn chained(op: Operator, mut operands: Vec<Expr>) -> Expr {
    let (left, right) = match operands.len() {
        0 => return lit(op == Operator::And),
        1 => return operands.remove(0),
        count @ ..MIN_BALANCED => (operands.drain(..count - 1).collect(), operands),
        count => (operands.drain(..count / 2).collect(), operands),
    };
    Expr::BinaryExpr(BinaryExpr {
        left: Box::new(chained(op, left)),
        op,
        right: Box::new(chained(op, right)),
    })
}

/// Moves NULL out of a NOT IN list: `x NOT IN (1, NULL)` is never true, so it is the same as
/// `x NOT IN (1) AND NULL`.
fn without_null(mut list: InList) -> Expr {
    let is_null = |item: &Expr| matches!(item, Expr::Literal(value, _) if value.is_null());
    if !list.negated || !list.list.iter().any(is_null) {
        return Expr::InList(list);
    }
    list.list.retain(|item| !is_null(item));
    match list.list.is_empty() {
        true => unknown(),
        false => chained(Operator::And, vec![Expr::InList(list), unknown()]),
    }
}

fn unknown() -> Expr {
    lit(ScalarValue::Boolean(None))
}

/// Merges the operands of AND, which leaves at most one list of constants per expression.
fn all_of(operands: Vec<Expr>) -> Vec<Expr> {
    merged(operands, Operator::And, |expression, lists| {
        let (no, yes): (Vec<_>, Vec<_>) = lists.into_iter().partition(|list| list.negated);
        let no = union(no);
        if yes.is_empty() {
            return listed(expression, no, true);
        }
        let excluded: HashSet<&Expr> = no.iter().collect();
        let mut items = intersection(yes);
        items.retain(|item| !excluded.contains(item));
        match items.is_empty() {
            // False, or NULL where the expression is NULL.
            true => chained(
                Operator::And,
                vec![Expr::IsNull(Box::new(expression)), unknown()],
            ),
            false => listed(expression, items, false),
        }
    })
}

/// Merges the operands of OR, which leaves at most one list of constants per expression. An
/// equality with a constant counts as a list of one item.
fn any_of(operands: Vec<Expr>) -> Vec<Expr> {
    let operands = operands
        .into_iter()
        .map(|operand| match equality(&operand) {
            Some((column, constant)) => listed(column.clone(), vec![constant], false),
            None => operand,
        });
    let merged = merged(operands.collect(), Operator::Or, |expression, lists| {
        let (no, yes): (Vec<_>, Vec<_>) = lists.into_iter().partition(|list| list.negated);
        let yes = union(yes);
        if no.is_empty() {
            return listed(expression, yes, false);
        }
        let included: HashSet<&Expr> = yes.iter().collect();
        let mut items = intersection(no);
        items.retain(|item| !included.contains(item));
        match items.is_empty() {
            // True, or NULL where the expression is NULL.
            true => chained(
                Operator::Or,
                vec![Expr::IsNotNull(Box::new(expression)), unknown()],
            ),
            false => listed(expression, items, true),
        }
    });
    let merged = merged.into_iter().map(|operand| match operand {
        Expr::InList(list) if !list.negated && list.list.len() == 1 => comparisons(list),
        other => other,
    });
    merged.collect()
}

/// Replaces all lists of constants over the same expression by the result of `merge`. If an
/// expression has several lists, those with other items are written as comparisons, to hide them
/// from the simplifier.
fn merged(
    operands: Vec<Expr>,
    op: Operator,
    merge: impl Fn(Expr, Vec<InList>) -> Expr,
) -> Vec<Expr> {
    let mut counts: HashMap<&Expr, usize> = HashMap::new();
    for operand in &operands {
        if let Expr::InList(list) = operand {
            *counts.entry(list.expr.as_ref()).or_default() += 1;
        }
    }
    let repeated = counts
        .into_iter()
        .filter(|(expression, count)| *count > 1 && !expression.is_volatile());
    let repeated: HashSet<Expr> = repeated.map(|(expression, _)| expression.clone()).collect();
    let mut groups: HashMap<Expr, (usize, Vec<InList>)> = HashMap::new();
    let mut kept: Vec<Option<Expr>> = Vec::new();
    for operand in operands {
        match operand {
            Expr::InList(list) if repeated.contains(list.expr.as_ref()) => {
                if !is_constant(&list, op) {
                    kept.push(Some(hidden_from_simplifier(list)));
                    continue;
                }
                let group = groups.entry(list.expr.as_ref().clone()).or_insert_with(|| {
                    kept.push(None);
                    (kept.len() - 1, Vec::new())
                });
                group.1.push(list);
            }
            other => kept.push(Some(other)),
        }
    }
    for (expression, (index, lists)) in groups {
        kept[index] = Some(merge(expression, lists));
    }
    kept.into_iter().flatten().collect()
}

/// Returns `true` if literals alone decide which items are equal. This excludes NULL, except in a
/// union of lists, where NULL is an item like any other.
fn is_constant(list: &InList, op: Operator) -> bool {
    let is_union = op == Operator::Or && !list.negated;
    list.list.iter().all(|item| match item {
        Expr::Literal(value, _) => is_union || !value.is_null(),
        _ => false,
    })
}

/// Writes a list in a form that the simplifier does not merge with others.
fn hidden_from_simplifier(mut list: InList) -> Expr {
    let is_null = |item: &Expr| matches!(item, Expr::Literal(value, _) if value.is_null());
    if list.negated || !list.list.iter().any(is_null) {
        return comparisons(list);
    }
    list.list.retain(|item| !is_null(item));
    match list.list.is_empty() {
        true => unknown(),
        false => chained(Operator::Or, vec![hidden_from_simplifier(list), unknown()]),
    }
}

/// Writes a list as comparisons with its items.
fn comparisons(list: InList) -> Expr {
    let (op, chain) = match list.negated {
        true => (Operator::NotEq, Operator::And),
        false => (Operator::Eq, Operator::Or),
    };
    let compared = list.list.into_iter().map(|item| {
        Expr::BinaryExpr(BinaryExpr {
            left: list.expr.clone(),
            op,
            right: Box::new(item),
        })
    });
    chained(chain, compared.collect())
}

fn listed(expression: Expr, list: Vec<Expr>, negated: bool) -> Expr {
    Expr::InList(InList {
        expr: Box::new(expression),
        list,
        negated,
    })
}

/// The items of all lists, without duplicates.
fn union(lists: Vec<InList>) -> Vec<Expr> {
    let mut seen = HashSet::new();
    let items = lists.into_iter().flat_map(|list| list.list);
    items.filter(|item| seen.insert(item.clone())).collect()
}

/// The items that all lists have in common.
fn intersection(lists: Vec<InList>) -> Vec<Expr> {
    let mut lists = lists.into_iter();
    let mut items = union(lists.next().into_iter().collect());
    for list in lists {
        let other: HashSet<Expr> = list.list.into_iter().collect();
        items.retain(|item| other.contains(item));
    }
    items
}
