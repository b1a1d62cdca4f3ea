#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

mod axis;
mod bars;
mod choice;
mod clock;
mod column;
mod heat_map;
mod histogram;
mod lines;
mod palette;
mod picture;
mod scatter;
mod terminal;
mod text;
mod ticks;

#[cfg(test)]
mod tests;

pub use terminal::{Characters, Colours};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bars::Bars;
use column::{Column, ColumnKind};
use heat_map::HeatMap;
use histogram::Histogram;
use lines::{Lines, MAX_LINES};
use std::path::Path;

/// The maximum number of texts on a second axis that become one line each without being asked for.
const MAX_TEXTS: usize = 8;

/// A kind of chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartKind {
    /// Lines over one axis.
    Lines,
    /// A heat map: colours over two axes.
    Map,
    /// A scatter plot: one point per row, at its values in two columns.
    Scatter,
    /// A histogram: the distribution of the values of one column.
    Histogram,
    /// One bar for each value of a column.
    Bars,
}

impl ChartKind {
    /// The name of each kind, as accepted by [`ChartKind::of_name`].
    pub const NAMES: [(&str, Self); 5] = [
        ("lines", Self::Lines),
        ("map", Self::Map),
        ("scatter", Self::Scatter),
        ("hist", Self::Histogram),
        ("bars", Self::Bars),
    ];

    /// Returns the kind called `name`, ignoring ASCII case.
    pub fn of_name(name: &str) -> Option<Self> {
        let mut names = Self::NAMES.iter();
        let found = names.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, kind)| *kind)
    }
}

/// A chart of a query result.
///
/// [`Chart::of`] builds a chart from record batches. [`Chart::draw`] renders it as text for a
/// terminal, and [`Chart::write`] writes it to a PNG, SVG or HTML file.
#[derive(Debug, Clone)]
pub struct Chart {
    /// The `long_name` of the values, if the field has one.
    title: Option<String>,
    content: Content,
    /// Remarks shown below the chart: the coordinates of axes with one value, and what was left out
    /// or averaged.
    notes: Vec<String>,
}

/// The data of each kind of chart.
#[derive(Debug, Clone)]
enum Content {
    Lines(Lines),
    HeatMap(HeatMap),
    Histogram(Histogram),
    Bars(Bars),
}

impl Chart {
    /// Builds a chart of a result, of the given kind or of the kind that fits its columns.
    ///
    /// | columns | chart |
    /// | --- | --- |
    /// | one column of numbers or times | histogram |
    /// | one column of texts or booleans | bars: the number of rows for each value |
    /// | values over one axis of numbers or times | lines |
    /// | values over one axis of texts or booleans | bars |
    /// | values over at most eight texts and an axis of numbers or times | a line for each text |
    /// | values over any other two axes | heat map |
    ///
    /// Dimensions, times and texts are axes; other number columns become axes, from the left, until
    /// the axes identify each row. Fields are described by their metadata: `units` is the unit,
    /// `long_name` the title, and the key `tet:dimension` marks a dimension of an array.
    ///
    /// # Errors
    /// Fails if the result has no rows, no column of numbers, more than two axes, or no columns
    /// that suit `kind`. The message says what to change.
    pub fn of(
        kind: Option<ChartKind>,
        schema: &SchemaRef,
        batches: &[RecordBatch],
    ) -> Result<Self, String> {
        if batches.iter().all(|batch| batch.num_rows() == 0) {
            return Err("the result has no rows, so there is nothing to draw".to_owned());
        }
        let mut notes = Vec::new();
        let mut columns = Vec::new();
        for (number, field) in schema.fields().iter().enumerate() {
            if ColumnKind::of(field.data_type()) == ColumnKind::Other {
                notes.push(format!(
                    "{} is not drawn: it is of type {}",
                    text::clean(field.name()),
                    field.data_type()
                ));
                continue;
            }
            columns.push(Column::read(field, number, batches)?);
        }
        let infinite: usize = columns.iter().map(|column| column.infinite).sum();
        if infinite > 0 {
            notes.push(format!(
                "{} left out",
                text::counted(infinite, "infinite value is", "infinite values are")
            ));
        }
        if columns.is_empty() {
            return Err(match notes.first() {
                Some(note) => format!("there is nothing to draw: {note}"),
                None => "the result has no columns, so there is nothing to draw".to_owned(),
            });
        }
        match (kind, columns.len()) {
            (Some(ChartKind::Scatter), _) => {
                let (x, y) = choice::pair(&columns)?;
                let content = scatter::points(&columns[x], &columns[y], &mut notes)?;
                let title = None;
                Ok(Self {
                    title,
                    content: Content::Lines(content),
                    notes,
                })
            }
            (Some(ChartKind::Histogram), _) => {
                let column = choice::measured(&columns)?;
                Self::of_one(columns.swap_remove(column), notes)
            }
            (Some(ChartKind::Bars), 1) => {
                columns[0].make_texts();
                Self::of_one(columns.remove(0), notes)
            }
            (Some(ChartKind::Lines | ChartKind::Map), 1) => Err(format!(
                "{} is the only column: lines need an axis and a column of numbers, a map two axes",
                columns[0].name
            )),
            (None, 1) => Self::of_one(columns.remove(0), notes),
            (kind, _) => Self::of_many(kind, columns, notes),
        }
    }

