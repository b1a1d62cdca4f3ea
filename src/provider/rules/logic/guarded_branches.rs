//! Branches of CASE that may fail on rows of other branches.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, lit};

use crate::provider::plans::safety::{TOTAL, is_safe_cast};

/// Functions that do not fail on any value of their arguments.
const NEVER_FAIL: [&str; 22] = [
    "coalesce",
    "contains",
    "date_part",
    "date_trunc",
    "day",
    "dayofyear",
    "ends_with",
    "greatest",
    "hour",
    "least",
    "lower",
    "minute",
    "month",
    "nullif",
    "nvl",
    "season",
    "second",
    "starts_with",
    "strpos",
    "trim",
    "upper",
    "year",
];

/// Keeps CASE with a boolean result from being simplified to AND and OR, if a branch may fail:
///
/// ```text
///                    CASE WHEN x <> 0 THEN 100 / x > 3 ELSE true END
///  DataFusion        x <> 0 AND 100 / x > 3 OR x = 0                          divides by 0
///  here              CASE true WHEN x <> 0 THEN 100 / x > 3 ELSE true END
/// ```
///
/// DataFusion 55 evaluates the operands of AND and OR on all rows, but a branch of CASE only on the rows that reach it.
#[derive(Debug)]
pub(crate) struct GuardedBranches;

impl FunctionRewrite for GuardedBranches {
    fn name(&self) -> &str {
        "guarded_branches"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let Expr::Case(mut case) = expr else {
            return Ok(Transformed::no(expr));
        };
        let results = case.when_then_expr.iter().map(|(_, then)| then);
        let mut results = results.chain(&case.else_expr);
        let is_boolean = results.any(|then| matches!(then.get_type(schema), Ok(DataType::Boolean)));
        // The first condition is evaluated on all rows.
        let later = case.when_then_expr.iter().skip(1).map(|(when, _)| when);
        let results = case.when_then_expr.iter().map(|(_, then)| then);
        let mut guarded = later.chain(results).chain(&case.else_expr);
        if case.expr.is_none() && is_boolean && guarded.any(|part| may_fail(part, schema)) {
            case.expr = Some(Box::new(lit(true)));
            return Ok(Transformed::yes(Expr::Case(case)));
        }
        Ok(Transformed::no(Expr::Case(case)))
    }
}

/// Returns `true` if an expression divides integers by a value that may be zero, casts, calls a function that may fail, or adds
/// or multiplies times or decimals.
fn may_fail(expr: &Expr, schema: &DFSchema) -> bool {
    let is_floating = |expr: &Expr| {
        let data_type = expr.get_type(schema);
        data_type.is_ok_and(|data_type| data_type.is_floating())
    };
    expr.exists(|part| {
        Ok(match part {
            Expr::BinaryExpr(BinaryExpr {
                op: Operator::Divide | Operator::Modulo,
                right,
                ..
            }) => !is_nonzero(right) && !is_floating(part),
            // Times, intervals and decimals are checked for overflow.
            Expr::BinaryExpr(BinaryExpr {
                op: Operator::Plus | Operator::Minus | Operator::Multiply,
                ..
            })
            | Expr::Negative(_) => {
                let result = part.get_type(schema)?;
                !(result.is_integer() || result.is_floating())
            }
            Expr::Cast(cast) => {
                let from = cast.expr.get_type(schema)?;
                !is_safe_cast(&from, cast.field.data_type())
            }
            Expr::ScalarFunction(function) => {
                let is_total = TOTAL.contains(&function.name());
                !(NEVER_FAIL.contains(&function.name())
                    || (is_total && function.args.iter().all(is_floating)))
            }
            _ => false,
        })
    })
    .unwrap_or(true)
}

fn is_nonzero(expr: &Expr) -> bool {
    let Expr::Literal(value, _) = expr else {
        return false;
    };
    let zero = ScalarValue::new_zero(&value.data_type());
    zero.is_ok_and(|zero| zero != *value)
}
