//! An array along some axes of a grid, repeated along the others.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, UInt32Array, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::FieldRef;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion_functions_aggregate_common::min_max::{max_batch, min_batch};

use crate::grid::{Axis, ChunkGrid, Window};
use crate::provider::catalog::description::{
    AttributeDescription, ChunkDescription, TableDescription,
};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::source::recipe::Recipe;
use crate::provider::source::{
    Availability, ColumnBounds, FetchedBlock, GridSource, ReadCounts, WindowReader,
};

/// The maximum number of windows whose bounds are kept.
const MAX_BOUNDS: usize = 4096;

/// An array along some axes of a grid, as an array along all of them:
///
/// ```text
/// grid    temperature(time, y, x)
/// values  lat(y, x)                 ->  lat(time, y, x), the same for all times
/// ```
///
/// A window reads its part of the array once, however often the values are repeated.
#[derive(Debug)]
pub(crate) struct RepeatedGrid {
    values: Arc<dyn GridSource>,
    grid: Arc<dyn GridSource>,
    /// For each axis of the values, the axis of the grid.
    axes: Vec<usize>,
    /// The bounds of windows of the values that were read.
    bounds: Mutex<HashMap<Vec<Range<u64>>, Bounds>>,
}

/// A lower and an upper bound.
type Bounds = (ScalarValue, ScalarValue);

impl RepeatedGrid {
    /// Repeats an array with a single attribute. Returns `None` if `axes` does not give each of its
    /// axes an axis of the grid with the same length.
    pub fn try_new(
        values: &Arc<dyn GridSource>,
        grid: &Arc<dyn GridSource>,
        axes: Vec<usize>,
    ) -> Option<Self> {
        let length = |axis: &usize| grid.axes().get(*axis).map(Axis::length);
        let own = values.axes().iter().map(|axis| Some(axis.length()));
        let are_alike = own.eq(axes.iter().map(length));
        let are_distinct = (1..axes.len()).all(|end| !axes[..end].contains(&axes[end]));
        let is_one = values.attributes().len() == 1;
        (are_alike && are_distinct && is_one).then(|| Self {
            values: Arc::clone(values),
            grid: Arc::clone(grid),
            axes,
            bounds: Mutex::default(),
        })
    }

    /// Returns the window of the values that a window of the grid repeats.
    fn within(&self, window: &[Range<u64>]) -> Vec<Range<u64>> {
        let axes = self.axes.iter();
        axes.map(|axis| window[*axis].clone()).collect()
    }

    /// Returns the bounds of a window of the values, which are read unless they are known.
    fn bounds_of(&self, window: Vec<Range<u64>>, options: &ReadOptions) -> Result<Bounds> {
        let known = || self.bounds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bounds) = known().get(&window) {
            return Ok(bounds.clone());
        }
        let values = self
            .values
            .read_window(&Window::new(window.clone()), &[0], options)?;
        let bounds = (min_batch(&values[0])?, max_batch(&values[0])?);
        let mut known = known();
        if known.len() >= MAX_BOUNDS {
            known.clear();
        }
        known.insert(window, bounds.clone());
        Ok(bounds)
    }
}

impl GridSource for RepeatedGrid {
    fn format(&self) -> &'static str {
        self.values.format()
    }

    fn name(&self) -> &str {
        self.values.name()
    }

    fn path(&self) -> &Path {
        self.values.path()
    }

    fn parts(&self) -> Vec<Arc<dyn GridSource>> {
        Vec::new()
    }

    fn axes(&self) -> &[Axis] {
        self.grid.axes()
    }

    fn attributes(&self) -> &[FieldRef] {
        self.values.attributes()
    }

    fn chunk_grid(&self) -> &ChunkGrid {
        self.grid.chunk_grid()
    }

    fn stored_bytes(&self, _chunk: &[u64], _options: &ReadOptions) -> Result<u64> {
        Ok(0)
    }

    fn may_have_nulls(&self, attribute: usize, options: &ReadOptions) -> bool {
        self.values.may_have_nulls(attribute, options)
    }

    fn availability(&self, _attribute: usize, _options: &ReadOptions) -> Availability {
        Availability {
            is_known: true,
            unusable: None,
        }
    }

    fn window_statistics(
        &self,
        _attribute: usize,
        windows: &[Window],
        options: &ReadOptions,
    ) -> Result<Option<ColumnBounds>> {
        let bounds = windows
            .iter()
            .map(|window| self.bounds_of(self.within(window.ranges()), options));
        let (min, max): (Vec<_>, Vec<_>) = bounds.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        if min.is_empty() {
            return Ok(None);
        }
        Ok(Some(ColumnBounds {
            min: ScalarValue::iter_to_array(min)?,
            max: ScalarValue::iter_to_array(max)?,
            nulls: UInt64Array::new_null(windows.len()),
            sums: None,
            is_exact: false,
        }))
    }

    fn window_reader(
        &self,
        attributes: &[usize],
        options: &ReadOptions,
    ) -> Result<Box<dyn WindowReader>> {
        Ok(Box::new(RepeatedReader {
            copies: attributes.len(),
            axes: self.axes.clone(),
            reader: self.values.window_reader(&[0], options)?,
            window: Vec::new(),
            within: None,
            values: None,
        }))
    }

    fn recipe(&self) -> Result<Option<Recipe>> {
        let recipes = self.values.recipe()?.zip(self.grid.recipe()?);
        Ok(recipes.map(|(values, grid)| Recipe::Repeated {
            values: Box::new(values),
            grid: Box::new(grid),
            axes: self.axes.clone(),
        }))
    }

    fn describe_attributes(&self) -> Vec<AttributeDescription> {
        self.values.describe_attributes()
    }

    fn describe_chunk(&self, _chunk: &[u64], _options: &ReadOptions) -> Result<ChunkDescription> {
        internal_err!("repeated values have no chunks of their own")
    }

    fn describe(&self) -> Result<TableDescription> {
        self.values.describe()
    }
}

