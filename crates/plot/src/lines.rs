//! Lines over one axis.

use super::axis::Axis;
use super::column::{Column, range};
use super::text;
use super::ticks::Round;
use std::collections::BTreeSet;

/// The maximum number of lines in a chart.
pub const MAX_LINES: usize = 16;
/// The number of parts that a long line is divided into. Each part keeps at most four points.
const COLUMNS: usize = 1200;

/// Lines over one axis.
#[derive(Debug, Clone)]
pub struct Lines {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis, upwards.
    pub y: Axis,
    /// The lines, in the order of their columns or texts.
    pub lines: Vec<Line>,
}

/// One line of a chart.
#[derive(Debug, Clone)]
pub struct Line {
    /// The name in the legend.
    pub name: String,
    /// The points from left to right, split where a value is missing. No part is empty.
    pub pieces: Vec<Vec<(f64, f64)>>,
}

impl Lines {
    /// Builds one line for each column of values.
    pub fn of_columns(
        x: &Column,
        values: &[&Column],
        notes: &mut Vec<String>,
    ) -> Result<Self, String> {
        let order = order(x, (0..x.values.len()).collect(), notes);
        let units: BTreeSet<_> = values.iter().map(|column| &column.unit).collect();
        let is_one_unit = units.len() == 1;
        let duplicates = duplicates(x, &order);
        let lines = values.iter().map(|column| Line {
            name: if is_one_unit {
                column.name.clone()
            } else {
                column.title()
            },
            pieces: pieces(x, column, &order),
        });
        let lines: Vec<Line> = lines.collect();
        let title = match values {
            [column] => column.title(),
            [first, ..] if is_one_unit => {
                let unit = first.unit.as_ref().map(|unit| format!("[{unit}]"));
                unit.unwrap_or_default()
            }
            _ => String::new(),
        };
        Self::new(x, values, title, lines, duplicates, notes)
    }

    /// Builds one line for each text of a column.
    pub fn of_texts(
        x: &Column,
        texts: &Column,
        values: &Column,
        notes: &mut Vec<String>,
    ) -> Result<Self, String> {
        let mut rows = vec![Vec::new(); texts.texts.len()];
        for (row, number) in texts.values.iter().enumerate() {
            if !number.is_nan() {
                rows[*number as usize].push(row);
            }
        }
        let mut shared = 0;
        let lines = texts.texts.iter().zip(rows).map(|(name, rows)| {
            let order = order(x, rows, &mut Vec::new());
            shared += duplicates(x, &order);
            Line {
                name: name.clone(),
                pieces: pieces(x, values, &order),
            }
        });
        let lines: Vec<Line> = lines.collect();
        Self::new(x, &[values], values.title(), lines, shared, notes)
    }

    fn new(
        x: &Column,
        values: &[&Column],
        title: String,
        lines: Vec<Line>,
        duplicates: usize,
        notes: &mut Vec<String>,
    ) -> Result<Self, String> {
        let points = || lines.iter().flat_map(|line| line.pieces.iter().flatten());
        let (Some((left, right)), Some((low, high))) = (
            range(points().map(|point| point.0)),
            range(points().map(|point| point.1)),
        ) else {
            let names: Vec<&str> = values.iter().map(|column| column.name.as_str()).collect();
            return Err(format!(
                "there is nothing to draw: {} has no finite number",
                names.join(", ")
            ));
        };
        if duplicates > 0 {
            notes.push(format!(
                "{} the {} of another: their mean is drawn",
                text::counted(duplicates, "row has", "rows have"),
                x.name
            ));
        }
        let are_integers = values.iter().all(|column| {
            matches!(
                column.kind,
                super::column::ColumnKind::Number { is_integer: true }
            )
        });
        let round = if are_integers {
            Round::Integer
        } else {
            Round::Decimal
        };
        Ok(Self {
            x: Axis {
                is_reversed: x.is_descending(),
                ..Axis::over(x, left, right)
            },
            y: Axis::of_numbers(title, low, high, round).with_room(0.04),
            lines,
        })
    }
}

