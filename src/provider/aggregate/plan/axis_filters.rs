//! Predicates over single dimensions, evaluated to selected indices along the axes.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};

use crate::grid::{IndexSet, Selection};
use crate::provider::aggregate::plan::aggregation::Aggregation;
use crate::provider::planning::axis_filter::{can_evaluate, evaluate};
use crate::provider::planning::pushdown::only_column;
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
        let mut sets = Vec::with_capacity(parts.len());
        for part in parts {
            let selected = &part.selection.axes()[dimension];
            let axis = &part.grid.axes()[dimension];
            match evaluate(axis, predicate, selected)? {
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

/// Restricts the grids to the cells that satisfy the conjuncts over single dimensions, and removes
/// those conjuncts.
pub(crate) fn narrow(
    conjuncts: &mut Vec<Arc<dyn PhysicalExpr>>,
    parts: &mut [GridSelection],
    dimensions: usize,
) -> Result<()> {
    let mut kept = Vec::new();
    for conjunct in conjuncts.drain(..) {
        let Some(filter) = AxisFilter::try_new(&conjunct, parts, dimensions)? else {
            kept.push(conjunct);
            continue;
        };
        for (part, set) in parts.iter_mut().zip(&filter.parts) {
            part.selection.restrict(filter.dimension, set);
        }
    }
    *conjuncts = kept;
    Ok(())
}

/// The conjuncts over single dimensions in the FILTER clauses of aggregates.
#[derive(Debug, Default)]
pub(crate) struct AxisFilters(Vec<AxisFilter>);

impl AxisFilters {
    /// Evaluates the conjuncts of FILTER clauses that can be solved on the axes of all grids.
    pub fn try_new(
        aggregation: &Aggregation,
        parts: &[GridSelection],
        dimensions: usize,
    ) -> Result<Self> {
        let mut filters = Self::default();
        let of_aggregates = aggregation.aggregates.iter();
        let of_aggregates = of_aggregates.filter_map(|aggregate| aggregate.filter.as_ref());
        for conjunct in of_aggregates.flat_map(split_conjunction) {
            if !filters.contain(conjunct)
                && let Some(filter) = AxisFilter::try_new(conjunct, parts, dimensions)?
            {
                filters.0.push(filter);
            }
        }
        Ok(filters)
    }

    /// Returns `true` if a conjunct was solved on the axes.
    pub fn contain(&self, conjunct: &Arc<dyn PhysicalExpr>) -> bool {
        self.0.iter().any(|filter| &filter.predicate == conjunct)
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

/// Returns `true` if a conjunct is likely to be solved on the axes of these grids. Does not
/// evaluate the conjunct.
pub(crate) fn is_over_axis(conjunct: &Arc<dyn PhysicalExpr>, parts: &[GridSelection]) -> bool {
    let dimensions = parts.first().map_or(0, |part| part.grid.axes().len());
    dimension_of(conjunct, dimensions).is_some_and(|dimension| {
        let mut parts = parts.iter();
        parts.all(|part| can_evaluate(&part.selection.axes()[dimension]))
    })
}
