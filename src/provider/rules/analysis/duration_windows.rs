//! Windows that are ordered by a duration.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{
    Expr, ExprSchemable, WindowFrame, WindowFrameBound, WindowFrameUnits,
};

/// Makes RANGE frames without offsets over durations GROUPS frames, which consist of the same rows.
///
/// DataFusion 55 has no RANGE frames over durations, and RANGE is the default, also of functions such as
/// `lag`, which have no frame.
#[derive(Debug)]
pub(crate) struct DurationWindows;

impl FunctionRewrite for DurationWindows {
    fn name(&self) -> &str {
        "duration_windows"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let Expr::WindowFunction(mut window) = expr else {
            return Ok(Transformed::no(expr));
        };
        let groups = frame_of_groups(&window, schema);
        let is_changed = groups.is_some();
        if let Some(groups) = groups {
            window.params.window_frame = groups;
        }
        let window = Expr::WindowFunction(window);
        Ok(Transformed::new_transformed(window, is_changed))
    }
}

fn frame_of_groups(window: &WindowFunction, schema: &DFSchema) -> Option<WindowFrame> {
    let frame = &window.params.window_frame;
    let key = window.params.order_by.first()?;
    let is_duration = matches!(key.expr.get_type(schema), Ok(DataType::Duration(_)));
    if frame.units != WindowFrameUnits::Range || !is_duration {
        return None;
    }
    let unbounded = ScalarValue::UInt64(None);
    let bound = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => Some(WindowFrameBound::CurrentRow),
        WindowFrameBound::Preceding(offset) if offset.is_null() => {
            Some(WindowFrameBound::Preceding(unbounded.clone()))
        }
        WindowFrameBound::Following(offset) if offset.is_null() => {
            Some(WindowFrameBound::Following(unbounded.clone()))
        }
        WindowFrameBound::Preceding(_) | WindowFrameBound::Following(_) => None,
    };
    let (start, end) = (bound(&frame.start_bound)?, bound(&frame.end_bound)?);
    Some(WindowFrame::new_bounds(
        WindowFrameUnits::Groups,
        start,
        end,
    ))
}
