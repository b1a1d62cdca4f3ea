//! The rule that replaces window operators over arrays.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowExpr};

use crate::provider::catalog::settings::config::ArraySettings;
use crate::provider::join::side::Side;
use crate::provider::plans::below::{InlinedInput, columns_in};
use crate::provider::rules::operators::replace_operators;
use crate::provider::window::exec::operator::ArrayWindowExec;
use crate::provider::window::plan::builder::SpecBuilder;
use crate::provider::window::plan::first_ranks::with_max_ranks;
use crate::provider::window::plan::order::{MAX_INDICES, WindowInput};

/// Replaces window operators over an array by [`ArrayWindowExec`], if the windows lie along one axis.
///
/// The rule leaves windows to DataFusion if
///
/// - the input is not the scan of a single array with projections, or filters cells,
/// - the partitions are not the series along one axis, or parts of them,
/// - the order depends on cells, unless the window ranks cells by their values, or has equal values along the axis,
/// - a function or a type is not supported, or has IGNORE NULLS or DISTINCT over cells,
/// - a `RANGE` frame has an offset although the order does not contain the axis, or
/// - a frame is so long that each chunk would be decoded too often.
///
/// The other windows of the same statement are still computed along the axis.
///
/// [`enable_arrays`](crate::enable_arrays) adds the rule before DataFusion sorts and repartitions the
/// input of window operators.
#[derive(Debug, Default)]
pub struct AxisWindows {}

impl AxisWindows {
    /// Creates the rule.
    pub fn new() -> Self {
        Self::default()
    }
}

impl PhysicalOptimizerRule for AxisWindows {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !ArraySettings::is_on(config, |settings| settings.axis_windows) {
            return Ok(plan);
        }
        // From the root down, so that one operator replaces as many of the stacked windows as possible.
        let replaced = plan.transform_down(|plan| {
            Ok(match operator(&plan, None, config)? {
                Some(operator) => {
                    Transformed::new(Arc::new(operator) as _, true, TreeNodeRecursion::Jump)
                }
                None => match apart(&plan, config)? {
                    Some(plan) => Transformed::new(plan, true, TreeNodeRecursion::Jump),
                    None => Transformed::no(plan),
                },
            })
        })?;
        let narrowed = replace_operators(replaced.data, |plan| narrow(plan, config))?;
        replace_operators(narrowed, with_max_ranks)
    }

    fn name(&self) -> &str {
        "axis_windows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The windows of an operator, and its input.
pub(super) type Windows<'a> = (&'a [Arc<dyn WindowExpr>], &'a Arc<dyn ExecutionPlan>);

/// Returns the windows and the input of a window operator of DataFusion.
pub(super) fn windows_of(plan: &Arc<dyn ExecutionPlan>) -> Option<Windows<'_>> {
    if let Some(windows) = plan.downcast_ref::<BoundedWindowAggExec>() {
        return windows
            .state_observer()
            .is_none()
            .then(|| (windows.window_expr(), windows.input()));
    }
    let windows = plan.downcast_ref::<WindowAggExec>()?;
    Some((windows.window_expr(), windows.input()))
}

/// Returns `true` if an aggregate over a window has a FILTER clause, whose predicate DataFusion keeps to itself.
pub(super) fn has_filter(window: &Arc<dyn WindowExpr>) -> bool {
    !format!("{window:?}").ends_with("filter: None }")
}

/// Returns a window operator like `node`, with other windows or another input.
pub(super) fn like(
    node: &Arc<dyn ExecutionPlan>,
    windows: Vec<Arc<dyn WindowExpr>>,
    input: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    Ok(match node.downcast_ref::<BoundedWindowAggExec>() {
        Some(node) => {
            let mode = node.input_order_mode.clone();
            Arc::new(BoundedWindowAggExec::try_new(windows, input, mode, true)?)
        }
        None => Arc::new(WindowAggExec::try_new(windows, input, true)?),
    })
}

