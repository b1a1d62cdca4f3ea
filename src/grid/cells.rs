//! Rows of a window: its selected cells, numbered in row-major order. A range of row numbers is
//! turned, by arithmetic, into runs of contiguous cells and into coordinates along each axis; rows
//! are never materialized.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, PrimitiveArray, UInt64Array, downcast_primitive_array};
use arrow::compute::take;
use arrow::datatypes::ArrowPrimitiveType;
use arrow::error::ArrowError;

use crate::grid::chunk_grid::Window;
use crate::grid::coordinates::Coordinates;
use crate::grid::index_set::IndexSet;
use crate::grid::selection::Selection;
use crate::grid::steps::collect_steps;

/// The selected cells of a [`Window`]. They are the rows of the window, numbered in row-major
/// order.
#[derive(Debug, Clone)]
pub struct Cells {
    /// The first index of the window along each axis.
    origin: Vec<u64>,
    /// The selected indices along each axis, relative to the start of the window.
    sets: Vec<IndexSet>,
    /// For each axis, the rows between two consecutive selected indices: the product of the counts
    /// of the axes after it.
    rows_per_step: Vec<u64>,
    /// For each axis, the cells of the window between two consecutive indices.
    strides: Vec<u64>,
    rows: u64,
}

impl Cells {
    /// Returns the cells of `window` that are in `selection`.
    pub fn new(window: &Window, selection: &Selection) -> Self {
        let sets: Vec<_> = window
            .ranges()
            .iter()
            .zip(selection.axes())
            .map(|(range, set)| set.within(range.clone()))
            .collect();
        // Neither product overflows: both are at most the number of cells of the window, which fits
        // in 64 bits.
        let (rows_per_step, rows) = suffix_products(sets.iter().map(IndexSet::count));
        let (strides, _) = suffix_products(window.shape());
        Self {
            origin: window.ranges().iter().map(|range| range.start).collect(),
            sets,
            rows_per_step,
            strides,
            rows,
        }
    }

    /// Returns the number of axes.
    pub(super) fn dimensions(&self) -> usize {
        self.sets.len()
    }

    /// Returns the number of selected cells.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns `true` if at least half of the cells of the window are selected.
    pub fn cover_most_of(&self, window: &Window) -> bool {
        self.rows >= window.cells() / 2
    }

    /// Returns the number of selected indices along the last axis, and the selected cells of all other axes,
    /// which are lines along the last one. `None` without axes.
    pub(super) fn lines(&self) -> Option<(u64, Self)> {
        let (last, sets) = self.sets.split_last()?;
        let (rows_per_step, rows) = suffix_products(sets.iter().map(IndexSet::count));
        let lines = Self {
            origin: self.origin[..sets.len()].to_vec(),
            sets: sets.to_vec(),
            rows_per_step,
            strides: self.strides[..sets.len()].to_vec(),
            rows,
        };
        Some((last.count(), lines))
    }

    /// Returns the number of rows after which the coordinates of `axis` and of all axes after it
    /// repeat.
    pub(super) fn repeat_period(&self, axis: usize) -> u64 {
        self.rows_per_step[axis] * self.sets[axis].count()
    }

    /// Returns, for each axis, the first index of the window and the selected indices relative to
    /// it.
    pub(super) fn axes(&self) -> impl Iterator<Item = (u64, IndexSet)> {
        let sets = self.sets.iter().cloned();
        self.origin.iter().copied().zip(sets)
    }

