//! Casts that do not keep the order of values.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, ScalarUDF, TryCast};

use crate::provider::plans::identity::Identity;

/// Hides casts that do not keep the order of values from DataFusion's rules, which move casts to the other side of a
/// comparison, and cast bounds:
///
/// ```text
///  time AT TIME ZONE 'Europe/Berlin' = '2024-01-01 05:00+01:00'      DataFusion: time = '2024-01-01 04:00'
///  CAST(value AS BOOLEAN) IS FALSE, with values of -1 to 1           DataFusion: true to true
///  CAST(value AS VARCHAR) >= '40', with values of 7 to 121           DataFusion: '7' to '121'
///  CAST(decimal AS INT) = 5, with a value of 5.4                     DataFusion: decimal = 5.0
/// ```
#[derive(Debug)]
pub(crate) struct UnorderedCasts;

impl FunctionRewrite for UnorderedCasts {
    fn name(&self) -> &str {
        "unordered_casts"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let (from, to) = match &expr {
            Expr::Cast(Cast { expr: from, field })
            | Expr::TryCast(TryCast { expr: from, field }) => (from, field.data_type()),
            // The plan of a view or a prepared statement is analyzed twice.
            Expr::ScalarFunction(function) if function.name() == Identity::UNORDERED => {
                let [Expr::ScalarFunction(inner)] = function.args.as_slice() else {
                    return Ok(Transformed::no(expr));
                };
                return Ok(match inner.name() == Identity::UNORDERED {
                    true => Transformed::yes(Expr::ScalarFunction(inner.clone())),
                    false => Transformed::no(expr),
                });
            }
            _ => return Ok(Transformed::no(expr)),
        };
        // Literals and parameters have no bounds.
        let is_constant = matches!(from.as_ref(), Expr::Literal(..) | Expr::Placeholder(_));
        Ok(match from.get_type(schema) {
            Ok(from) if !is_constant && !keeps_order(&from, to) => {
                Transformed::yes(ScalarUDF::from(Identity::unordered()).call(vec![expr]))
            }
            _ => Transformed::no(expr),
        })
    }
}

/// Returns `true` if a cast keeps the order of values, or if no rule relies on it.
fn keeps_order(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        // Local times are repeated and left out where clocks change.
        (DataType::Timestamp(_, None), DataType::Timestamp(_, Some(zone))) => {
            matches!(zone.as_ref(), "UTC" | "+00:00" | "Z")
        }
        // Several values become one.
        (DataType::Decimal128(_, from) | DataType::Decimal256(_, from), to)
            if is_coarser(*from, to) =>
        {
            false
        }
        (from, DataType::Boolean) => !from.is_numeric(),
        (from, to) => !(from.is_numeric() && to.is_string()),
    }
}

/// Returns `true` if a type has fewer digits behind the point than this.
fn is_coarser(scale: i8, to: &DataType) -> bool {
    match to {
        DataType::Decimal128(_, to) | DataType::Decimal256(_, to) => *to < scale,
        to => to.is_integer() && scale > 0,
    }
}
