//! Comparisons of times with text: years and months are ranges, and times of day may be
//! abbreviated.

use std::sync::Arc;

use arrow::datatypes::{DataType, Date32Type, TimeUnit};
use chrono::{NaiveDate, NaiveDateTime, Timelike};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{
    Between, BinaryExpr, Cast, Expr, ExprSchemable, Operator, ScalarUDF, TryCast, cast, lit,
};

use crate::grid::WrittenTime;
use crate::provider::functions::times::completed_times::CompletedTimes;
use crate::provider::rules::analysis::is_comparison;

/// Replaces text that is compared with timestamps or dates, or cast to timestamps, by the time it
/// spells.
///
/// A year or a month stands for all of its instants, as in xarray. Text with a day, or with a day
/// and a time, stands for one instant, as in SQL:
///
/// ```text
///  time = '2020-06'            time >= '2020-06-01' AND time < '2020-07-01'
///  time > '2020-06'            time >= '2020-07-01'
///  time = '2020-06-15 12:00'   time = '2020-06-15T12:00:00'
/// ```
///
/// Literals get the type of the other operand, so that no time passes through nanoseconds, which
/// end in 2262.
#[derive(Debug)]
pub(crate) struct WrittenTimes;

impl FunctionRewrite for WrittenTimes {
    fn name(&self) -> &str {
        "written_times"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let rewritten = match &expr {
            Expr::BinaryExpr(binary) => rewrite_comparison(binary, schema),
            Expr::Between(between) => rewrite_between(between, schema),
            Expr::InList(list) => rewrite_in_list(list, schema),
            Expr::Cast(Cast { expr: text, field }) => completed(text, field.data_type(), schema)
                .map(|text| Expr::Cast(Cast::new_from_field(Box::new(text), Arc::clone(field)))),
            Expr::TryCast(TryCast { expr: text, field }) => {
                completed(text, field.data_type(), schema).map(|text| {
                    Expr::TryCast(TryCast::new_from_field(Box::new(text), Arc::clone(field)))
                })
            }
            _ => None,
        };
        Ok(match rewritten {
            Some(rewritten) => Transformed::yes(rewritten),
            None => Transformed::no(expr),
        })
    }
}

/// Returns the text of a text literal.
pub(super) fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

/// Returns the type of an expression, if it is a timestamp or a date.
fn time_type(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    let is_time = |data_type: &DataType| {
        matches!(
            data_type,
            DataType::Timestamp(..) | DataType::Date32 | DataType::Date64
        )
    };
    expr.get_type(schema).ok().filter(is_time)
}

fn rewrite_comparison(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let (time, op, text) = match (text(&binary.left), text(&binary.right)) {
        (None, Some(text)) => (&binary.left, binary.op, text),
        (Some(text), None) => (&binary.right, binary.op.swap()?, text),
        _ => return None,
    };
    if !is_comparison(op) {
        return None;
    }
    let written = WrittenTime::parse(text)?;
    let data_type = time_type(time, schema)?;
    let time = time.as_ref().clone();
    match Literal::of(written, &data_type)? {
        Literal::Instant(literal) => {
            let (left, right) = (Box::new(time), Box::new(literal));
            Some(Expr::BinaryExpr(BinaryExpr::new(left, op, right)))
        }
        Literal::Period { start, end } => match op {
            Operator::Lt => Some(time.lt(start)),
            Operator::LtEq => Some(time.lt(end)),
            Operator::Gt => Some(time.gt_eq(end)),
            Operator::GtEq => Some(time.gt_eq(start)),
            // The range would evaluate the expression twice.
            _ if time.is_volatile() => None,
            Operator::Eq => Some(within(time, start, end)),
            Operator::NotEq => Some(time.clone().lt(start).or(time.gt_eq(end))),
            Operator::IsNotDistinctFrom => Some(Expr::IsTrue(Box::new(within(time, start, end)))),
            Operator::IsDistinctFrom => Some(Expr::IsNotTrue(Box::new(within(time, start, end)))),
            _ => None,
        },
    }
}

