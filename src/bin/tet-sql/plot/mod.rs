//! Pictures of results: in the terminal, and in files.
//!
//! A [`Chart`] is what a result looks like, whatever it is drawn on. It holds no more than a screen can show, however
//! many rows the result has.

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

use bars::Bars;
use column::{Column, Kind};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use heat_map::HeatMap;
use histogram::Histogram;
use lines::{Lines, MOST_LINES};
use std::path::Path;

/// The most texts for each of which a line is drawn.
const MOST_TEXTS: usize = 8;

/// A kind of picture that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartKind {
    /// Lines over one axis.
    Lines,
    /// Colours over two axes.
    Map,
    /// A point for each row, at its values of two columns.
    Scatter,
    /// The distribution of the values of a column.
    Histogram,
    /// A bar for each value of a column.
    Bars,
}

impl ChartKind {
    /// The names that kinds are asked for by.
    pub const NAMES: [(&str, Self); 5] = [
        ("lines", Self::Lines),
        ("map", Self::Map),
        ("scatter", Self::Scatter),
        ("hist", Self::Histogram),
        ("bars", Self::Bars),
    ];

    /// The kind of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        let mut names = Self::NAMES.iter();
        let found = names.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, kind)| *kind)
    }
}

/// What a result looks like as a picture.
#[derive(Debug, Clone)]
pub struct Chart {
    /// What it shows, if the file says so.
    title: Option<String>,
    content: Content,
    /// What was left out, and what the values are of.
    notes: Vec<String>,
}

/// The kinds of pictures.
#[derive(Debug, Clone)]
enum Content {
    Lines(Lines),
    HeatMap(HeatMap),
    Histogram(Histogram),
    Bars(Bars),
}

impl Chart {
    /// A picture of the kind that is asked for, or of the one that fits a result: lines over one axis of numbers or times, a heat map over two axes, a histogram of one
    /// column, and bars for texts. One line for each text stands for a second axis of up to eight texts.
    ///
    /// Units and titles are metadata of the fields.
    ///
    /// # Errors
    /// A result without rows or numbers, one with more than two axes, and one that the kind cannot show; the error says what
    /// would help.
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
            if Kind::of(field.data_type()) == Kind::Other {
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

    /// How the values of one column are distributed.
    fn of_one(mut column: Column, mut notes: Vec<String>) -> Result<Self, String> {
        let title = column.long_name.clone();
        let content = if column.kind.is_categorical() {
            column.make_categories();
            Content::Bars(Bars::counting(&column, &mut notes))
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
            // An axis with one coordinate is one all the same.
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
            // One line for each coordinate of the axis that does not go across. Texts have no order to draw a line in.
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
                columns[each].keep_texts(MOST_LINES, &mut notes);
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
                leave(&mut values, 1, "bars show one column", &mut notes);
                Content::Bars(Bars::of(&columns[*axis], first, &mut notes)?)
            }
            [axis] => {
                leave(
                    &mut values,
                    MOST_LINES,
                    "there are too many lines",
                    &mut notes,
                );
                Content::Lines(Lines::of_columns(&columns[*axis], &values, &mut notes)?)
            }
            [one, other] => {
                leave(
                    &mut values,
                    1,
                    "two axes have room for one column",
                    &mut notes,
                );
                let one_line_each = |texts: &Column, x: &Column| {
                    let most = match kind {
                        None => MOST_TEXTS,
                        Some(ChartKind::Lines) => MOST_LINES,
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

    /// A drawing for a terminal of so many columns and lines, which ends in a line end. Terminals of fewer than 24 columns
    /// or 8 lines are taken to have as many.
    pub fn draw(&self, size: (usize, usize), colours: Colours, characters: Characters) -> String {
        terminal::draw(self, size, colours, characters)
    }

    /// Writes a file, as `.svg`, `.png` or `.html` by its ending, in place of one that is there. Array files are never
    /// replaced.
    ///
    /// # Errors
    /// Another ending, a path that is something else than a file for pictures, and what the file system says.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        picture::write(self, path)
    }
}

/// Leaves out all but the first columns, and says so.
fn leave(values: &mut Vec<&Column>, most: usize, why: &str, notes: &mut Vec<String>) {
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
