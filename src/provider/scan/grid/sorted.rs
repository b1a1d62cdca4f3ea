//! A grid with its axes and coordinates in another order.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::{Result, internal_err};

use crate::grid::{Axis, ChunkGrid, IndexOrder, IndexSet, Selection, Window};
use crate::provider::catalog::description::{
    AttributeDescription, ChunkDescription, TableDescription,
};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::scan::grid::sorted_reader::SortedReader;
use crate::provider::source::recipe::Recipe;
use crate::provider::source::{Fetch, GridSource, WindowReader, Windows};

/// A grid with its axes in another order, and the indices along each axis in another order.
///
/// The row-major order of its cells is the order of a query:
///
/// ```text
/// ORDER BY lon, time DESC
///
/// stored   time, lon (ascending)      [0, 0] [0, 1] [0, 2]   chunks of 1 x 3
///                                     [1, 0] [1, 1] [1, 2]
/// sorted   lon, time (reversed)       [1, 0] [0, 0]
///                                     [1, 1] [0, 1]          windows of 3 x 2
///                                     [1, 2] [0, 2]
/// ```
///
/// A window is assembled from the chunks that it touches, in memory, so windows are as large as memory
/// allows.
#[derive(Debug)]
pub(crate) struct SortedGrid {
    grid: Arc<dyn GridSource>,
    axes: Vec<Axis>,
    order: Arc<CellOrder>,
    windows: ChunkGrid,
}

/// The order of the cells of a [`SortedGrid`].
#[derive(Debug)]
pub(super) struct CellOrder {
    /// For each axis, the axis of the stored grid and the order of the indices along it.
    pub axes: Vec<(usize, IndexOrder)>,
    /// The cells that are read, as indices of the stored grid.
    pub selection: Selection,
}

/// Returns the number of indices from the first of a set to the last.
pub(super) fn span(set: &IndexSet) -> u64 {
    set.last().map_or(0, |last| last + 1) - set.first().unwrap_or(0)
}

impl CellOrder {
    /// Returns the stored cells of a window: the smallest window of the stored grid that contains the
    /// selected ones, and these.
    pub fn stored(&self, window: &Window) -> (Window, Selection) {
        let mut sets = self.selection.axes().to_vec();
        for ((axis, order), ranks) in self.axes.iter().zip(window.ranges()) {
            let indices = order.indices(ranks.clone(), sets[*axis].length());
            sets[*axis] = sets[*axis].intersect(&indices);
        }
        let bounds = |set: &IndexSet| match (set.first(), set.last()) {
            (Some(first), Some(last)) => first..last + 1,
            _ => 0..0,
        };
        (
            Window::new(sets.iter().map(bounds).collect()),
            Selection::new(sets),
        )
    }
}

/// The maximum number of indices, over all axes of a window, whose terms a reader keeps.
const MAX_TERMS: u64 = 64 << 20;

impl SortedGrid {
    /// Reorders a grid, whose cells in `selection` will be read. `axes` has an axis of the grid for each
    /// axis, with the order of the indices along it. Returns `None` if these do not match the
    /// grid, or if windows are too long.
    ///
    /// # Errors
    /// Fails if the coordinates cannot be read.
    pub fn try_new(
        grid: &Arc<dyn GridSource>,
        axes: Vec<(usize, IndexOrder)>,
        selection: Selection,
        windows: ChunkGrid,
    ) -> Result<Option<Self>> {
        let stored = grid.axes();
        let lengths = |axes: &[Axis]| axes.iter().map(Axis::length).collect::<Vec<_>>();
        let mut numbers: Vec<usize> = axes.iter().map(|(axis, _)| *axis).collect();
        numbers.sort_unstable();
        let fits = |(axis, order): &(usize, IndexOrder)| order.fits(stored[*axis].length());
        if !numbers.into_iter().eq(0..stored.len()) || !axes.iter().all(fits) {
            return Ok(None);
        }
        let sorted = axes.iter().map(|(axis, order)| order.apply(&stored[*axis]));
        let sorted = sorted.collect::<Result<Vec<_>, _>>()?;
        let selected: Vec<u64> = selection.axes().iter().map(IndexSet::length).collect();
        let fits = windows.shape() == lengths(&sorted) && selected == lengths(stored);
        let terms = axes.iter().zip(windows.chunk_shape());
        let terms = terms.map(|((axis, _), extent)| span(&selection.axes()[*axis]).min(*extent));
        let fits = fits && terms.fold(0, u64::saturating_add) <= MAX_TERMS;
        Ok(fits.then(|| Self {
            grid: Arc::clone(grid),
            axes: sorted,
            order: Arc::new(CellOrder { axes, selection }),
            windows,
        }))
    }

