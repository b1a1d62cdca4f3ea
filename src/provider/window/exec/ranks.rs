//! Ranks of the cells of many series at a time.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, PrimitiveArray, UInt64Array};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, internal_err};

use crate::provider::window::exec::extremes::Keyed;
use crate::provider::window::exec::planes::PlaneRing;
use crate::provider::window::exec::states::with_numbers;
use crate::provider::window::plan::spec::{RankFunction, SeriesRank};

/// The ranks of all cells of a tile.
pub(super) struct Ranks {
    rank: SeriesRank,
    lanes: usize,
    /// The rank of each cell, plane by plane, before it is scaled for `percent_rank`, `cume_dist` and `ntile`.
    /// `u32::MAX` for cells that are not ranked, because enough others come before them. Empty until all planes are in memory.
    ranks: Vec<u32>,
    /// For each plane, the number of planes of its partition.
    sizes: Vec<u32>,
}

impl Ranks {
    /// Creates the ranks of a tile with this number of series.
    pub fn new(rank: &SeriesRank, lanes: usize) -> Self {
        let mut sizes = vec![0; rank.count()];
        for planes in rank.partitions.iter() {
            for plane in planes {
                sizes[*plane as usize] = planes.len() as u32;
            }
        }
        Self {
            rank: rank.clone(),
            lanes,
            ranks: Vec::new(),
            sizes,
        }
    }

    /// Ranks the cells of the tile on the first call, which needs all planes in memory.
    pub fn prepare(&mut self, ring: &PlaneRing) -> Result<()> {
        if self.ranks.is_empty() {
            self.ranks = vec![u32::MAX; self.sizes.len() * self.lanes];
            let numbers = ring.plane(0, self.rank.plane).cells;
            with_numbers!(numbers, numbers => self.sort(numbers, ring));
        }
        Ok(())
    }

    /// Returns the maximum rank to output and the ranks of the cells of some planes; `None` if all cells are output.
    pub fn bounded(&self, planes: Range<usize>) -> Option<(u32, &[u32])> {
        let cells = planes.start * self.lanes..planes.end * self.lanes;
        Some((self.rank.max_rank?, &self.ranks[cells]))
    }

    /// Returns the results of some planes. The ranks must be [prepared](Self::prepare).
    pub fn of_planes(&self, planes: Range<usize>) -> ArrayRef {
        let rows = planes.clone().flat_map(|plane| {
            let numbers = &self.ranks[plane * self.lanes..][..self.lanes];
            let size = self.sizes[plane];
            numbers.iter().map(move |number| (*number, size))
        });
        let fraction = |(number, size): (u32, u32)| f64::from(number) / f64::from(size.max(1));
        match self.rank.function {
            RankFunction::RowNumber | RankFunction::Rank | RankFunction::DenseRank => Arc::new(
                UInt64Array::from_iter_values(rows.map(|(number, _)| number.into())),
            ),
            RankFunction::PercentRank => Arc::new(Float64Array::from_iter_values(
                rows.map(|(number, size)| fraction((number - 1, size - 1))),
            )),
            RankFunction::CumulativeDistribution => {
                Arc::new(Float64Array::from_iter_values(rows.map(fraction)))
            }
            RankFunction::Tile(tiles) => {
                Arc::new(UInt64Array::from_iter_values(rows.map(|(number, size)| {
                    tile(u64::from(number - 1), size.into(), tiles)
                })))
            }
        }
    }

