//! Maps the coordinate codes of a row to a chunk and to a cell within the chunk.

use std::ops::Range;

use datafusion::common::Result;

use crate::grid::{ChunkGrid, Window};
use crate::provider::copy::arrays::runs::Runs;

/// Lookup tables by dimension and code, which locate a cell without a division per row.
pub struct ChunkLookup {
    dimensions: Vec<Dimension>,
    grid: ChunkGrid,
    chunks_along: Vec<u64>,
}

/// Consecutive rows whose cells follow each other in the same chunk.
pub struct Piece<'a> {
    /// The ordinal of the chunk.
    pub chunk: u64,
    /// The ordinal of the first row's cell within the chunk.
    pub cell: u64,
    /// The codes of the first row.
    pub codes: &'a [u32],
    pub rows: Range<usize>,
}

struct Dimension {
    /// For each code, the amount it contributes to the ordinal of the chunk.
    chunk: Vec<u64>,
    /// For each code, the index within the chunk along this axis.
    inner: Vec<u64>,
    /// For each code, the end of the codes from it on whose cells follow each other in the same chunk.
    end: Vec<u32>,
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
            let of = |tell: &dyn Fn(u64) -> u64| -> Vec<u64> {
                let positions = positions.iter();
                positions
                    .map(|position| tell(u64::from(*position)))
                    .collect()
            };
            let chunk = of(&|position| position / extent * step);
            let inner = of(&|position| position % extent);
            let mut end: Vec<u32> = (1..=positions.len() as u32).collect();
            for code in (1..positions.len()).rev() {
                if inner[code] == inner[code - 1] + 1 && chunk[code] == chunk[code - 1] {
                    end[code - 1] = end[code];
                }
            }
            Dimension {
                chunk,
                inner,
                end,
                extent: of(&|position| extent.min(length - position / extent * extent)),
            }
        });
        Self {
            dimensions: dimensions.collect(),
            grid,
            chunks_along,
        }
    }

    /// Returns the ordinal of the chunk of a cell, given its codes, in row-major order.
    fn chunk(&self, codes: &[u32]) -> u64 {
        let dimensions = self.dimensions.iter().zip(codes);
        dimensions
            .map(|(dimension, code)| dimension.chunk[*code as usize])
            .sum()
    }

    /// Returns the ordinal of a cell within its chunk, given its codes, in row-major order.
    fn cell(&self, codes: &[u32]) -> u64 {
        let dimensions = self.dimensions.iter().zip(codes);
        dimensions.fold(0, |cell, (dimension, code)| {
            let code = *code as usize;
            cell * dimension.extent[code] + dimension.inner[code]
        })
    }

    /// Calls a function with each piece of the rows.
    ///
    /// # Errors
    /// Returns the errors of the function.
    pub fn pieces(
        &self,
        runs: &Runs,
        mut visit: impl FnMut(Piece<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut codes = Vec::with_capacity(self.dimensions.len());
        for (first, mut rows) in runs.iter() {
            codes.clear();
            codes.extend_from_slice(first);
            while !rows.is_empty() {
                let follow = match (self.dimensions.last(), codes.last()) {
                    (Some(last), Some(code)) => (last.end[*code as usize] - code) as usize,
                    _ => 1,
                };
                let length = follow.min(rows.len());
                visit(Piece {
                    chunk: self.chunk(&codes),
                    cell: self.cell(&codes),
                    codes: &codes,
                    rows: rows.start..rows.start + length,
                })?;
                rows.start += length;
                if let Some(code) = codes.last_mut() {
                    *code += length as u32;
                }
            }
        }
        Ok(())
    }

    /// Returns the number of dimensions.
    pub fn dimensions(&self) -> usize {
        self.dimensions.len()
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
    fn runs_are_split_where_chunks_end_and_cells_do_not_follow() {
        let grid = ChunkGrid::new(vec![2, 6], vec![2, 4]);
        let pieces = |positions: [&[u32]; 2]| {
            let lookup = ChunkLookup::new(&positions, grid.clone());
            let codes = [vec![0, 0, 0, 0, 0, 0, 1], vec![0, 1, 2, 3, 4, 5, 2]];
            let mut pieces = Vec::new();
            let visited = lookup.pieces(&Runs::of(&codes), |piece| {
                pieces.push((piece.chunk, piece.cell, piece.codes.to_vec(), piece.rows));
                Ok(())
            });
            visited.unwrap();
            pieces
        };
        let expected = [
            (0, 0, vec![0, 0], 0..4),
            (1, 0, vec![0, 4], 4..6),
            (0, 6, vec![1, 2], 6..7),
        ];
        assert_eq!(pieces([&[0, 1], &[0, 1, 2, 3, 4, 5]]), expected);
        let expected = [
            (0, 1, vec![0, 0], 0..2),
            (0, 0, vec![0, 2], 2..3),
            (0, 3, vec![0, 3], 3..4),
            (1, 0, vec![0, 4], 4..6),
            (0, 4, vec![1, 2], 6..7),
        ];
        assert_eq!(pieces([&[0, 1], &[1, 2, 0, 3, 4, 5]]), expected);
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
                let codes = [4 - i, j];
                let chunk = lookup.chunk(&codes);
                let window = grid.window(&lookup.position(chunk));
                let ranges = window.ranges();
                let (i, j) = (u64::from(i), u64::from(j));
                assert!(ranges[0].contains(&i) && ranges[1].contains(&j));
                let cell =
                    (i - ranges[0].start) * (ranges[1].end - ranges[1].start) + j - ranges[1].start;
                assert_eq!(lookup.cell(&codes), cell);
                assert!(cell < lookup.cells(chunk));
                seen.push((chunk, cell));
            }
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 20);
    }
}
