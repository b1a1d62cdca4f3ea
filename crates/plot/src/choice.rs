//! Divides the columns of a result into axes and values.

use super::column::{Column, ColumnKind};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// The number of rows examined to decide whether columns identify a row.
const ROWS: usize = 1 << 20;

/// The role of each column, by its index among the columns that can be drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roles {
    /// The axes.
    pub axes: Vec<usize>,
    /// The columns of values drawn over the axes.
    pub values: Vec<usize>,
    /// Axes with a single coordinate, which are noted instead of drawn.
    pub fixed: Vec<usize>,
}

/// Divides columns into axes and values.
///
/// Dimensions, times and texts are axes. Other numbers become axes, from the left, until no two
/// rows share the same coordinates. If some columns are not nullable, a nullable number right of
/// the last dimension, time or text does not become an axis, because GROUP BY columns of a
/// dimension are not nullable.
pub fn roles(columns: &[Column]) -> Result<Roles, String> {
    let is_label = |column: &usize| columns[*column].kind.is_label();
    let all = 0..columns.len();
    let is_base = |column: &usize| is_label(column) || columns[*column].is_dimension;
    let base: Vec<usize> = all.clone().filter(is_base).collect();
    let mut numbers: Vec<usize> = all.clone().filter(|column| !is_base(column)).collect();
    // The last column of numbers is always a value.
    if numbers.pop().is_none() {
        return Err(
            "there is no column of numbers to draw along the axes: add one, such as value, avg(value) or count(*)".to_owned(),
        );
    }
    let mut axes = base.clone();
    let behind = base.last().copied();
    let tells = columns.iter().any(|column| !column.is_nullable);
    let could_be =
        |column: &usize| Some(*column) < behind || !tells || !columns[*column].is_nullable;
    let mut others = numbers.into_iter().filter(could_be);
    if axes.is_empty() {
        axes.push(others.next().unwrap_or(0));
    }
    let mut is_enough = identify_rows(columns, &axes);
    while !is_enough && let Some(other) = others.next() {
        axes.push(other);
        axes.sort_unstable();
        is_enough = identify_rows(columns, &axes);
    }
    if !is_enough {
        // No choice of axes identifies every row: keep the dimensions, or at most two columns.
        if columns.iter().any(|column| column.is_dimension) {
            axes = base;
        } else {
            axes.truncate(base.len().max(2));
        }
    }
    let values = all
        .filter(|column| !axes.contains(column) && !is_label(column))
        .collect();
    let (mut fixed, mut axes): (Vec<usize>, Vec<usize>) = axes
        .into_iter()
        .partition(|column| columns[*column].is_constant());
    if axes.is_empty() {
        // With a single coordinate on every axis, prefer a time or number over a text.
        let best = fixed
            .iter()
            .position(|column| !columns[*column].kind.is_categorical())
            .unwrap_or(0);
        axes.push(fixed.remove(best));
    }
    Ok(Roles {
        axes,
        values,
        fixed,
    })
}

/// Returns `true` if no two of the first million rows have the same values in all of these columns.
fn identify_rows(columns: &[Column], axes: &[usize]) -> bool {
    let rows = columns
        .first()
        .map_or(0, |column| column.values.len())
        .min(ROWS);
    let hasher = RandomState::new();
    let mut seen = HashSet::new();
    (0..rows).all(|row| {
        let place = axes
            .iter()
            .map(|axis| (columns[*axis].values[row] + 0.0).to_bits());
        seen.insert(hasher.hash_one(place.collect::<Vec<u64>>()))
    })
}

/// Returns the horizontal and the vertical axis. Times and longitudes go across, latitudes and
/// depths go up. Otherwise the first axis goes up, like the rows of a matrix.
pub fn across_and_up(first: usize, second: usize, columns: &[Column]) -> (usize, usize) {
    let is_across = |column: &Column| {
        matches!(column.kind, ColumnKind::Time(_))
            || is_called(column, &["lon", "longitude", "x", "time"], "degrees_east")
    };
    let is_up = |column: &Column| {
        let others = ["y", "level", "depth", "height", "altitude"];
        is_latitude(column) || is_called(column, &others, "degrees_north")
    };
    let (one, other) = (&columns[first], &columns[second]);
    let is_first_across = is_across(one) && !is_across(other) || is_up(other) && !is_up(one);
    if is_first_across {
        (first, second)
    } else {
        (second, first)
    }
}

/// Returns `true` for latitudes, which point up on a map even if the file stores them from north to
/// south.
pub fn is_latitude(column: &Column) -> bool {
    is_called(column, &["lat", "latitude"], "degrees_north")
}

fn is_called(column: &Column, names: &[&str], unit: &str) -> bool {
    let name = column.name.to_ascii_lowercase();
    column.unit.as_deref() == Some(unit) || names.contains(&name.as_str())
}

/// Returns the columns of a scatter plot: the first two columns of values, or else the first and
/// last columns that are not texts.
pub fn pair(columns: &[Column]) -> Result<(usize, usize), String> {
    let is_drawn = |column: &&usize| columns[**column].kind != ColumnKind::Text;
    let all: Vec<usize> = (0..columns.len()).collect();
    let is_value =
        |column: &&usize| !columns[**column].kind.is_label() && !columns[**column].is_dimension;
    let values: Vec<usize> = all.iter().filter(is_value).copied().collect();
    let drawn: Vec<usize> = all.iter().filter(is_drawn).copied().collect();
    match (values.as_slice(), drawn.as_slice()) {
        ([x, y, ..], _) => Ok((*x, *y)),
        (_, [x, .., y]) => Ok((*x, *y)),
        _ => Err("a scatter plot needs two columns of numbers or times".to_owned()),
    }
}

/// Returns the column of a histogram: the last column of values, or else the last column that is
/// not text.
pub fn measured(columns: &[Column]) -> Result<usize, String> {
    let is_value = |column: &Column| !column.kind.is_label() && !column.is_dimension;
    let found = columns.iter().rposition(is_value);
    let found = found.or_else(|| {
        columns
            .iter()
            .rposition(|column| column.kind != ColumnKind::Text)
    });
    found.ok_or_else(|| "a histogram needs a column of numbers or times".to_owned())
}

/// Returns the error for a result with more than two axes, with a query that would help.
pub fn too_many(axes: &[&Column]) -> String {
    let names: Vec<String> = axes.iter().map(|column| quoted(&column.name)).collect();
    let (first, rest) = (&axes[0], axes.len() - 2);
    let value = first.values.iter().copied().find(|value| !value.is_nan());
    let value = match (&first.kind, value) {
        (ColumnKind::Number { .. } | ColumnKind::Boolean, Some(value)) => first.text(value),
        (_, Some(value)) => format!("'{}'", first.text(value).replace('\'', "''")),
        (_, None) => "...".to_owned(),
    };
    let fixed = match rest {
        1 => "one of them".to_owned(),
        _ => format!("{rest} of them"),
    };
    format!(
        "the result has {} axes ({}), and a picture has two: aggregate over the others, as in SELECT {}, {}, avg(...) ... \
         GROUP BY {}, {}, or fix {fixed}, as in WHERE {} = {value}",
        axes.len(),
        names.join(", "),
        names[axes.len() - 2],
        names[axes.len() - 1],
        names[axes.len() - 2],
        names[axes.len() - 1],
        names[0],
    )
}

fn quoted(name: &str) -> String {
    let is_plain = |c: char| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit();
    if name.chars().all(is_plain)
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
    {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}
