//! The order that the rows of an aggregation come in.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::Schema;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};

use crate::grid::Monotonicity;
use crate::provider::scan::grid_blocks::MAX_READ;
use crate::provider::source::GridPart;

/// What the groups are sorted by, given the column that each of them is over. Groups come in the order of the axes and of
/// the positions along them, however they are listed: they are sorted as far as the coordinates are.
pub(crate) fn ordering(
    parts: &[GridPart],
    groups: &[Arc<dyn PhysicalExpr>],
    columns: &[usize],
    schema: &Schema,
) -> Vec<PhysicalSortExpr> {
    // Of several files, the coordinates of one may come between those of another.
    let [part] = parts else {
        return Vec::new();
    };
    let mut ordering = Vec::new();
    for (number, axis) in part.grid.axes().iter().enumerate() {
        let mut over_axis = (0..groups.len()).filter(|group| columns[*group] == number);
        let Some(first) = over_axis.next() else {
            continue;
        };
        let is_bare = |group: usize| groups[group].downcast_ref::<Column>().is_some();
        if !is_bare(first) || !over_axis.all(is_bare) {
            break;
        }
        // Nothing long is read for this alone.
        if axis.length() > MAX_READ && !axis.is_read() {
            break;
        }
        let descending = match axis.monotonicity() {
            Ok(Monotonicity::Ascending) => false,
            Ok(Monotonicity::Descending) => true,
            Ok(Monotonicity::None) | Err(_) => break,
        };
        ordering.push(PhysicalSortExpr::new(
            Arc::new(Column::new(schema.field(first).name(), first)),
            // No coordinate is null.
            SortOptions {
                descending,
                nulls_first: descending,
            },
        ));
    }
    ordering
}
