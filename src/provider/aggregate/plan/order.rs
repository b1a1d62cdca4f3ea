//! The order of an aggregation's output rows.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::Schema;
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_expr::expressions::Column;

use crate::grid::Monotonicity;
use crate::provider::aggregate::plan::group_columns::GroupColumns;
use crate::provider::aggregate::plan::program::Program;
use crate::provider::scan::grid::blocks::MAX_READ;
use crate::provider::source::GridSelection;

/// Returns the ordering of the groups. Groups are emitted in the order of the axes and of the
/// indices along them, regardless of the order in GROUP BY. Therefore the output is sorted by the
/// leading axes whose coordinates are.
pub(crate) fn ordering(
    parts: &[GridSelection],
    program: &Program,
    schema: &Schema,
) -> Vec<PhysicalSortExpr> {
    // The coordinates of several files may interleave.
    let [part] = parts else {
        return Vec::new();
    };
    let (groups, columns) = (&program.aggregation.groups, &program.group_columns);
    let mut ordering = Vec::new();
    for (number, axis) in part.grid.axes().iter().enumerate() {
        let mut over_axis =
            (0..groups.len()).filter(|group| columns[*group] == GroupColumns::One(number));
        let Some(first) = over_axis.next() else {
            continue;
        };
        let is_bare = |group: usize| groups[group].downcast_ref::<Column>().is_some();
        if !is_bare(first) || !over_axis.all(is_bare) {
            break;
        }
        // Do not read a long axis only to declare an ordering.
        if axis.length() > MAX_READ && !axis.is_loaded() {
            break;
        }
        let descending = match axis.monotonicity() {
            Ok(Monotonicity::Ascending) => false,
            Ok(Monotonicity::Descending) => true,
            Ok(Monotonicity::None) | Err(_) => break,
        };
        ordering.push(PhysicalSortExpr::new(
            Arc::new(Column::new(schema.field(first).name(), first)),
            // Coordinates are never null.
            SortOptions {
                descending,
                nulls_first: descending,
            },
        ));
    }
    ordering
}
