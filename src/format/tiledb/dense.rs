//! Dense arrays: the grid of space tiles, and windows of cells that fragments overlay.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::tiledb::array::TileDbArray;
use crate::format::tiledb::datatype::Layout;
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::fragment::MAX_TILE_CELLS;
use crate::format::tiledb::schema::Schema;
use crate::format::tiledb::value::{Interval, Scalar};

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
            let (Some(domain), Some(extent)) = (&dimension.domain, &dimension.extent) else {
                return Err(Fault::new("domain", "missing", "a domain of integers"));
            };
            let length = domain.high.distance_from(&domain.low);
            let Some(length) = length.and_then(|last| last.checked_add(1)) else {
                let found = format!("{domain:?}");
                return Err(Fault::new("domain", found, "less than 2^64 cells"));
            };
            // `Schema::parse` checks that extents are positive.
            let extent = match extent {
                Scalar::Signed(extent) => extent.unsigned_abs(),
                Scalar::Unsigned(extent) => *extent,
                _ => {
                    return Err(Fault::new(
                        "tile extent",
                        format!("{extent:?}"),
                        "an integer",
                    ));
                }
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
    fn ordinal(&self, tile: &[u64], tiles: &IndexBox) -> u64 {
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
            Layout::ColumnMajor => lengths
                .scan(1, |stride, length| {
                    Some(std::mem::replace(stride, *stride * length))
                })
                .collect(),
            _ => row_strides(lengths.rev()),
        }
    }
}

/// Returns the strides of a row-major array, given its lengths from the last to the first.
fn row_strides(reversed: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut strides: Vec<_> = reversed
        .scan(1, |stride, length| {
            Some(std::mem::replace(stride, *stride * length))
        })
        .collect();
    strides.reverse();
    strides
}

/// A tile of a fragment from which a window takes cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowSource {
    /// The ordinal of the fragment in [`TileDbArray::fragments`].
    pub fragment: usize,
    /// The data tile.
    pub tile: u64,
}

/// The cells of a window that come from one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowRegion {
    /// The ordinal of the source in [`Window::sources`], or `None` for cells that were never written.
    pub source: Option<usize>,
    /// The cells.
    pub cells: IndexBox,
}

/// A box of cells within one space tile, and where the cells come from.
///
/// ```text
///      older fragment
///     +-----------+                regions of the window: a from the newer fragment,
///     |  b        |                b from the older one, c from none (fill values)
///  +==|=====+-----|------+
///  |c | b   | a   |      |  newer fragment
///  +==|=====+-----|------+
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    cells: IndexBox,
    origin: Vec<u64>,
    strides: Vec<usize>,
    sources: Vec<WindowSource>,
    regions: Vec<WindowRegion>,
    is_direct: bool,
    /// The number of cells of the array's space tiles.
    pub(crate) tile_cells: u64,
}

/// A run of cells along the last dimension.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// The first cell in the source's tile.
    pub source_cell: usize,
    /// The distance between cells in the source's tile.
    pub stride: usize,
    /// The first cell in the window, in which the cells are adjacent.
    pub window_cell: usize,
    pub length: usize,
}

