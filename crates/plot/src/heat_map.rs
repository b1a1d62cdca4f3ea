//! Heat maps: values over two axes.

use super::axis::{Axis, Scale};
use super::choice::is_latitude;
use super::column::{Column, range};
use super::text;

/// The maximum number of cells across.
const COLUMNS: usize = 640;
/// The maximum number of cells from bottom to top.
const ROWS: usize = 400;
/// Rows that fill less than one in this many cells do not form a grid.
const SPARSE: usize = 20;

/// A heat map: values over two axes.
#[derive(Debug, Clone)]
pub struct HeatMap {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis, upwards.
    pub y: Axis,
    /// The axis of the colours.
    pub value: Axis,
    /// The bounds of the columns of cells: one more than there are columns.
    pub x_edges: Vec<f64>,
    /// The bounds of the rows of cells: one more than there are rows.
    pub y_edges: Vec<f64>,
    /// The value of each cell, row by row. NaN marks an empty cell.
    pub cells: Vec<f64>,
}

impl HeatMap {
    /// Computes the mean of the values in each cell.
    pub fn of(
        x: &Column,
        y: &Column,
        value: &Column,
        notes: &mut Vec<String>,
    ) -> Result<Self, String> {
        let rows = || {
            let rows = x.values.iter().zip(&y.values).zip(&value.values);
            rows.filter(|((x, y), _)| !x.is_nan() && !y.is_nan())
        };
        let Some((low, high)) = range(rows().map(|(_, value)| *value)) else {
            return Err(format!(
                "there is nothing to draw: {} has no finite number",
                value.name
            ));
        };
        let left_out = x.values.len() - rows().count();
        if left_out > 0 {
            notes.push(format!(
                "{} without a finite {} or {} left out",
                text::counted(left_out, "row", "rows"),
                x.name,
                y.name
            ));
        }
        let mut grid = [AxisCells::of(x, COLUMNS), AxisCells::of(y, ROWS)];
        let mut means = Means::of(&grid, rows());
        let points = means.counts.iter().filter(|count| **count > 0).count();
        let are_numbers = x.texts.is_empty() && y.texts.is_empty();
        if are_numbers && points >= 16 && points * SPARSE < means.counts.len() {
            // Aim for about two points per cell.
            let parts = (points as f64 / 2.0).sqrt().ceil() as usize;
            grid = [
                grid[0].even(parts.min(COLUMNS)),
                grid[1].even(parts.min(ROWS)),
            ];
            means = Means::of(&grid, rows());
            notes.push(format!("the rows lie on no grid: the mean of those in each of {parts} x {parts} cells is drawn"));
        } else if grid.iter().any(|cut| cut.is_coarse) {
            notes.push(format!(
                "{} x {} coordinates are drawn as {} x {} cells, each the mean of its values",
                grid[0].places,
                grid[1].places,
                grid[0].cells(),
                grid[1].cells()
            ));
        } else if let Some(most) = means.counts.iter().max()
            && *most > 1
        {
            notes.push(format!(
                "up to {most} rows have the same {} and {}: their mean is drawn",
                x.name, y.name
            ));
        }
        let [x_cut, y_cut] = grid;
        for (column, cut) in [(x, &x_cut), (y, &y_cut)] {
            if cut.cells() < column.texts.len() {
                notes.push(format!(
                    "the first {} of {} values of {} are drawn",
                    cut.cells(),
                    column.texts.len(),
                    column.name
                ));
            }
        }
        let cells = means.finish();
        let (low, high) = range(cells.iter().copied()).unwrap_or((low, high));
        Ok(Self {
            x: Axis {
                is_reversed: x.is_descending(),
                ..axis(x, &x_cut.edges)
            },
            y: Axis {
                is_reversed: !y.texts.is_empty() || (y.is_descending() && !is_latitude(y)),
                ..axis(y, &y_cut.edges)
            },
            value: Axis::over(value, low, high),
            x_edges: x_cut.edges,
            y_edges: y_cut.edges,
            cells,
        })
    }

