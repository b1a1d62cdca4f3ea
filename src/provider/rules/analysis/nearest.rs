//! Resolves `nearest(dimension, target)` to a comparison with a coordinate of the axis.

use std::sync::Arc;

use arrow::datatypes::TimeUnit;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDF};
use datafusion::optimizer::AnalyzerRule;

use crate::grid::{SortedCoordinates, WrittenTime};
use crate::provider::catalog::table::ArrayTable;
use crate::provider::functions::nearest::{Nearest, NearestCoordinate};
use crate::provider::plans::lineage::origin;
use crate::provider::rules::analysis::written_times::{text, timestamp};
use crate::provider::rules::names::change_expressions;

/// Replaces `nearest(lat, 47.6)` by `lat = c`, where `c` is the coordinate of the axis of `lat`
/// nearest to 47.6. A constant target becomes a constant, any other target becomes a function that
/// looks up the coordinate.
///
/// So a constant target selects on the axis, and a target from another table makes an equality for
/// a hash join.
#[derive(Debug)]
pub(crate) struct ResolveNearest;

impl AnalyzerRule for ResolveNearest {
    fn name(&self) -> &str {
        "resolve_nearest"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let resolved = plan.transform_up_with_subqueries(resolve_node)?;
        Ok(resolved.data)
    }
}

fn resolve_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut is_called = false;
    plan.apply_expressions(|expr| {
        is_called |= expr.exists(|expr| Ok(call(expr).is_some()))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !is_called {
        return Ok(Transformed::no(plan));
    }
    let inputs: Vec<LogicalPlan> = plan.inputs().into_iter().cloned().collect();
    let inputs: Vec<&LogicalPlan> = inputs.iter().collect();
    let resolved = change_expressions(plan, |expr| {
        expr.transform_up(|expr| match call(&expr) {
            Some(arguments) => Ok(Transformed::yes(resolve(arguments, &inputs)?)),
            None => Ok(Transformed::no(expr)),
        })
    })?;
    // The output names of a node derive from its expressions.
    resolved.map_data(LogicalPlan::recompute_schema)
}

/// Returns the arguments, if the expression is a call of `nearest`.
fn call(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args })
            if func.inner().downcast_ref::<Nearest>().is_some() =>
        {
            Some(args)
        }
        _ => None,
    }
}

fn resolve(arguments: &[Expr], inputs: &[&LogicalPlan]) -> Result<Expr> {
    let [dimension, target] = arguments else {
        return plan_err!("nearest(dimension, target) takes two arguments");
    };
    let Expr::Column(column) = dimension else {
        return plan_err!(
            "nearest(dimension, target): found {dimension}, expected a dimension of an array"
        );
    };
    let coordinates = match origin(inputs, column) {
        Some((table, name)) => match table.downcast_ref::<ArrayTable>() {
            Some(table) => coordinates(table, &name)?,
            None => None,
        },
        None => None,
    };
    let Some(coordinates) = coordinates else {
        return plan_err!(
            "nearest(dimension, target): {column} is not a dimension of an array with numeric or time coordinates"
        );
    };
    let target = target_of(target, &coordinates)?;
    let lookup = ScalarUDF::from(NearestCoordinate::new(column.name(), Arc::new(coordinates)));
    Ok(dimension.clone().eq(lookup.call(vec![target])))
}

/// The sorted coordinates of a table's dimension. Returns `None` if the column is not a dimension,
/// or has text labels.
fn coordinates(table: &ArrayTable, name: &str) -> Result<Option<SortedCoordinates>> {
    let grids = table.source().grids();
    let axes = grids.iter().flat_map(|grid| grid.axes());
    let axes: Vec<_> = axes.filter(|axis| axis.name() == name).collect();
    if axes.is_empty() {
        return Ok(None);
    }
    SortedCoordinates::try_new(&axes).map_err(DataFusionError::from)
}

/// Returns the target, with text parsed as a time if the coordinates are times.
fn target_of(target: &Expr, coordinates: &SortedCoordinates) -> Result<Expr> {
    let Some(text) = text(target) else {
        return Ok(target.clone());
    };
    if coordinates.data_type().is_numeric() {
        return plan_err!(
            "nearest(dimension, target): the target is the text '{text}', expected a number"
        );
    }
    let time = match WrittenTime::parse(text) {
        Some(WrittenTime::Instant { time, .. }) => timestamp(time, TimeUnit::Microsecond),
        _ => None,
    };
    match time {
        Some(time) => Ok(time),
        None => plan_err!(
            "nearest(dimension, target): the target is '{text}', expected a day or a time, such as '2020-06-15 12:00'"
        ),
    }
}
