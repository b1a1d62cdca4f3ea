//! Predicates over single dimensions, evaluated to selected indices along the axes.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;

use crate::grid::{IndexSet, Selection};
use crate::provider::planning::axis_filter::{can_evaluate, evaluate};
use crate::provider::planning::dynamic::{is_dynamic, with_subquery_values};
use crate::provider::planning::pruning::certain_conjuncts;
use crate::provider::planning::pushdown::only_column;
use crate::provider::plans::conjunction::conjunction_opt;
use crate::provider::source::GridSelection;

/// Returns the dimension that a predicate refers to; `None` if it refers to several columns or to
/// another column.
fn dimension_of(predicate: &Arc<dyn PhysicalExpr>, dimensions: usize) -> Option<usize> {
    only_column(predicate).filter(|column| *column < dimensions)
}

/// A predicate over one dimension and, for each grid, the selected indices that satisfy the
/// predicate.
#[derive(Debug)]
struct AxisFilter {
    predicate: Arc<dyn PhysicalExpr>,
    dimension: usize,
    parts: Vec<IndexSet>,
}

impl AxisFilter {
    /// Evaluates a predicate on the axes of all grids; `None` if it refers to anything but one
    /// dimension, or has to be evaluated row by row.
    fn try_new(
        predicate: &Arc<dyn PhysicalExpr>,
        parts: &[GridSelection],
        dimensions: usize,
    ) -> Result<Option<Self>> {
        let Some(dimension) = dimension_of(predicate, dimensions) else {
            return Ok(None);
        };
        let bound = with_subquery_values(predicate)?;
        let mut sets = Vec::with_capacity(parts.len());
        for part in parts {
            let selected = &part.selection.axes()[dimension];
            let axis = &part.grid.axes()[dimension];
            match evaluate(axis, &bound, selected)? {
                Some(set) => sets.push(set),
                None => return Ok(None),
            }
        }
        Ok(Some(Self {
            predicate: Arc::clone(predicate),
            dimension,
            parts: sets,
        }))
    }
}

/// Restricts the grids to the cells that satisfy the conjuncts over single dimensions. Returns
/// `false` if some conjuncts cannot be solved on the axes.
pub(crate) fn narrow<'a>(
    conjuncts: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>,
    parts: &mut [GridSelection],
    dimensions: usize,
) -> Result<bool> {
    let mut are_solved = true;
    for conjunct in conjuncts {
        let Some(filter) = AxisFilter::try_new(conjunct, parts, dimensions)? else {
            are_solved = false;
            continue;
        };
        for (part, set) in parts.iter_mut().zip(&filter.parts) {
            part.selection.restrict(filter.dimension, set);
        }
    }
    Ok(are_solved)
}

/// Restricts the grids to the cells that a dynamic filter may keep, as far as it can be solved on the axes.
/// Returns the filter if it may change, otherwise its residual conjuncts, which can still prune chunks;
/// `None` if there are none.
pub(crate) fn narrow_dynamically(
    filter: &Arc<dyn PhysicalExpr>,
    parts: &mut [GridSelection],
    dimensions: usize,
) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let mut tracking = DynamicFilterTracking::classify(filter);
    let may_change = tracking.watcher().is_some();
    let known = snapshot_physical_expr(with_subquery_values(filter)?)?;
    let mut residual = Vec::new();
    for conjunct in certain_conjuncts(&known) {
        if !narrow([conjunct], parts, dimensions)? {
            residual.push(Arc::clone(conjunct));
        }
    }
    Ok(match may_change {
        true => Some(Arc::clone(filter)),
        false => conjunction_opt(residual),
    })
}

/// The conjuncts over single dimensions in the FILTER clauses of aggregates.
#[derive(Debug, Default)]
pub(crate) struct AxisFilters(Vec<AxisFilter>);

impl AxisFilters {
    /// Evaluates conjuncts on the axes of all grids; `None` if one of them cannot be solved there.
    pub fn try_new<'a>(
        conjuncts: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>,
        parts: &[GridSelection],
        dimensions: usize,
    ) -> Result<Option<Self>> {
        let mut filters = Self::default();
        for conjunct in conjuncts {
            if filters.0.iter().any(|filter| &filter.predicate == conjunct) {
                continue;
            }
            match AxisFilter::try_new(conjunct, parts, dimensions)? {
                Some(filter) => filters.0.push(filter),
                None => return Ok(None),
            }
        }
        Ok(Some(filters))
    }

    /// Restricts the selection of the grid with index `part` to the cells that satisfy `conjuncts`.
    pub fn restrict(
        &self,
        selection: &Selection,
        part: usize,
        conjuncts: &[Arc<dyn PhysicalExpr>],
    ) -> Selection {
        let mut selection = selection.clone();
        let filters = self.0.iter();
        for filter in filters.filter(|filter| conjuncts.contains(&filter.predicate)) {
            selection.restrict(filter.dimension, &filter.parts[part]);
        }
        selection
    }
}

/// Returns `true` if a conjunct is solved on the axes of these grids. A conjunct with a scalar
/// subquery, whose value is not known before the query runs, is expected to be.
pub(crate) fn is_on_axis(conjunct: &Arc<dyn PhysicalExpr>, parts: &[GridSelection]) -> bool {
    let dimensions = parts.first().map_or(0, |part| part.grid.axes().len());
    if !is_dynamic(conjunct) {
        // Unreadable coordinates are reported when the query reads them.
        return !matches!(AxisFilter::try_new(conjunct, parts, dimensions), Ok(None));
    }
    dimension_of(conjunct, dimensions).is_some_and(|dimension| {
        let mut parts = parts.iter();
        parts.all(|part| can_evaluate(&part.selection.axes()[dimension]))
    })
}