    /// Returns the number of cells across.
    pub fn columns(&self) -> usize {
        self.x_edges.len() - 1
    }

    /// Returns the number of cells from bottom to top.
    pub fn rows(&self) -> usize {
        self.y_edges.len() - 1
    }

    /// Resamples the map to `columns` by `rows` dots, row by row from the upper left.
    pub fn dots(&self, columns: usize, rows: usize) -> Vec<f64> {
        let across = spans(&self.x, &self.x_edges, columns);
        let mut down = spans(&self.y, &self.y_edges, rows);
        down.reverse();
        let mut dots = Vec::with_capacity(columns * rows);
        for (bottom, top) in &down {
            for (left, right) in &across {
                let cells = (*bottom..*top).flat_map(|row| {
                    let row = row * self.columns();
                    &self.cells[row + left..row + right]
                });
                let present = cells.filter(|cell| !cell.is_nan());
                let (count, sum) =
                    present.fold((0u32, 0.0), |(count, sum), cell| (count + 1, sum + cell));
                dots.push(sum / f64::from(count));
            }
        }
        dots
    }

    /// Returns `true` if all cells have the same size, so that each can be one dot.
    pub fn is_even(&self) -> bool {
        [&self.x_edges, &self.y_edges].into_iter().all(|edges| {
            let size = (edges[edges.len() - 1] - edges[0]) / (edges.len() - 1) as f64;
            edges
                .windows(2)
                .all(|pair| (pair[1] - pair[0] - size).abs() <= size * 1e-3)
        })
    }

    /// Returns the colour of a value on a scale from 0, the min, to 1, the max.
    pub fn shade(&self, value: f64) -> f64 {
        self.value.place(value).clamp(0.0, 1.0)
    }
}

fn axis(column: &Column, edges: &[f64]) -> Axis {
    let mut axis = Axis::over(column, edges[0], edges[edges.len() - 1]);
    // Ticks between the centres of adjacent cells would mark nothing.
    let min = edges
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .reduce(f64::min);
    axis.min = min.unwrap_or_default() * (1.0 - 1e-9);
    if let Scale::Texts(texts) = &mut axis.scale {
        texts.truncate(edges.len() - 1);
        axis.high = edges[edges.len() - 1];
    }
    axis
}

/// For each of `dots` equal lengths of the axis, the range of cells drawn there (end exclusive).
fn spans(axis: &Axis, edges: &[f64], dots: usize) -> Vec<(usize, usize)> {
    let last = edges.len() - 2;
    let value = |dot: f64| {
        let place = dot / dots as f64;
        let place = if axis.is_reversed { 1.0 - place } else { place };
        axis.low + place * (axis.high - axis.low)
    };
    let cell = |value: f64| {
        edges
            .partition_point(|edge| *edge <= value)
            .saturating_sub(1)
            .min(last)
    };
    let span = |dot: usize| {
        let (from, to) = (value(dot as f64), value(dot as f64 + 1.0));
        let (from, to) = (from.min(to), from.max(to));
        // The cells whose centre is in the span of the dot, or else the cell at the centre of the
        // dot.
        let middle = |cell: &usize| (edges[*cell] + edges[cell + 1]) / 2.0;
        let inside: Vec<usize> = (cell(from)..=cell(to))
            .filter(|cell| (from..to).contains(&middle(cell)))
            .collect();
        match inside.as_slice() {
            [] => {
                let cell = cell((from + to) / 2.0);
                (cell, cell + 1)
            }
            [first, ..] => (*first, first + inside.len()),
        }
    };
    (0..dots).map(span).collect()
}

/// The division of an axis into cells.
#[derive(Debug)]
struct AxisCells {
    edges: Vec<f64>,
    /// The number of distinct coordinates.
    places: usize,
    /// `true` if a cell can contain several coordinates.
    is_coarse: bool,
}

