//! Predicates over single dimensions, as positions along the axes.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};

use crate::grid::{IndexSet, Selection};
use crate::provider::aggregate::plan::aggregation::Aggregation;
use crate::provider::planning::axis_filter::{evaluate_physical, is_evaluated};
use crate::provider::source::GridPart;

/// The dimension that a predicate is over, if it is over one and no other column.
fn dimension_of(predicate: &Arc<dyn PhysicalExpr>, dimensions: usize) -> Option<usize> {
    let columns = collect_columns(predicate);
    let mut numbers = columns.iter().map(|column| column.index());
    match (numbers.next(), numbers.next()) {
        (Some(only), None) if only < dimensions => Some(only),
        _ => None,
    }
}

/// A predicate over one dimension, and the selected positions of each part that satisfy it.
#[derive(Debug)]
struct AxisFilter {
    predicate: Arc<dyn PhysicalExpr>,
    dimension: usize,
    parts: Vec<IndexSet>,
}

impl AxisFilter {
    /// `None` if the predicate is over anything else, or has to be asked of every row.
    fn try_new(
        predicate: &Arc<dyn PhysicalExpr>,
        parts: &[GridPart],
        dimensions: usize,
    ) -> Result<Option<Self>> {
        let Some(dimension) = dimension_of(predicate, dimensions) else {
            return Ok(None);
        };
        let mut sets = Vec::with_capacity(parts.len());
        for part in parts {
            let selected = &part.selection.axes()[dimension];
            let axis = &part.grid.axes()[dimension];
            match evaluate_physical(axis, predicate, selected)? {
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

/// Restricts the parts to what conjuncts over single dimensions leave, and keeps the other conjuncts.
pub(crate) fn narrow(
    conjuncts: &mut Vec<Arc<dyn PhysicalExpr>>,
    parts: &mut [GridPart],
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

/// What is over single dimensions in the filters of aggregates.
#[derive(Debug, Default)]
pub(crate) struct AxisFilters(Vec<AxisFilter>);

impl AxisFilters {
    /// Those of an aggregation that can be solved on the axes of all parts.
    pub fn try_new(
        aggregation: &Aggregation,
        parts: &[GridPart],
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

    /// Whether a conjunct is one of them.
    pub fn contain(&self, conjunct: &Arc<dyn PhysicalExpr>) -> bool {
        self.0.iter().any(|filter| &filter.predicate == conjunct)
    }

    /// What some of them leave of a selection, which is that of the part of this number.
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

/// Whether a conjunct is likely to be solved on the axes of these parts, which is not tried.
pub(crate) fn is_over_axis(conjunct: &Arc<dyn PhysicalExpr>, parts: &[GridPart]) -> bool {
    let dimensions = parts.first().map_or(0, |part| part.grid.axes().len());
    dimension_of(conjunct, dimensions).is_some_and(|dimension| {
        let mut parts = parts.iter();
        parts.all(|part| is_evaluated(&part.selection.axes()[dimension]))
    })
}
