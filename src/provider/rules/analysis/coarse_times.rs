//! Comparisons of times in seconds, milliseconds or microseconds with finer constants.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Between, BinaryExpr, Cast, Expr, ExprSchemable, Operator, lit};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use crate::provider::rules::analysis::is_comparison;

/// Compares times with constants that their unit cannot represent.
///
/// DataFusion converts the constant to the unit of the time and drops the rest:
///
/// ```text
///  time of seconds               DataFusion           here
///  time <  '12:00:00.5'          time <  12:00:00     time <= 12:00:00
///  time >= '12:00:00.5'          time >= 12:00:00     time >  12:00:00
///  time =  '12:00:00.5'          time =  12:00:00     false, or null
/// ```
#[derive(Debug)]
pub(crate) struct CoarseTimes;

impl FunctionRewrite for CoarseTimes {
    fn name(&self) -> &str {
        "coarse_times"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let rewritten = match &expr {
            Expr::BinaryExpr(binary) if is_comparison(binary.op) => comparison(binary, schema),
            Expr::Between(between) => range(between, schema),
            Expr::InList(list) => in_list(list, schema),
            _ => None,
        };
        Ok(match rewritten {
            Some(rewritten) => Transformed::yes(rewritten),
            None => Transformed::no(expr),
        })
    }
}

/// A time whose unit is coarser than nanoseconds.
struct CoarseTime<'a> {
    /// The time, without casts to finer units.
    time: &'a Expr,
    data_type: DataType,
    unit: TimeUnit,
}

impl<'a> CoarseTime<'a> {
    fn of(mut time: &'a Expr, schema: &DFSchema) -> Option<Self> {
        let (mut unit, mut data_type) = unit_of(time, schema)?;
        while let Expr::Cast(Cast { expr, .. }) = time
            && let Some((inner, of_inner)) = unit_of(expr, schema)
            && per_second(inner) <= per_second(unit)
            && (zone(&data_type).is_none() || zone(&of_inner) == zone(&data_type))
        {
            (time, unit, data_type) = (expr, inner, of_inner);
        }
        let is_coarse = unit != TimeUnit::Nanosecond && constant(time, schema).is_none();
        is_coarse.then_some(Self {
            time,
            data_type,
            unit,
        })
    }

    /// Returns the last instant in the unit of the time before a constant that the unit cannot represent.
    fn before(&self, other: &Expr, schema: &DFSchema) -> Option<i64> {
        let (unit, _) = unit_of(other, schema)?;
        if per_second(unit) <= per_second(self.unit) {
            return None;
        }
        let value = match constant(other, schema)? {
            ScalarValue::TimestampNanosecond(value, _)
            | ScalarValue::TimestampMicrosecond(value, _)
            | ScalarValue::TimestampMillisecond(value, _) => value?,
            _ => return None,
        };
        let ratio = per_second(unit) / per_second(self.unit);
        (value.rem_euclid(ratio) != 0).then(|| value.div_euclid(ratio))
    }

    fn literal(&self, instant: i64) -> Option<Expr> {
        let instant = ScalarValue::Int64(Some(instant)).cast_to(&self.data_type);
        instant.ok().map(lit)
    }

    /// Returns an expression that is `value` for all times, and null for null.
    fn constantly(&self, value: bool) -> Expr {
        let null = lit(ScalarValue::Boolean(None));
        match value {
            true => self.time.clone().is_not_null().or(null),
            false => self.time.clone().is_null().and(null),
        }
    }
}

/// Returns the coarse time, and the last instant in its unit before a constant that the unit cannot represent.
fn before<'a>(time: &'a Expr, other: &Expr, schema: &DFSchema) -> Option<(CoarseTime<'a>, Expr)> {
    let time = CoarseTime::of(time, schema)?;
    let before = time.before(other, schema)?;
    let before = time.literal(before)?;
    Some((time, before))
}

