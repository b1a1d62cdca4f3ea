//! The cells of another grid at which join keys are the coordinates.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;

use crate::grid::{Axis, Selection};
use crate::provider::join::lookup::distinct_keys::DistinctKeys;
use crate::provider::join::lookup::keys::{KeyTerms, NO_KEY, evaluate};
use crate::provider::join::negative_zeros::has_negative_zero;
use crate::provider::source::{GridSelection, GridSource};

/// The indices along the axis of another grid at which the values of a key are the coordinates.
pub(in crate::provider::join) struct KeyPositions {
    /// For every combination of indices along the axes of the key, the index along the other axis, or
    /// [`NO_KEY`] if the combination is not selected or no coordinate is equal.
    pub positions: KeyTerms,
    /// The coordinates of the other axis.
    pub coordinates: ArrayRef,
    /// For every selected combination, `true` if a coordinate is equal.
    pub is_found: Vec<bool>,
}

impl KeyPositions {
    /// Looks up the values of a key, an expression over dimensions of `part`, among the coordinates of an
    /// axis of `other`. Returns `None` if coordinates are equal to each other, or if either has -0.0, or for the reasons
    /// of [`ProbeKeys::try_new`](super::keys::ProbeKeys::try_new).
    pub fn try_new(
        key: &Arc<dyn PhysicalExpr>,
        part: &GridSelection,
        other: &Arc<dyn GridSource>,
        axis: usize,
    ) -> Result<Option<Self>> {
        let lengths: Vec<u64> = other.axes().iter().map(Axis::length).collect();
        let other = GridSelection {
            grid: Arc::clone(other),
            selection: Selection::all(&lengths),
            kept: None,
            file: None,
        };
        let column: Arc<dyn PhysicalExpr> =
            Arc::new(Column::new(other.grid.axes()[axis].name(), axis));
        let axes: BTreeSet<usize> = collect_columns(key).iter().map(Column::index).collect();
        let axes: Vec<usize> = axes.into_iter().collect();
        let coordinates = evaluate(&[axis], &[&column], &other)?;
        let evaluated = evaluate(&axes, &[key], part)?;
        let Some((mut coordinates, evaluated)) = coordinates.zip(evaluated) else {
            return Ok(None);
        };
        let types = [&coordinates, &evaluated].map(|keys| keys.values[0].data_type().clone());
        let [data_type, of_key] = types;
        if data_type != of_key {
            return Ok(None);
        }
        let Some(mut distinct) = DistinctKeys::try_new(std::iter::once(data_type))? else {
            return Ok(None);
        };
        distinct.insert(&coordinates.values)?;
        if distinct.count() as u64 != lengths[axis] {
            return Ok(None);
        }
        // A coordinate of 0.0 would be found for a key of -0.0, which the join does not output for it.
        if has_negative_zero(&coordinates.values[0]) || has_negative_zero(&evaluated.values[0]) {
            return Ok(None);
        }
        let numbers = distinct.find(&evaluated.values)?;
        Ok(Some(Self {
            is_found: numbers.iter().map(Option::is_some).collect(),
            positions: KeyTerms {
                terms: evaluated.terms(numbers, NO_KEY, 1),
                axes,
            },
            coordinates: coordinates.values.swap_remove(0),
        }))
    }
}

/// Returns, for every selected combination of indices along the axes of a predicate over dimensions, `true` if the predicate
/// is true. Returns `None` if the predicate fails on a coordinate, or if there are too many combinations.
pub(in crate::provider::join) fn holds(
    predicate: &Arc<dyn PhysicalExpr>,
    part: &GridSelection,
) -> Result<Option<Vec<bool>>> {
    let axes: BTreeSet<usize> = collect_columns(predicate)
        .iter()
        .map(Column::index)
        .collect();
    let evaluated = evaluate(&axes.into_iter().collect::<Vec<_>>(), &[predicate], part)?;
    Ok(evaluated.map(|evaluated| {
        let holds = evaluated.values[0].as_boolean().iter();
        holds.map(|holds| holds == Some(true)).collect()
    }))
}
