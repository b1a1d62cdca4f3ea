//! Enumerates the chunks of many blocks without looking up each one.

use std::ops::Range;

use crate::grid::{ChunkGrid, ChunkSelection, IndexSet, Selection};

/// The maximum number of selected chunks along an axis that are stored in a list.
const MAX_ALONG: u64 = 1 << 20;

/// The selected chunks along each axis of a grid, as lists.
#[derive(Debug)]
pub(crate) struct ChunkWalk {
    axes: Vec<WalkedAxis>,
    /// The last axis with more than one selected chunk.
    inner: usize,
}

#[derive(Debug)]
struct WalkedAxis {
    /// For each selected chunk along the axis, its term of the chunk's row-major number in the
    /// grid.
    terms: Vec<u64>,
    /// For each selected chunk, the number of indices in it.
    extents: Vec<u64>,
    /// For each selected chunk, the number of selected indices in it.
    selected: Vec<u64>,
}

/// One chunk of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WalkedChunk {
    /// The row-major number of the chunk in its grid.
    pub number: u64,
    pub cells: u64,
    /// The number of selected cells.
    pub rows: u64,
}

impl ChunkWalk {
    /// Creates a walk over the selected chunks of a grid. `None` if the grid has 2^64 chunks or
    /// more, if no chunk is selected, or more than [`MAX_ALONG`] along an axis.
    pub fn try_new(
        grid: &ChunkGrid,
        chunks: &ChunkSelection,
        selection: &Selection,
    ) -> Option<Self> {
        let mut counts = chunks.axes().iter().map(IndexSet::count);
        if grid.count().is_none() || !counts.all(|count| (1..=MAX_ALONG).contains(&count)) {
            return None;
        }
        let mut stride = 1;
        let sets = chunks.axes().iter().zip(selection.axes());
        let axes = grid.axes().zip(sets).rev().map(|(axis, (set, selected))| {
            let positions = || set.ranges().flatten();
            let ranges = || positions().map(|chunk| axis.range(chunk));
            let selected_in =
                |range: Range<u64>| selected.rank(range.end) - selected.rank(range.start);
            let along = WalkedAxis {
                terms: positions().map(|chunk| chunk * stride).collect(),
                extents: ranges().map(|range| range.end - range.start).collect(),
                selected: ranges().map(selected_in).collect(),
            };
            stride *= axis.count();
            along
        });
        let mut axes: Vec<WalkedAxis> = axes.collect();
        axes.reverse();
        let inner = chunks.axes().iter().rposition(|set| set.count() > 1);
        Some(Self {
            axes,
            inner: inner.unwrap_or(0),
        })
    }

    /// Calls `visit` with the chunk of each of these block ordinals.
    pub fn visit(&self, positions: &[u64], mut visit: impl FnMut(WalkedChunk)) {
        let nothing = WalkedAxis {
            terms: vec![0],
            extents: vec![1],
            selected: vec![1],
        };
        let inner = self.axes.get(self.inner).unwrap_or(&nothing);
        let count = inner.terms.len();
        // The chunks with ordinals from `first` to `end` differ along the inner axis only; `common`
        // holds what they share.
        let (mut first, mut end) = (0, 0);
        let mut common = self.common(0);
        for position in positions {
            if !(first..end).contains(position) {
                first = position - position % count as u64;
                end = first + count as u64;
                common = self.common(first);
            }
            let rank = (position - first) as usize;
            visit(WalkedChunk {
                number: common.number + inner.terms[rank],
                cells: common.cells * inner.extents[rank],
                rows: common.rows * inner.selected[rank],
            });
        }
    }

    /// Returns the chunk of a block ordinal, without the contribution of the inner axis.
    fn common(&self, position: u64) -> WalkedChunk {
        let mut step = WalkedChunk {
            number: 0,
            cells: 1,
            rows: 1,
        };
        let mut rest = position;
        for (axis, along) in self.axes.iter().enumerate().rev() {
            let count = along.terms.len() as u64;
            let rank = (rest % count) as usize;
            rest /= count;
            if axis != self.inner {
                step.number += along.terms[rank];
                step.cells *= along.extents[rank];
                step.rows *= along.selected[rank];
            }
        }
        debug_assert_eq!(rest, 0, "block {position} is behind the last");
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Cells;

    #[test]
    fn walk_agrees_with_lookup() {
        let all = |length| IndexSet::all(length);
        for (shape, chunk_shape, axes) in [
            (vec![], vec![], vec![]),
            (vec![10], vec![4], vec![all(10)]),
            (vec![7, 9, 3], vec![2, 4, 5], vec![all(7), all(9), all(3)]),
            (
                vec![7, 9, 5],
                vec![2, 4, 1],
                vec![
                    IndexSet::from_ranges(7, [0..1, 5..7]),
                    IndexSet::from_ranges(9, [8..9]),
                    IndexSet::from_ranges(5, [0..2, 4..5]),
                ],
            ),
        ] {
            let grid = ChunkGrid::new(shape, chunk_shape.clone());
            let last = chunk_shape.iter().map(|extent| extent - 1).collect();
            for grid in [grid.clone(), grid.with_phase(last)] {
                let selection = Selection::new(axes.clone());
                let chunks = selection.chunks(&grid);
                let walk = ChunkWalk::try_new(&grid, &chunks, &selection).unwrap();
                let count = chunks.count().unwrap();
                let backwards: Vec<u64> = (0..count).rev().collect();
                for positions in [(0..count).collect(), backwards, vec![count - 1, 0]] {
                    let mut found = Vec::new();
                    walk.visit(&positions, |step| found.push(step));
                    let expected = positions.iter().map(|position| {
                        let chunk = chunks.nth(*position).unwrap();
                        let number = chunk
                            .iter()
                            .zip(grid.axes())
                            .fold(0, |number, (chunk, axis)| number * axis.count() + chunk);
                        let window = grid.window(&chunk);
                        WalkedChunk {
                            number,
                            cells: window.cells(),
                            rows: Cells::new(&window, &selection).rows(),
                        }
                    });
                    assert_eq!(found, expected.collect::<Vec<_>>(), "{grid:?} {chunks:?}");
                }
            }
        }
    }
}
