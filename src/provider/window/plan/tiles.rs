//! Cuts an array into tiles across the axes other than the order axis.

use std::ops::Range;

use crate::grid::{AxisChunks, ChunkGrid, IndexSet, Selection};
use crate::provider::source::Windows;

/// Tiles with fewer series span several chunks, so that loops over series are long.
const MIN_SERIES: u64 = 512;
/// The maximum number of cells of a tile in one chunk along the order axis, if the tile spans several
/// chunks.
const MAX_SPANNED_CELLS: u64 = 2 << 20;

/// The tiles of an array, and the parts of the order axis that they are cut into.
#[derive(Debug, Clone)]
pub(in crate::provider::window) struct Tiles {
    /// For each axis, the ranges of indices of the tiles. One range along the order axis.
    ranges: Vec<Vec<Range<u64>>>,
    sets: Vec<IndexSet>,
    axis: usize,
    /// The number of parts along the order axis.
    pub parts: usize,
    /// The number of partitions.
    pub partitions: usize,
}

/// The indices of a tile along each axis. Along the order axis, all of them.
#[derive(Debug, Clone)]
pub(in crate::provider::window) struct Tile {
    pub ranges: Vec<Range<u64>>,
    /// The number of series.
    pub lanes: usize,
}

/// The work of one step of a partition: some output planes of a tile.
#[derive(Debug, Clone)]
pub(in crate::provider::window) struct TileJob {
    pub tile: Tile,
    /// The output planes, in walking order.
    pub planes: Range<usize>,
}

impl Tiles {
    /// Cuts the selection into tiles of at most `max_series` series, if possible along chunks.
    pub fn new(grid: &ChunkGrid, selection: &Selection, axis: usize, max_series: u64) -> Self {
        let sets = selection.axes().to_vec();
        let chunks: Vec<Vec<Range<u64>>> = sets
            .iter()
            .zip(grid.axes())
            .enumerate()
            .map(|(number, (set, chunks))| {
                if number == axis {
                    return vec![0..set.length()];
                }
                touched(set, chunks)
            })
            .collect();
        let mut tiles = Self {
            ranges: chunks,
            sets,
            axis,
            parts: 1,
            partitions: 1,
        };
        let extent = grid.chunk_shape().get(axis).copied().unwrap_or(1);
        let most = (MAX_SPANNED_CELLS / extent.max(1)).min(max_series);
        tiles.merge(most);
        tiles.split(max_series.max(1));
        tiles
    }

    /// Returns the number of selected indices in a range along an axis.
    fn selected(&self, axis: usize, range: &Range<u64>) -> u64 {
        self.sets[axis].rank(range.end) - self.sets[axis].rank(range.start)
    }

    /// Returns the maximum number of selected indices of a tile along an axis.
    fn most_along(&self, axis: usize) -> u64 {
        let counts = self.ranges[axis].iter();
        let counts = counts.map(|range| self.selected(axis, range));
        counts.max().unwrap_or(0)
    }

    /// Returns the maximum number of series of a tile.
    pub fn max_series(&self) -> u64 {
        let others = (0..self.ranges.len()).filter(|axis| *axis != self.axis);
        others.fold(1, |series, axis| {
            u64::saturating_mul(series, self.most_along(axis))
        })
    }

    /// Joins adjacent chunks until tiles have [`MIN_SERIES`] series, but at most `most`. Chunks that are
    /// not adjacent stay apart: a tile would also read the unselected chunks between them.
    fn merge(&mut self, most: u64) {
        let others = (0..self.ranges.len())
            .rev()
            .filter(|axis| *axis != self.axis);
        for axis in others.collect::<Vec<_>>() {
            loop {
                let series = self.max_series();
                if series >= MIN_SERIES
                    || series.saturating_mul(2) > most
                    || self.ranges[axis].len() < 2
                {
                    break;
                }
                let before = self.ranges[axis].len();
                self.ranges[axis] = in_pairs(&self.ranges[axis]);
                if self.ranges[axis].len() == before {
                    break;
                }
            }
        }
    }

