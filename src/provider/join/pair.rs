//! Inputs of joins whose cells match at the same indices, or can be read as if they did.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::JoinOn;

use crate::grid::{Axis, Selection};
use crate::provider::join::aligned::grid_of_largest;
use crate::provider::join::reindexed::rule::{Reindexed, is_small_beside};
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
    /// The join keys that are not dimensions of both inputs, such as values.
    pub other_keys: JoinOn,
    /// Predicates over the columns of the first table that hold for cells with a match.
    pub bounds: Vec<Arc<dyn PhysicalExpr>>,
    /// `true` if each selected cell of the input that gives the rows of the join is selected in the other input, too. For
    /// inner and full joins, `true` if both select the same cells.
    pub is_everywhere: bool,
    /// `true` if the other input has axes of its own.
    pub is_reindexed: bool,
}

impl<'a> Pair<'a> {
    /// Returns the inputs; `None` if the join has to stay.
    pub fn of(join: &HashJoinExec, left: &'a Side, right: &'a Side) -> Result<Option<Self>> {
        let kind = *join.join_type();
        let kept = kept_side(kind);
        let needs_match = matches!(
            kind,
            JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi
        );
        if let Some(other_keys) = keys_beside_dimensions(join, left, right)?
            && have_same_axes(left.part.grid.axes(), right.part.grid.axes())
        {
            let grids = [left, right].map(|side| Arc::clone(&side.part.grid));
            let is_everywhere = selects_all_of(kept, &left.part.selection, &right.part.selection);
            let is_taken = is_everywhere
                || needs_match
                || match kept {
                    Some(JoinSide::Left) => !is_small_beside(right, left),
                    Some(_) => !is_small_beside(left, right),
                    None => false,
                };
            if !is_taken || grid_of_largest(&grids).is_none() {
                return Ok(None);
            }
            let axes = grids[0].axes().iter().enumerate();
            let dimensions = axes.map(|(axis, of)| Arc::new(Column::new(of.name(), axis)) as _);
            return Ok(Some(Self {
                first: left,
                is_left_first: true,
                dimensions: dimensions.collect(),
                second: Arc::clone(&right.part.grid),
                other_keys,
                bounds: Vec::new(),
                is_everywhere,
                is_reindexed: false,
            }));
        }
        for is_left_first in [false, true] {
            let (first, values, side) = match is_left_first {
                true => (left, right, JoinSide::Left),
                false => (right, left, JoinSide::Right),
            };
            if kind != JoinType::Inner && kept != Some(side) {
                continue;
            }
            let in_order = |(one, other)| match is_left_first {
                true => (other, one),
                false => (one, other),
            };
            let keys = join.on().iter().cloned().map(in_order).collect();
            if let Some(reindexed) = Reindexed::of(values, first, &keys, !needs_match)? {
                let other_keys = reindexed.other_keys.into_iter().map(in_order);
                return Ok(Some(Self {
                    first,
                    is_left_first,
                    second: reindexed.grid,
                    dimensions: reindexed.dimensions,
                    other_keys: other_keys.collect(),
                    is_everywhere: reindexed.bounds.is_empty() && values.part.selection.is_all(),
                    bounds: reindexed.bounds,
                    is_reindexed: true,
                }));
            }
        }
        Ok(None)
    }
}

/// Returns the side that gives the rows of an outer, semi, anti or mark join; `None` for inner and full joins.
fn kept_side(kind: JoinType) -> Option<JoinSide> {
    match kind {
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
            Some(JoinSide::Left)
        }
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            Some(JoinSide::Right)
        }
        JoinType::Inner | JoinType::Full => None,
    }
}

/// Returns the join keys that are not dimensions of both sides, each paired with its counterpart; `None` if the other
/// keys are not all dimensions.
fn keys_beside_dimensions(
    join: &HashJoinExec,
    left: &Side,
    right: &Side,
) -> Result<Option<JoinOn>> {
    let (mut dimensions, mut others) = (BTreeSet::new(), Vec::new());
    for (of_left, of_right) in join.on() {
        match (left.dimension(of_left)?, right.dimension(of_right)?) {
            (Some(one), Some(other)) if one == other => {
                dimensions.insert(one);
            }
            _ => others.push((Arc::clone(of_left), Arc::clone(of_right))),
        }
    }
    let count = left.part.grid.axes().len();
    let are_all = count == right.part.grid.axes().len() && dimensions.into_iter().eq(0..count);
    Ok(are_all.then_some(others))
}

/// Returns `true` if every cell has exactly one match, at the same indices: all coordinates are
/// equal and unique. Unreadable coordinates give `false`; the scan reports them.
fn have_same_axes(left: &[Axis], right: &[Axis]) -> bool {
    left.iter().zip(right).all(|(one, other)| {
        one.has_same_coordinates(other).unwrap_or(false)
            && one.has_unique_coordinates().unwrap_or(false)
    })
}

/// Returns `true` if each cell that is selected on the kept side is selected on the other side, too; without a kept side,
/// if both select the same cells.
fn selects_all_of(kept: Option<JoinSide>, left: &Selection, right: &Selection) -> bool {
    let both = left.intersect(right);
    match kept {
        Some(JoinSide::Left) => both == *left,
        Some(_) => both == *right,
        None => both == *left && both == *right,
    }
}
