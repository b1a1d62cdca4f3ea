//! Predicates over several dimensions: `lon = 2 * lat`, `lat + lon > 100`.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{BooleanBufferBuilder, RecordBatch, UInt64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::take;
use arrow::datatypes::{Field, Schema};
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};

use crate::error::Error;
use crate::grid::{Axis, ChunkGrid, IndexSet, IndexSetBuilder, Selection};
use crate::provider::planning::mask::mask;

/// The number of combinations evaluated at a time.
pub(crate) const SEGMENT: u64 = 64 << 10;
/// The maximum number of combinations on which a predicate is evaluated.
const MAX_COMBINATIONS: u64 = 16 << 20;
/// The maximum number of combinations times the nodes of the predicate, which bounds the time.
const MAX_WORK: u64 = 1 << 30;
/// A predicate is evaluated if each combination stands for at least this many selected cells.
const MIN_CELLS: u64 = 16;
/// The minimum number of selected cells per combination if there is more than one [`SEGMENT`] of
/// combinations. The files of a table are planned one after another, so evaluating predicates must
/// take far less time than reading the cells.
const MIN_CELLS_OF_MANY: u64 = 256;
/// The maximum number of chunks that are pruned.
const MAX_CHUNKS: u64 = 16 << 20;

/// A predicate over several dimensions of a grid, evaluated on every combination of the coordinates
/// selected along these dimensions.
///
/// With the predicate `lon = 2 * lat`, for any number of times:
///
/// ```text
///        lon  0 1 2 3 4      chunks of 1 x 2, all times
/// lat 0       # . . . .      #   .   .
///     1       . . # . .      .   #   .
///     2       . . . . #      .   .   #
/// ```
#[derive(Debug)]
pub(crate) struct ProductMask {
    /// The dimensions, ascending.
    dimensions: Vec<usize>,
    /// The indices along each dimension on which the predicate was evaluated.
    candidates: Vec<IndexSet>,
    /// The result for each combination of candidates, in row-major order.
    mask: BooleanBuffer,
}

impl ProductMask {
    /// Evaluates a predicate on the selected coordinates of the dimensions that it refers to.
    /// `None` if it refers to fewer than two dimensions or to other columns, if there are too many
    /// combinations, or if the evaluation fails on one of them.
    ///
    /// # Errors
    /// Returns an error if the coordinates cannot be read.
    pub fn evaluate(
        axes: &[Axis],
        predicate: &Arc<dyn PhysicalExpr>,
        selection: &Selection,
    ) -> Result<Option<Self>, Error> {
        let columns = collect_columns(predicate);
        let dimensions: BTreeSet<usize> = columns.iter().map(Column::index).collect();
        if dimensions.len() < 2 || dimensions.last().is_some_and(|last| *last >= axes.len()) {
            return Ok(None);
        }
        let counts = selection.axes().iter().map(IndexSet::count).enumerate();
        let (of_mask, others): (Vec<_>, Vec<_>) =
            counts.partition(|(axis, _)| dimensions.contains(axis));
        let product = |counts: Vec<(usize, u64)>| {
            let counts = counts.into_iter();
            counts.fold(1u64, |product, (_, count)| product.saturating_mul(count))
        };
        let (combinations, others) = (product(of_mask), product(others));
        let is_small = (1..=MAX_COMBINATIONS).contains(&combinations)
            && combinations.saturating_mul(nodes(predicate)) <= MAX_WORK;
        let min_cells = match combinations <= SEGMENT {
            true => MIN_CELLS,
            false => MIN_CELLS_OF_MANY,
        };
        if !is_small || others < min_cells {
            return Ok(None);
        }
        let dimensions: Vec<usize> = dimensions.into_iter().collect();
        let candidates = dimensions
            .iter()
            .map(|axis| selection.axes()[*axis].clone());
        let candidates: Vec<IndexSet> = candidates.collect();
        for axis in &dimensions {
            axes[*axis].coordinates()?;
        }
        let mask = evaluate(axes, predicate, &dimensions, &candidates, combinations);
        Ok(mask.ok().map(|mask| Self {
            dimensions,
            candidates,
            mask,
        }))
    }

