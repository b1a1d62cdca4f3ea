//! Computes, once for all series, the frames of windows and the functions that depend on the order
//! axis alone. Everything is computed by DataFusion's own code, over the rows of one series.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::concat;
use arrow::datatypes::Int64Type;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::WindowFunctionDefinition;
use datafusion::logical_expr::window_state::WindowFrameContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::windows::{WindowExpr, WindowUDFExpr, create_window_expr};

use crate::provider::window::plan::needs::{mirrored, mirrored_planes};
use crate::provider::window::plan::order::{SeriesRows, WindowInput};

/// Returns the values of a window that depends on the order axis alone, by ascending indices.
pub(in crate::provider::window) fn values(
    window: &Arc<dyn WindowExpr>,
    rows: &SeriesRows,
) -> Result<ArrayRef> {
    let parts = rows.partitions.iter();
    let parts = parts.map(|part| window.evaluate(&rows.batch.slice(part.start, part.len())));
    let parts = parts.collect::<Result<Vec<_>>>()?;
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    let values = concat(&parts)?;
    Ok(match rows.is_reversed {
        true => reversed(&values)?,
        false => values,
    })
}

/// Returns the values from last to first.
pub(in crate::provider::window) fn reversed(values: &ArrayRef) -> Result<ArrayRef> {
    let rows = (0..values.len() as u64).rev();
    let rows = arrow::array::UInt64Array::from_iter_values(rows);
    Ok(arrow::compute::take(values, &rows, None)?)
}

/// Returns the frame of each index along the axis, by ascending indices; `None` if the bounds of the
/// frames descend.
pub(in crate::provider::window) fn frames(
    window: &Arc<dyn WindowExpr>,
    rows: &SeriesRows,
) -> Result<Option<Arc<[Range<u32>]>>> {
    let options: Vec<_> = window.order_by().iter().map(|key| key.options).collect();
    let mut frames: Vec<Range<u32>> = Vec::with_capacity(rows.batch.num_rows());
    for part in &rows.partitions {
        let first = part.start as u32;
        let part = rows.batch.slice(part.start, part.len());
        let order = window.order_by_columns(&part)?;
        let order: Vec<_> = order.into_iter().map(|column| column.values).collect();
        let frame = Arc::clone(window.get_window_frame());
        let mut context = WindowFrameContext::new(frame, options.clone());
        let mut last = 0..0;
        for row in 0..part.num_rows() {
            let range = context.calculate_range(&order, &last, part.num_rows(), row)?;
            let frame = first + range.start as u32..first + range.end.max(range.start) as u32;
            if frames
                .last()
                .is_some_and(|before| before.start > frame.start || before.end > frame.end)
            {
                return Ok(None);
            }
            frames.push(frame);
            last = range;
        }
    }
    Ok(Some(match rows.is_reversed {
        true => mirrored(&frames),
        false => frames.into(),
    }))
}

/// A function whose value is the argument's value in another row of the partition.
pub(in crate::provider::window) struct Pick {
    /// For each index along the axis, ascending, the rank of the index to take the value from.
    pub ranks: Arc<[Option<u32>]>,
    /// The value where there is none to take.
    pub default: ScalarValue,
}

/// Finds, for each row, the row that a window function such as `lag` takes its value from.
pub(in crate::provider::window) fn pick(
    window: &Arc<dyn WindowExpr>,
    function: &WindowUDFExpr,
    input: &WindowInput<'_>,
    rows: &SeriesRows,
) -> Result<Pick> {
    let mut args = vec![input.number()];
    args.extend(function.args().iter().skip(1).take(1).map(Arc::clone));
    // The function of the row's number in place of the argument is the number of the row to take.
    let numbers = create_window_expr(
        &WindowFunctionDefinition::WindowUDF(Arc::clone(function.fun())),
        window.name().to_string(),
        &args,
        &[],
        window.order_by(),
        Arc::clone(window.get_window_frame()),
        Arc::clone(&input.schema),
        false,
        false,
        None,
    )?;
    let ascending = SeriesRows {
        batch: rows.batch.clone(),
        is_reversed: false,
        partitions: rows.partitions.clone(),
    };
    let numbers = values(&numbers, &ascending)?;
    let numbers = numbers.as_primitive::<Int64Type>().iter();
    let ranks: Vec<Option<u32>> = numbers
        .map(|number| number.and_then(|number| u32::try_from(number).ok()))
        .collect();
    let data_type = window.field()?.data_type().clone();
    let default = match default_of(function.args()) {
        Some(default) if !default.is_null() => default.cast_to(&data_type)?,
        _ => ScalarValue::try_from(&data_type)?,
    };
    Ok(Pick {
        ranks: match rows.is_reversed {
            true => mirrored_planes(&ranks),
            false => ranks.into(),
        },
        default,
    })
}

/// Returns the default value among the arguments of `lag` and `lead`.
fn default_of(args: &[Arc<dyn PhysicalExpr>]) -> Option<ScalarValue> {
    let default = args.get(2)?.downcast_ref::<Literal>()?;
    Some(default.value().clone())
}
