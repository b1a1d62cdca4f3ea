//! Finds the windows that rank the cells of each series by their values.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::make_comparator;
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::windows::{WindowExpr, WindowUDFExpr};

use crate::provider::window::plan::builder::standard;
use crate::provider::window::plan::order::WindowInput;
use crate::provider::window::plan::spec::{RankFunction, SeriesRank};

/// Returns the rank that a window computes, such as `rank() OVER (PARTITION BY lat, lon ORDER BY value DESC)`, and the
/// expression over the table that orders the cells. The index of the plane is not set. `None` if the function is not a
/// rank, if no expression over cells comes first in the order, or if further ones follow that do not decide the order of
/// equal cells by the axis alone.
pub(super) fn rank(
    window: &Arc<dyn WindowExpr>,
    input: &WindowInput<'_>,
    axis: usize,
) -> Result<Option<(Arc<dyn PhysicalExpr>, SeriesRank)>> {
    let Some(function) = standard(window).and_then(function_of) else {
        return Ok(None);
    };
    let mut value = None;
    let mut along_axis = None;
    for key in window.order_by() {
        let Some(expr) = input.over_table(&key.expr)? else {
            return Ok(None);
        };
        match (input.dimensions_of(&expr), &value) {
            (None, None) => value = Some((expr, key.options)),
            // All cells of a series have the same indices along the other axes.
            (Some(dimensions), _) if !dimensions.contains(&axis) => {}
            (Some(dimensions), Some(_)) if dimensions.len() == 1 => {
                along_axis = is_descending(key, input, axis)?;
                if along_axis.is_none() {
                    return Ok(None);
                }
                // The order is unique, so further keys do not matter.
                break;
            }
            _ => return Ok(None),
        }
    }
    let Some((value, options)) = value else {
        return Ok(None);
    };
    let Some(mut partitions) = partitions(window, input, axis)? else {
        return Ok(None);
    };
    if along_axis == Some(true) {
        partitions.iter_mut().for_each(|planes| planes.reverse());
    }
    let rank = SeriesRank {
        function,
        plane: 0,
        is_descending: options.descending,
        nulls_first: options.nulls_first,
        has_peers: along_axis.is_none(),
        partitions: partitions.into(),
        max_rank: None,
    };
    Ok(Some((value, rank)))
}

fn function_of(function: &WindowUDFExpr) -> Option<RankFunction> {
    Some(match function.fun().name() {
        "row_number" => RankFunction::RowNumber,
        "rank" => RankFunction::Rank,
        "dense_rank" => RankFunction::DenseRank,
        "percent_rank" => RankFunction::PercentRank,
        "cume_dist" => RankFunction::CumulativeDistribution,
        "ntile" => {
            let tiles = function.args().first()?.downcast_ref::<Literal>()?.value();
            match tiles.cast_to(&arrow::datatypes::DataType::UInt64).ok()? {
                ScalarValue::UInt64(Some(tiles)) if tiles > 0 => RankFunction::Tile(tiles),
                // DataFusion reports the error.
                _ => return None,
            }
        }
        _ => return None,
    })
}

/// Returns `true` if a key descends along an axis, `false` if it ascends; `None` if it does neither, or has equal values.
fn is_descending(
    key: &PhysicalSortExpr,
    input: &WindowInput<'_>,
    axis: usize,
) -> Result<Option<bool>> {
    let batch = input.ascending(axis)?;
    let values = key.expr.evaluate(&batch)?.into_array(batch.num_rows())?;
    let compare = make_comparator(&values, &values, key.options)?;
    let orders = || (1..batch.num_rows()).map(|row| compare(row - 1, row));
    Ok(if orders().all(|order| order.is_lt()) {
        Some(false)
    } else {
        orders().all(|order| order.is_gt()).then_some(true)
    })
}

/// Returns the planes of each partition of a window along an axis, by ascending indices; `None` if a partition key depends
/// on the axis and on another one.
fn partitions(
    window: &Arc<dyn WindowExpr>,
    input: &WindowInput<'_>,
    axis: usize,
) -> Result<Option<Vec<Vec<u32>>>> {
    let batch = input.ascending(axis)?;
    let count = batch.num_rows();
    let mut keys = Vec::new();
    for key in window.partition_by() {
        match input.dimensions(key)? {
            None => return Ok(None),
            Some(dimensions) if !dimensions.contains(&axis) => {}
            Some(dimensions) if dimensions.len() > 1 => return Ok(None),
            Some(_) => keys.push(key.evaluate(&batch)?.into_array(count)?),
        }
    }
    if keys.is_empty() {
        return Ok(Some(vec![(0..count as u32).collect()]));
    }
    let fields = keys
        .iter()
        .map(|key| SortField::new(key.data_type().clone()));
    let rows = RowConverter::new(fields.collect())?.convert_columns(&keys)?;
    let mut numbers = HashMap::new();
    let mut partitions: Vec<Vec<u32>> = Vec::new();
    for (plane, row) in (0..).zip(rows.iter()) {
        let number = *numbers.entry(row).or_insert_with(|| {
            partitions.push(Vec::new());
            partitions.len() - 1
        });
        partitions[number].push(plane);
    }
    Ok(Some(partitions))
}