    /// Appends the cells of the rows in `range` as runs: ranges of row-major offsets into the
    /// window, in ascending order, with adjacent runs joined.
    pub fn runs(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) {
        let range = range.start..range.end.min(self.rows);
        if range.is_empty() {
            return;
        }
        // All axes after `inner` are selected whole, so one index of `inner` is one contiguous run.
        let Some(inner) = self.sets.iter().rposition(|set| !set.is_all()) else {
            // All cells are selected, so the number of a row is that of its cell.
            return push_run(runs, range);
        };
        let step = self.strides[inner];
        let set = &self.sets[inner];
        let rows_per_line = step * set.count();
        let mut outer = self.sets[..inner]
            .iter()
            .map(Cursor::new)
            .collect::<Vec<_>>();
        let mut line = range.start / rows_per_line;
        for (cursor, rows_per_step) in outer.iter_mut().zip(&self.rows_per_step) {
            let lines_per_step = rows_per_step / rows_per_line;
            cursor.seek(line / lines_per_step % cursor.set.count());
        }
        let mut row = range.start;
        while row < range.end {
            let line_start = line * rows_per_line;
            let line_rows = row - line_start..(range.end - line_start).min(rows_per_line);
            let base: u64 = outer
                .iter()
                .zip(&self.strides)
                .map(|(cursor, stride)| cursor.position * stride)
                .sum();
            // `line_rows` may start and end within a step: widen it to whole steps, then clip both
            // ends.
            let ranks = line_rows.start / step..line_rows.end.div_ceil(step);
            let mut skip = line_rows.start % step;
            let mut left = line_rows.end - line_rows.start;
            for positions in set.ranges_of_ranks(ranks) {
                let start = base + positions.start * step + skip;
                let end = (base + positions.end * step).min(start + left);
                left -= end - start;
                skip = 0;
                push_run(runs, start..end);
            }
            row = line_start + line_rows.end;
            line += 1;
            for cursor in outer.iter_mut().rev() {
                if cursor.advance() {
                    break;
                }
            }
        }
    }

    /// Returns the coordinates along `axis` of the rows in `range`.
    pub fn coordinates(
        &self,
        axis: usize,
        coordinates: &Coordinates,
        range: Range<u64>,
    ) -> Result<ArrayRef, ArrowError> {
        let range = range.start..range.end.min(self.rows).max(range.start);
        self.coordinates_of_ranges(axis, coordinates, &[range])
    }

    /// Returns the coordinates along `axis` of the rows in `ranges`, which must be ascending and within the window.
    pub fn coordinates_of_ranges(
        &self,
        axis: usize,
        coordinates: &Coordinates,
        ranges: &[Range<u64>],
    ) -> Result<ArrayRef, ArrowError> {
        let origin = self.origin[axis];
        match coordinates {
            Coordinates::Steps(steps) => Ok(collect_steps!(steps, at => {
                let mut values = Vec::with_capacity(total_rows(ranges));
                self.for_each_repeat(axis, ranges, |positions, count| {
                    let positions = positions.start + origin..positions.end + origin;
                    extend_repeated(&mut values, positions.map(at), count);
                });
                values
            })),
            Coordinates::Values(values) => {
                let values = values.slice(origin as usize, self.sets[axis].length() as usize);
                let values = values.as_ref();
                downcast_primitive_array!(
                    values => Ok(self.repeat_primitive(axis, values, ranges)),
                    _ => {
                        let mut positions = Vec::with_capacity(total_rows(ranges));
                        self.for_each_repeat(axis, ranges, |some, count| {
                            extend_repeated(&mut positions, some, count);
                        });
                        take(values, &UInt64Array::from(positions), None)
                    }
                )
            }
        }
    }

    /// Adds to each element of `sums`, one per row in `range`, the term of the row's index along
    /// `axis`. `terms` holds one term per selected index of the window, in ascending order of the
    /// indices.
    pub fn add_terms(&self, axis: usize, terms: &[usize], range: Range<u64>, sums: &mut [usize]) {
        let mut rest = sums;
        self.for_each_repeat(axis, &[range], |positions, count| {
            let first = self.sets[axis].rank(positions.start) as usize;
            let terms = &terms[first..][..(positions.end - positions.start) as usize];
            let (some, behind) = std::mem::take(&mut rest).split_at_mut(terms.len() * count);
            for (some, term) in some.chunks_mut(count).zip(terms) {
                some.iter_mut().for_each(|sum| *sum += term);
            }
            rest = behind;
        });
    }

    fn repeat_primitive<T: ArrowPrimitiveType>(
        &self,
        axis: usize,
        values: &PrimitiveArray<T>,
        ranges: &[Range<u64>],
    ) -> ArrayRef {
        let mut repeated = Vec::with_capacity(total_rows(ranges));
        let source = values.values();
        self.for_each_repeat(axis, ranges, |positions, count| {
            let values = &source[positions.start as usize..positions.end as usize];
            extend_repeated(&mut repeated, values.iter().copied(), count);
        });
        Arc::new(
            PrimitiveArray::<T>::new(repeated.into(), None)
                .with_data_type(values.data_type().clone()),
        )
    }

