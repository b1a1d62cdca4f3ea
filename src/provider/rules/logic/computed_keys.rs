//! Keys of windows and of ORDER BY that are computed before the rows are sorted.
//!
//! DataFusion 55 sorts the rows by the keys as they are written, and then tests whether the rows are in that order. The test does not
//! find a key that compares or negates the result of a function, or an expression that a filter equates with another. DataFusion also
//! compares the bits of the keys of PARTITION BY, so that -0.0 and 0.0 are two partitions.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{
    BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator, Projection, Sort, Window,
};
use datafusion::optimizer::AnalyzerRule;

use crate::provider::attributes::is_dimension;
use crate::provider::rules::logic::zeros::with_positive_zero;

/// The prefix of computed columns by which rows are partitioned or sorted.
pub(super) const KEY: &str = "__sort_key_";

/// Computes keys of windows in a projection below them, and makes -0.0 and 0.0 one partition:
///
/// ```text
/// Projection: x, count(*) PARTITION BY [x, abs(y) < 3] ..
///   Window: count(*) PARTITION BY [__sort_key_0, __sort_key_1] ..
///     Projection: x, y, CASE WHEN x = 0 THEN 0 ELSE x END AS __sort_key_0, abs(y) < 3 AS __sort_key_1
/// ```
///
/// The other keys stay as they are, so that windows along an axis have the same input: columns, constants, dimensions of arrays, and
/// expressions whose order DataFusion can derive. Keys of ORDER BY that compare or negate the result of an expression are computed likewise.
///
/// If a filter equates a key or a part of it with another expression, such as in `WHERE y % 2 = 1`, DataFusion 55 may substitute
/// one for the other inside the sort expression, and then no longer finds the key.
#[derive(Debug, Default)]
pub(crate) struct ComputedKeys;

