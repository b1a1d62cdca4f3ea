//! An array along some axes of a grid, repeated along the others.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::UInt64Array;
use arrow::datatypes::FieldRef;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion_functions_aggregate_common::min_max::{max_batch, min_batch};

use crate::grid::{Axis, ChunkGrid, Window};
use crate::provider::catalog::description::{
    AttributeDescription, ChunkDescription, TableDescription,
};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::scan::grid::repeated_reader::{RepeatedReader, within};
use crate::provider::source::recipe::Recipe;
use crate::provider::source::{Availability, ColumnBounds, GridSource, WindowReader};

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
    bounds: Mutex<KnownBounds>,
}

/// The bounds of windows of the values that were read with each of these options.
type KnownBounds = HashMap<ReadOptions, HashMap<Vec<Range<u64>>, Bounds>>;

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

    fn known(&self) -> MutexGuard<'_, KnownBounds> {
        self.bounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads these windows of the values, as far as their bounds are not known and can be kept.
    fn read_bounds(&self, windows: &[Vec<Range<u64>>], options: &ReadOptions) -> Result<()> {
        let (missing, free) = {
            let mut known = self.known();
            let known = known.entry(*options).or_default();
            let missing = windows.iter().filter(|window| !known.contains_key(*window));
            let missing: HashSet<_> = missing.collect();
            (missing, MAX_BOUNDS.saturating_sub(known.len()))
        };
        if missing.is_empty() || free == 0 {
            return Ok(());
        }
        // Windows of the same chunks follow each other, so that each chunk is decoded once.
        let chunks = self.values.chunk_grid();
        let ends = |window: &[Range<u64>]| -> Vec<(u64, u64)> {
            window
                .iter()
                .map(|range| (range.start, range.end))
                .collect()
        };
        let mut missing: Vec<_> = missing.into_iter().collect();
        missing.sort_by_cached_key(|window| {
            let touched = chunks.chunks_in(&Window::new(window.to_vec()));
            (ends(&touched), ends(window))
        });
        missing.truncate(free);
        let all_axes = (0..self.values.axes().len()).collect();
        let mut reader = RepeatedReader::new(&self.values, all_axes, 1, options)?;
        for window in missing {
            let window = Window::new(window.clone());
            reader.open(&window, None)?;
            while !reader.advance()? {}
            let cells = 0..window.cells();
            let values = reader.read(std::slice::from_ref(&cells))?;
            let bounds = (min_batch(&values[0])?, max_batch(&values[0])?);
            let mut known = self.known();
            let known = known.entry(*options).or_default();
            known.insert(window.ranges().to_vec(), bounds);
        }
        Ok(())
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
        if windows.is_empty() {
            return Ok(None);
        }
        let windows: Vec<_> = windows
            .iter()
            .map(|window| within(&self.axes, window.ranges()))
            .collect();
        self.read_bounds(&windows, options)?;
        let unknown = ScalarValue::try_from(self.values.attributes()[0].data_type())?;
        let unknown = (unknown.clone(), unknown);
        let (min, max): (Vec<_>, Vec<_>) = {
            let known = self.known();
            let known = known.get(options);
            let bounds = windows.iter().map(|window| {
                let bounds = known.and_then(|known| known.get(window));
                bounds.unwrap_or(&unknown).clone()
            });
            bounds.unzip()
        };
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
        let axes = self.axes.clone();
        let reader = RepeatedReader::new(&self.values, axes, attributes.len(), options)?;
        Ok(Box::new(reader))
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

#[cfg(test)]
mod tests {
    use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::{DataType, Field, Int64Type};

    use super::*;
    use crate::provider::source::{FetchedBlock, ReadCounts};

    /// An array whose values are the ordinals of its cells, where zero is the fill value.
    #[derive(Debug)]
    struct Ordinals {
        axes: Vec<Axis>,
        attributes: Vec<FieldRef>,
        chunks: ChunkGrid,
        /// The windows that were read.
        read: Arc<Mutex<Vec<Window>>>,
    }

    impl Ordinals {
        fn new(names: &[&str], shape: &[u64], chunk_shape: &[u64]) -> Arc<Self> {
            let axes = names.iter().zip(shape);
            Arc::new(Self {
                axes: axes
                    .map(|(name, length)| Axis::counted(*name, *length))
                    .collect(),
                attributes: vec![Arc::new(Field::new("value", DataType::Int64, true))],
                chunks: ChunkGrid::new(shape.to_vec(), chunk_shape.to_vec()),
                read: Arc::default(),
            })
        }

        /// Returns the ordinals of the cells of a window.
        fn cells(&self, window: &Window) -> Vec<i64> {
            let ordinal = |cell| {
                let indices = ChunkGrid::nth_of(window.ranges(), cell);
                let axes = indices.iter().zip(self.chunks.shape());
                axes.fold(0, |ordinal, (index, length)| ordinal * length + index) as i64
            };
            (0..window.cells()).map(ordinal).collect()
        }
    }

    impl GridSource for Ordinals {
        fn format(&self) -> &'static str {
            "ordinals"
        }

        fn name(&self) -> &str {
            "ordinals"
        }

        fn path(&self) -> &Path {
            Path::new("ordinals")
        }

        fn parts(&self) -> Vec<Arc<dyn GridSource>> {
            Vec::new()
        }

        fn axes(&self) -> &[Axis] {
            &self.axes
        }

        fn attributes(&self) -> &[FieldRef] {
            &self.attributes
        }

        fn chunk_grid(&self) -> &ChunkGrid {
            &self.chunks
        }

        fn stored_bytes(&self, _chunk: &[u64], _options: &ReadOptions) -> Result<u64> {
            Ok(0)
        }

        fn may_have_nulls(&self, _attribute: usize, options: &ReadOptions) -> bool {
            options.fill_as_null
        }

        fn window_reader(
            &self,
            _attributes: &[usize],
            options: &ReadOptions,
        ) -> Result<Box<dyn WindowReader>> {
            Ok(Box::new(OrdinalsReader {
                ordinals: Self {
                    axes: Vec::new(),
                    attributes: Vec::new(),
                    chunks: self.chunks.clone(),
                    read: Arc::clone(&self.read),
                },
                fill_as_null: options.fill_as_null,
                window: Window::new(Vec::new()),
            }))
        }

        fn describe_attributes(&self) -> Vec<AttributeDescription> {
            Vec::new()
        }

        fn describe_chunk(&self, _: &[u64], _: &ReadOptions) -> Result<ChunkDescription> {
            internal_err!("not described")
        }

        fn describe(&self) -> Result<TableDescription> {
            internal_err!("not described")
        }
    }

    struct OrdinalsReader {
        ordinals: Ordinals,
        fill_as_null: bool,
        window: Window,
    }

    impl WindowReader for OrdinalsReader {
        fn open(&mut self, window: &Window, _fetched: Option<FetchedBlock>) -> Result<()> {
            self.window = window.clone();
            self.ordinals.read.lock().unwrap().push(window.clone());
            Ok(())
        }

        fn advance(&mut self) -> Result<bool> {
            Ok(true)
        }

        fn cells(&mut self, _attribute: usize, _range: Range<u64>) -> Result<&[u8]> {
            internal_err!("no stored cells")
        }

        fn read(&mut self, runs: &[Range<u64>]) -> Result<Vec<ArrayRef>> {
            let cells = self.ordinals.cells(&self.window);
            let cells = runs.iter().flat_map(|run| run.clone()).map(|cell| {
                let value = cells[cell as usize];
                (value != 0 || !self.fill_as_null).then_some(value)
            });
            Ok(vec![Arc::new(cells.collect::<Int64Array>())])
        }

        fn counts(&self) -> ReadCounts {
            ReadCounts::default()
        }
    }

    /// Returns `values(y, x)` in chunks of 4 x 5, repeated over `grid(time, x, y)` in chunks of 1 x 2 x 3.
    fn transposed() -> (Arc<Ordinals>, RepeatedGrid, Vec<Window>) {
        let values = Ordinals::new(&["y", "x"], &[7, 9], &[4, 5]);
        let grid = Ordinals::new(&["time", "x", "y"], &[3, 9, 7], &[1, 2, 3]);
        let windows = (0..3 * 5 * 3).map(|number| {
            let chunk = ChunkGrid::nth_of(&[0..3, 0..5, 0..3], number);
            grid.chunks.window(&chunk)
        });
        let windows = windows.collect();
        let (one, other): (Arc<dyn GridSource>, Arc<dyn GridSource>) =
            (Arc::clone(&values) as _, grid);
        let repeated = RepeatedGrid::try_new(&one, &other, vec![2, 1]).unwrap();
        (values, repeated, windows)
    }

    /// Returns the value of each cell of a window of `grid`.
    fn expected(window: &Window) -> Vec<i64> {
        let cells = (0..window.cells()).map(|cell| ChunkGrid::nth_of(window.ranges(), cell));
        cells
            .map(|indices| (indices[2] * 9 + indices[1]) as i64)
            .collect()
    }

    #[test]
    fn windows_repeat_the_values_and_chunks_are_kept() {
        let (values, repeated, windows) = transposed();
        let options = ReadOptions {
            fill_as_null: false,
            ..ReadOptions::default()
        };
        let mut reader = repeated.window_reader(&[0, 0], &options).unwrap();
        for window in &windows {
            reader.open(window, None).unwrap();
            while !reader.advance().unwrap() {}
            let all = expected(window);
            let half = window.cells() / 2;
            let columns = reader.read(&[0..half, half..window.cells()]).unwrap();
            assert_eq!(columns.len(), 2);
            assert_eq!(columns[1].as_primitive::<Int64Type>().values(), &all[..]);
        }
        // Whole chunks are read: the first, two along y, two along x, and then all.
        let parts = [[0..4, 0..5], [0..7, 0..5], [0..4, 0..9], [0..7, 0..9]];
        let parts = parts.map(|part| Window::new(part.to_vec()));
        assert_eq!(values.read.lock().unwrap().as_slice(), parts);
    }

    #[test]
    fn bounds_are_read_once_for_each_chunk_and_options() {
        let (values, repeated, windows) = transposed();
        for fill_as_null in [true, false] {
            let options = ReadOptions {
                fill_as_null,
                ..ReadOptions::default()
            };
            values.read.lock().unwrap().clear();
            for _ in 0..2 {
                let bounds = repeated.window_statistics(0, &windows, &options);
                let bounds = bounds.unwrap().unwrap();
                for (number, window) in windows.iter().enumerate() {
                    let cells = expected(window).into_iter();
                    let cells: Vec<_> = cells.filter(|cell| *cell != 0 || !fill_as_null).collect();
                    let found = [&bounds.min, &bounds.max]
                        .map(|array| array.as_primitive::<Int64Type>().value(number));
                    let wanted =
                        [cells.iter().min(), cells.iter().max()].map(|cell| *cell.unwrap());
                    assert_eq!(found, wanted, "{window:?}");
                }
            }
            let read = values.read.lock().unwrap();
            let distinct: HashSet<_> = read.iter().cloned().collect();
            assert_eq!(read.len(), distinct.len(), "{read:?}");
        }
    }

    #[test]
    fn bounds_beyond_the_limit_are_unknown() {
        let length = MAX_BOUNDS as u64 + 10;
        let values = Ordinals::new(&["x"], &[length], &[1 << 20]);
        let grid: Arc<dyn GridSource> = Ordinals::new(&["x"], &[length], &[1]);
        let repeated: Arc<dyn GridSource> = Arc::clone(&values) as _;
        let repeated = RepeatedGrid::try_new(&repeated, &grid, vec![0]).unwrap();
        let windows: Vec<_> = (0..length).map(|x| Window::new(vec![x..x + 1])).collect();
        for _ in 0..2 {
            let bounds = repeated.window_statistics(0, &windows, &ReadOptions::default());
            let bounds = bounds.unwrap().unwrap();
            // Zero is the fill value.
            assert_eq!(bounds.max.null_count(), 10 + 1);
            assert_eq!(
                bounds.max.as_primitive::<Int64Type>().value(MAX_BOUNDS - 1),
                MAX_BOUNDS as i64 - 1
            );
        }
        assert_eq!(values.read.lock().unwrap().len(), 1);
    }
}
