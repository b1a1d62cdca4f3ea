//! Windows over RANGE frames that end before the current row, with order keys that may be NULL.
//!
//! In `sum(x) OVER (ORDER BY y RANGE BETWEEN UNBOUNDED PRECEDING AND 20 PRECEDING)`, the frame of a row whose `y`
//! is NULL ends with the last of the rows whose `y` is NULL. DataFusion 55's [`BoundedWindowAggExec`] returns
//! such a row before it has seen all of them. [`WindowAggExec`] sees a whole partition first.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::{WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

use crate::provider::rules::operators::ReplaceOperators;

/// Replaces the operator of such windows, unless its input is not sorted by all keys.
pub(crate) const NULL_ORDER_KEYS: ReplaceOperators = ReplaceOperators {
    name: "NullOrderKeys",
    replacement: over_whole_partitions,
};

fn over_whole_partitions(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(windows) = plan.downcast_ref::<BoundedWindowAggExec>() else {
        return Ok(None);
    };
    let schema = windows.input().schema();
    let waits_for_nulls = |window: &Arc<dyn WindowExpr>| {
        let frame = window.get_window_frame();
        frame.units == WindowFrameUnits::Range
            && matches!(&frame.end_bound, WindowFrameBound::Preceding(_))
            && window
                .order_by()
                .iter()
                .any(|key| key.expr.nullable(&schema).unwrap_or(true))
    };
    if windows.input_order_mode != InputOrderMode::Sorted
        || !windows.window_expr().iter().any(waits_for_nulls)
    {
        return Ok(None);
    }
    let whole = WindowAggExec::try_new(
        windows.window_expr().to_vec(),
        Arc::clone(windows.input()),
        !windows.partition_keys().is_empty(),
    )?;
    Ok(Some(Arc::new(whole)))
}
