//! The columns that grouping expressions refer to.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;

use crate::grid::IndexSet;
use crate::provider::aggregate::plan::axis_pairs::{GroupPair, pair_of};
use crate::provider::aggregate::plan::grid_classes::{GridClasses, SelectedCoordinates};
use crate::provider::aggregate::plan::group_axis::evaluate;
use crate::provider::plans::safety::may_fail;
use crate::provider::source::GridSelection;

/// The maximum number of coordinates on which expressions are evaluated while a query is planned.
const MAX_TRIED: u64 = 1 << 20;

/// The columns that a grouping expression refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupColumns {
    /// A dimension, or the file column.
    One(usize),
    /// The two dimensions of the [`GroupPair`].
    Pair,
}

/// Returns the columns that each grouping expression refers to, and the groups over two dimensions if there
/// are such expressions. `None` if an expression refers to no column, to more than two, to another pair of
/// dimensions than others, or to a column other than the first `dimensions` columns and `file`, or if the
/// groups of the pair are not known.
pub(crate) fn group_columns(
    groups: &[Arc<dyn PhysicalExpr>],
    dimensions: usize,
    file: Option<usize>,
    parts: &[GridSelection],
) -> Option<(Vec<GroupColumns>, Option<Arc<GroupPair>>)> {
    let mut pair = None;
    let mut of_pair = Vec::new();
    let columns = groups.iter().map(|expr| {
        let columns: BTreeSet<usize> = collect_columns(expr).iter().map(Column::index).collect();
        if let (Some(column), 1) = (columns.first(), columns.len()) {
            let is_known = *column < dimensions || Some(*column) == file;
            return is_known.then_some(GroupColumns::One(*column));
        }
        let axes = pair_of(expr, dimensions)?;
        of_pair.push(expr);
        (*pair.get_or_insert(axes) == axes).then_some(GroupColumns::Pair)
    });
    let columns = columns.collect::<Option<Vec<_>>>()?;
    let Some(axes) = pair else {
        return Some((columns, None));
    };
    // Unreadable coordinates are reported when the query reads them.
    let pair = GroupPair::try_new(&of_pair, axes, parts).ok()??;
    Some((columns, Some(Arc::new(pair))))
}

/// Returns an upper bound on the number of groups: the product, over the columns, of the number of
/// selected indices, and of the number of groups of `pair`. Grids with the same coordinates along a
/// column count once. `None` if the product exceeds `u64::MAX`.
pub(crate) fn most_groups(
    columns: &[GroupColumns],
    pair: Option<&GroupPair>,
    parts: &[GridSelection],
) -> Option<u64> {
    let parts: Vec<&GridSelection> = parts.iter().collect();
    let columns = columns.iter().filter_map(|column| match column {
        GroupColumns::One(column) => Some(*column),
        GroupColumns::Pair => None,
    });
    let columns: BTreeSet<usize> = columns.collect();
    let of_pair = pair.map_or(1, |pair| pair.count as u64);
    columns.into_iter().try_fold(of_pair, |groups, column| {
        let positions = |part: &GridSelection| {
            let set = part.selection.axes().get(column);
            set.map_or(1, IndexSet::count)
        };
        let along = match GridClasses::of(column, &parts) {
            Ok(same) => same
                .firsts
                .iter()
                .try_fold(0u64, |sum, first| sum.checked_add(positions(parts[*first]))),
            // Unreadable coordinates are reported when the query reads them.
            Err(_) => parts
                .iter()
                .try_fold(0u64, |sum, part| sum.checked_add(positions(part))),
        };
        groups.checked_mul(along?)
    })
}

/// Returns `true` if none of these expressions, each over one of `columns`, fails on a selected
/// coordinate. Those over a pair were evaluated before. Evaluates the others on at most [`MAX_TRIED`]
/// coordinates; beyond that only checks which operations they consist of.
pub(crate) fn never_fail(
    expressions: &[Arc<dyn PhysicalExpr>],
    columns: &[GroupColumns],
    parts: &[GridSelection],
) -> bool {
    let fails = |expr: &Arc<dyn PhysicalExpr>, column: usize, part: &GridSelection| {
        let Ok(along) = SelectedCoordinates::of(part, column) else {
            return true;
        };
        if along.count() > MAX_TRIED {
            return may_fail(expr);
        }
        let coordinates = along.coordinates(0..along.count());
        coordinates
            .and_then(|coordinates| evaluate(&[expr], along.name, coordinates))
            .is_err()
    };
    let pairs = expressions.iter().zip(columns);
    pairs
        .filter(|(expr, _)| !expr.is::<Column>())
        .all(|(expr, columns)| match columns {
            GroupColumns::One(column) => !parts.iter().any(|part| fails(expr, *column, part)),
            GroupColumns::Pair => true,
        })
}
