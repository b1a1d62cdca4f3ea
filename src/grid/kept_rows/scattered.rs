//! Kept rows that are read one by one.

use std::ops::Range;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::error::ArrowError;

use crate::grid::cells::Cells;
use crate::grid::coordinates::Coordinates;
use crate::grid::kept_rows::KeptRows;

/// The rows of a range that a filter keeps, one by one.
#[derive(Debug)]
pub struct ScatteredRows {
    rows: Range<u64>,
    /// The index of each kept row within the range.
    kept: Vec<u32>,
}

/// The lines of kept rows. A line is the rows with the same indices along all axes but the last:
///
/// ```text
/// rows 0..12 of 3 lines   0 1 2 3   4 5 6 7   8 9 10 11
/// kept                      x   x     x         x
///
/// lines                   0, 0, 1, 2
/// within their lines      1, 3, 1, 1
/// ```
#[derive(Debug)]
pub struct KeptLines {
    /// The cells along all axes but the last, one per line.
    of_lines: Cells,
    /// The lines of the range.
    range: Range<u64>,
    /// The index of each kept row's line within `range`.
    lines: UInt32Array,
    /// The rows whose coordinates along the last axis are built, and the index of each kept row among them.
    built: Range<u64>,
    within: UInt32Array,
}

impl ScatteredRows {
    /// Lists the kept rows; `None` if they are of a range of 2^32 rows or more.
    pub fn new(kept: &KeptRows) -> Option<Self> {
        let rows = kept.rows();
        u32::try_from(rows.end - rows.start).ok()?;
        let mut numbers = vec![0; kept.count()];
        let found = kept.mask().values().set_indices_u32();
        // A collected list would check its capacity for every row.
        numbers
            .iter_mut()
            .zip(found)
            .for_each(|(number, found)| *number = found);
        Some(Self {
            rows,
            kept: numbers,
        })
    }

    /// Returns the offset of each row's cell into the window, in row-major order.
    pub fn cells(&self, cells: &Cells) -> Vec<u64> {
        let mut runs = Vec::new();
        cells.runs(self.rows.clone(), &mut runs);
        let mut numbers = Vec::with_capacity(self.kept.len());
        let (mut rest, mut first) = (&self.kept[..], 0);
        for run in runs {
            let end = first + (run.end - run.start);
            let (of_run, others) = rest.split_at(rest.partition_point(|row| u64::from(*row) < end));
            numbers.extend(of_run.iter().map(|row| run.start + u64::from(*row) - first));
            (rest, first) = (others, end);
        }
        numbers
    }

    /// Returns the lines of the rows; `None` without axes, or without rows.
    pub fn lines(&self, cells: &Cells) -> Option<KeptLines> {
        let rows = &self.rows;
        let (length, of_lines) = cells.lines().filter(|(length, _)| *length > 0)?;
        let first = rows.start - rows.start % length;
        // The coordinates of a whole line are built if that is no more work than those of the range.
        let is_short = length <= rows.end - rows.start;
        let built = match is_short {
            true => first..first + length,
            false => rows.clone(),
        };
        let mut lines = Vec::with_capacity(self.kept.len());
        let mut within = Vec::with_capacity(self.kept.len());
        let mut rest = &self.kept[..];
        let (mut line, mut end) = (0, first + length - rows.start);
        while let Some(row) = rest.first() {
            if let Some(behind) = u64::from(*row).checked_sub(end) {
                let skipped = 1 + behind / length;
                (line, end) = (line + skipped, end + skipped * length);
            }
            let count = rest.iter().position(|row| u64::from(*row) >= end);
            let (of_line, others) = rest.split_at(count.unwrap_or(rest.len()));
            lines.extend(std::iter::repeat_n(line as u32, of_line.len()));
            // The first line may start before the range.
            let start = match is_short {
                true => end.wrapping_sub(length) as u32,
                false => 0,
            };
            within.extend(of_line.iter().map(|row| row.wrapping_sub(start)));
            rest = others;
        }
        Some(KeptLines {
            of_lines,
            range: rows.start / length..rows.end.div_ceil(length),
            lines: lines.into(),
            built,
            within: within.into(),
        })
    }
}

impl KeptLines {
    /// Returns the coordinates of the rows along an axis. `cells` must be those passed to [`ScatteredRows::lines`].
    pub fn coordinates(
        &self,
        cells: &Cells,
        axis: usize,
        coordinates: &Coordinates,
    ) -> Result<ArrayRef, ArrowError> {
        if axis < self.of_lines.dimensions() {
            let values = self
                .of_lines
                .coordinates(axis, coordinates, self.range.clone())?;
            return take(&values, &self.lines, None);
        }
        let values = cells.coordinates(axis, coordinates, self.built.clone())?;
        take(&values, &self.within, None)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{BooleanArray, StringArray};
    use arrow::compute::filter;
    use arrow::datatypes::DataType;

    use super::*;
    use crate::grid::kept_rows::ranges_of;
    use crate::grid::{IndexSet, Selection, Steps, Window};

    #[test]
    fn kept_rows_are_those_of_a_filter() {
        let texts = (0..7).map(|position| format!("p{position}"));
        let coordinates = [
            Coordinates::Steps(Steps::try_new(DataType::Int32, -3, 2, 5).unwrap()),
            Coordinates::Steps(Steps::try_new(DataType::Int64, 9, -1, 4).unwrap()),
            Coordinates::Values(Arc::new(StringArray::from_iter_values(texts))),
        ];
        let window = Window::new(vec![1..5, 0..4, 1..7]);
        let some = |length, ranges: &[Range<u64>]| IndexSet::from_ranges(length, ranges.to_vec());
        for selection in [
            Selection::all(&[5, 4, 7]),
            Selection::new(vec![
                some(5, &[1..2, 4..5]),
                some(4, &[1..3]),
                some(7, &[0..2, 3..4, 6..7]),
            ]),
        ] {
            let cells = Cells::new(&window, &selection);
            for start in 0..cells.rows() {
                for end in [start, start + 1, start + 3, start + 11, cells.rows()] {
                    let rows = start..end.clamp(start, cells.rows());
                    for step in [1, 2, 5] {
                        let kept = rows.clone().map(|row| row % step == 0 || row % 16 > 10);
                        let kept = BooleanArray::from(kept.collect::<Vec<_>>());
                        let found = KeptRows::new(rows.clone(), kept.clone());
                        let found = ScatteredRows::new(&found).unwrap();
                        let mut runs = Vec::new();
                        cells.runs(rows.clone(), &mut runs);
                        let numbers = runs.into_iter().flatten().zip(kept.values());
                        let numbers = numbers.filter(|(_, kept)| *kept).map(|(cell, _)| cell);
                        assert_eq!(found.cells(&cells), numbers.collect::<Vec<_>>());
                        let found = found.lines(&cells).unwrap();
                        for (axis, coordinates) in coordinates.iter().enumerate() {
                            let all = cells.coordinates(axis, coordinates, rows.clone());
                            let expected = filter(&all.unwrap(), &kept).unwrap();
                            let found = found.coordinates(&cells, axis, coordinates).unwrap();
                            assert_eq!(&found, &expected, "{rows:?} {step} {axis}");
                            let ranges = ranges_of(rows.start, &kept, 0);
                            let found = cells
                                .coordinates_of_ranges(axis, coordinates, &ranges)
                                .unwrap();
                            assert_eq!(&found, &expected, "{ranges:?} {axis}");
                        }
                    }
                }
            }
        }
    }
}
