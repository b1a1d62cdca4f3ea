//! Windows of a grid that are read one by one.

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
            Self::List(windows) => {
                let touches = |window: &&Window| {
                    let mut axes = window.ranges().iter().zip(other.ranges());
                    axes.all(|(one, other)| one.start < other.end && other.start < one.end)
                };
                windows.iter().filter(touches).count()
            }
        }
    }
}