    /// Builds the distribution of a single column: bars for texts and booleans, else a histogram.
    fn of_one(mut column: Column, mut notes: Vec<String>) -> Result<Self, String> {
        let title = column.long_name.clone();
        let content = if column.kind.is_categorical() {
            column.make_categories();
            Content::Bars(Bars::counting(&column))
        } else {
            Content::Histogram(Histogram::of(&column, &mut notes)?)
        };
        Ok(Self {
            title,
            content,
            notes,
        })
    }

    fn of_many(
        kind: Option<ChartKind>,
        mut columns: Vec<Column>,
        mut notes: Vec<String>,
    ) -> Result<Self, String> {
        let mut roles = choice::roles(&columns)?;
        if kind == Some(ChartKind::Map) && roles.axes.len() == 1 {
            // An axis with a single coordinate can still be the second axis of a map.
            roles.axes.extend(roles.fixed.pop());
            roles.axes.sort_unstable();
            if let [only] = roles.axes[..] {
                return Err(format!(
                    "{} is the only axis, and a map needs two: add another one to SELECT and GROUP BY",
                    columns[only].name
                ));
            }
        }
        match (kind, roles.axes.as_slice()) {
            (Some(ChartKind::Bars), [axis]) => columns[*axis].make_texts(),
            // One line for each coordinate of the second axis. Lines need an ordered x axis, which
            // texts are not.
            (Some(ChartKind::Lines), &[one, other]) => {
                let (mut x, mut each) = choice::across_and_up(one, other, &columns);
                if columns[x].kind.is_categorical() {
                    (x, each) = (each, x);
                }
                if columns[x].kind.is_categorical() {
                    return Err(format!(
                        "lines need an axis of numbers or times, and {} and {} are texts",
                        columns[x].name, columns[each].name
                    ));
                }
                columns[each].make_texts();
                columns[each].keep_texts(MAX_LINES, &mut notes);
            }
            (Some(ChartKind::Bars), axes) => {
                return Err(format!(
                    "the result has {} axes, and bars have one: aggregate over the others",
                    axes.len()
                ));
            }
            _ => {}
        }
        for &axis in roles.axes.iter().chain(&roles.fixed) {
            columns[axis].make_categories();
        }
        let fixed = roles.fixed.iter().filter_map(|axis| {
            let column = &columns[*axis];
            let value = column.values.iter().find(|value| !value.is_nan())?;
            let unit = column.unit.as_ref().map(|unit| format!(" {unit}"));
            Some(format!(
                "{} = {}{}",
                column.name,
                column.text(*value),
                unit.unwrap_or_default()
            ))
        });
        notes.splice(0..0, fixed);
        let mut values: Vec<&Column> = roles.values.iter().map(|value| &columns[*value]).collect();
        let first = values[0];
        let content = match roles.axes.as_slice() {
            [axis] if columns[*axis].kind.is_categorical() && kind != Some(ChartKind::Lines) => {
                keep_first(&mut values, 1, "bars show one column", &mut notes);
                Content::Bars(Bars::of(&columns[*axis], first, &mut notes)?)
            }
            [axis] => {
                keep_first(
                    &mut values,
                    MAX_LINES,
                    "there are too many lines",
                    &mut notes,
                );
                Content::Lines(Lines::of_columns(&columns[*axis], &values, &mut notes)?)
            }
            [one, other] => {
                keep_first(
                    &mut values,
                    1,
                    "two axes have room for one column",
                    &mut notes,
                );
                let one_line_each = |texts: &Column, x: &Column| {
                    let most = match kind {
                        None => MAX_TEXTS,
                        Some(ChartKind::Lines) => MAX_LINES,
                        Some(_) => return false,
                    };
                    texts.kind.is_categorical()
                        && texts.texts.len() <= most
                        && !x.kind.is_categorical()
                };
                let (one, other) = (*one, *other);
                if one_line_each(&columns[one], &columns[other]) {
                    Content::Lines(Lines::of_texts(
                        &columns[other],
                        &columns[one],
                        first,
                        &mut notes,
                    )?)
                } else if one_line_each(&columns[other], &columns[one]) {
                    Content::Lines(Lines::of_texts(
                        &columns[one],
                        &columns[other],
                        first,
                        &mut notes,
                    )?)
                } else {
                    let (x, y) = choice::across_and_up(one, other, &columns);
                    Content::HeatMap(HeatMap::of(&columns[x], &columns[y], first, &mut notes)?)
                }
            }
            axes => {
                let axes: Vec<&Column> = axes.iter().map(|axis| &columns[*axis]).collect();
                return Err(choice::too_many(&axes));
            }
        };
        let title = match values.as_slice() {
            [value] => value.long_name.clone(),
            _ => None,
        };
        Ok(Self {
            title,
            content,
            notes,
        })
    }