    /// Calls `visit` with each run of indices along `axis`, relative to the start of the window,
    /// that the rows in `ranges` go through, and with the number of these rows that have each index.
    /// `ranges` must be ascending.
    fn for_each_repeat(
        &self,
        axis: usize,
        ranges: &[Range<u64>],
        mut visit: impl FnMut(Range<u64>, usize),
    ) {
        let ranges = ranges.iter().filter(|range| !range.is_empty());
        let set = &self.sets[axis];
        let step = self.rows_per_step[axis];
        if step == 1 {
            // Visit whole runs of indices on the innermost axis: a call per row would dominate the
            // cost of a scan.
            let lap = set.count();
            let mut end = 0;
            for range in ranges {
                let mut row = range.start;
                while row < range.end {
                    if row >= end {
                        end = (row / lap + 1) * lap;
                    }
                    let rank = lap - (end - row);
                    let stop = range.end.min(end);
                    let ranks = rank..rank + stop - row;
                    match set.is_all() {
                        true => visit(ranks, 1),
                        false => set
                            .ranges_of_ranks(ranks)
                            .for_each(|positions| visit(positions, 1)),
                    }
                    row = stop;
                }
            }
            return;
        }
        let mut cursor = Cursor::new(set);
        // The row where the next index begins, and the number of rows in ranges that have the current one.
        let (mut end, mut count) = (0, 0);
        for range in ranges {
            let mut row = range.start;
            while row < range.end {
                if row >= end {
                    if count > 0 {
                        visit(cursor.position..cursor.position + 1, count);
                    }
                    let is_next = count > 0 && row < end + step;
                    if is_next {
                        cursor.advance();
                        end += step;
                    } else {
                        let number = row / step;
                        cursor.seek(number % set.count());
                        end = (number + 1) * step;
                    }
                    count = 0;
                }
                let stop = range.end.min(end);
                count += (stop - row) as usize;
                row = stop;
            }
        }
        if count > 0 {
            visit(cursor.position..cursor.position + 1, count);
        }
    }
}

/// Appends a run, or joins it to the last one if they are adjacent.
fn push_run(runs: &mut Vec<Range<u64>>, run: Range<u64>) {
    match runs.last_mut() {
        Some(last) if last.end == run.start => last.end = run.end,
        _ => runs.push(run),
    }
}

/// Returns the total number of rows in `ranges`.
fn total_rows(ranges: &[Range<u64>]) -> usize {
    let rows = ranges.iter().map(|range| range.end - range.start);
    rows.sum::<u64>() as usize
}

/// Appends each value `count` times in a row.
fn extend_repeated<T: Copy>(target: &mut Vec<T>, values: impl Iterator<Item = T>, count: usize) {
    if count == 1 {
        target.extend(values);
    } else {
        for value in values {
            target.extend(std::iter::repeat_n(value, count));
        }
    }
}

/// Returns, for each axis, the product of the extents of the axes after it, and the product of all
/// extents.
fn suffix_products(
    extents: impl DoubleEndedIterator<Item = u64> + ExactSizeIterator,
) -> (Vec<u64>, u64) {
    let mut products = vec![0; extents.len()];
    let mut product = 1;
    for (axis, extent) in extents.enumerate().rev() {
        products[axis] = product;
        product *= extent;
    }
    (products, product)
}

/// Iterates over the indices of a set, and wraps around at the end.
struct Cursor<'a> {
    set: &'a IndexSet,
    range: usize,
    end: u64,
    position: u64,
}

impl<'a> Cursor<'a> {
    /// Returns a cursor over a set that is not empty. Call [`Self::seek`] before the first use.
    fn new(set: &'a IndexSet) -> Self {
        Self {
            set,
            range: 0,
            end: 0,
            position: 0,
        }
    }

    fn seek(&mut self, rank: u64) {
        if let Some((range, position, end)) = self.set.range_of_rank(rank) {
            self.range = range;
            self.position = position;
            self.end = end;
        }
    }

