//! Windows of a grid that are read one by one.

use std::ops::Range;

use crate::grid::{ChunkGrid, ChunkSelection, Window};

/// The maximum number of windows that are listed.
const MAX_LISTED: u64 = 512;

/// The windows that a reader opens, each of which needs all chunks that it touches.
#[derive(Debug, Clone)]
pub enum Windows {
    /// The selected chunks of a grid on the same axes.
    Chunks {
        /// The grid whose chunks are the windows.
        grid: ChunkGrid,
        /// The selected chunks.
        selected: ChunkSelection,
    },
    /// The windows of all combinations of one range of indices along each axis. The ranges of an axis are ascending and
    /// disjoint.
    Product(Vec<Vec<Range<u64>>>),
    /// Any windows.
    List(Vec<Window>),
}

impl Windows {
    /// Returns all windows; `None` if there are more than 512.
    pub fn list(&self) -> Option<Vec<Window>> {
        match self {
            Self::List(windows) => Some(windows.clone()),
            Self::Chunks { grid, selected } => {
                let count = selected.count().filter(|count| *count <= MAX_LISTED)?;
                let chunks = (0..count).filter_map(|ordinal| selected.nth(ordinal));
                Some(chunks.map(|chunk| grid.window(&chunk)).collect())
            }
            Self::Product(axes) => {
                let ordinals: Vec<_> = axes.iter().map(|ranges| 0..ranges.len() as u64).collect();
                let counts = ordinals.iter().map(|range| range.end);
                let count = counts.fold(1, u64::saturating_mul);
                let window = |nth| {
                    let chosen = ChunkGrid::nth_of(&ordinals, nth).into_iter().zip(axes);
                    Window::new(
                        chosen
                            .map(|(one, ranges)| ranges[one as usize].clone())
                            .collect(),
                    )
                };
                (count <= MAX_LISTED).then(|| (0..count).map(window).collect())
            }
        }
    }

    /// Returns the number of windows with cells in `other`.
    pub fn touching(&self, other: &Window) -> usize {
        match self {
            Self::Chunks { grid, selected } => {
                let axes = selected.axes().iter().zip(grid.chunks_in(other));
                let counts = axes.map(|(selected, range)| selected.within(range).count());
                let count = counts.fold(1, u64::saturating_mul);
                usize::try_from(count).unwrap_or(usize::MAX)
            }
            Self::Product(axes) => {
                let axes = axes.iter().zip(other.ranges());
                let counts = axes.map(|(ranges, other)| {
                    let start = ranges.partition_point(|one| one.end <= other.start);
                    ranges
                        .partition_point(|one| one.start < other.end)
                        .saturating_sub(start)
                });
                counts.fold(1, usize::saturating_mul)
            }
            Self::List(windows) => {
                let touches = |window: &&Window| {
                    let mut axes = window.ranges().iter().zip(other.ranges());
                    axes.all(|(one, other)| one.start < other.end && other.start < one.end)
                };
                windows.iter().filter(touches).count()
            }
        }
    }

    /// Returns `true` if several windows may have cells in the same chunk of a grid.
    pub fn may_share_chunks(&self, chunks: &ChunkGrid) -> bool {
        match self {
            Self::Chunks { grid, .. } => !grid.has_same_chunks(chunks),
            Self::Product(axes) => axes.iter().zip(chunks.axes()).any(|(ranges, chunks)| {
                let mut pairs = ranges.windows(2);
                pairs.any(|pair| pair[0].end > chunks.range(chunks.chunk_at(pair[1].start)).start)
            }),
            Self::List(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_all_combinations_of_ranges() {
        let windows = Windows::Product(vec![vec![0..10], vec![0..3, 3..5, 5..8]]);
        let list = windows.list().unwrap();
        assert_eq!(list.len(), 3);
        let chunk = Window::new(vec![4..6, 2..4]);
        assert_eq!(windows.touching(&chunk), 2);
        assert_eq!(Windows::List(list).touching(&chunk), 2);
        assert_eq!(windows.touching(&Window::new(vec![4..6, 8..10])), 0);
        let chunks = |extent| ChunkGrid::new(vec![10, 8], vec![2, extent]);
        assert!(windows.may_share_chunks(&chunks(4)));
        let aligned = Windows::Product(vec![vec![0..10], vec![0..4, 4..8]]);
        assert!(!aligned.may_share_chunks(&chunks(4)));
    }
}