    /// Adds up `bytes_of` over the stored chunks that a window touches, with the part of each that lies within the
    /// window, if `is_shared`.
    fn sum_over_chunks(
        &self,
        window: &Window,
        bytes_of: &dyn Fn(&[u64]) -> Result<u64>,
        is_shared: bool,
    ) -> Result<u64> {
        let (stored, _) = self.order.stored(window);
        let chunks = self.grid.chunk_grid();
        let touched = chunks.chunks_in(&stored);
        let (mut count, mut cells) = (1u64, 1u64);
        for (axis, range) in chunks.axes().zip(&touched) {
            if range.is_empty() {
                return Ok(0);
            }
            let span = axis.span(range);
            count = count.saturating_mul(range.end - range.start);
            cells = cells.saturating_mul(span.end - span.start);
        }
        // There may be too many to look up.
        let first: Vec<u64> = touched.iter().map(|range| range.start).collect();
        let bytes = u128::from(bytes_of(&first)?) * u128::from(count);
        let bytes = match is_shared {
            true => bytes * u128::from(stored.cells()) / u128::from(cells.max(1)),
            false => bytes,
        };
        Ok(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

impl GridSource for SortedGrid {
    fn format(&self) -> &'static str {
        self.grid.format()
    }

    fn name(&self) -> &str {
        self.grid.name()
    }

    fn path(&self) -> &Path {
        self.grid.path()
    }

    fn parts(&self) -> Vec<Arc<dyn GridSource>> {
        self.grid.parts()
    }

    fn stored_windows(
        &self,
        attribute: usize,
        windows: &Windows,
    ) -> Result<Option<(Arc<dyn GridSource>, Windows)>> {
        let Some(windows) = windows.list() else {
            return Ok(None);
        };
        let stored = windows.iter().map(|window| self.order.stored(window).0);
        let stored = Windows::List(stored.collect());
        self.grid.stored_windows(attribute, &stored)
    }

    fn axes(&self) -> &[Axis] {
        &self.axes
    }

    fn attributes(&self) -> &[FieldRef] {
        self.grid.attributes()
    }

    fn chunk_grid(&self) -> &ChunkGrid {
        &self.windows
    }

    fn stored_bytes(&self, chunk: &[u64], options: &ReadOptions) -> Result<u64> {
        let bytes_of = |chunk: &[u64]| self.grid.stored_bytes(chunk, options);
        self.sum_over_chunks(&self.windows.window(chunk), &bytes_of, true)
    }

    fn chunk_cost(&self, chunk: &[u64], options: &ReadOptions) -> Result<u64> {
        let cost_of = |chunk: &[u64]| self.grid.chunk_cost(chunk, options);
        self.sum_over_chunks(&self.windows.window(chunk), &cost_of, false)
    }

    fn may_have_nulls(&self, attribute: usize, options: &ReadOptions) -> bool {
        self.grid.may_have_nulls(attribute, options)
    }

    fn is_stored(&self, attribute: usize) -> bool {
        self.grid.is_stored(attribute)
    }

    fn fetch(&self, window: &Window, attributes: &[usize], options: &ReadOptions) -> Option<Fetch> {
        let (stored, _) = self.order.stored(window);
        self.grid.fetch(&stored, attributes, options)
    }

    fn window_reader(
        &self,
        attributes: &[usize],
        options: &ReadOptions,
    ) -> Result<Box<dyn WindowReader>> {
        let reader = self.grid.window_reader(attributes, options)?;
        Ok(Box::new(SortedReader::new(reader, &self.order)))
    }

    fn recipe(&self) -> Result<Option<Recipe>> {
        let selected = self.order.selection.axes().iter();
        let selected = selected.map(|set| set.ranges().collect()).collect();
        let Some(grid) = self.grid.recipe()? else {
            return Ok(None);
        };
        Ok(Some(Recipe::Sorted {
            grid: Box::new(grid),
            axes: self.order.axes.clone(),
            selected,
            windows: self.windows.chunk_shape().to_vec(),
            phase: self.windows.phase().to_vec(),
        }))
    }

    fn describe_attributes(&self) -> Vec<AttributeDescription> {
        self.grid.describe_attributes()
    }

    fn describe_chunk(&self, _chunk: &[u64], _options: &ReadOptions) -> Result<ChunkDescription> {
        internal_err!(
            "{} has no stored chunks of its own: describe the chunks of its parts",
            self.name()
        )
    }

    fn describe(&self) -> Result<TableDescription> {
        self.grid.describe()
    }
}