    /// Restricts a selection to the indices for which the predicate is true in some combination.
    pub fn restrict(&self, selection: &mut Selection) {
        let counts = self.counts();
        let mut is_used: Vec<Vec<bool>> = counts
            .iter()
            .map(|count| vec![false; *count as usize])
            .collect();
        self.visit(|combination| {
            for (is_used, rank) in is_used.iter_mut().zip(combination) {
                is_used[*rank] = true;
            }
        });
        let sets = self.dimensions.iter().zip(&self.candidates);
        for ((axis, candidates), is_used) in sets.zip(is_used) {
            let used = candidates.ranges().flatten().zip(is_used);
            let used = used.filter_map(|(index, is_used)| is_used.then_some(index..index + 1));
            selection.restrict(*axis, &IndexSet::from_ranges(candidates.length(), used));
        }
    }

    /// Returns the numbers of candidates along each dimension.
    fn counts(&self) -> Vec<u64> {
        self.candidates.iter().map(IndexSet::count).collect()
    }

    /// Calls `visit` with each combination for which the predicate is true, as ranks of candidates.
    fn visit(&self, mut visit: impl FnMut(&[usize])) {
        let counts = self.counts();
        let mut combination = vec![0; counts.len()];
        for position in self.mask.set_indices() {
            let mut rest = position;
            for (rank, count) in combination.iter_mut().zip(&counts).rev() {
                *rank = rest % *count as usize;
                rest /= *count as usize;
            }
            visit(&combination);
        }
    }

    /// Returns, for each combination of selected chunks along the dimensions in row-major order,
    /// `true` if the predicate is true for some selected cell in it.
    fn chunks(&self, grid: &ChunkGrid, selection: &Selection, counts: &[u64]) -> Vec<bool> {
        let selected = selection.chunks(grid);
        // For each candidate, the rank of its chunk; `None` if it is no longer selected.
        let ranks = self.dimensions.iter().zip(&self.candidates);
        let ranks = ranks.map(|(axis, candidates)| -> Vec<Option<u64>> {
            let (chunks, is_left) = (grid.axis(*axis), &selection.axes()[*axis]);
            let candidates = candidates.ranges().flatten();
            let rank = |index| {
                let chunk = chunks.chunk_at(index);
                is_left
                    .contains(index)
                    .then(|| selected.axes()[*axis].rank(chunk))
            };
            candidates.map(rank).collect()
        });
        let ranks: Vec<Vec<Option<u64>>> = ranks.collect();
        let counts: Vec<u64> = self.dimensions.iter().map(|axis| counts[*axis]).collect();
        let mut holds = vec![false; counts.iter().product::<u64>() as usize];
        self.visit(|combination| {
            let mut position = 0;
            for ((ranks, count), candidate) in ranks.iter().zip(&counts).zip(combination) {
                match ranks[*candidate] {
                    Some(rank) => position = position * count + rank,
                    None => return,
                }
            }
            holds[position as usize] = true;
        });
        holds
    }
}

/// Returns the chunks that may hold a cell for which every predicate is true, as ordinals among the
/// chunks of the selection in row-major order. `None` if every chunk may, or if there are too many
/// chunks.
pub(crate) fn kept_chunks(
    masks: &[ProductMask],
    grid: &ChunkGrid,
    selection: &Selection,
) -> Option<IndexSet> {
    let chunks = selection.chunks(grid);
    let total = chunks.count().filter(|total| *total <= MAX_CHUNKS)?;
    if masks.is_empty() || total == 0 {
        return None;
    }
    let counts: Vec<u64> = chunks.axes().iter().map(IndexSet::count).collect();
    let mut behind = vec![1; counts.len()];
    for axis in (1..counts.len()).rev() {
        behind[axis - 1] = behind[axis] * counts[axis];
    }
    let holds = masks
        .iter()
        .map(|mask| mask.chunks(grid, selection, &counts));
    let holds: Vec<Vec<bool>> = holds.collect();
    let is_kept = |ordinal: u64| {
        masks.iter().zip(&holds).all(|(mask, holds)| {
            let dimensions = mask.dimensions.iter();
            let position = dimensions.fold(0, |position, axis| {
                position * counts[*axis] + ordinal / behind[*axis] % counts[*axis]
            });
            holds[position as usize]
        })
    };
    let mut kept = IndexSetBuilder::new(total);
    for start in (0..total).step_by(SEGMENT as usize) {
        let length = SEGMENT.min(total - start) as usize;
        let bits = BooleanBuffer::collect_bool(length, |bit| is_kept(start + bit as u64));
        kept.push_mask(start, &bits);
    }
    let kept = kept.finish();
    (!kept.is_all()).then_some(kept)
}