    /// Halves the ranges of the longest axis until no tile has more than `most` series.
    fn split(&mut self, most: u64) {
        while self.max_series() > most {
            let others = (0..self.ranges.len()).filter(|axis| *axis != self.axis);
            let Some(longest) = others.max_by_key(|axis| self.most_along(*axis)) else {
                return;
            };
            let set = &self.sets[longest];
            let halves = self.ranges[longest].iter().flat_map(|range| {
                let (first, last) = (set.rank(range.start), set.rank(range.end));
                let middle = set.nth(first + (last - first) / 2).unwrap_or(range.end);
                [range.start..middle, middle..range.end]
            });
            let halves: Vec<_> = halves
                .filter(|range| self.selected(longest, range) > 0)
                .collect();
            self.ranges[longest] = halves;
        }
    }

    /// Returns the number of tiles; `None` if it does not fit.
    pub fn count(&self) -> Option<usize> {
        let mut counts = self.ranges.iter().map(Vec::len);
        counts.try_fold(1usize, usize::checked_mul)
    }

    /// Returns the windows of all tiles: the selected chunks of the grid along the order axis, cut by the tiles.
    pub fn windows(&self, grid: &ChunkGrid) -> Windows {
        let mut ranges = self.ranges.clone();
        ranges[self.axis] = touched(&self.sets[self.axis], grid.axis(self.axis));
        Windows::Product(ranges)
    }

    /// Distributes the tiles over at most this many partitions. `planes` is the number of planes of an
    /// array, and `reach` the maximum number of planes on either side that an output plane depends on.
    pub fn distribute(&mut self, partitions: usize, planes: usize, reach: usize) {
        let tiles = self.count().unwrap_or(usize::MAX);
        self.parts = 1;
        if tiles < partitions && tiles > 0 {
            // Each part reads the planes within reach once more.
            let most = planes / reach.saturating_mul(8).max(1);
            self.parts = partitions.div_ceil(tiles).min(most).max(1);
        }
        self.partitions = partitions.min(tiles.saturating_mul(self.parts)).max(1);
    }

    /// Returns the jobs of a partition, by their numbers.
    pub fn jobs(&self, partition: usize) -> Range<usize> {
        let all = self
            .count()
            .unwrap_or(usize::MAX)
            .saturating_mul(self.parts);
        let start =
            |partition: usize| (all as u128 * partition as u128 / self.partitions as u128) as usize;
        start(partition)..start(partition + 1)
    }

    /// Returns a job. `planes` is the number of planes of the array.
    pub fn job(&self, number: usize, planes: usize) -> TileJob {
        let (mut tile, part) = (number / self.parts, number % self.parts);
        let mut ranges = vec![0..0; self.ranges.len()];
        let mut lanes = 1;
        for (axis, along) in self.ranges.iter().enumerate().rev() {
            let range = along[tile % along.len()].clone();
            tile /= along.len();
            if axis != self.axis {
                lanes *= self.selected(axis, &range) as usize;
            }
            ranges[axis] = range;
        }
        let start = |part: usize| planes * part / self.parts;
        TileJob {
            tile: Tile { ranges, lanes },
            planes: start(part)..start(part + 1),
        }
    }

    /// Returns both halves of the tile of a job; `None` if it has a single series.
    pub fn halves(&self, job: &TileJob) -> Option<[TileJob; 2]> {
        let others = (0..self.ranges.len()).filter(|axis| *axis != self.axis);
        let longest = others.max_by_key(|axis| self.selected(*axis, &job.tile.ranges[*axis]))?;
        let range = job.tile.ranges[longest].clone();
        let set = &self.sets[longest];
        let selected = self.selected(longest, &range);
        if selected < 2 {
            return None;
        }
        let middle = set.nth(set.rank(range.start) + selected / 2)?;
        let half = |range: Range<u64>| {
            let mut half = job.clone();
            half.tile.lanes =
                job.tile.lanes / selected as usize * self.selected(longest, &range) as usize;
            half.tile.ranges[longest] = range;
            half
        };
        Some([half(range.start..middle), half(middle..range.end)])
    }
}