    /// Describes the chart in one line, such as `2 lines of value [K] over time`.
    pub fn summary(&self) -> String {
        match &self.content {
            Content::Lines(lines) => format!(
                "{} lines of {} over {}",
                lines.lines.len(),
                lines.y.title,
                lines.x.title
            ),
            Content::HeatMap(map) => format!(
                "map of {} over {} and {}",
                map.value.title, map.x.title, map.y.title
            ),
            Content::Histogram(histogram) => format!("histogram of {}", histogram.x.title),
            Content::Bars(bars) => format!(
                "{} bars of {} over {}",
                bars.bars.len(),
                bars.value.title,
                bars.title
            ),
        }
    }

    /// Draws the chart as text, `size` columns wide and lines high, with a newline at the end.
    ///
    /// The size is clamped to 24 to 1000 columns and 8 to 500 lines. Notes below the chart take up
    /// to half of the lines; longer notes make the text higher than `size`.
    pub fn draw(&self, size: (usize, usize), colours: Colours, characters: Characters) -> String {
        terminal::draw(self, size, colours, characters)
    }

    /// Writes the chart to an `.svg`, `.png`, `.html` or `.htm` file, chosen by the extension of
    /// `path`.
    ///
    /// An existing file is replaced atomically: readers see either the old picture or the new one.
    ///
    /// # Errors
    /// Fails for any other extension, if `path` exists and is not a regular file, and on I/O
    /// errors.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        picture::write(self, path)
    }
}

/// Keeps the first `most` columns, and notes which ones are not drawn.
fn keep_first(values: &mut Vec<&Column>, most: usize, why: &str, notes: &mut Vec<String>) {
    if values.len() > most {
        let names: Vec<&str> = values[most..]
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        notes.push(format!(
            "{why}: not drawn: {}",
            text::shortened(&names.join(", "), 80)
        ));
        values.truncate(most);
    }
}
