//! Coordinate columns of successive batches, shared between batches wherever coordinates repeat.
//!
//! In row-major order, the coordinates of the inner axes repeat with a fixed period. Every period
//! is cut into batches in the same way, so that the columns of those axes are the same arrays each
//! time. The axes outside the period are constant within it.

use std::ops::Range;

use arrow::array::{Array, ArrayRef};
use arrow::error::ArrowError;

use crate::grid::cells::Cells;
use crate::grid::coordinates::Coordinates;
use crate::grid::index_set::IndexSet;

/// The longest period, in rows, whose columns are kept.
const MAX_ROWS: u64 = 1 << 18;
/// The maximum number of batches that a period is cut into.
const MAX_BATCHES: u64 = 1 << 10;

/// Builds the coordinate columns of the rows of one window after another.
#[derive(Debug, Default)]
pub struct CoordinateColumns {
    /// For each axis, the first index of the current window and the selected indices relative to
    /// it.
    axes: Vec<(u64, IndexSet)>,
    /// The first of the axes whose coordinates repeat together.
    first: usize,
    /// The period of these axes in rows, or zero if nothing is shared.
    lap: u64,
    /// Columns of the repeating axes, by axis and by ordinal of the batch within the period.
    repeated: Vec<Vec<Option<Column>>>,
    /// For each axis outside the period, the last column, which is constant.
    constant: Vec<Option<Column>>,
}

#[derive(Debug, Clone)]
struct Column {
    /// The first row of the column. For a repeating column, the row number within the period. For a
    /// constant column, the row number in the window of the first row of the current period.
    start: u64,
    values: ArrayRef,
}

impl CoordinateColumns {
    /// Switches to the rows of another window of the same grid.
    pub fn open(&mut self, cells: &Cells) {
        let axes: Vec<_> = cells.axes().collect();
        let count = axes.len();
        let unchanged = axes.iter().rev().zip(self.axes.iter().rev());
        let unchanged = unchanged.take_while(|(now, before)| now == before).count();
        let lap_of = |axis: &usize| cells.repeat_period(*axis);
        let is_worthwhile = |axis: &usize| {
            let lap = lap_of(axis);
            // A period that occurs only once in this window may have occurred in the previous one.
            lap > 0 && lap <= MAX_ROWS && (lap <= cells.rows() / 2 || count - *axis <= unchanged)
        };
        let first = (0..count).find(is_worthwhile);
        let lap = first.as_ref().map_or(0, lap_of);
        let first = first.unwrap_or(count);
        if lap != self.lap || first != self.first || count - first > unchanged {
            self.repeated = vec![Vec::new(); count];
        }
        self.constant = vec![None; count];
        (self.axes, self.first, self.lap) = (axes, first, lap);
    }

    /// Returns the rows of the next batch, at most `max_rows`, which starts at row `start`.
    pub fn batch(&self, cells: &Cells, start: u64, max_rows: u64) -> Range<u64> {
        let end = match self.cut(max_rows) {
            None => start.saturating_add(max_rows),
            Some(BatchCut::Laps(rows)) => start - start % self.lap + rows,
            Some(BatchCut::Parts(rows)) => {
                let row = start % self.lap;
                start - row + ((row / rows + 1) * rows).min(self.lap)
            }
        };
        start..end.min(cells.rows())
    }

    /// Returns the coordinates along `axis` of some rows. Columns are shared only between batches
    /// whose rows [`Self::batch`] returned.
    pub fn column(
        &mut self,
        cells: &Cells,
        axis: usize,
        coordinates: &Coordinates,
        rows: Range<u64>,
        max_rows: u64,
    ) -> Result<ArrayRef, ArrowError> {
        // Other rows may cross the end of a period, after which the outer coordinates change.
        let is_batch = self.batch(cells, rows.start, max_rows) == rows;
        let Some(cut) = self.cut(max_rows).filter(|_| is_batch) else {
            return cells.coordinates(axis, coordinates, rows);
        };
        let start = rows.start % self.lap;
        let (known, start) = match cut {
            BatchCut::Laps(_) if axis < self.first => {
                return cells.coordinates(axis, coordinates, rows);
            }
            BatchCut::Parts(_) if axis < self.first => {
                (&mut self.constant[axis], rows.start - start)
            }
            BatchCut::Laps(_) => (entry(&mut self.repeated[axis], 0), start),
            BatchCut::Parts(part) => {
                let number = (start / part) as usize;
                (entry(&mut self.repeated[axis], number), start)
            }
        };
        let length = (rows.end - rows.start) as usize;
        if let Some(known) = known
            && known.start == start
            && known.values.len() >= length
        {
            return Ok(known.values.slice(0, length));
        }
        let values = cells.coordinates(axis, coordinates, rows)?;
        *known = Some(Column {
            start,
            values: ArrayRef::clone(&values),
        });
        Ok(values)
    }

