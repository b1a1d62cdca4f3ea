//! Windows: boxes of cells that fragments overlay.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::tiledb::array::TileDbArray;
use crate::format::tiledb::dense::IndexBox;
use crate::format::tiledb::dense::grid::row_strides;
use crate::format::tiledb::fragment::MAX_TILE_CELLS;
use crate::format::tiledb::schema::Layout;

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
            let (within, outside) = bounds.divide(uncovered);
            if !within.is_empty() {
                let source = Some(window.sources.len());
                let regions = within.into_iter();
                let regions = regions.map(|cells| WindowRegion { source, cells });
                window.regions.extend(regions);
                window.sources.push(WindowSource {
                    fragment: index,
                    tile: grid.ordinal(&tile, &grid.tile_box(bounds)),
                });
            }
            uncovered = outside;
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
