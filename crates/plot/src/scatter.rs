//! Scatter plots: points at the values of two columns.

use super::axis::Axis;
use super::column::{Column, ColumnKind, range};
use super::lines::{Line, Lines};
use super::text;
use super::ticks::Round;
use std::collections::HashSet;

/// The number of spots across and from bottom to top. Only the first point in each spot is drawn.
const SPOTS: (f64, f64) = (300.0, 200.0);

/// Builds a point for each row that has both values.
pub fn points(x: &Column, y: &Column, notes: &mut Vec<String>) -> Result<Lines, String> {
    let rows = || {
        let rows = x.values.iter().copied().zip(y.values.iter().copied());
        rows.filter(|(x, y)| !x.is_nan() && !y.is_nan())
    };
    let (Some((left, right)), Some((low, high))) =
        (range(rows().map(|(x, _)| x)), range(rows().map(|(_, y)| y)))
    else {
        return Err(format!(
            "there is nothing to draw: no row has finite numbers as {} and {}",
            x.name, y.name
        ));
    };
    let missing = x.values.len() - rows().count();
    if missing > 0 {
        let missing = text::counted(missing, "row", "rows");
        notes.push(format!(
            "{missing} without a finite value in both columns left out"
        ));
    }
    let spot = |value: f64, low: f64, high: f64, spots: f64| {
        (((value - low) / (high - low).max(f64::MIN_POSITIVE)) * spots) as u32
    };
    let mut taken = HashSet::new();
    let pieces = rows().filter(|(x, y)| {
        let across = spot(*x, left, right, SPOTS.0);
        taken.insert((across, spot(*y, low, high, SPOTS.1)))
    });
    let pieces: Vec<Vec<(f64, f64)>> = pieces.map(|point| vec![point]).collect();
    if pieces.len() < rows().count() {
        notes.push(format!(
            "{} of {} points are drawn, one for each spot",
            pieces.len(),
            rows().count()
        ));
    }
    let round = match y.kind {
        ColumnKind::Number { is_integer: true } => Round::Integer,
        _ => Round::Decimal,
    };
    let y_axis = match y.kind {
        ColumnKind::Time(_) => Axis::over(y, low, high),
        _ => Axis::of_numbers(y.title(), low, high, round).with_room(0.04),
    };
    Ok(Lines {
        x: Axis::over(x, left, right),
        y: y_axis,
        lines: vec![Line {
            name: y.name.clone(),
            pieces,
        }],
    })
}
