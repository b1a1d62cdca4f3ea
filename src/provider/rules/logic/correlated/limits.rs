//! ORDER BY and LIMIT in subqueries that refer to the query around them.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::functions_aggregate::expr_fn::first_value;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{Sort as SortKey, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Expr, FetchType, Limit, LogicalPlan, LogicalPlanBuilder, SkipType, col, lit,
};

use super::refusals::keeps_a_row;
use super::substituted;
use super::windows::{compared, refers_outward};

/// The name of the column with row numbers.
const ROW: &str = "__row";

/// Returns the rows of a correlated subquery without the ORDER BY of IN, ANY and ALL, and without the ORDER BY and LIMIT of EXISTS, where
/// they do not matter. Those of a scalar subquery `(SELECT x ... ORDER BY y LIMIT 1)` become those of
/// `(SELECT first_value(x ORDER BY y) ...)`. Returns `None` for others.
pub(super) fn rewritten(expression: &Expr) -> Result<Option<LogicalPlan>> {
    match expression {
        Expr::Exists(exists) => unordered(&exists.subquery.subquery, true),
        Expr::InSubquery(found) => unordered(&found.subquery.subquery, false),
        Expr::SetComparison(compared) => unordered(&compared.subquery.subquery, false),
        Expr::ScalarSubquery(subquery) => first(&subquery.subquery),
        _ => Ok(None),
    }
}

/// Returns a plan without the order of its rows and, if `is_exists` is true, without a limit that keeps a row. Returns `None` if it has
/// neither.
fn unordered(plan: &LogicalPlan, is_exists: bool) -> Result<Option<LogicalPlan>> {
    let input = match plan {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => &sort.input,
        LogicalPlan::Limit(limit) if is_exists && keeps_a_row(limit)? => &limit.input,
        LogicalPlan::Projection(projection) => {
            let Some(input) = unordered(&projection.input, is_exists)? else {
                return Ok(None);
            };
            return plan
                .with_new_exprs(plan.expressions(), vec![input])
                .map(Some);
        }
        _ => return Ok(None),
    };
    let below = unordered(input, is_exists)?;
    Ok(Some(below.unwrap_or_else(|| input.as_ref().clone())))
}

/// The rows of a limit, and how they are chosen.
struct Limited<'a> {
    rows: &'a Arc<LogicalPlan>,
    order: Vec<SortKey>,
    /// The output columns, over the rows.
    columns: Vec<Expr>,
    skip: usize,
    fetch: Option<usize>,
}

impl<'a> Limited<'a> {
    /// Returns `None` if the bounds are not known.
    fn of(limit: &'a Limit) -> Result<Option<Self>> {
        let bounds = (limit.get_skip_type()?, limit.get_fetch_type()?);
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) = bounds else {
            return Ok(None);
        };
        let (columns, sorted) = match limit.input.as_ref() {
            LogicalPlan::Projection(projection) => (projection.expr.clone(), &projection.input),
            other => (
                other.schema().iter().map(Expr::from).collect(),
                &limit.input,
            ),
        };
        let (rows, order) = match sorted.as_ref() {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => (&sort.input, sort.expr.clone()),
            _ => (sorted, Vec::new()),
        };
        Ok(Some(Self {
            rows,
            order,
            columns,
            skip,
            fetch,
        }))
    }

    /// Replaces rows that are the projection of others by the others; returns `false` if they are no projection.
    fn unproject(&mut self) -> Result<bool> {
        let LogicalPlan::Projection(projection) = self.rows.as_ref() else {
            return Ok(false);
        };
        let over_input =
            |expression: &Expr| substituted(expression, &projection.schema, &projection.expr);
        let names = NamePreserver::new_for_projection();
        for expression in &mut self.columns {
            let name = names.save(expression);
            *expression = name.restore(over_input(expression)?);
        }
        for key in &mut self.order {
            key.expr = over_input(&key.expr)?;
        }
        self.rows = &projection.input;
        Ok(true)
    }
}

/// Returns an aggregation of a plan that outputs its first row; `None` for plans without `LIMIT 1`, and with several columns.
fn first(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Limit(limit) = plan else {
        return Ok(None);
    };
    let Some(limited) =
        Limited::of(limit)?.filter(|limited| (limited.skip, limited.fetch) == (0, Some(1)))
    else {
        return Ok(None);
    };
    let [item] = limited.columns.as_slice() else {
        return Ok(None);
    };
    let name = plan.schema().field(0).name();
    let first = first_value(item.clone().unalias_nested().data, limited.order).alias(name);
    let none: [Expr; 0] = [];
    let rows = LogicalPlanBuilder::new_from_arc(Arc::clone(limited.rows));
    rows.aggregate(none, [first])?.build().map(Some)
}

/// Returns a limit of rows that refer to the query around them as a predicate on their numbers, which are counted for each row of that
/// query.
pub(super) fn numbered(limit: Limit) -> Result<Transformed<LogicalPlan>> {
    let new = match refers_outward(&limit.input) {
        true => Limited::of(&limit)?,
        false => None,
    };
    let Some(mut limited) = new else {
        return Ok(Transformed::no(LogicalPlan::Limit(limit)));
    };
    // The compared columns may not be among those of the projection.
    let keys = loop {
        if let Some(keys) = compared(limited.rows)? {
            break keys;
        }
        if !limited.unproject()? {
            return Ok(Transformed::no(LogicalPlan::Limit(limit)));
        }
    };
    let mut number = WindowFunction::new(row_number_udwf(), Vec::new());
    number.params.partition_by = keys;
    number.params.order_by = limited.order;
    let number = Expr::WindowFunction(Box::new(number)).alias(ROW);
    let skipped = limited.skip as u64;
    let mut is_kept = col(ROW).gt(lit(skipped));
    if let Some(fetch) = limited.fetch {
        is_kept = is_kept.and(col(ROW).lt_eq(lit(skipped.saturating_add(fetch as u64))));
    }
    let rows = LogicalPlanBuilder::new_from_arc(Arc::clone(limited.rows));
    let rows = rows.window([number])?.filter(is_kept)?;
    Ok(Transformed::yes(rows.project(limited.columns)?.build()?))
}
