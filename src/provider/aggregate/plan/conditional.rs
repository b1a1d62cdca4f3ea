//! Aggregates of conditional values.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNode;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CaseExpr, CastExpr};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use crate::provider::aggregate::plan::aggregation::Aggregate;
use crate::provider::plans::below::divides;

/// The functions whose results do not depend on NULLs, if they have one argument.
const NULL_SKIPPING: [&str; 10] = [
    "avg",
    "count",
    "max",
    "median",
    "min",
    "stddev",
    "stddev_pop",
    "sum",
    "var",
    "var_pop",
];

/// The functions of floating-point numbers that never fail. `sqrt` fails for negative numbers.
pub(crate) const TOTAL: [&str; 15] = [
    "abs", "atan", "atan2", "cbrt", "ceil", "cos", "degrees", "exp", "floor", "radians", "round",
    "signum", "sin", "tan", "trunc",
];

/// Returns `true` if an aggregate function of one argument ignores NULLs.
pub(crate) fn skips_nulls(function: &str) -> bool {
    NULL_SKIPPING.contains(&function)
}

impl Aggregate {
    /// Returns the aggregate of a DataFusion node whose input has the schema `rows`.
    ///
    /// `avg(CASE WHEN p THEN x END)` becomes `avg(x) FILTER (WHERE p)`, so that `x` is read from stored cells, and chunks in
    /// which no cell satisfies `p` are not read.
    pub(super) fn new(
        function: &Arc<AggregateFunctionExpr>,
        filter: Option<&Arc<dyn PhysicalExpr>>,
        rows: &Schema,
    ) -> Self {
        let arguments = function.expressions();
        let conditional = match (arguments.as_slice(), filter) {
            ([argument], None) if skips_nulls(function.fun().name()) => conditional(argument, rows),
            _ => None,
        };
        let (arguments, filter) = match conditional {
            Some((condition, value)) => (vec![value], Some(condition)),
            None => (arguments, filter.cloned()),
        };
        Self {
            function: Arc::clone(function),
            arguments,
            filter,
        }
    }
}

/// Returns `p` and `x` of `CASE WHEN p THEN x END`, or of a cast of it; `None` for other expressions, and if `x` may fail on
/// rows that do not satisfy `p`.
fn conditional(
    argument: &Arc<dyn PhysicalExpr>,
    rows: &Schema,
) -> Option<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)> {
    let (case, cast) = match argument.downcast_ref::<CastExpr>() {
        Some(cast) => (cast.expr(), Some(cast)),
        None => (argument, None),
    };
    let case = case.downcast_ref::<CaseExpr>()?;
    let [(condition, value)] = case.when_then_expr() else {
        return None;
    };
    let value = match cast {
        Some(cast) => Arc::new(CastExpr::new(
            Arc::clone(value),
            cast.cast_type().clone(),
            Some(cast.cast_options().clone()),
        )),
        None => Arc::clone(value),
    };
    let is_plain = case.expr().is_none() && case.else_expr().is_none();
    (is_plain && is_safe(&value, rows)).then(|| (Arc::clone(condition), value))
}

/// Returns `true` if an expression over `rows` has a value for each row: no division, cast or function in it fails.
pub(crate) fn is_safe(expr: &Arc<dyn PhysicalExpr>, rows: &Schema) -> bool {
    !divides(expr) && !expr.exists(|part| may_fail(part, rows)).unwrap_or(true)
}

/// Returns `true` if casts from one type to the other never fail.
pub(crate) fn is_safe_cast(from: &DataType, to: &DataType) -> bool {
    let is_wider = from.primitive_width() <= to.primitive_width();
    let is_same_kind = (from.is_signed_integer() && to.is_signed_integer())
        || (from.is_unsigned_integer() && to.is_unsigned_integer());
    (is_same_kind && is_wider) || (from.is_numeric() && to.is_floating())
}

/// Returns `true` if a cast or a function may fail on some values.
fn may_fail(expr: &Arc<dyn PhysicalExpr>, rows: &Schema) -> Result<bool> {
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let from = cast.expr().data_type(rows)?;
        return Ok(!is_safe_cast(&from, cast.cast_type()));
    }
    let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() else {
        return Ok(false);
    };
    let mut may_fail = !TOTAL.contains(&function.name());
    for argument in function.args() {
        may_fail |= !argument.data_type(rows)?.is_floating();
    }
    Ok(may_fail)
}
