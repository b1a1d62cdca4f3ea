//! The chunks that blocks are, one after another, without looking each of them up.

use crate::grid::{ChunkGrid, ChunkSelection, IndexSet, Selection};

/// The most selected chunks along an axis that are spelled out.
const MOST_ALONG: u64 = 1 << 20;

/// Selected chunks along each axis of a grid.
#[derive(Debug)]
pub(crate) struct ChunkWalk {
    axes: Vec<Along>,
    /// The last axis along which there are several.
    inner: usize,
}

#[derive(Debug)]
struct Along {
    /// What each selected chunk adds to the row-major number of a chunk in its grid.
    terms: Vec<u64>,
    /// Positions of the axis that are in each.
    extents: Vec<u64>,
    /// Those of them that are selected.
    selected: Vec<u64>,
}

/// A chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// Its row-major number in its grid.
    pub number: u64,
    pub cells: u64,
    /// Cells that are selected.
    pub rows: u64,
}

impl ChunkWalk {
    /// A walk along chunks of a grid that has fewer than 2^64 of them, as stored arrays have. `None` if there is no chunk, or so many
    /// along an axis that they are better not spelled out.
    pub fn try_new(
        grid: &ChunkGrid,
        chunks: &ChunkSelection,
        selection: &Selection,
    ) -> Option<Self> {
        let mut counts = chunks.axes().iter().map(IndexSet::count);
        if chunks.count().is_none() || !counts.all(|count| (1..=MOST_ALONG).contains(&count)) {
            return None;
        }
        let mut stride = 1;
        let shape = grid.shape().iter().zip(grid.chunk_shape());
        let sets = chunks.axes().iter().zip(selection.axes());
        let axes = shape
            .zip(sets)
            .rev()
            .map(|((length, extent), (set, selected))| {
                let positions = || set.ranges().flatten();
                let extents = positions().map(|chunk| (length - chunk * extent).min(*extent));
                let selected_in = positions().map(|chunk| {
                    let start = chunk * extent;
                    selected.rank(start.saturating_add(*extent).min(*length)) - selected.rank(start)
                });
                let along = Along {
                    terms: positions().map(|chunk| chunk * stride).collect(),
                    extents: extents.collect(),
                    selected: selected_in.collect(),
                };
                stride *= length.div_ceil(*extent);
                along
            });
        let mut axes: Vec<Along> = axes.collect();
        axes.reverse();
        let inner = chunks.axes().iter().rposition(|set| set.count() > 1);
        Some(Self {
            axes,
            inner: inner.unwrap_or(0),
        })
    }

    /// Calls `visit` with the chunk at each of these positions.
    pub fn visit(&self, positions: &[u64], mut visit: impl FnMut(Step)) {
        let nothing = Along {
            terms: vec![0],
            extents: vec![1],
            selected: vec![1],
        };
        let inner = self.axes.get(self.inner).unwrap_or(&nothing);
        let count = inner.terms.len();
        // What all chunks along the inner axis have in common, and where they end.
        let (mut first, mut end) = (0, 0);
        let mut common = self.common(0);
        for position in positions {
            if !(first..end).contains(position) {
                first = position - position % count as u64;
                end = first + count as u64;
                common = self.common(first);
            }
            let rank = (position - first) as usize;
            visit(Step {
                number: common.number + inner.terms[rank],
                cells: common.cells * inner.extents[rank],
                rows: common.rows * inner.selected[rank],
            });
        }
    }

    /// The chunk at a position, without what the inner axis adds to it.
    fn common(&self, position: u64) -> Step {
        let mut step = Step {
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
    fn chunks_are_those_that_are_looked_up() {
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
            let grid = ChunkGrid::new(shape, chunk_shape);
            let selection = Selection::new(axes);
            let chunks = selection.chunks(&grid);
            let walk = ChunkWalk::try_new(&grid, &chunks, &selection).unwrap();
            let count = chunks.count().unwrap();
            let backwards: Vec<u64> = (0..count).rev().collect();
            for positions in [(0..count).collect(), backwards, vec![count - 1, 0]] {
                let mut found = Vec::new();
                walk.visit(&positions, |step| found.push(step));
                let expected = positions.iter().map(|position| {
                    let chunk = chunks.nth(*position).unwrap();
                    let counts = grid.shape().iter().zip(grid.chunk_shape());
                    let number =
                        chunk
                            .iter()
                            .zip(counts)
                            .fold(0, |number, (chunk, (length, extent))| {
                                number * length.div_ceil(*extent) + chunk
                            });
                    let window = grid.window(&chunk);
                    Step {
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
