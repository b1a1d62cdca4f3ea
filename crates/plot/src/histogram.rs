//! Histograms: the distribution of the values of one column.

use super::axis::{Axis, Scale};
use super::column::{Column, ColumnKind};
use super::text;
use super::ticks::Round;

/// The maximum number of bins chosen by [`width`].
const MAX_BINS: usize = 80;
/// The minimum number of bins, unless there are few values.
const FEWEST_BINS: usize = 8;
/// The maximum number of values sampled to choose the bin width.
const SAMPLE: usize = 1 << 16;
/// Round bin widths for times, in seconds.
const SECONDS: [f64; 18] = [
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0,
    10_800.0, 21_600.0, 43_200.0, 86_400.0,
];

/// A histogram: the distribution of the values of one column.
#[derive(Debug, Clone)]
pub struct Histogram {
    /// The axis of the values.
    pub x: Axis,
    /// The axis of the counts.
    pub y: Axis,
    /// The bounds of the bins: one more than there are bins.
    pub edges: Vec<f64>,
    /// The number of values in each bin. A bin includes its lower bound, and the last bin includes
    /// both.
    pub counts: Vec<u64>,
}

impl Histogram {
    /// Counts the values of a column in bins of a round width.
    pub fn of(column: &Column, notes: &mut Vec<String>) -> Result<Self, String> {
        let Some((low, high)) = column.range() else {
            return Err(format!(
                "there is nothing to draw: {} has no finite number",
                column.name
            ));
        };
        let missing = column.values.iter().filter(|value| value.is_nan()).count() - column.infinite;
        if missing > 0 {
            notes.push(format!(
                "{} of {} rows {} no value",
                missing,
                column.values.len(),
                if missing == 1 { "has" } else { "have" }
            ));
        }
        let axis = Axis::over(column, low, high);
        let edges = if low < high && low == axis.low && high == axis.high {
            edges(column, &axis, low, high)
        } else {
            vec![axis.low, axis.high]
        };
        let mut counts = vec![0; edges.len() - 1];
        let last = counts.len() - 1;
        for value in column.values.iter().filter(|value| !value.is_nan()) {
            let next = edges.partition_point(|edge| edge <= value);
            counts[next.saturating_sub(1).min(last)] += 1;
        }
        let most = counts.iter().max().copied().unwrap_or_default() as f64;
        let title = if column.name == "rows" {
            "values"
        } else {
            "rows"
        };
        let mut y = Axis::of_numbers(title.to_owned(), 0.0, most, Round::Integer);
        y.high += most * 0.04;
        Ok(Self {
            x: Axis::over(column, edges[0], edges[edges.len() - 1]),
            y,
            edges,
            counts,
        })
    }

    /// Describes a bin by its bounds and count.
    pub fn text(&self, bin: usize) -> String {
        let (from, to) = (
            self.x.text(self.edges[bin]),
            self.x.text(self.edges[bin + 1]),
        );
        let rows = text::counted(self.counts[bin] as usize, "row", "rows");
        format!("{from} to {to}\n{rows}")
    }
}

/// Returns round bin bounds that enclose all values.
fn edges(column: &Column, axis: &Axis, low: f64, high: f64) -> Vec<f64> {
    let is_integer = matches!(column.kind, ColumnKind::Number { is_integer: true });
    let width = width(column, low, high);
    let width = match &axis.scale {
        Scale::Times(_) if (1.0..=86_400.0).contains(&width) => {
            let round = SECONDS.into_iter().find(|seconds| *seconds >= width);
            round.unwrap_or(86_400.0)
        }
        Scale::Times(_) if width > 86_400.0 => (width / 86_400.0).ceil() * 86_400.0,
        // A small range of integers gets one bin per integer.
        _ if is_integer && high - low < MAX_BINS as f64 / 2.0 => 1.0,
        _ if is_integer => Round::Integer.up(width),
        _ => Round::Decimal.up(width),
    };
    // Centre each integer in its bin.
    let is_each = is_integer && width == 1.0;
    let shift = if is_each { 0.5 } else { 0.0 };
    let first = ((low + shift) / width).floor();
    let last = ((high + shift) / width).floor() + 1.0;
    let count = (last - first).clamp(1.0, 2.0 * MAX_BINS as f64) as usize;
    let edge = |edge: usize| (first + edge as f64) * width - shift;
    (0..=count).map(edge).collect()
}

/// Chooses the bin width by the Freedman-Diaconis rule: twice the interquartile range over the cube
/// root of the number of values, clamped to a useful number of bins.
fn width(column: &Column, low: f64, high: f64) -> f64 {
    let step = column.values.len().div_ceil(SAMPLE).max(1);
    let mut sample: Vec<f64> = column
        .values
        .iter()
        .copied()
        .step_by(step)
        .filter(|value| !value.is_nan())
        .collect();
    sample.sort_by(f64::total_cmp);
    let quantile = |part: f64| {
        sample
            .get((sample.len() as f64 * part) as usize)
            .copied()
            .unwrap_or(low)
    };
    let rows = column.values.iter().filter(|value| !value.is_nan()).count() as f64;
    let chosen = 2.0 * (quantile(0.75) - quantile(0.25)) / rows.cbrt();
    let fewest = (FEWEST_BINS as f64).min(rows.sqrt().ceil());
    let (finest, coarsest) = ((high - low) / MAX_BINS as f64, (high - low) / fewest);
    if chosen > 0.0 {
        chosen.clamp(finest, coarsest)
    } else {
        coarsest
    }
}
