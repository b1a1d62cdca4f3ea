//! Aggregates of conditional values.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CaseExpr, CastExpr};

use crate::provider::aggregate::plan::aggregation::Aggregate;
use crate::provider::plans::safety::is_safe;

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