struct RepeatedReader {
    /// The number of columns to return, which are all equal.
    copies: usize,
    /// For each axis of the values, the axis of the grid.
    axes: Vec<usize>,
    /// Reads the values.
    reader: Box<dyn WindowReader>,
    /// The current window of the grid.
    window: Vec<Range<u64>>,
    /// The window of the values that it repeats.
    within: Option<Vec<Range<u64>>>,
    /// The values of that window, once they are read.
    values: Option<ArrayRef>,
}

impl RepeatedReader {
    /// Appends the index of the value of each cell in a run of cells of the window.
    fn append(&self, run: Range<u64>, strides: &[u64], indices: &mut Vec<u32>) {
        let extents = self.window.iter().map(|range| range.end - range.start);
        let extents: Vec<u64> = extents.collect();
        let (length, stride) = match (extents.last(), strides.last()) {
            (Some(length), Some(stride)) => ((*length).max(1), *stride),
            _ => (1, 0),
        };
        let mut cell = run.start;
        while cell < run.end {
            let line_end = ((cell / length + 1) * length).min(run.end);
            let mut rest = cell;
            let mut first = 0;
            for (extent, stride) in extents.iter().zip(strides).rev() {
                first += rest % extent.max(&1) * stride;
                rest /= extent.max(&1);
            }
            let count = line_end - cell;
            // The values of a window are fewer than 2^32, like its cells.
            indices.extend((0..count).map(|number| (first + number * stride) as u32));
            cell = line_end;
        }
    }
}

impl WindowReader for RepeatedReader {
    fn open(&mut self, window: &Window, _fetched: Option<FetchedBlock>) -> Result<()> {
        self.window = window.ranges().to_vec();
        let axes = self.axes.iter();
        let within: Vec<_> = axes.map(|axis| self.window[*axis].clone()).collect();
        // Windows that follow each other often repeat the same values.
        if self.within.as_ref() != Some(&within) {
            self.values = None;
            self.reader.open(&Window::new(within.clone()), None)?;
            self.within = Some(within);
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<bool> {
        if self.values.is_none() && self.reader.advance()? {
            let within = self.within.clone().unwrap_or_default();
            let cells = 0..Window::new(within).cells();
            let values = self.reader.read(std::slice::from_ref(&cells))?;
            self.values = values.into_iter().next();
        }
        Ok(self.values.is_some())
    }

    fn cells(&mut self, _attribute: usize, _range: Range<u64>) -> Result<&[u8]> {
        internal_err!("repeated values have no stored cells")
    }

    fn read(&mut self, runs: &[Range<u64>]) -> Result<Vec<ArrayRef>> {
        let Some(values) = &self.values else {
            return internal_err!("the window is not ready");
        };
        let mut strides = vec![0; self.window.len()];
        let mut stride = 1;
        for axis in self.axes.iter().rev() {
            strides[*axis] = stride;
            stride *= self.window[*axis].end - self.window[*axis].start;
        }
        let count: u64 = runs.iter().map(|run| run.end - run.start).sum();
        let mut indices = Vec::with_capacity(count as usize);
        for run in runs {
            self.append(run.clone(), &strides, &mut indices);
        }
        let column = take(values, &UInt32Array::from(indices), None)?;
        Ok(vec![column; self.copies])
    }

    fn counts(&self) -> ReadCounts {
        self.reader.counts()
    }
}
