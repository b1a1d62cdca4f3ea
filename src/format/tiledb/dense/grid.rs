//! The grid of space tiles of a dense array.

use std::ops::Range;

use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::schema::{Interval, Layout, Scalar, Schema};

/// A box of cells or of tiles: one range of indices per dimension.
///
/// The index of a cell is its distance from the start of the domain; the index of a tile is its
/// ordinal along the dimension.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IndexBox {
    /// The ranges, by dimension.
    pub ranges: Vec<Range<u64>>,
}

impl IndexBox {
    /// The number of cells or tiles; `None` if it exceeds `u64`.
    pub fn cells(&self) -> Option<u64> {
        let mut lengths = self
            .ranges
            .iter()
            .map(|range| range.end.saturating_sub(range.start));
        lengths.try_fold(1u64, u64::checked_mul)
    }

    /// Returns `true` if there are no cells.
    pub fn is_empty(&self) -> bool {
        self.ranges.iter().any(Range::is_empty)
    }

    /// Returns the cells that both boxes have, or `None` if there are none.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let ranges = self.ranges.iter().zip(&other.ranges);
        let ranges = ranges.map(|(a, b)| a.start.max(b.start)..a.end.min(b.end));
        let common = Self {
            ranges: ranges.collect(),
        };
        (!common.is_empty()).then_some(common)
    }

    /// Returns `true` if all cells of `other` are in this box.
    pub fn contains(&self, other: &Self) -> bool {
        let mut ranges = self.ranges.iter().zip(&other.ranges);
        ranges.all(|(outer, inner)| outer.start <= inner.start && inner.end <= outer.end)
    }

    /// Divides boxes into their parts within this box, and those outside of it.
    pub(crate) fn divide(&self, boxes: Vec<Self>) -> (Vec<Self>, Vec<Self>) {
        let (mut within, mut outside) = (Vec::new(), Vec::new());
        for one in boxes {
            match one.intersection(self) {
                Some(common) => {
                    one.subtract(&common, &mut outside);
                    within.push(common);
                }
                None => outside.push(one),
            }
        }
        (within, outside)
    }

    /// Appends the cells outside of `inner`, which is within this box, as boxes.
    fn subtract(mut self, inner: &Self, rest: &mut Vec<Self>) {
        for (dimension, range) in inner.ranges.iter().enumerate() {
            let whole = self.ranges[dimension].clone();
            for outside in [whole.start..range.start, range.end..whole.end] {
                if !outside.is_empty() {
                    let mut part = self.clone();
                    part.ranges[dimension] = outside;
                    rest.push(part);
                }
            }
            self.ranges[dimension] = range.clone();
        }
    }
}

/// The grid of space tiles of a dense array.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    lows: Vec<Scalar>,
    shape: Vec<u64>,
    extents: Vec<u64>,
    tile_order: Layout,
    cell_order: Layout,
    tile_cells: u64,
    used: IndexBox,
}

impl Grid {
    /// Returns the grid of a dense schema.
    pub(crate) fn new(schema: &Schema) -> Decoded<Self> {
        let mut grid = Self {
            lows: Vec::new(),
            shape: Vec::new(),
            extents: Vec::new(),
            tile_order: schema.tile_order,
            cell_order: schema.cell_order,
            tile_cells: 1,
            used: IndexBox { ranges: Vec::new() },
        };
        for dimension in &schema.dimensions {
            let Some(domain) = &dimension.domain else {
                return Err(Fault::new("domain", "missing", "a domain of integers"));
            };
            let length = domain.high.distance_from(&domain.low);
            let Some(length) = length.and_then(|last| last.checked_add(1)) else {
                let found = format!("{domain:?}");
                return Err(Fault::new("domain", found, "less than 2^64 cells"));
            };
            let Some(extent) = dimension.extent_length() else {
                let found = format!("{:?}", dimension.extent);
                return Err(Fault::new("tile extent", found, "an integer"));
            };
            grid.tile_cells = grid.tile_cells.saturating_mul(extent);
            grid.lows.push(domain.low.clone());
            grid.shape.push(length);
            grid.extents.push(extent);
            grid.used.ranges.push(0..length);
        }
        if let Some(current) = &schema.current_domain {
            grid.used = grid.index_box(current)?;
        }
        Ok(grid)
    }

    /// The first coordinate of each dimension, which has index 0.
    pub fn lows(&self) -> &[Scalar] {
        &self.lows
    }

    /// The number of cells of the domain along each dimension.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The number of cells of a space tile along each dimension. The last tile may exceed the domain.
    pub fn extents(&self) -> &[u64] {
        &self.extents
    }

    /// The order of cells in a space tile.
    pub fn cell_order(&self) -> Layout {
        self.cell_order
    }

