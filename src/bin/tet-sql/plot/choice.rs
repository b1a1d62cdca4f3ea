//! Which columns of a result are its axes, and which its values.

use super::column::{Column, Kind};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// The rows by which it is told whether columns identify a row.
const ROWS: usize = 1 << 20;

/// The columns of a picture, by their place among those that can be drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roles {
    /// Those that say where a value is.
    pub axes: Vec<usize>,
    /// Those that say how much it is.
    pub values: Vec<usize>,
    /// Axes along which there is one coordinate only.
    pub fixed: Vec<usize>,
}

/// Tells axes from values.
///
/// Dimensions, times and texts are axes. So are other numbers, from the left on, until no two rows share a place; but not
/// those that may be NULL, where others may not, as what is grouped by may not.
pub fn roles(columns: &[Column]) -> Result<Roles, String> {
    let is_label = |column: &usize| columns[*column].kind.is_label();
    let all = 0..columns.len();
    let is_base = |column: &usize| is_label(column) || columns[*column].is_dimension;
    let base: Vec<usize> = all.clone().filter(is_base).collect();
    let mut numbers: Vec<usize> = all.clone().filter(|column| !is_base(column)).collect();
    // One number is a value.
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
    let mut is_enough = do_identify(columns, &axes);
    while !is_enough && let Some(other) = others.next() {
        axes.push(other);
        axes.sort_unstable();
        is_enough = do_identify(columns, &axes);
    }
    if !is_enough {
        // Rows share places whatever the axes are.
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
        // One place: that on a time or a number says more than that on a text.
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

/// Whether no two rows have the same values in all of these columns, as far as the first million rows tell.
fn do_identify(columns: &[Column], axes: &[usize]) -> bool {
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

/// Which of two axes goes from left to right, and which from bottom to top: times go to the right, latitudes and
/// depths up and down, and otherwise the first is that of the rows, as in a matrix.
pub fn across_and_up(first: usize, second: usize, columns: &[Column]) -> (usize, usize) {
    let is_across = |column: &Column| {
        matches!(column.kind, Kind::Time(_))
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

/// Returns `true` for latitudes. North is up on a map whatever the order of the file.
pub fn is_latitude(column: &Column) -> bool {
    is_called(column, &["lat", "latitude"], "degrees_north")
}

fn is_called(column: &Column, names: &[&str], unit: &str) -> bool {
    let name = column.name.to_ascii_lowercase();
    column.unit.as_deref() == Some(unit) || names.contains(&name.as_str())
}

/// The columns that are drawn against each other: the first two that say how much something is, or an axis and one of these.
pub fn pair(columns: &[Column]) -> Result<(usize, usize), String> {
    let is_drawn = |column: &&usize| columns[**column].kind != Kind::Text;
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

/// The column whose values are counted: the last one that says how much something is.
pub fn measured(columns: &[Column]) -> Result<usize, String> {
    let is_value = |column: &Column| !column.kind.is_label() && !column.is_dimension;
    let found = columns.iter().rposition(is_value);
    let found = found.or_else(|| columns.iter().rposition(|column| column.kind != Kind::Text));
    found.ok_or_else(|| "a histogram needs a column of numbers or times".to_owned())
}

/// What to do about a result with more axes than a picture.
pub fn too_many(axes: &[&Column]) -> String {
    let names: Vec<String> = axes.iter().map(|column| quoted(&column.name)).collect();
    let (first, rest) = (&axes[0], axes.len() - 2);
    let value = first.values.iter().copied().find(|value| !value.is_nan());
    let value = match (&first.kind, value) {
        (Kind::Number { .. } | Kind::Boolean, Some(value)) => first.text(value),
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