fn within(time: Expr, start: Expr, end: Expr) -> Expr {
    time.clone().gt_eq(start).and(time.lt(end))
}

fn rewrite_between(between: &Between, schema: &DFSchema) -> Option<Expr> {
    let (low, high) = (written(&between.low), written(&between.high));
    if written(&between.expr).is_some() {
        // The times are the bounds.
        let mut bounds = [&between.low, &between.high].into_iter();
        let data_type = bounds.find_map(|bound| time_type(bound, schema))?;
        let instant = |operand: &Expr| match written(operand) {
            Some(written) => match Literal::of(written, &data_type)? {
                Literal::Instant(instant) => Some(Box::new(instant)),
                Literal::Period { .. } => None,
            },
            None => Some(Box::new(operand.clone())),
        };
        return Some(Expr::Between(Between {
            expr: instant(&between.expr)?,
            low: instant(&between.low)?,
            high: instant(&between.high)?,
            negated: between.negated,
        }));
    }
    if low.is_none() && high.is_none() {
        return None;
    }
    let data_type = time_type(&between.expr, schema)?;
    let literal = |written: Option<WrittenTime>, unchanged: &Expr| match written {
        Some(written) => Literal::of(written, &data_type),
        None => Some(Literal::Instant(unchanged.clone())),
    };
    let low = match literal(low, &between.low)? {
        Literal::Instant(low) | Literal::Period { start: low, .. } => low,
    };
    let time = between.expr.as_ref().clone();
    match literal(high, &between.high)? {
        Literal::Instant(high) => Some(Expr::Between(Between::new(
            Box::new(time),
            between.negated,
            Box::new(low),
            Box::new(high),
        ))),
        Literal::Period { .. } if time.is_volatile() => None,
        Literal::Period { end, .. } if between.negated => {
            Some(time.clone().lt(low).or(time.gt_eq(end)))
        }
        Literal::Period { end, .. } => Some(within(time, low, end)),
    }
}

fn rewrite_in_list(list: &InList, schema: &DFSchema) -> Option<Expr> {
    if !list.list.iter().any(|element| written(element).is_some()) {
        return None;
    }
    let data_type = time_type(&list.expr, schema)?;
    let time = list.expr.as_ref();
    let mut instants = Vec::new();
    let mut periods = Vec::new();
    for element in &list.list {
        let literal = match written(element) {
            Some(written) => Literal::of(written, &data_type)?,
            None => Literal::Instant(element.clone()),
        };
        match literal {
            Literal::Instant(instant) => instants.push(instant),
            Literal::Period { start, end } => periods.push(within(time.clone(), start, end)),
        }
    }
    if periods.is_empty() {
        return Some(time.clone().in_list(instants, list.negated));
    }
    if time.is_volatile() {
        return None;
    }
    if !instants.is_empty() {
        periods.push(time.clone().in_list(instants, false));
    }
    let any = periods.into_iter().reduce(Expr::or)?;
    Some(if list.negated { !any } else { any })
}

fn written(expr: &Expr) -> Option<WrittenTime> {
    WrittenTime::parse(text(expr)?)
}

/// A written time as literals of the type it is compared with.
enum Literal {
    Instant(Expr),
    Period { start: Expr, end: Expr },
}