/// Returns the number of nodes of an expression.
fn nodes(expr: &Arc<dyn PhysicalExpr>) -> u64 {
    let mut nodes = 0;
    // The closure never fails.
    let _ = expr.apply(|_| {
        nodes += 1;
        Ok(TreeNodeRecursion::Continue)
    });
    nodes
}

fn evaluate(
    axes: &[Axis],
    predicate: &Arc<dyn PhysicalExpr>,
    dimensions: &[usize],
    candidates: &[IndexSet],
    combinations: u64,
) -> Result<BooleanBuffer> {
    let mut result = BooleanBufferBuilder::new(combinations as usize);
    for_each_combination(axes, dimensions, candidates, SEGMENT, |some| {
        let predicate = reassign_expr_columns(Arc::clone(predicate), some.schema_ref())?;
        result.append_buffer(mask(&predicate, some)?.values());
        Ok(())
    })?;
    Ok(result.finish())
}

/// Calls `visit` with the coordinates of every combination of candidates along some dimensions, in row-major
/// order, `segment` combinations at a time. Each dimension is a column.
///
/// # Errors
/// Fails if coordinates cannot be read, and with the first error of `visit`.
pub(crate) fn for_each_combination(
    axes: &[Axis],
    dimensions: &[usize],
    candidates: &[IndexSet],
    segment: u64,
    mut visit: impl FnMut(&RecordBatch) -> Result<()>,
) -> Result<()> {
    let fields = dimensions.iter().map(|axis| {
        let axis = &axes[*axis];
        Field::new(axis.name(), axis.data_type(), false)
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let mut coordinates = Vec::with_capacity(dimensions.len());
    for (axis, candidates) in dimensions.iter().zip(candidates) {
        let indices = candidates.ranges().flatten();
        coordinates.push(axes[*axis].coordinates()?.at(indices)?);
    }
    let counts = candidates.iter().map(IndexSet::count);
    let combinations = counts.product::<u64>();
    for start in (0..combinations).step_by(segment.max(1) as usize) {
        let rows = start..combinations.min(start + segment);
        let mut behind = combinations;
        let columns = coordinates.iter().map(|coordinates| {
            let count = coordinates.len() as u64;
            behind /= count;
            let ranks = rows.clone().map(|row| row / behind % count);
            take(coordinates, &UInt64Array::from_iter_values(ranks), None)
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        visit(&RecordBatch::try_new(Arc::clone(&schema), columns)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::{Expr, col, lit};
    use datafusion::prelude::SessionContext;

    use super::*;

    const SHAPE: [u64; 3] = [20, 9, 7];

    fn axes() -> Vec<Axis> {
        let names = ["t", "y", "x"].into_iter();
        names
            .zip(SHAPE)
            .map(|(name, length)| Axis::counted(name, length))
            .collect()
    }

    fn physical(predicate: Expr) -> Arc<dyn PhysicalExpr> {
        let fields = ["t", "y", "x", "value"];
        let fields = fields.map(|name| Field::new(name, DataType::Int64, false));
        let schema = DFSchema::try_from(Schema::new(fields.to_vec())).unwrap();
        let session = SessionContext::new();
        session.create_physical_expr(predicate, &schema).unwrap()
    }

    #[test]
    fn restrictions_and_chunks_by_brute_force() {
        type Truth = fn(i64, i64) -> bool;
        let cases: [(Expr, Truth); 4] = [
            (col("x").eq(col("y") * lit(2)), |y, x| x == 2 * y),
            ((col("x") + col("y")).gt(lit(11)), |y, x| x + y > 11),
            ((col("x") * col("y")).eq(lit(-1)), |_, _| false),
            ((col("y") - col("x")).eq(lit(8)), |y, x| y - x == 8),
        ];
        let selections = [
            Selection::all(&SHAPE),
            Selection::new(vec![
                IndexSet::from_ranges(20, [1..19]),
                IndexSet::from_ranges(9, [0..3, 5..9]),
                IndexSet::from_ranges(7, [0..1, 2..6]),
            ]),
        ];
        for (predicate, truth) in cases {
            for selection in &selections {
                let selected = |axis: usize| selection.axes()[axis].ranges().flatten();
                let true_at: Vec<(u64, u64)> = selected(1)
                    .flat_map(|y| selected(2).map(move |x| (y, x)))
                    .filter(|(y, x)| truth(*y as i64, *x as i64))
                    .collect();
                let predicate = physical(predicate.clone());
                let mask = ProductMask::evaluate(&axes(), &predicate, selection);
                let mask = mask.unwrap().unwrap();
                let mut restricted = selection.clone();
                mask.restrict(&mut restricted);
                let along = |axis: usize| -> Vec<u64> {
                    restricted.axes()[axis].ranges().flatten().collect()
                };
                let ys: BTreeSet<u64> = true_at.iter().map(|(y, _)| *y).collect();
                let xs: BTreeSet<u64> = true_at.iter().map(|(_, x)| *x).collect();
                assert_eq!(along(1), ys.into_iter().collect::<Vec<_>>());
                assert_eq!(along(2), xs.into_iter().collect::<Vec<_>>());
                assert_eq!(restricted.axes()[0], selection.axes()[0]);
                for phase in [vec![0, 0, 0], vec![3, 1, 1]] {
                    let grid = ChunkGrid::new(SHAPE.to_vec(), vec![6, 2, 3]).with_phase(phase);
                    let chunks = restricted.chunks(&grid);
                    let total = chunks.count().unwrap();
                    let expected: Vec<u64> = (0..total)
                        .filter(|ordinal| {
                            let window = grid.window(&chunks.nth(*ordinal).unwrap());
                            let [_, ys, xs] = window.ranges() else {
                                unreachable!()
                            };
                            true_at
                                .iter()
                                .any(|(y, x)| ys.contains(y) && xs.contains(x))
                        })
                        .collect();
                    let masks = std::slice::from_ref(&mask);
                    let kept = kept_chunks(masks, &grid, &restricted);
                    let kept = kept.unwrap_or_else(|| IndexSet::all(total));
                    assert_eq!(kept.ranges().flatten().collect::<Vec<_>>(), expected);
                }
            }
        }
    }

    #[test]
    fn chunks_satisfy_all_masks() {
        let all = Selection::all(&SHAPE);
        let masks = [col("y").eq(col("x")), (col("y") + col("x")).lt(lit(3))].map(|predicate| {
            let mask = ProductMask::evaluate(&axes(), &physical(predicate), &all);
            mask.unwrap().unwrap()
        });
        let grid = ChunkGrid::new(SHAPE.to_vec(), vec![20, 1, 1]);
        let kept = kept_chunks(&masks, &grid, &all).unwrap();
        assert_eq!(kept.ranges().flatten().collect::<Vec<_>>(), [0, 8]);
    }

    #[test]
    fn predicates_that_are_left_to_the_rows() {
        let all = Selection::all(&SHAPE);
        let few = Selection::new(vec![
            IndexSet::from_ranges(20, [0..15]),
            IndexSet::all(9),
            IndexSet::all(7),
        ]);
        for (predicate, selection) in [
            (col("x").gt(lit(1)), &all),
            (col("x").gt(col("value")), &all),
            (col("x").gt(col("y")), &few),
            // Fails where x is 0.
            ((col("y") / col("x")).gt(lit(1)), &all),
        ] {
            let predicate = physical(predicate);
            let mask = ProductMask::evaluate(&axes(), &predicate, selection);
            assert!(mask.unwrap().is_none(), "{predicate}");
        }
    }
}