    fn cut(&self, max_rows: u64) -> Option<BatchCut> {
        if self.lap == 0 || max_rows == 0 {
            None
        } else if self.lap <= max_rows {
            Some(BatchCut::Laps(max_rows / self.lap * self.lap))
        } else {
            // Batches of about equal length, so that the last one is not a small remainder.
            let parts = self.lap.div_ceil(max_rows);
            (parts <= MAX_BATCHES).then(|| BatchCut::Parts(self.lap.div_ceil(parts)))
        }
    }
}

/// A way to cut rows into batches.
#[derive(Debug, Clone, Copy)]
enum BatchCut {
    /// A batch is a whole number of periods, with this many rows in total.
    Laps(u64),
    /// A batch is this many rows of one period.
    Parts(u64),
}

fn entry(columns: &mut Vec<Option<Column>>, number: usize) -> &mut Option<Column> {
    if columns.len() <= number {
        columns.resize_with(number + 1, || None);
    }
    &mut columns[number]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::StringArray;
    use arrow::datatypes::DataType;

    use super::*;
    use crate::grid::{Selection, Steps, Window};

    #[test]
    fn batches_are_those_of_the_rows_one_by_one() {
        let texts = |length| {
            let texts = (0..length).map(|position| format!("p{position}"));
            Coordinates::Values(Arc::new(StringArray::from_iter_values(texts)))
        };
        let steps = |start, step, length| {
            Coordinates::Steps(Steps::try_new(DataType::Int32, start, step, length).unwrap())
        };
        let shape = [6, 8, 10];
        let coordinates = [steps(-3, 2, 6), texts(8), steps(7, -1, 10)];
        let some = |length, ranges: &[Range<u64>]| IndexSet::from_ranges(length, ranges.to_vec());
        let selections = [
            Selection::new(shape.map(IndexSet::all).to_vec()),
            Selection::new(vec![
                IndexSet::all(6),
                some(8, &[1..2, 3..6]),
                some(10, &[0..1, 4..5, 6..9]),
            ]),
        ];
        let windows = [
            [0..6, 0..8, 0..10],
            [1..3, 2..6, 0..10],
            [3..4, 2..6, 0..10],
        ];
        let windows = windows.map(|ranges| Window::new(ranges.to_vec()));
        for selection in &selections {
            for max_rows in [1, 3, 7, 10, 16, 40, 1000] {
                let mut columns = CoordinateColumns::default();
                // Open each window twice, so that columns of the previous window are used again.
                for window in windows.iter().flat_map(|window| [window, window]) {
                    let cells = Cells::new(window, selection);
                    columns.open(&cells);
                    let mut start = 0;
                    while start < cells.rows() {
                        let rows = columns.batch(&cells, start, max_rows);
                        assert!(rows.start == start && rows.end > start);
                        assert!(rows.end - start <= max_rows);
                        for (axis, coordinates) in coordinates.iter().enumerate() {
                            let expected =
                                cells.coordinates(axis, coordinates, rows.clone()).unwrap();
                            let found = columns
                                .column(&cells, axis, coordinates, rows.clone(), max_rows)
                                .unwrap();
                            assert_eq!(&found, &expected);
                            // The rows of a batch that another reader cut.
                            let other = start..cells.rows().min(start + max_rows + 3);
                            let expected =
                                cells.coordinates(axis, coordinates, other.clone()).unwrap();
                            let found = columns
                                .column(&cells, axis, coordinates, other, max_rows)
                                .unwrap();
                            assert_eq!(&found, &expected);
                        }
                        start = rows.end;
                    }
                }
            }
        }
    }

    #[test]
    fn repeated_columns_share_an_array() {
        let window = Window::new(vec![0..4, 0..30, 0..20]);
        let cells = Cells::new(
            &window,
            &Selection::new([4, 30, 20].map(IndexSet::all).to_vec()),
        );
        let mut columns = CoordinateColumns::default();
        columns.open(&cells);
        let index = Coordinates::Steps(Steps::counted(30));
        let mut starts = Vec::new();
        let mut at = |axis, start| {
            let rows = columns.batch(&cells, start, 256);
            starts.push(rows.clone());
            let column = columns.column(&cells, axis, &index, rows, 256).unwrap();
            column.to_data().buffers()[0].as_ptr()
        };
        // The inner axes have a period of 600 rows, which is cut into three batches.
        for axis in [1, 2] {
            assert_eq!(at(axis, 0), at(axis, 600));
            assert_eq!(at(axis, 200), at(axis, 1400));
            assert_ne!(at(1, 0), at(1, 200));
        }
        assert_eq!(at(0, 600), at(0, 800));
        assert!(starts.iter().all(|rows| rows.end - rows.start == 200));
    }
}