    /// The number of cells in a space tile. Saturates at `u64::MAX`.
    pub fn tile_cells(&self) -> u64 {
        self.tile_cells
    }

    /// The cells of the array: of its current domain, if it has one, or else of its domain.
    pub fn used(&self) -> &IndexBox {
        &self.used
    }

    /// Returns the box of cells between coordinates.
    pub(crate) fn index_box(&self, intervals: &[Interval]) -> Decoded<IndexBox> {
        let mut ranges = Vec::with_capacity(intervals.len());
        for ((interval, low), length) in intervals.iter().zip(&self.lows).zip(&self.shape) {
            let start = interval.low.distance_from(low);
            let last = interval
                .high
                .distance_from(low)
                .filter(|last| last < length);
            match (start, last) {
                (Some(start), Some(last)) if start <= last => ranges.push(start..last + 1),
                _ => {
                    let expected = format!("within {length} cells from {low:?}");
                    return Err(Fault::new("domain", format!("{interval:?}"), expected));
                }
            }
        }
        Ok(IndexBox { ranges })
    }

    /// Returns the box of the tiles that hold a box of cells.
    pub fn tile_box(&self, cells: &IndexBox) -> IndexBox {
        let ranges = cells.ranges.iter().zip(&self.extents);
        let ranges =
            ranges.map(|(range, extent)| range.start / extent..range.end.div_ceil(*extent));
        IndexBox {
            ranges: ranges.collect(),
        }
    }

    /// Returns the cells of a tile, without those outside of the array's [`Self::used`] cells; `None`
    /// if there are none.
    pub fn tile(&self, tile: &[u64]) -> Option<IndexBox> {
        let ranges = tile.iter().zip(&self.extents).map(|(tile, extent)| {
            let start = tile.saturating_mul(*extent);
            start..start.saturating_add(*extent)
        });
        let ranges = ranges.collect();
        IndexBox { ranges }.intersection(&self.used)
    }

    /// Calls a function with the number of cells of a box in each of its tiles, in tile order.
    pub(crate) fn for_each_tile_cells(&self, cells: &IndexBox, mut function: impl FnMut(u64)) {
        let tiles = self.tile_box(cells);
        let mut tile: Vec<u64> = tiles.ranges.iter().map(|range| range.start).collect();
        if tiles.is_empty() {
            return;
        }
        loop {
            let inside = |axis: usize| {
                let (range, start) = (&cells.ranges[axis], tile[axis] * self.extents[axis]);
                let end = start.saturating_add(self.extents[axis]);
                range.end.min(end) - range.start.max(start)
            };
            function((0..tile.len()).map(inside).fold(1, u64::saturating_mul));
            if !self.advance(&mut tile, &tiles) {
                return;
            }
        }
    }

    /// Advances to the next tile of a box of tiles in tile order. Returns `false` after the last.
    pub(crate) fn advance(&self, tile: &mut [u64], tiles: &IndexBox) -> bool {
        let mut axes: Vec<usize> = (0..tile.len()).rev().collect();
        if self.tile_order == Layout::ColumnMajor {
            axes.reverse();
        }
        axes.iter().any(|axis| {
            tile[*axis] += 1;
            let is_inside = tile[*axis] < tiles.ranges[*axis].end;
            if !is_inside {
                tile[*axis] = tiles.ranges[*axis].start;
            }
            is_inside
        })
    }

    /// Returns the ordinal of a tile in a box of tiles, in tile order.
    pub(super) fn ordinal(&self, tile: &[u64], tiles: &IndexBox) -> u64 {
        let axes = tile.iter().zip(&tiles.ranges);
        let step = |ordinal: u64, (tile, range): (&u64, &Range<u64>)| {
            ordinal * (range.end - range.start) + (tile - range.start)
        };
        match self.tile_order {
            Layout::ColumnMajor => axes.rev().fold(0, step),
            _ => axes.fold(0, step),
        }
    }

    /// Returns the distance between neighbours along each dimension in a tile, in cells.
    pub(crate) fn strides(&self) -> Vec<usize> {
        let lengths = self.extents.iter().map(|extent| *extent as usize);
        match self.cell_order {
            Layout::ColumnMajor => strides(lengths),
            _ => row_strides(lengths.rev()),
        }
    }
}

/// Returns the stride of each axis, given the lengths of the axes, of which the first varies fastest.
fn strides(lengths: impl Iterator<Item = usize>) -> Vec<usize> {
    let next = |stride: &mut usize, length| Some(std::mem::replace(stride, *stride * length));
    lengths.scan(1, next).collect()
}

/// Returns the strides of a row-major array, given its lengths from the last to the first.
pub(super) fn row_strides(reversed: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut strides = strides(reversed);
    strides.reverse();
    strides
}