/// Computes the windows of an operator and those directly below that lie along an axis by an [`ArrayWindowExec`], and the
/// others by DataFusion above it. Returns `None` if there are none of one kind, or if a window uses another.
fn apart(
    plan: &Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let (mut nodes, mut input) = (Vec::new(), plan);
    while let Some((windows, below)) = windows_of(input) {
        nodes.push((input, windows));
        input = below;
    }
    let columns = input.schema().fields().len();
    let mut windows = nodes.iter().flat_map(|(_, windows)| windows.iter());
    let uses_another = windows.any(|window| {
        let used = window.all_expressions();
        let used = [used.args, used.partition_by_exprs, used.order_by_exprs].concat();
        columns_in(used.iter())
            .last()
            .is_some_and(|last| *last >= columns)
    });
    if uses_another || Side::of(input)?.is_none() {
        return Ok(None);
    }
    let mut along_axis = Arc::clone(input);
    let mut others = Vec::new();
    // For each window in the order of the output.
    let mut are_along_axis = Vec::new();
    for (node, windows) in nodes.into_iter().rev() {
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for window in windows {
            let alone = like(node, vec![Arc::clone(window)], Arc::clone(input))?;
            let is_taken = operator(&alone, None, config)?.is_some();
            let kind = if is_taken { &mut taken } else { &mut left };
            kind.push(Arc::clone(window));
            are_along_axis.push(is_taken);
        }
        if !taken.is_empty() {
            along_axis = like(node, taken, along_axis)?;
        }
        if !left.is_empty() {
            others.push((node, left));
        }
    }
    if others.is_empty() || !are_along_axis.contains(&true) {
        return Ok(None);
    }
    let Some(operator) = operator(&along_axis, None, config)? else {
        return Ok(None);
    };
    let mut all: Arc<dyn ExecutionPlan> = Arc::new(operator);
    for (node, windows) in others {
        all = like(node, windows, all)?;
    }
    let taken = are_along_axis.iter().filter(|is_taken| **is_taken).count();
    let (mut taken, mut left) = (columns.., columns + taken..);
    let windows = are_along_axis
        .into_iter()
        .filter_map(|is_taken| match is_taken {
            true => taken.next(),
            false => left.next(),
        });
    let (schema, of_all) = (plan.schema(), all.schema());
    let columns = (0..columns).chain(windows).zip(schema.fields());
    let columns = columns.map(|(column, field)| ProjectionExpr {
        expr: Arc::new(Column::new(of_all.field(column).name(), column)),
        alias: field.name().clone(),
    });
    let projection = ProjectionExec::try_new(columns.collect::<Vec<_>>(), all)?;
    Ok(Some(Arc::new(projection)))
}

/// Returns the operator that replaces a window operator and those directly below; `None` if it stays.
/// `columns` are the output columns that are needed, ascending; all if `None`.
pub(crate) fn operator(
    plan: &Arc<dyn ExecutionPlan>,
    columns: Option<&[usize]>,
    config: &ConfigOptions,
) -> Result<Option<ArrayWindowExec>> {
    let (mut stack, mut input) = (Vec::new(), plan);
    while let Some((windows, below)) = windows_of(input) {
        stack.push(windows);
        input = below;
    }
    if stack.is_empty() {
        return Ok(None);
    }
    let Some(mut side) = Side::of(input)? else {
        return Ok(None);
    };
    // A task of a cluster reads some of the chunks.
    let narrowed = side.below.node.blocks().narrowed_selections();
    if let Some(part) = narrowed.and_then(|mut parts| parts.pop()) {
        side.part = part;
    }
    let selection = &side.part.selection;
    if !side.below.conjuncts.is_empty()
        || side.part.kept.is_some()
        || selection.is_empty()
        || selection.axes().is_empty()
    {
        return Ok(None);
    }
    // The windows of the lowest operator come first.
    let windows: Vec<_> = stack.into_iter().rev().flatten().cloned().collect();
    let input = WindowInput::new(&side, &input.schema());
    let mut axis = None;
    for window in &windows {
        let of_window = input.axis_of(window)?;
        if of_window.is_none() || axis.is_some_and(|axis| Some(axis) != of_window) {
            return Ok(None);
        }
        axis = of_window;
    }
    let Some(axis) = axis.filter(|axis| selection.axes()[*axis].count() <= MAX_INDICES) else {
        return Ok(None);
    };
    let schema = plan.schema();
    let all: Vec<usize> = (0..schema.fields().len()).collect();
    let columns = columns.unwrap_or(&all);
    let Some(spec) = SpecBuilder::build(&input, &windows, axis, columns, &schema, config)? else {
        return Ok(None);
    };
    let mut scan = side.below.node.clone();
    if let Some(narrow) = scan.with_projection(spec.columns.clone())? {
        scan = narrow.recut(config);
    }
    Ok(Some(ArrayWindowExec::new(
        scan,
        Arc::new(spec),
        Arc::clone(plan),
        columns.to_vec(),
    )))
}