    /// Advances to the next index. Returns `false` if the cursor wrapped around to the first one.
    fn advance(&mut self) -> bool {
        self.position += 1;
        if self.position < self.end {
            return true;
        }
        self.range += 1;
        match self.set.range(self.range) {
            Some(range) => {
                self.position = range.start;
                self.end = range.end;
                true
            }
            None => {
                self.seek(0);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Date32Array, StringArray};
    use arrow::datatypes::{DataType, Date32Type, Int64Type};

    use super::*;
    use crate::grid::Steps;

    /// Returns the row-major offset and the indices of every selected cell of a window, by testing
    /// each cell.
    fn by_hand(window: &Window, selection: &Selection) -> Vec<(u64, Vec<u64>)> {
        let shape: Vec<_> = window.shape().collect();
        (0..window.cells())
            .filter_map(|number| {
                let mut rest = number;
                let mut position = vec![0; shape.len()];
                for axis in (0..shape.len()).rev() {
                    position[axis] = window.ranges()[axis].start + rest % shape[axis];
                    rest /= shape[axis];
                }
                position
                    .iter()
                    .zip(selection.axes())
                    .all(|(position, set)| set.contains(*position))
                    .then_some((number, position))
            })
            .collect()
    }

    fn steps(start: i128) -> Steps {
        Steps::try_new(DataType::Int64, start, 1, 6).unwrap()
    }

    fn sets(length: u64) -> Vec<IndexSet> {
        vec![
            IndexSet::all(length),
            IndexSet::from_ranges(length, [1..2]),
            IndexSet::from_ranges(length, [0..1, 2..4]),
            IndexSet::from_ranges(length, [0..1, 3..4, 5..6]),
        ]
    }

    #[test]
    fn rows_agree_with_walking_every_cell() {
        let window = Window::new(vec![1..4, 0..4, 2..6]);
        let labels: ArrayRef = Arc::new(StringArray::from_iter_values(
            (0..6).map(|position| format!("p{position}")),
        ));
        for a in sets(6) {
            for b in sets(6) {
                for c in sets(6) {
                    let selection = Selection::new(vec![a.clone(), b.clone(), c.clone()]);
                    let expected = by_hand(&window, &selection);
                    let cells = Cells::new(&window, &selection);
                    assert_eq!(cells.rows(), expected.len() as u64);
                    for start in 0..cells.rows() {
                        for end in [start, start + 1, start + 5, cells.rows()] {
                            let rows = start..end.min(cells.rows());
                            let part = &expected[rows.start as usize..rows.end as usize];
                            let mut runs = Vec::new();
                            cells.runs(rows.clone(), &mut runs);
                            assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start));
                            let numbers: Vec<_> = runs.into_iter().flatten().collect();
                            let by_hand: Vec<_> = part.iter().map(|(number, _)| *number).collect();
                            assert_eq!(numbers, by_hand);
                            for axis in 0..3 {
                                let positions: Vec<_> =
                                    part.iter().map(|(_, position)| position[axis]).collect();
                                let index = Coordinates::Steps(steps(10));
                                let index = cells.coordinates(axis, &index, rows.clone()).unwrap();
                                let index = index.as_primitive::<Int64Type>().values().to_vec();
                                let counted: Vec<_> =
                                    positions.iter().map(|p| *p as i64 + 10).collect();
                                assert_eq!(index, counted);
                                let text = Coordinates::Values(Arc::clone(&labels));
                                let text = cells.coordinates(axis, &text, rows.clone()).unwrap();
                                let text: Vec<_> =
                                    text.as_string::<i32>().iter().flatten().collect();
                                let labelled: Vec<_> =
                                    positions.iter().map(|p| format!("p{p}")).collect();
                                assert_eq!(text, labelled);
                                let days = Date32Array::from_iter_values(20..26);
                                let days = Coordinates::Values(Arc::new(days));
                                let days = cells.coordinates(axis, &days, rows.clone()).unwrap();
                                let days = days.as_primitive::<Date32Type>().values().to_vec();
                                let dated: Vec<_> =
                                    positions.iter().map(|p| *p as i32 + 20).collect();
                                assert_eq!(days, dated);
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_window_selected_whole_is_one_run() {
        let window = Window::new(vec![0..1000, 0..1000]);
        let cells = Cells::new(&window, &Selection::all(&[1000, 1000]));
        let mut runs = Vec::new();
        cells.runs(500..100_500, &mut runs);
        assert_eq!(runs, [500..100_500]);
    }
}