impl Literal {
    /// Converts a written time to this type. Returns `None` if the type cannot represent it.
    fn of(written: WrittenTime, data_type: &DataType) -> Option<Self> {
        Some(match (written, data_type) {
            (
                WrittenTime::Instant {
                    time,
                    has_time_of_day: false,
                    ..
                },
                DataType::Date32 | DataType::Date64,
            ) => Self::Instant(first_instant(time.date(), data_type)?),
            (WrittenTime::Instant { time, .. }, DataType::Date32 | DataType::Date64) => {
                Self::Instant(timestamp(time, TimeUnit::Microsecond)?)
            }
            (WrittenTime::Instant { time, .. }, DataType::Timestamp(unit, None)) => {
                // `CoarseTimes` compares times of a unit that is too coarse for the literal.
                let finer = || timestamp(time, sufficient_unit(time));
                let literal = timestamp(time, *unit).or_else(finer);
                Self::Instant(literal.unwrap_or_else(|| lit(written.to_string())))
            }
            // The text is a time in the time zone of the column.
            (WrittenTime::Instant { time, .. }, DataType::Timestamp(unit, Some(zone)))
                if timestamp(time, *unit).is_none()
                    && timestamp(time, sufficient_unit(time)).is_some() =>
            {
                let data_type = DataType::Timestamp(sufficient_unit(time), Some(Arc::clone(zone)));
                Self::Instant(cast(lit(written.to_string()), data_type))
            }
            (WrittenTime::Instant { .. }, _) => Self::Instant(lit(written.to_string())),
            (WrittenTime::Period { start, end }, data_type) => Self::Period {
                start: first_instant(start, data_type)?,
                end: first_instant(end, data_type)?,
            },
        })
    }
}

/// Returns the first instant of a day as a literal of this type.
fn first_instant(day: NaiveDate, data_type: &DataType) -> Option<Expr> {
    match data_type {
        DataType::Date32 => {
            let days = Date32Type::from_naive_date(day);
            Some(lit(ScalarValue::Date32(Some(days))))
        }
        DataType::Timestamp(unit, None) => timestamp(day.into(), *unit),
        DataType::Timestamp(..) => Some(lit(format!("{day}T00:00:00"))),
        _ => Some(lit(day.to_string())),
    }
}

/// Returns the coarsest unit below seconds that can represent a time.
fn sufficient_unit(time: NaiveDateTime) -> TimeUnit {
    match time.nanosecond() {
        nanosecond if nanosecond.is_multiple_of(1_000_000) => TimeUnit::Millisecond,
        nanosecond if nanosecond.is_multiple_of(1_000) => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    }
}

/// Returns a timestamp literal without time zone; `None` if the unit cannot represent the time.
pub(super) fn timestamp(time: NaiveDateTime, unit: TimeUnit) -> Option<Expr> {
    let nanosecond = time.nanosecond();
    let time = time.and_utc();
    let value = match unit {
        TimeUnit::Second if nanosecond == 0 => {
            ScalarValue::TimestampSecond(Some(time.timestamp()), None)
        }
        TimeUnit::Millisecond if nanosecond.is_multiple_of(1_000_000) => {
            ScalarValue::TimestampMillisecond(Some(time.timestamp_millis()), None)
        }
        TimeUnit::Microsecond if nanosecond.is_multiple_of(1_000) => {
            ScalarValue::TimestampMicrosecond(Some(time.timestamp_micros()), None)
        }
        TimeUnit::Nanosecond => {
            ScalarValue::TimestampNanosecond(Some(time.timestamp_nanos_opt()?), None)
        }
        _ => return None,
    };
    Some(lit(value))
}

/// Completes abbreviated times that are cast to timestamps.
fn completed(expr: &Expr, data_type: &DataType, schema: &DFSchema) -> Option<Expr> {
    if !matches!(data_type, DataType::Timestamp(..)) {
        return None;
    }
    if text(expr).is_none() {
        let is_completed = matches!(expr, Expr::ScalarFunction(function) if function.name() == CompletedTimes::NAME);
        let is_text = expr.get_type(schema).ok()?.is_string();
        return (is_text && !is_completed)
            .then(|| ScalarUDF::from(CompletedTimes::new()).call(vec![expr.clone()]));
    }
    match written(expr)? {
        written @ WrittenTime::Instant {
            has_time_of_day: true,
            ..
        } => Some(lit(written.to_string())),
        _ => None,
    }
}
