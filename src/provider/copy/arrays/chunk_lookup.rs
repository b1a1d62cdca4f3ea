//! Maps the coordinate codes of a row to a chunk and to a cell within the chunk.

use crate::grid::{ChunkGrid, Window};

/// Lookup tables by dimension and code, which locate a cell without a division per row.
pub struct ChunkLookup {
    dimensions: Vec<Dimension>,
    grid: ChunkGrid,
    chunks_along: Vec<u64>,
}

struct Dimension {
    /// For each code, the amount it contributes to the ordinal of the chunk.
    chunk: Vec<u64>,
    /// For each code, the index within the chunk along this axis.
    inner: Vec<u64>,
    /// For each code, the extent of the chunk along this axis. Chunks at the upper edge are
    /// clipped.
    extent: Vec<u64>,
}

impl ChunkLookup {
    /// Builds the tables from the index of each code along each axis.
    pub fn new(positions: &[&[u32]], grid: ChunkGrid) -> Self {
        let chunks_along: Vec<u64> = grid
            .shape()
            .iter()
            .zip(grid.chunk_shape())
            .map(|(length, extent)| length.div_ceil(*extent))
            .collect();
        let mut step = chunks_along.iter().product::<u64>();
        let axes = positions.iter().enumerate();
        let dimensions = axes.map(|(axis, positions)| {
            let (length, extent) = (grid.shape()[axis], grid.chunk_shape()[axis]);
            step /= chunks_along[axis].max(1);
            let of = |tell: &dyn Fn(u64) -> u64| {
                let positions = positions.iter();
                positions
                    .map(|position| tell(u64::from(*position)))
                    .collect()
            };
            Dimension {
                chunk: of(&|position| position / extent * step),
                inner: of(&|position| position % extent),
                extent: of(&|position| extent.min(length - position / extent * extent)),
            }
        });
        Self {
            dimensions: dimensions.collect(),
            grid,
            chunks_along,
        }
    }

    /// Returns the ordinal of a row's chunk, in row-major order.
    pub fn chunk(&self, codes: &[Vec<u32>], row: usize) -> u64 {
        let dimensions = self.dimensions.iter().zip(codes);
        dimensions
            .map(|(dimension, codes)| dimension.chunk[codes[row] as usize])
            .sum()
    }

    /// Returns the ordinal of a row's cell within its chunk, in row-major order.
    pub fn cell(&self, codes: &[Vec<u32>], row: usize) -> u64 {
        let dimensions = self.dimensions.iter().zip(codes);
        dimensions.fold(0, |cell, (dimension, codes)| {
            let code = codes[row] as usize;
            cell * dimension.extent[code] + dimension.inner[code]
        })
    }

    /// Returns the end of the run of rows that starts at `row`: consecutive rows whose cells follow each
    /// other in the same chunk.
    pub fn run_end(&self, codes: &[Vec<u32>], row: usize) -> usize {
        let (Some(last), Some((inner, others))) = (self.dimensions.last(), codes.split_last())
        else {
            return row + 1;
        };
        let first = inner[row] as usize;
        let (start, chunk) = (last.inner[first], last.chunk[first]);
        let follows = |(step, code): &(u64, &u32)| {
            let code = **code as usize;
            last.inner[code] == start + step && last.chunk[code] == chunk
        };
        let steps = (1..).zip(&inner[row + 1..]);
        let length = 1 + steps.take_while(follows).count();
        others.iter().fold(length, |length, codes| {
            let same = codes[row..row + length].iter();
            same.take_while(|code| **code == codes[row]).count()
        }) + row
    }

    /// Returns the total number of chunks.
    pub fn chunks(&self) -> u64 {
        self.chunks_along.iter().product()
    }

    /// Converts the ordinal of a chunk to its indices in the chunk grid.
    pub fn position(&self, mut number: u64) -> Vec<u64> {
        let mut position = vec![0; self.chunks_along.len()];
        for (at, count) in position.iter_mut().zip(&self.chunks_along).rev() {
            *at = number % count;
            number /= count;
        }
        position
    }

    /// Returns the number of cells in the chunk with this ordinal.
    pub fn cells(&self, number: u64) -> u64 {
        let window: Window = self.grid.window(&self.position(number));
        window.cells()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_rows_of_consecutive_cells() {
        let grid = ChunkGrid::new(vec![2, 6], vec![2, 4]);
        let lookup = ChunkLookup::new(&[&[0, 1], &[0, 1, 2, 3, 4, 5]], grid);
        let codes = [
            vec![0, 0, 0, 0, 0, 0, 1, 1, 1, 1],
            vec![0, 1, 2, 3, 4, 5, 0, 1, 3, 2],
        ];
        let (mut row, mut ends) = (0, Vec::new());
        while row < codes[0].len() {
            row = lookup.run_end(&codes, row);
            ends.push(row);
        }
        assert_eq!(ends, [4, 6, 8, 9, 10]);
    }

    #[test]
    fn every_cell_has_its_place() {
        let grid = ChunkGrid::new(vec![5, 4], vec![2, 3]);
        // The codes are in descending order along the first axis.
        let lookup = ChunkLookup::new(&[&[4, 3, 2, 1, 0], &[0, 1, 2, 3]], grid.clone());
        assert_eq!(lookup.chunks(), 6);
        let mut seen = Vec::new();
        for i in 0..5u32 {
            for j in 0..4u32 {
                let codes = [vec![4 - i], vec![j]];
                let chunk = lookup.chunk(&codes, 0);
                let window = grid.window(&lookup.position(chunk));
                let ranges = window.ranges();
                let (i, j) = (u64::from(i), u64::from(j));
                assert!(ranges[0].contains(&i) && ranges[1].contains(&j));
                let cell =
                    (i - ranges[0].start) * (ranges[1].end - ranges[1].start) + j - ranges[1].start;
                assert_eq!(lookup.cell(&codes, 0), cell);
                assert!(cell < lookup.cells(chunk));
                seen.push((chunk, cell));
            }
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 20);
    }
}