impl AnalyzerRule for ComputedKeys {
    fn name(&self) -> &str {
        "computed_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        // From the root down, so that the keys of stacked windows are computed together.
        let plan = plan.transform_down_with_subqueries(|node| match node {
            LogicalPlan::Window(window) => over_computed_keys(window),
            LogicalPlan::Sort(sort) => sorted_by_computed_keys(sort),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(plan.data)
    }
}

/// Returns a window, and those directly below, over an input that has the keys as columns. Returns the window unchanged if there
/// are no keys to compute.
fn over_computed_keys(window: Window) -> Result<Transformed<LogicalPlan>> {
    let (input, written) = stacked(&window);
    if has_keys(input) {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let mut keys = Keys::over(input, has_equalities(input));
    let mut functions = Vec::with_capacity(written.len());
    let mut results: Vec<_> = columns(input).collect();
    for expression in written {
        let mut function = expression.clone().unalias();
        if let Expr::WindowFunction(function) = &mut function {
            for key in &mut function.params.partition_by {
                keys.replace_in_partition(key);
            }
            for key in &mut function.params.order_by {
                keys.replace(&mut key.expr);
            }
        }
        let result = Column::from_name(function.schema_name().to_string());
        let name = expression.schema_name().to_string();
        results.push(Expr::Column(result).alias(name));
        if !functions.contains(&function) {
            functions.push(function);
        }
    }
    let Some(computed) = keys.computed()? else {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    };
    // Windows whose sort keys were equal may no longer be computed together.
    let windows = LogicalPlanBuilder::window_plan(computed, functions)?;
    let results = Projection::try_new(results, Arc::new(windows))?;
    Ok(Transformed::yes(LogicalPlan::Projection(results)))
}

/// Returns the functions of a window and of those directly below, the lowest first, and their common input. If one uses the result
/// of another, returns those of the window alone.
fn stacked(window: &Window) -> (&Arc<LogicalPlan>, Vec<&Expr>) {
    let (mut input, mut windows) = (&window.input, vec![&window.window_expr]);
    while let LogicalPlan::Window(below) = input.as_ref() {
        windows.push(&below.window_expr);
        input = &below.input;
    }
    let all: Vec<_> = windows.into_iter().rev().flatten().collect();
    let is_over_input = |function: &&Expr| {
        let columns = function.column_refs();
        columns
            .iter()
            .all(|column| input.schema().has_column(column))
    };
    match all.iter().all(is_over_input) {
        true => (input, all),
        false => (&window.input, window.window_expr.iter().collect()),
    }
}

/// Returns the rows sorted by columns, if DataFusion does not find the order by a key.
fn sorted_by_computed_keys(mut sort: Sort) -> Result<Transformed<LogicalPlan>> {
    if has_keys(&sort.input) {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    }
    let mut keys = Keys::over(&sort.input, false);
    let mut by = sort.expr.clone();
    for key in &mut by {
        keys.replace(&mut key.expr);
    }
    let Some(computed) = keys.computed()? else {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    };
    let columns = columns(&sort.input).collect();
    sort.expr = by;
    sort.input = Arc::new(computed);
    let sorted = Arc::new(LogicalPlan::Sort(sort));
    let sorted = Projection::try_new(columns, sorted)?;
    Ok(Transformed::yes(LogicalPlan::Projection(sorted)))
}

/// Returns `true` if the keys are already columns of the input. The plan of a view or of a created table is analysed twice.
fn has_keys(input: &LogicalPlan) -> bool {
    let mut fields = input.schema().fields().iter();
    fields.any(|field| field.name().starts_with(KEY))
}

/// Returns `true` if DataFusion may fail to derive the range of an expression: it compares or negates the result of another, whose
/// range may have no type.
fn is_without_range(expression: &Expr) -> bool {
    let lacks_range = |part: &Expr| {
        Ok(match part {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let is_comparison = matches!(
                    op,
                    Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
                );
                is_comparison && !(has_type(left) && has_type(right))
            }
            Expr::Between(between) => ![&between.expr, &between.low, &between.high]
                .into_iter()
                .all(|operand| has_type(operand)),
            Expr::Negative(operand) => !has_type(operand),
            _ => false,
        })
    };
    expression.exists(lacks_range).unwrap_or(true)
}

/// Returns `true` for columns, constants and casts of them.
fn has_type(operand: &Expr) -> bool {
    match operand {
        Expr::Column(_) | Expr::Literal(..) => true,
        Expr::Cast(cast) => has_type(&cast.expr),
        _ => false,
    }
}

/// Returns `true` if a filter or a join below may equate expressions, as `NOT (x <> y)` and `BETWEEN y AND y` do, too.
fn has_equalities(input: &LogicalPlan) -> bool {
    let equates = |node: &LogicalPlan| {
        Ok(matches!(
            node,
            LogicalPlan::Filter(_) | LogicalPlan::Join(_)
        ))
    };
    input.exists(equates).unwrap_or(true)
}

fn columns(plan: &LogicalPlan) -> impl Iterator<Item = Expr> {
    plan.schema().columns().into_iter().map(Expr::Column)
}

fn name_of(key: usize) -> String {
    format!("{KEY}{key}")
}

/// The keys over one input that are computed.
struct Keys<'a> {
    input: &'a Arc<LogicalPlan>,
    /// `true` if all expressions are computed.
    computes_all: bool,
    computed: Vec<Expr>,
}

impl<'a> Keys<'a> {
    fn over(input: &'a Arc<LogicalPlan>, computes_all: bool) -> Self {
        Self {
            input,
            computes_all,
            computed: Vec::new(),
        }
    }

    /// Replaces a key of PARTITION BY by a computed column, if DataFusion may not find it, or if it may be -0.0.
    fn replace_in_partition(&mut self, key: &mut Expr) {
        match with_positive_zero(key, self.input.schema()) {
            Some(positive) if !is_dimension(self.input, key) => *key = self.column_of(positive),
            _ => self.replace(key),
        }
    }

    /// Replaces a key by a computed column, if DataFusion may not find it.
    fn replace(&mut self, key: &mut Expr) {
        let is_column = matches!(key, Expr::Column(_));
        let is_constant = key.column_refs().is_empty() && !key.is_volatile();
        if is_column || is_constant || key.contains_outer() {
            return;
        }
        if self.computes_all || is_without_range(key) {
            *key = self.column_of(key.clone());
        }
    }

    /// Returns the column of a key.
    fn column_of(&mut self, key: Expr) -> Expr {
        let known = self.computed.iter().position(|known| *known == key);
        let index = known.unwrap_or_else(|| {
            self.computed.push(key);
            self.computed.len() - 1
        });
        Expr::Column(Column::from_name(name_of(index)))
    }

    /// Returns the input with a column for each key; `None` if there are none.
    fn computed(self) -> Result<Option<LogicalPlan>> {
        if self.computed.is_empty() {
            return Ok(None);
        }
        let keys = self.computed.into_iter().enumerate();
        let keys = keys.map(|(index, key)| key.alias(name_of(index)));
        let rows = columns(self.input).chain(keys).collect();
        let rows = Projection::try_new(rows, Arc::clone(self.input))?;
        Ok(Some(LogicalPlan::Projection(rows)))
    }
}