impl Window {
    /// Finds the fragments that a window shows. The window must be within one space tile and within
    /// the domain.
    pub(crate) fn new(array: &TileDbArray, cells: IndexBox) -> Result<Self> {
        let grid = array.grid()?;
        let invalid = |message: String| Error::invalid(array.path(), message);
        let tiles = grid.tile_box(&cells);
        let shape = IndexBox {
            ranges: grid.shape().iter().map(|length| 0..*length).collect(),
        };
        let is_within = cells.ranges.len() == grid.shape().len() && shape.contains(&cells);
        if cells.is_empty() || !is_within || tiles.cells() != Some(1) {
            return Err(invalid(format!(
                "window {cells:?} is not within one space tile"
            )));
        }
        if grid.tile_cells() > MAX_TILE_CELLS {
            let found = grid.tile_cells();
            return Err(invalid(format!(
                "has tiles of {found} cells, of {MAX_TILE_CELLS} at most"
            )));
        }
        let tile: Vec<u64> = tiles.ranges.iter().map(|range| range.start).collect();
        let mut window = Self {
            origin: tile
                .iter()
                .zip(grid.extents())
                .map(|(tile, extent)| tile * extent)
                .collect(),
            strides: grid.strides(),
            cells: cells.clone(),
            sources: Vec::new(),
            regions: Vec::new(),
            is_direct: false,
            tile_cells: grid.tile_cells(),
        };
        let mut uncovered = vec![cells];
        for (index, bounds) in array.fragment_boxes().iter().enumerate().rev() {
            let Some(bounds) = bounds else { continue };
            let mut rest = Vec::new();
            let mut is_seen = false;
            for part in uncovered {
                match part.intersection(bounds) {
                    Some(common) => {
                        part.subtract(&common, &mut rest);
                        is_seen = true;
                        window.regions.push(WindowRegion {
                            source: Some(window.sources.len()),
                            cells: common,
                        });
                    }
                    None => rest.push(part),
                }
            }
            if is_seen {
                window.sources.push(WindowSource {
                    fragment: index,
                    tile: grid.ordinal(&tile, &grid.tile_box(bounds)),
                });
            }
            uncovered = rest;
            if uncovered.is_empty() {
                break;
            }
        }
        let fill = |cells| WindowRegion {
            source: None,
            cells,
        };
        window.regions.extend(uncovered.into_iter().map(fill));
        // With one dimension, both orders are the same.
        let is_row_major = grid.cell_order() == Layout::RowMajor || grid.shape().len() == 1;
        let is_whole = window.cells.cells() == Some(grid.tile_cells());
        let is_single = matches!(&window.regions[..], [region] if region.source.is_some());
        window.is_direct = is_row_major && is_whole && is_single;
        Ok(window)
    }

    /// The cells of the window.
    pub fn cells(&self) -> &IndexBox {
        &self.cells
    }

    /// The tiles that the window takes cells from.
    pub fn sources(&self) -> &[WindowSource] {
        &self.sources
    }

    /// The cells of the window by source. Regions do not overlap, and cover the window.
    pub fn regions(&self) -> &[WindowRegion] {
        &self.regions
    }

    /// Returns `true` if the window is exactly one stored tile, in row-major order.
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// The number of cells.
    pub fn len(&self) -> usize {
        // A window is within a tile, whose number of cells is limited.
        self.cells.cells().unwrap_or(0) as usize
    }

    /// Returns `true` if there are no cells, which is never the case.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the range of cells of a source's tile that holds all cells of the window's regions.
    pub(crate) fn source_cells(&self, source: usize) -> Range<usize> {
        let cell = |index: &mut dyn Iterator<Item = u64>| -> usize {
            let axes = index.zip(&self.origin).zip(&self.strides);
            axes.map(|((index, origin), stride)| (index - origin) as usize * stride)
                .sum()
        };
        let regions = self
            .regions
            .iter()
            .filter(|region| region.source == Some(source));
        let ranges = regions.map(|region| {
            let ranges = &region.cells.ranges;
            let first = cell(&mut ranges.iter().map(|range| range.start));
            first..cell(&mut ranges.iter().map(|range| range.end - 1)) + 1
        });
        let union = |a: Range<usize>, b: Range<usize>| a.start.min(b.start)..a.end.max(b.end);
        ranges.reduce(union).unwrap_or(0..0)
    }

    /// Calls a function with each run of a region.
    pub(crate) fn for_each_run(&self, region: &WindowRegion, mut function: impl FnMut(Run)) {
        let lengths = self
            .cells
            .ranges
            .iter()
            .map(|range| (range.end - range.start) as usize);
        let window_strides = row_strides(lengths.rev());
        let ranges = &region.cells.ranges;
        let Some((last, outer)) = ranges.split_last() else {
            return;
        };
        let mut index: Vec<u64> = ranges.iter().map(|range| range.start).collect();
        loop {
            let (mut source_cell, mut window_cell) = (0, 0);
            for (axis, index) in index.iter().enumerate() {
                source_cell += (index - self.origin[axis]) as usize * self.strides[axis];
                let start = self.cells.ranges[axis].start;
                window_cell += (index - start) as usize * window_strides[axis];
            }
            function(Run {
                source_cell,
                stride: self.strides[outer.len()],
                window_cell,
                length: (last.end - last.start) as usize,
            });
            // Advances all axes but the last, the last of them fastest.
            let advanced = outer.iter().enumerate().rev().any(|(axis, range)| {
                index[axis] += 1;
                let is_inside = index[axis] < range.end;
                if !is_inside {
                    index[axis] = range.start;
                }
                is_inside
            });
            if !advanced {
                return;
            }
        }
    }
}