/// Narrows the operator below a projection to the columns that the projection uses. Returns `None` if
/// there is no such operator or if all of its columns are used.
fn narrow(
    plan: &Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if !plan.is::<ProjectionExec>() {
        return Ok(None);
    }
    let Some(below) = InlinedInput::of(plan)? else {
        return Ok(None);
    };
    let Some(windows) = below.node.downcast_ref::<ArrayWindowExec>() else {
        return Ok(None);
    };
    let used = columns_in(below.columns.iter().chain(&below.conjuncts));
    if used.len() == windows.columns().len() {
        return Ok(None);
    }
    let columns: BTreeSet<usize> = used.iter().map(|used| windows.columns()[*used]).collect();
    let columns: Vec<usize> = columns.into_iter().collect();
    let Some(narrowed) = operator(windows.replaced(), Some(&columns), config)? else {
        return Ok(None);
    };
    let narrowed = Arc::new(narrowed);
    below
        .over_narrowed(narrowed, &used, &plan.schema())
        .map(Some)
}

#[cfg(test)]
mod tests {
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::prelude::SessionContext;

    use crate::provider::plans::fixtures::{arrays, set};

    async fn answer(ctx: &SessionContext, sql: &str) -> String {
        let batches = ctx.sql(sql).await.unwrap().collect().await.unwrap();
        pretty_format_batches(&batches).unwrap().to_string()
    }

    /// Tiles are so small in unit tests that totals do not fit.
    #[tokio::test]
    async fn totals_are_computed_first_if_they_do_not_fit() {
        let (_folder, ctx) = arrays().await;
        const ALL: &str = "PARTITION BY time, lat";
        for (windows, has_passes) in [
            (format!("value - avg(value) OVER ({ALL})"), true),
            (
                format!(
                    "max(value) OVER ({ALL}), sum(value) OVER ({ALL} ORDER BY lon ROWS 1 PRECEDING)"
                ),
                true,
            ),
            (
                format!(
                    "first_value(value) OVER w, last_value(value) OVER w, stddev(value) OVER w, count(value) OVER w \
                     FROM b WINDOW w AS ({ALL} ORDER BY lon DESC ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"
                ),
                true,
            ),
            (format!("sum(value) OVER ({ALL} ORDER BY lon)"), false),
            (format!("sum(value) OVER ({ALL} ORDER BY lon DESC)"), false),
        ] {
            let from = if windows.contains("FROM") {
                ""
            } else {
                "FROM a"
            };
            let (select, from) = match windows.split_once(" FROM ") {
                Some((select, rest)) => (select.to_string(), format!("FROM {rest}")),
                None => (windows, from.to_string()),
            };
            let sql = format!("SELECT time, lat, lon, {select} {from} ORDER BY 1, 2, 3");
            set(&ctx, "tet.axis_windows", "true").await;
            let plan = answer(&ctx, &format!("EXPLAIN FORMAT INDENT {sql}")).await;
            assert!(plan.contains("ArrayWindowExec"), "{plan}");
            assert_eq!(plan.contains("passes=2"), has_passes, "{plan}");
            let found = answer(&ctx, &sql).await;
            set(&ctx, "tet.axis_windows", "false").await;
            assert_eq!(found, answer(&ctx, &sql).await, "{sql}");
        }
    }
}
