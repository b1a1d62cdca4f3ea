//! The chunks that blocks are, one after another, without looking each of them up.

use crate::grid::{ChunkGrid, ChunkSelection, IndexSet};

/// Selected chunks along each axis of a grid.
#[derive(Debug)]
pub(super) struct ChunkWalk {
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
}

impl ChunkWalk {
    /// A walk along chunks of a grid, of which there are fewer than 2^64.
    pub fn new(grid: &ChunkGrid, chunks: &ChunkSelection) -> Self {
        let mut stride = 1;
        let shape = grid.shape().iter().zip(grid.chunk_shape());
        let axes = shape
            .zip(chunks.axes())
            .rev()
            .map(|((length, extent), set)| {
                let positions = || set.ranges().flatten();
                let extents = positions().map(|chunk| (length - chunk * extent).min(*extent));
                let along = Along {
                    terms: positions().map(|chunk| chunk * stride).collect(),
                    extents: extents.collect(),
                };
                stride *= length.div_ceil(*extent);
                along
            });
        let mut axes: Vec<Along> = axes.collect();
        axes.reverse();
        let inner = chunks.axes().iter().rposition(|set| set.count() > 1);
        Self {
            axes,
            inner: inner.unwrap_or(0),
        }
    }

    /// Calls `visit` for each of these positions with the row-major number of the chunk there, and its cells.
    pub fn visit(&self, positions: &[u64], mut visit: impl FnMut(u64, u64)) {
        let nothing = Along {
            terms: vec![0],
            extents: vec![1],
        };
        let inner = self.axes.get(self.inner).unwrap_or(&nothing);
        let count = inner.terms.len();
        // What all chunks along the inner axis have in common, and where they end.
        let (mut number, mut cells, mut first, mut end) = (0, 0, 0, 0);
        for position in positions {
            if !(first..end).contains(position) {
                first = position - position % count as u64;
                end = first + count as u64;
                (number, cells) = self.common(first);
            }
            let rank = (position - first) as usize;
            visit(number + inner.terms[rank], cells * inner.extents[rank]);
        }
    }

    /// Number and cells of the chunk at a position, without what the inner axis adds to them.
    fn common(&self, position: u64) -> (u64, u64) {
        let (mut number, mut cells, mut rest) = (0, 1, position);
        for (axis, along) in self.axes.iter().enumerate().rev() {
            let count = along.terms.len() as u64;
            let rank = (rest % count) as usize;
            rest /= count;
            if axis != self.inner {
                number += along.terms[rank];
                cells *= along.extents[rank];
            }
        }
        (number, cells)
    }
}

/// The most selected chunks along an axis that are spelled out.
pub(super) const MOST_ALONG: u64 = 1 << 20;

/// Whether a walk along these chunks is worth to be prepared.
pub(super) fn is_walkable(chunks: &ChunkSelection) -> bool {
    chunks.count().is_some()
        && chunks
            .axes()
            .iter()
            .map(IndexSet::count)
            .all(|count| (1..=MOST_ALONG).contains(&count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Selection;

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
            let chunks = Selection::new(axes).chunks(&grid);
            assert!(is_walkable(&chunks));
            let walk = ChunkWalk::new(&grid, &chunks);
            let count = chunks.count().unwrap();
            let backwards: Vec<u64> = (0..count).rev().collect();
            for positions in [(0..count).collect(), backwards, vec![count - 1, 0]] {
                let mut found = Vec::new();
                walk.visit(&positions, |number, cells| found.push((number, cells)));
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
                    (number, grid.window(&chunk).cells())
                });
                assert_eq!(found, expected.collect::<Vec<_>>(), "{grid:?} {chunks:?}");
            }
        }
    }
}
