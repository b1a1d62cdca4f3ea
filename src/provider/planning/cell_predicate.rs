//! Evaluates predicates on stored cells, before they become columns.

use std::sync::Arc;

use arrow::array::{BooleanArray, BooleanBufferBuilder};
use arrow::compute::and;
use datafusion::common::Result;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};

use crate::grid::CellFilter;
use crate::provider::planning::dynamic::with_subquery_values;
use crate::provider::planning::value_set::ValueSet;
use crate::provider::plans::conjunction::conjunction_opt;
use crate::provider::source::CellFormat;

/// The maximum number of ranges of a filter. For more ranges, evaluating the expression is faster.
const MAX_RANGES: usize = 16;

/// A predicate, split into filters of stored cells and a residual predicate. A filter stands for
/// the conjuncts that restrict one column to ranges of numbers.
///
/// ```text
/// value > 300 AND value <> 999 AND lat > lon      columns: lat, lon, value
///
/// filters  value: ranges (300, 999) and (999, inf]
/// rest     lat > lon
/// ```
#[derive(Debug)]
pub(crate) struct CellPredicate {
    /// Each filter with the column that it applies to. There is at least one filter.
    filters: Vec<(usize, CellFilter)>,
    /// The residual predicate of the other conjuncts; `None` if there are none.
    pub rest: Option<Arc<dyn PhysicalExpr>>,
}

impl CellPredicate {
    /// Splits a predicate whose scalar subqueries have been executed. `format` returns the format
    /// of a column's cells. Returns `None` if no conjunct becomes a filter, or if the ranges of a
    /// column cannot become one.
    ///
    /// # Errors
    /// Returns an error if a scalar subquery of the predicate cannot be replaced by its value.
    pub fn try_new(
        predicate: &Arc<dyn PhysicalExpr>,
        format: impl Fn(usize) -> Option<CellFormat>,
    ) -> Result<Option<Self>> {
        let predicate = with_subquery_values(predicate)?;
        let format = |column| format(column).filter(|format| format.holds_numbers());
        let cell_type = |column: usize| format(column).map(|format| format.cell_type);
        let (mut sets, mut rest): (Vec<(usize, ValueSet)>, _) = (Vec::new(), Vec::new());
        for conjunct in split_conjunction(&predicate) {
            let Some((column, set)) = ValueSet::of(conjunct, &cell_type) else {
                rest.push(Arc::clone(conjunct));
                continue;
            };
            match sets.iter_mut().find(|(other, _)| *other == column) {
                Some((_, known)) => match known.and(&set) {
                    Some(both) => *known = both,
                    None => rest.push(Arc::clone(conjunct)),
                },
                None => sets.push((column, set)),
            }
        }
        let mut filters = Vec::with_capacity(sets.len());
        for (column, set) in sets {
            // Null cells lie in no range. A set with null therefore becomes a filter that keeps the
            // cells outside the other ranges.
            let ranges = match set.has_null() {
                true => set.other_bounds(),
                false => set.bounds(),
            };
            let filter = format(column).filter(|_| ranges.len() <= MAX_RANGES);
            let filter = filter.and_then(|format| {
                let ranges = ranges.iter().map(|range| range.bit_patterns()).collect();
                CellFilter::new(format.cell_type, ranges, format.fill, set.has_null())
            });
            match filter {
                Some(filter) => filters.push((column, filter)),
                // The set may combine several conjuncts, which `rest` does not contain.
                None => return Ok(None),
            }
        }
        Ok((!filters.is_empty()).then(|| Self {
            filters,
            rest: conjunction_opt(rest),
        }))
    }

    /// Returns a mask of the rows that satisfy all filters. `test` appends the results of a filter
    /// on the cells of a column, one per row.
    pub fn evaluate(
        &self,
        mut test: impl FnMut(usize, &CellFilter, &mut BooleanBufferBuilder) -> Result<()>,
    ) -> Result<BooleanArray> {
        let mut all: Option<BooleanArray> = None;
        for (column, filter) in &self.filters {
            let mut kept = BooleanBufferBuilder::new(0);
            test(*column, filter, &mut kept)?;
            let kept = BooleanArray::new(kept.finish(), None);
            all = Some(match all {
                Some(others) => and(&others, &kept)?,
                None => kept,
            });
        }
        Ok(all.unwrap_or_else(|| BooleanArray::from(Vec::<bool>::new())))
    }
}