/// Returns the ranges of the chunks that contain an index of the set.
fn touched(set: &IndexSet, chunks: AxisChunks) -> Vec<Range<u64>> {
    let touched = set.chunks(chunks);
    let touched = touched.ranges().flatten();
    touched.map(|chunk| chunks.range(chunk)).collect()
}

/// Joins ranges in pairs where one ends at the start of the next.
fn in_pairs(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut joined = Vec::with_capacity(ranges.len());
    let mut ranges = ranges.iter().cloned().peekable();
    while let Some(mut range) = ranges.next() {
        if let Some(next) = ranges.next_if(|next| next.start == range.end) {
            range.end = next.end;
        }
        joined.push(range);
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the tiles cover each series once.
    fn check(tiles: &Tiles, series: usize, most: u64) {
        let count = tiles.count().unwrap();
        let jobs = (0..count).map(|number| tiles.job(number, 1));
        let lanes: Vec<_> = jobs.map(|job| job.tile.lanes).collect();
        assert_eq!(lanes.iter().sum::<usize>(), series);
        assert!(
            lanes
                .iter()
                .all(|lanes| (1..=most as usize).contains(lanes)),
            "{lanes:?}"
        );
    }

    #[test]
    fn tiles_cover_the_selection() {
        let grid = ChunkGrid::new(vec![100, 50, 70], vec![10, 20, 30]);
        let all = Selection::all(&[100, 50, 70]);
        for most in [1, 7, 600, 1 << 20] {
            check(&Tiles::new(&grid, &all, 0, most), 3500, most);
        }
        let tiles = Tiles::new(&grid, &all, 0, 1 << 20);
        assert_eq!(tiles.count(), Some(9));
        let some = Selection::new(vec![
            IndexSet::all(100),
            IndexSet::from_ranges(50, [1..2, 45..50]),
            IndexSet::from_ranges(70, [0..1, 3..9]),
        ]);
        check(&Tiles::new(&grid, &some, 0, 5), 42, 5);
        check(&Tiles::new(&grid, &some, 1, 64), 700, 64);
        // Series in chunks of their own are joined.
        let grid = ChunkGrid::new(vec![100, 64, 64], vec![100, 1, 1]);
        let tiles = Tiles::new(&grid, &Selection::all(&[100, 64, 64]), 0, 1 << 20);
        assert_eq!((tiles.count(), tiles.max_series()), (Some(8), 512));
        // Chunks with unselected chunks between them are not joined.
        let even = IndexSet::from_ranges(64, (0..64).step_by(2).map(|index| index..index + 1));
        let apart = Selection::new(vec![IndexSet::all(100), IndexSet::all(1), even]);
        let grid = ChunkGrid::new(vec![100, 1, 64], vec![100, 1, 1]);
        let tiles = Tiles::new(&grid, &apart, 0, 1 << 20);
        assert_eq!((tiles.count(), tiles.max_series()), (Some(32), 1));
    }

    #[test]
    fn halves_and_partitions() {
        let grid = ChunkGrid::new(vec![100, 5], vec![10, 5]);
        let mut tiles = Tiles::new(&grid, &Selection::all(&[100, 5]), 0, 64);
        tiles.distribute(4, 100, 3);
        assert_eq!((tiles.parts, tiles.partitions), (4, 4));
        assert_eq!(tiles.job(1, 100).planes, 25..50);
        tiles.distribute(4, 100, 30);
        assert_eq!((tiles.parts, tiles.partitions), (1, 1));
        let job = tiles.job(0, 100);
        let [one, other] = tiles.halves(&job).unwrap();
        assert_eq!((one.tile.lanes, other.tile.lanes), (2, 3));
        let single = tiles.halves(&one).unwrap()[0].clone();
        assert!(tiles.halves(&single).is_none());
    }
}
