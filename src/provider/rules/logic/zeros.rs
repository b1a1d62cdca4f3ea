//! -0.0 in IN lists, in CASE and in aggregates of distinct values.
//!
//! `=` treats 0.0 and -0.0 as equal, but IN lists with four or more items, `CASE x WHEN ...` and
//! aggregates such as `count(DISTINCT x)` beside others, or of an expression with a cast, compare the bits. This
//! rule adds the other zero to lists that contain one, makes CASE compare with `=`, and replaces -0.0 by
//! 0.0 in the arguments of aggregates of distinct values.

use std::collections::HashSet;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Case, Expr, ExprSchemable, LogicalPlan, lit, when};
use datafusion::optimizer::AnalyzerRule;
use half::f16;

use crate::provider::rules::names::change_expressions;

/// Makes `-0.0` equal to `0.0` wherever values are compared for equality.
#[derive(Debug, Default)]
pub(crate) struct EqualZeros;

impl AnalyzerRule for EqualZeros {
    fn name(&self) -> &str {
        "equal_zeros"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|node| {
            let mut is_needed = false;
            node.apply_expressions(|expression| {
                is_needed |= expression.exists(|one| Ok(is_equality(one)))?;
                Ok(TreeNodeRecursion::Continue)
            })?;
            if !is_needed || is_planned_as_groups(&node) {
                return Ok(Transformed::no(node));
            }
            let schema = merge_schema(&node.inputs());
            change_expressions(node, |expression| {
                expression.transform_up(|one| Ok(with_equal_zeros(one, &schema)))
            })
        })?;
        Ok(plan.data)
    }
}

fn is_equality(expression: &Expr) -> bool {
    match expression {
        Expr::InList(_) => true,
        Expr::Case(case) => case.expr.is_some(),
        Expr::AggregateFunction(function) => function.params.distinct,
        _ => false,
    }
}

fn with_equal_zeros(expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expression {
        Expr::InList(list) => {
            let zeros: Vec<_> = list.list.iter().filter_map(other_zero).collect();
            let is_new = |zero: &Expr| !list.list.contains(zero);
            let zeros: Vec<_> = zeros.into_iter().filter(is_new).collect();
            if zeros.is_empty() {
                return Transformed::no(Expr::InList(list));
            }
            Transformed::yes(Expr::InList(InList {
                list: list.list.into_iter().chain(zeros).collect(),
                ..list
            }))
        }
        Expr::Case(Case {
            expr: Some(of),
            when_then_expr,
            else_expr,
        }) if !of.is_volatile() && is_float(&of, schema) => {
            let compared = when_then_expr.into_iter();
            let compared =
                compared.map(|(when, then)| (Box::new(of.as_ref().clone().eq(*when)), then));
            Transformed::yes(Expr::Case(Case {
                expr: None,
                when_then_expr: compared.collect(),
                else_expr,
            }))
        }
        Expr::AggregateFunction(mut function) if function.params.distinct => {
            let mut is_changed = false;
            let before = function.params.args.clone();
            for argument in &mut function.params.args {
                // The fraction of a quantile is a literal.
                if !matches!(argument, Expr::Literal(..))
                    && let Some(positive) = with_positive_zero(argument, schema)
                {
                    *argument = positive;
                    is_changed = true;
                }
            }
            // DataFusion compares the keys of ORDER BY with the arguments.
            for key in &mut function.params.order_by {
                if let Some(index) = before.iter().position(|argument| *argument == key.expr) {
                    key.expr = function.params.args[index].clone();
                }
            }
            match is_changed {
                true => Transformed::yes(Expr::AggregateFunction(function)),
                false => Transformed::no(Expr::AggregateFunction(function)),
            }
        }
        other => Transformed::no(other),
    }
}

/// Returns `true` for an aggregation that DataFusion's `single_distinct_aggregation_to_group_by`
/// plans as two nested groupings. GROUP BY takes both zeros as equal, and it can spill.
fn is_planned_as_groups(node: &LogicalPlan) -> bool {
    let LogicalPlan::Aggregate(aggregate) = node else {
        return false;
    };
    let mut counted = HashSet::new();
    let fits = aggregate.aggr_expr.iter().all(|expression| {
        let Expr::AggregateFunction(function) = expression else {
            return false;
        };
        let params = &function.params;
        if params.distinct {
            counted.extend(&params.args);
        }
        // DataFusion's rule does not apply to an argument with a cast, which type coercion may have added.
        params
            .args
            .iter()
            .all(|argument| matches!(argument, Expr::Column(_)))
            && params.filter.is_none()
            && params.order_by.is_empty()
            && (params.distinct || matches!(function.func.name(), "sum" | "min" | "max"))
    });
    fits && counted.len() == 1
}

/// Returns the expression with -0.0 replaced by 0.0; `None` if its type is not floating-point or it
/// is volatile.
pub(super) fn with_positive_zero(of: &Expr, schema: &DFSchema) -> Option<Expr> {
    let data_type = of.get_type(schema).ok()?;
    if !data_type.is_floating() || of.is_volatile() {
        return None;
    }
    let zero = lit(ScalarValue::new_zero(&data_type).ok()?);
    let is_zero = of.clone().eq(zero.clone());
    when(is_zero, zero).otherwise(of.clone()).ok()
}

fn is_float(expression: &Expr, schema: &DFSchema) -> bool {
    let data_type = expression.get_type(schema);
    data_type.is_ok_and(|data_type| data_type.is_floating())
}

/// Returns a literal, or the literal that a cast of a literal gives, such as the numbers in `x IN (0, 1)`
/// beside a column of doubles; `None` for other expressions.
pub(super) fn constant(expression: &Expr) -> Option<Expr> {
    let (literal, target) = match expression {
        Expr::Cast(cast) => (cast.expr.as_ref(), Some(cast.field.data_type())),
        literal => (literal, None),
    };
    let Expr::Literal(value, metadata) = literal else {
        return None;
    };
    let value = match target {
        Some(target) => value.cast_to(target).ok()?,
        None => value.clone(),
    };
    Some(Expr::Literal(value, metadata.clone()))
}

/// Returns the zero of the other sign, if the expression is a floating-point zero.
fn other_zero(expression: &Expr) -> Option<Expr> {
    let Some(Expr::Literal(value, metadata)) = constant(expression) else {
        return None;
    };
    let other = match value {
        ScalarValue::Float16(Some(zero)) if zero.to_f32() == 0.0 => {
            ScalarValue::Float16(Some(f16::from_bits(zero.to_bits() ^ 0x8000)))
        }
        ScalarValue::Float32(Some(zero)) if zero == 0.0 => ScalarValue::Float32(Some(-zero)),
        ScalarValue::Float64(Some(zero)) if zero == 0.0 => ScalarValue::Float64(Some(-zero)),
        _ => return None,
    };
    Some(Expr::Literal(other, metadata))
}