fn comparison(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let BinaryExpr { left, op, right } = binary;
    let (time, before, op) = match before(left, right, schema) {
        Some((time, before)) => (time, before, *op),
        None => {
            let (time, before) = before(right, left, schema)?;
            (time, before, op.swap()?)
        }
    };
    Some(match op {
        Operator::Lt | Operator::LtEq => time.time.clone().lt_eq(before),
        Operator::Gt | Operator::GtEq => time.time.clone().gt(before),
        Operator::Eq => time.constantly(false),
        Operator::NotEq => time.constantly(true),
        Operator::IsDistinctFrom => lit(true),
        _ => lit(false),
    })
}

fn range(between: &Between, schema: &DFSchema) -> Option<Expr> {
    let Some(time) = CoarseTime::of(&between.expr, schema) else {
        return constant_in_range(between, schema);
    };
    let [low, high] = [&between.low, &between.high].map(|bound| time.before(bound, schema));
    if low.is_none() && high.is_none() {
        return None;
    }
    let bound = |before: Option<i64>, shift: i64, unchanged: &Expr| match before {
        Some(before) => time.literal(before + shift),
        None => Some(unchanged.clone()),
    };
    Some(Expr::Between(Between {
        expr: Box::new(time.time.clone()),
        low: Box::new(bound(low, 1, &between.low)?),
        high: Box::new(bound(high, 0, &between.high)?),
        negated: between.negated,
    }))
}

/// Rewrites BETWEEN of a constant and bounds that are coarse times.
fn constant_in_range(between: &Between, schema: &DFSchema) -> Option<Expr> {
    constant(&between.expr, schema)?;
    let compared = |bound: &Expr, op| {
        let binary = BinaryExpr::new(Box::new(bound.clone()), op, between.expr.clone());
        let rewritten = comparison(&binary, schema);
        (
            rewritten.is_some(),
            rewritten.unwrap_or(Expr::BinaryExpr(binary)),
        )
    };
    let (is_first, low) = compared(&between.low, Operator::LtEq);
    let (is_second, high) = compared(&between.high, Operator::GtEq);
    let both = low.and(high);
    (is_first || is_second).then(|| if between.negated { !both } else { both })
}

fn in_list(list: &InList, schema: &DFSchema) -> Option<Expr> {
    let time = CoarseTime::of(&list.expr, schema)?;
    let kept = list.list.iter();
    let kept = kept.filter(|element| time.before(element, schema).is_none());
    let kept: Vec<_> = kept.cloned().collect();
    if kept.len() == list.list.len() {
        return None;
    }
    Some(match (kept.is_empty(), list.negated) {
        (false, negated) => time.time.clone().in_list(kept, negated),
        (true, negated) => time.constantly(negated),
    })
}

/// Returns the value of an expression that is known when the query is planned.
fn constant(expr: &Expr, schema: &DFSchema) -> Option<ScalarValue> {
    if let Expr::Literal(value, _) = expr {
        return Some(value.clone());
    }
    let is_known = |expr: &Expr| {
        matches!(
            expr,
            Expr::Literal(..)
                | Expr::Cast(_)
                | Expr::TryCast(_)
                | Expr::BinaryExpr(_)
                | Expr::Negative(_)
                | Expr::Case(_)
                | Expr::ScalarFunction(_)
        )
    };
    if expr.exists(|expr| Ok(!is_known(expr))).unwrap_or(true) || expr.is_volatile() {
        return None;
    }
    let data_type = expr.get_type(schema).ok()?;
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().build());
    match simplifier.simplify(expr.clone()).ok()? {
        Expr::Literal(value, _) if value.data_type() == data_type => Some(value),
        _ => None,
    }
}

/// Returns the unit and the type of an expression that is a timestamp.
fn unit_of(expr: &Expr, schema: &DFSchema) -> Option<(TimeUnit, DataType)> {
    match expr.get_type(schema).ok()? {
        data_type @ DataType::Timestamp(unit, _) => Some((unit, data_type)),
        _ => None,
    }
}

fn zone(data_type: &DataType) -> Option<&str> {
    match data_type {
        DataType::Timestamp(_, zone) => zone.as_deref(),
        _ => None,
    }
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}