/// Returns the rows with a coordinate, sorted by coordinate.
fn order(x: &Column, mut rows: Vec<usize>, notes: &mut Vec<String>) -> Vec<usize> {
    let before = rows.len();
    rows.retain(|row| !x.values[*row].is_nan());
    if rows.len() < before {
        let missing = text::counted(before - rows.len(), "row has", "rows have");
        notes.push(format!(
            "{missing} no finite {} and {} left out",
            x.name,
            if before - rows.len() == 1 {
                "is"
            } else {
                "are"
            }
        ));
    }
    // The sort takes one pass if rows are already sorted.
    rows.sort_by(|a, b| x.values[*a].total_cmp(&x.values[*b]));
    rows
}

/// Returns the number of rows whose coordinate equals that of the row before.
fn duplicates(x: &Column, order: &[usize]) -> usize {
    let pairs = order.windows(2);
    pairs
        .filter(|pair| x.values[pair[0]] == x.values[pair[1]])
        .count()
}

/// Averages the rows of each coordinate, thins the points, and splits the line at gaps.
fn pieces(x: &Column, y: &Column, order: &[usize]) -> Vec<Vec<(f64, f64)>> {
    let means = order
        .chunk_by(|a, b| x.values[*a] == x.values[*b])
        .map(|rows| {
            let present = rows
                .iter()
                .map(|row| y.values[*row])
                .filter(|value| !value.is_nan());
            let (count, sum) =
                present.fold((0, 0.0), |(count, sum), value| (count + 1, sum + value));
            (x.values[rows[0]], sum / f64::from(count))
        });
    let points: Vec<(f64, f64)> = means.collect();
    let points = thinned(points, COLUMNS);
    let split = points.split(|point| point.1.is_nan());
    split
        .filter(|piece| !piece.is_empty())
        .map(<[_]>::to_vec)
        .collect()
}

/// Thins a line to at most four points for each of `parts` equal parts of the axis: the first, min,
/// max and last. They cover the same pixels as all points. A part without values keeps one NaN,
/// which is a gap.
fn thinned(points: Vec<(f64, f64)>, parts: usize) -> Vec<(f64, f64)> {
    let [first, .., last] = points.as_slice() else {
        return points;
    };
    let (low, high) = (first.0, last.0);
    if points.len() <= 4 * parts {
        return points;
    }
    let part =
        |x: f64| (((x - low) / (high - low)) * parts as f64).min(parts as f64 - 1.0) as usize;
    let mut thin = Vec::with_capacity(5 * parts);
    for some in points.chunk_by(|a, b| part(a.0) == part(b.0)) {
        let present: Vec<usize> = (0..some.len())
            .filter(|point| !some[*point].1.is_nan())
            .collect();
        let by_value = |a: &&usize, b: &&usize| some[**a].1.total_cmp(&some[**b].1);
        let (Some(min), Some(max)) = (
            present.iter().min_by(by_value),
            present.iter().max_by(by_value),
        ) else {
            thin.push(some[0]);
            continue;
        };
        let kept = BTreeSet::from([present[0], *min, *max, present[present.len() - 1]]);
        thin.extend(kept.into_iter().map(|point| some[point]));
    }
    thin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_survive_thinning() {
        let mut points: Vec<(f64, f64)> = (0..100_000)
            .map(|i| (f64::from(i), f64::from(i % 7)))
            .collect();
        points[31_234].1 = 1000.0;
        points[77_777].1 = -1000.0;
        for point in &mut points[50_000..51_000] {
            point.1 = f64::NAN;
        }
        let thin = thinned(points.clone(), 100);
        assert!(thin.len() <= 400 && thin.len() > 300, "{}", thin.len());
        for extreme in [31_234, 77_777, 0, 99_999] {
            assert!(thin.contains(&points[extreme]));
        }
        assert!(thin.iter().any(|point| point.1.is_nan()));
        assert!(thin.is_sorted_by(|a, b| a.0 < b.0));
        let few = points[..400].to_vec();
        assert_eq!(thinned(few.clone(), 100), few);
    }
}
