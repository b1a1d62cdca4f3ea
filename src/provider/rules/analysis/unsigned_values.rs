//! The common type of unsigned and signed integers.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Expr, ExprSchemable, cast};

/// The functions whose arguments have a common type.
const FUNCTIONS: [&str; 5] = ["coalesce", "greatest", "least", "nullif", "nvl"];

/// Gives CASE and functions such as `coalesce` an integer type if they mix `BIGINT UNSIGNED` with signed integers:
///
/// ```text
///                              DataFusion           here
///  coalesce(unsigned, 0)       DECIMAL(20, 0)       BIGINT UNSIGNED
///  coalesce(unsigned, -1)      DECIMAL(20, 0)       BIGINT
/// ```
///
/// The average of decimals has four more digits, and the others are cut off.
#[derive(Debug)]
pub(crate) struct UnsignedValues;

impl FunctionRewrite for UnsignedValues {
    fn name(&self) -> &str {
        "unsigned_values"
    }

    fn rewrite(
        &self,
        mut expr: Expr,
        schema: &DFSchema,
        _config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let values: Vec<&mut Expr> = match &mut expr {
            Expr::Case(case) => {
                let results = case.when_then_expr.iter_mut().map(|(_, then)| then);
                let results = results.chain(&mut case.else_expr);
                results.map(|result| result.as_mut()).collect()
            }
            Expr::ScalarFunction(function) if FUNCTIONS.contains(&function.name()) => {
                function.args.iter_mut().collect()
            }
            _ => return Ok(Transformed::no(expr)),
        };
        let types = values.iter().map(|value| value.get_type(schema));
        // A placeholder has no type.
        let Ok(types) = types.collect::<Result<Vec<_>>>() else {
            return Ok(Transformed::no(expr));
        };
        let are_mixed = types.contains(&DataType::UInt64)
            && types.iter().any(DataType::is_signed_integer)
            && types
                .iter()
                .all(|data_type| data_type.is_integer() || data_type.is_null());
        if !are_mixed {
            return Ok(Transformed::no(expr));
        }
        let mut signed = values.iter().zip(&types);
        let are_natural =
            signed.all(|(value, data_type)| !data_type.is_signed_integer() || is_natural(value));
        let common = match are_natural {
            true => DataType::UInt64,
            false => DataType::Int64,
        };
        for (value, data_type) in values.into_iter().zip(types) {
            if data_type != common && !data_type.is_null() {
                *value = cast(std::mem::take(value), common.clone());
            }
        }
        Ok(Transformed::yes(expr))
    }
}

/// Returns `true` for a constant that is not negative.
fn is_natural(expr: &Expr) -> bool {
    let Expr::Literal(value, _) = expr else {
        return false;
    };
    matches!(value.cast_to(&DataType::Int64), Ok(ScalarValue::Int64(Some(number))) if number >= 0)
}