    /// Computes the ranks of all planes. The cells have the type of `_like`.
    fn sort<T: ArrowPrimitiveType>(&mut self, _like: &PrimitiveArray<T>, ring: &PlaneRing)
    where
        T::Native: Keyed,
        <T::Native as Keyed>::Key: Into<i64>,
    {
        let partitions = Arc::clone(&self.rank.partitions);
        let (block, longest) = (self.rank.block(), self.rank.longest());
        // The indices of a series' cells in the order of equal values, with their keys.
        let mut keys: Vec<(i64, u32)> = vec![(0, 0); block * longest];
        let mut nulls: Vec<Vec<u32>> = vec![Vec::new(); block];
        let mut sorted: Vec<(Option<i64>, u32)> = Vec::with_capacity(longest);
        // Inverting a key reverses the order.
        let flip = if self.rank.is_descending { -1 } else { 0 };
        for planes in partitions.iter() {
            for start in (0..self.lanes).step_by(block) {
                let lanes = block.min(self.lanes - start);
                nulls.iter_mut().for_each(Vec::clear);
                for (index, plane) in planes.iter().enumerate() {
                    let cells = ring.plane(*plane as usize, self.rank.plane);
                    let values: &PrimitiveArray<T> = cells.cells.as_primitive();
                    let first = cells.start + start;
                    let some = &values.values()[first..first + lanes];
                    for (lane, value) in some.iter().enumerate() {
                        let key: i64 = value.key().into();
                        keys[lane * longest + index] = (key ^ flip, index as u32);
                    }
                    if let Some(validity) = values.nulls().filter(|nulls| nulls.null_count() > 0) {
                        for (lane, nulls) in nulls.iter_mut().enumerate().take(lanes) {
                            if validity.is_null(first + lane) {
                                nulls.push(index as u32);
                            }
                        }
                    }
                }
                for lane in 0..lanes {
                    let keys = &mut keys[lane * longest..][..planes.len()];
                    let nulls = &nulls[lane];
                    let mut valid = 0;
                    let mut next_null = nulls.iter().peekable();
                    for index in 0..keys.len() {
                        if next_null.next_if(|null| **null as usize == index).is_none() {
                            keys[valid] = keys[index];
                            valid += 1;
                        }
                    }
                    let count = self.rank.max_rank.map_or(valid, |rank| rank as usize);
                    let keys = first_keys(&mut keys[..valid], count);
                    keys.sort_unstable();
                    // Nulls that come last have ranks if all other cells do.
                    let is_complete = keys.len() == valid || self.rank.nulls_first;
                    let nulls = if is_complete { nulls.as_slice() } else { &[] };
                    let keys = keys.iter().map(|(key, index)| (Some(*key), *index));
                    let nulls = nulls.iter().map(|index| (None, *index));
                    sorted.clear();
                    match self.rank.nulls_first {
                        true => sorted.extend(nulls.chain(keys)),
                        false => sorted.extend(keys.chain(nulls)),
                    }
                    self.rank_cells(planes, start + lane, &sorted);
                }
            }
        }
    }

    /// Ranks the sorted cells of one series in a partition. `sorted` has the key of each cell and its index into
    /// `planes`.
    fn rank_cells(&mut self, planes: &[u32], lane: usize, sorted: &[(Option<i64>, u32)]) {
        let (function, has_peers) = (self.rank.function, self.rank.has_peers);
        let mut before = 0;
        let peers = sorted.chunk_by(|one, other| has_peers && one.0 == other.0);
        for (peers, dense) in peers.zip(1..) {
            let end = before + peers.len() as u32;
            for ((_, index), row) in peers.iter().zip(before + 1..) {
                let plane = planes[*index as usize] as usize;
                self.ranks[plane * self.lanes + lane] = match function {
                    RankFunction::RowNumber | RankFunction::Tile(_) => row,
                    RankFunction::Rank | RankFunction::PercentRank => before + 1,
                    RankFunction::DenseRank => dense,
                    RankFunction::CumulativeDistribution => end,
                };
            }
            before = end;
        }
    }
}

/// Moves the `count` smallest keys, and all keys equal to the largest of them, to the front in any order, and returns them.
fn first_keys(keys: &mut [(i64, u32)], count: usize) -> &mut [(i64, u32)] {
    if count >= keys.len() {
        return keys;
    }
    let (_, (largest, _), _) = keys.select_nth_unstable(count.saturating_sub(1));
    let largest = *largest;
    let mut end = count;
    for index in count..keys.len() {
        if keys[index].0 == largest {
            keys.swap(index, end);
            end += 1;
        }
    }
    &mut keys[..end]
}

/// Returns the number of the tile of a row, from 1, if `rows` rows are divided into `tiles` tiles. The first
/// tiles have one row more than the last ones if the rows do not divide evenly.
fn tile(row: u64, rows: u64, tiles: u64) -> u64 {
    let (shorter, longer) = (rows / tiles, rows % tiles);
    let in_longer = longer * (shorter + 1);
    match row < in_longer {
        true => row / (shorter + 1) + 1,
        false => longer + (row - in_longer) / shorter.max(1) + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_keys_include_ties() {
        let keys = [7, 3, 5, 3, 9, 5, 5].into_iter().zip(0..);
        let first = |most| {
            let mut keys: Vec<(i64, u32)> = keys.clone().collect();
            let mut first = first_keys(&mut keys, most).to_vec();
            first.sort_unstable();
            first
        };
        assert_eq!(first(2), [(3, 1), (3, 3)]);
        assert_eq!(first(3), [(3, 1), (3, 3), (5, 2), (5, 5), (5, 6)]);
        assert_eq!(first(7).len(), 7);
    }

    #[test]
    fn tiles_differ_by_at_most_one_row() {
        let tiles = |rows, tiles| (0..rows).map(move |row| tile(row, rows, tiles));
        assert!(tiles(10, 4).eq([1, 1, 1, 2, 2, 2, 3, 3, 4, 4]));
        assert!(tiles(4, 4).eq([1, 2, 3, 4]));
        assert!(tiles(3, 5).eq([1, 2, 3]));
        assert!(tiles(3, u64::MAX).eq([1, 2, 3]));
    }
}
