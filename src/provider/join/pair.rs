//! Inputs of joins whose cells match at the same indices, or can be read as if they did.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::{JoinType, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::joins::HashJoinExec;

use crate::grid::{Axis, Selection};
use crate::provider::join::aligned::grid_of_largest;
use crate::provider::join::reindexed::rule::Reindexed;
use crate::provider::join::side::Side;
use crate::provider::source::GridSource;

/// Two inputs of a join on the same axes.
pub(super) struct Pair<'a> {
    /// The input that gives the axes.
    pub first: &'a Side,
    pub is_left_first: bool,
    /// The grid of the other input on these axes.
    pub second: Arc<dyn GridSource>,
    /// The dimensions of the other input, as expressions over the columns of the first table.
    pub dimensions: Vec<Arc<dyn PhysicalExpr>>,
    /// Predicates over the columns of the first table that hold for cells with a match.
    pub bounds: Vec<Arc<dyn PhysicalExpr>>,
    /// `true` if the other input has axes of its own.
    pub is_reindexed: bool,
}

impl<'a> Pair<'a> {
    /// Returns the inputs; `None` if the join has to stay.
    pub fn of(join: &HashJoinExec, left: &'a Side, right: &'a Side) -> Result<Option<Self>> {
        let kind = *join.join_type();
        if is_on_all_dimensions(join, left, right)?
            && have_same_axes(left.part.grid.axes(), right.part.grid.axes())
        {
            let grids = [left, right].map(|side| Arc::clone(&side.part.grid));
            if !outputs_both(kind, &left.part.selection, &right.part.selection)
                || grid_of_largest(&grids).is_none()
            {
                return Ok(None);
            }
            let axes = grids[0].axes().iter().enumerate();
            let dimensions = axes.map(|(axis, of)| Arc::new(Column::new(of.name(), axis)) as _);
            return Ok(Some(Self {
                first: left,
                is_left_first: true,
                dimensions: dimensions.collect(),
                second: Arc::clone(&right.part.grid),
                bounds: Vec::new(),
                is_reindexed: false,
            }));
        }
        for is_left_first in [false, true] {
            let (first, values, keeps_first) = match is_left_first {
                true => (left, right, JoinType::Left),
                false => (right, left, JoinType::Right),
            };
            if kind != JoinType::Inner && kind != keeps_first {
                continue;
            }
            let keys = join.on().iter().cloned();
            let keys = keys.map(|(of_left, of_right)| match is_left_first {
                true => (of_right, of_left),
                false => (of_left, of_right),
            });
            let keys = keys.collect();
            let reindexed = Reindexed::of(values, first, &keys)?;
            let reindexed = reindexed.filter(|reindexed| {
                kind == JoinType::Inner
                    || (reindexed.bounds.is_empty() && values.part.selection.is_all())
            });
            if let Some(reindexed) = reindexed {
                return Ok(Some(Self {
                    first,
                    is_left_first,
                    second: reindexed.grid,
                    dimensions: reindexed.dimensions,
                    bounds: reindexed.bounds,
                    is_reindexed: true,
                }));
            }
        }
        Ok(None)
    }
}

/// Returns `true` if the join keys are the dimensions of both sides, each paired with its
/// counterpart.
fn is_on_all_dimensions(join: &HashJoinExec, left: &Side, right: &Side) -> Result<bool> {
    let mut keys = BTreeSet::new();
    for (of_left, of_right) in join.on() {
        match (left.dimension(of_left)?, right.dimension(of_right)?) {
            (Some(one), Some(other)) if one == other => keys.insert(one),
            _ => return Ok(false),
        };
    }
    let dimensions = left.part.grid.axes().len();
    Ok(dimensions == right.part.grid.axes().len() && keys.into_iter().eq(0..dimensions))
}

/// Returns `true` if every cell has exactly one match, at the same indices: all coordinates are
/// equal and unique. Unreadable coordinates give `false`; the scan reports them.
fn have_same_axes(left: &[Axis], right: &[Axis]) -> bool {
    left.iter().zip(right).all(|(one, other)| {
        one.has_same_coordinates(other).unwrap_or(false)
            && one.has_unique_coordinates().unwrap_or(false)
    })
}

/// Returns `true` if the join outputs just the cells that are selected on both sides, and none that
/// is selected on one side only.
fn outputs_both(kind: JoinType, left: &Selection, right: &Selection) -> bool {
    let both = left.intersect(right);
    match kind {
        JoinType::Left => both == *left,
        JoinType::Right => both == *right,
        JoinType::Full => both == *left && both == *right,
        _ => true,
    }
}