impl AxisCells {
    /// Divides an axis into one cell per coordinate or text, or into at most `most` cells.
    fn of(column: &Column, most: usize) -> Self {
        if !column.texts.is_empty() {
            let cells = column.texts.len().min(most);
            return Self {
                edges: (0..=cells).map(|edge| edge as f64 - 0.5).collect(),
                places: cells,
                is_coarse: false,
            };
        }
        let mut places: Vec<f64> = column
            .values
            .iter()
            .copied()
            .filter(|value| !value.is_nan())
            .collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let together = places.len().div_ceil(most);
        let cut = Self {
            edges: edges(column, &places, together),
            places: places.len(),
            is_coarse: together > 1,
        };
        // Irregular coordinates would make cells of very different sizes.
        if together > 1 && !are_regular(&places) {
            cut.even(most)
        } else {
            cut
        }
    }

    /// Divides the same range into `cells` cells of equal size.
    fn even(&self, cells: usize) -> Self {
        let (low, high) = (self.edges[0], self.edges[self.edges.len() - 1]);
        let edge = |edge: usize| low + (high - low) * (edge as f64 / cells as f64);
        Self {
            edges: (0..=cells).map(edge).collect(),
            places: self.places,
            is_coarse: true,
        }
    }

    fn cells(&self) -> usize {
        self.edges.len() - 1
    }

    fn cell(&self, value: f64) -> Option<usize> {
        let next = self.edges.partition_point(|edge| *edge <= value);
        let last = self.cells();
        if next > last {
            // The last cell includes its upper bound. Texts beyond it are not drawn.
            return (value == self.edges[last]).then(|| last - 1);
        }
        next.checked_sub(1)
    }
}

/// Returns `true` if the largest distance between coordinates is less than four times the smallest.
fn are_regular(places: &[f64]) -> bool {
    let mut distances: Vec<f64> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
    distances.sort_by(f64::total_cmp);
    let (Some(min), Some(max)) = (distances.first(), distances.last()) else {
        return true;
    };
    *max < 4.0 * min
}

/// Returns cell bounds half-way between sorted coordinates, with `together` coordinates per cell.
fn edges(column: &Column, places: &[f64], together: usize) -> Vec<f64> {
    let groups: Vec<&[f64]> = places.chunks(together.max(1)).collect();
    let middle = |pair: &[&[f64]]| pair[0][pair[0].len() - 1] / 2.0 + pair[1][0] / 2.0;
    let inner: Vec<f64> = groups.windows(2).map(middle).collect();
    let (Some(first), Some(last)) = (places.first(), places.last()) else {
        return vec![-0.5, 0.5];
    };
    if places.len() == 1 {
        let axis = Axis::over(column, *first, *first);
        return vec![axis.low, axis.high];
    }
    let half = |a: usize, b: usize| (places[b] - places[a]) / 2.0;
    let mut edges = vec![first - half(0, 1)];
    edges.extend(inner);
    edges.push(last + half(places.len() - 2, places.len() - 1));
    edges
}

/// The running sum and count of each cell.
struct Means {
    sums: Vec<f64>,
    counts: Vec<u32>,
}

impl Means {
    fn of<'a>(
        grid: &[AxisCells; 2],
        rows: impl Iterator<Item = ((&'a f64, &'a f64), &'a f64)>,
    ) -> Self {
        let columns = grid[0].cells();
        let cells = columns * grid[1].cells();
        let mut means = Self {
            sums: vec![0.0; cells],
            counts: vec![0; cells],
        };
        for ((x, y), value) in rows {
            if let (Some(column), Some(row)) = (grid[0].cell(*x), grid[1].cell(*y))
                && !value.is_nan()
            {
                means.sums[row * columns + column] += value;
                means.counts[row * columns + column] += 1;
            }
        }
        means
    }

    fn finish(self) -> Vec<f64> {
        let cells = self.sums.into_iter().zip(self.counts);
        cells.map(|(sum, count)| sum / f64::from(count)).collect()
    }
}
