//! Writes results as boxed tables fitted to the terminal.

use crate::output::appearance::Expanded;
use crate::output::formats::cells::Cells;
use crate::output::formats::line::Records;
use crate::output::formats::{MEASURED_ROWS, ResultWriter, Style};
use crate::terminal::escape_controls;
use anstyle::Effects;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use std::io::Write;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Marks text and columns that are left out.
const ELLIPSIS: &str = "…";
/// Marks rows that are left out.
const GAP: &str = "⋮";
/// The width below which texts are not shortened as long as columns can be left out instead.
const MIN_TEXT_WIDTH: usize = 12;

/// Writes a result as a boxed table.
///
/// Buffers the first [`MEASURED_ROWS`] rows to compute column widths, then writes rows as they
/// arrive. If the columns do not fit the terminal, long texts are shortened and columns in the
/// middle are left out:
///
/// ```text
/// ┌────────┬──────────┬───┬────────┐
/// │      a │ text     │ … │      e │
/// ├────────┼──────────┼───┼────────┤
/// │ 123456 │ a long … │ … │ 123456 │
/// └────────┴──────────┴───┴────────┘
/// 3 of 5 columns shown
/// ```
pub struct Boxed<W> {
    style: Style,
    schema: SchemaRef,
    state: State,
    sink: W,
}

enum State {
    /// The batches so far, their number of rows, and the number of batches before the left-out
    /// rows.
    Measuring {
        batches: Vec<RecordBatch>,
        rows: usize,
        gap: Option<usize>,
    },
    Drawing(Vec<Option<ShownColumn>>),
    /// Rows are written as one value per line because they do not fit the terminal.
    Records(Records),
}

/// A column that is shown.
struct ShownColumn {
    column: usize,
    width: usize,
    is_number: bool,
    /// `true` if values may be shortened. A shortened number would be a different number.
    is_cut: bool,
}

impl<W: Write> Boxed<W> {
    /// Creates a writer for rows of a schema.
    pub fn new(style: &Style, schema: SchemaRef, sink: W) -> Self {
        Self {
            style: style.clone(),
            schema,
            state: State::Measuring {
                batches: Vec::new(),
                rows: 0,
                gap: None,
            },
            sink,
        }
    }

    /// Chooses column widths and writes the buffered rows.
    fn begin(&mut self) -> Result<(), ArrowError>
    where
        W: Send,
    {
        let State::Measuring { batches, gap, .. } = &mut self.state else {
            return Ok(());
        };
        let (batches, gap) = (std::mem::take(batches), *gap);
        let columns = measured(&self.style, &self.schema, &batches)?;
        let natural: Vec<usize> = columns.iter().map(Column::width).collect();
        let min: Vec<usize> = columns.iter().map(Column::min_width).collect();
        let fit = fit(&natural, &min, self.style.width);
        if self.style.expanded == Expanded::Automatic && !fit.is_whole(&natural) {
            self.state = State::Records(Records::numbered(&self.style, &self.schema));
        } else {
            let places = fit.shown.iter().map(|place| {
                place.map(|(column, width)| ShownColumn {
                    column,
                    width,
                    is_number: columns[column].is_number,
                    is_cut: width < natural[column]
                        || (self.style.width.is_some() && !columns[column].is_number),
                })
            });
            let places: Vec<_> = places.collect();
            draw_names(&mut self.sink, &self.style, &columns, &places)?;
            self.state = State::Drawing(places);
        }
        for (number, batch) in batches.iter().enumerate() {
            if gap == Some(number) {
                self.skip()?;
            }
            self.write(batch)?;
        }
        Ok(())
    }
}

impl<W: Write + Send> ResultWriter for Boxed<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        match &mut self.state {
            State::Measuring { batches, rows, .. } => {
                batches.push(batch.clone());
                *rows += batch.num_rows();
                if *rows >= MEASURED_ROWS {
                    self.begin()?;
                }
                Ok(())
            }
            State::Drawing(places) => draw_rows(&mut self.sink, &self.style, places, batch),
            State::Records(records) => records.write(batch, &mut self.sink),
        }
    }

    fn skip(&mut self) -> Result<(), ArrowError> {
        match &mut self.state {
            State::Measuring { batches, gap, .. } => *gap = Some(batches.len()),
            State::Drawing(places) => draw_gap(&mut self.sink, &self.style, places)?,
            State::Records(records) => records.skip(&mut self.sink)?,
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ArrowError> {
        self.begin()?;
        let State::Drawing(places) = &self.state else {
            return Ok(());
        };
        rule(&mut self.sink, places, ["└", "┴", "┘"])?;
        let (shown, all) = (places.iter().flatten().count(), self.schema.fields().len());
        if shown < all {
            let text = format!("{shown} of {all} columns shown");
            writeln!(self.sink, "{}", dimmed(&self.style, &text))?;
        }
        Ok(())
    }
}

/// A column of the result with the width of its text.
struct Column {
    name: Option<String>,
    values_width: usize,
    is_number: bool,
}

impl Column {
    fn width(&self) -> usize {
        let name = self.name.as_ref().map_or(0, |name| name.width());
        self.values_width.max(name)
    }

    /// Returns the width below which the column is not shortened as long as columns can be left out
    /// instead. Numbers keep their full width, because a shortened number would be a different
    /// number.
    fn min_width(&self) -> usize {
        match self.is_number {
            true => self.values_width.max(MIN_TEXT_WIDTH.min(self.width())),
            false => self.width().min(MIN_TEXT_WIDTH),
        }
    }
}

fn measured(
    style: &Style,
    schema: &SchemaRef,
    batches: &[RecordBatch],
) -> Result<Vec<Column>, ArrowError> {
    let null = null(style).width();
    let columns = schema.fields().iter().map(|field| Column {
        name: style.headers.then(|| escape_controls(field.name())),
        values_width: 0,
        is_number: field.data_type().is_numeric(),
    });
    let mut columns: Vec<Column> = columns.collect();
    for batch in batches {
        let cells = Cells::new(batch)?;
        for row in 0..cells.rows() {
            for (value, column) in cells.row(row).zip(&mut columns) {
                let width = value?.map_or(null, |value| escape_controls(&value).width());
                column.values_width = column.values_width.max(width);
            }
        }
    }
    Ok(columns)
}

fn null(style: &Style) -> String {
    escape_controls(style.null.as_deref().unwrap_or("NULL"))
}

/// The columns that are shown, and their widths.
#[derive(Debug, PartialEq, Eq)]
struct Fit {
    /// The indices of the shown columns with their widths. A `None` stands for the columns that are
    /// left out.
    shown: Vec<Option<(usize, usize)>>,
    left_out: usize,
}

impl Fit {
    fn is_whole(&self, natural: &[usize]) -> bool {
        let widths = self.shown.iter().flatten();
        self.left_out == 0 && widths.map(|(_, width)| width).eq(natural)
    }
}

/// Chooses column widths that fit into the available width. Shortens long texts first, then leaves
/// out columns in the middle, and shortens everything if nothing else helps.
fn fit(natural: &[usize], min: &[usize], available: Option<usize>) -> Fit {
    let whole = |widths: &[usize]| Fit {
        shown: widths.iter().copied().enumerate().map(Some).collect(),
        left_out: 0,
    };
    let Some(available) = available else {
        return whole(natural);
    };
    let mut widths = natural.to_vec();
    cut(&mut widths, available, |column| min[column]);
    if table_width(&widths) <= available {
        return whole(&widths);
    }
    // The columns on the left usually identify a row and those on the right hold its results, so
    // columns in the middle are left out.
    let count = natural.len();
    for shown in (2..count).rev() {
        let (left, right) = (shown.div_ceil(2), shown / 2);
        let kept: Vec<usize> = (0..left).chain(count - right..count).collect();
        let mut kept_widths: Vec<usize> = kept.iter().map(|&column| widths[column]).collect();
        if table_width(&kept_widths) + ELLIPSIS.width() + 3 > available && shown > 2 {
            continue;
        }
        cut(&mut kept_widths, available - 4.min(available), |_| 1);
        let mut shown: Vec<_> = kept.into_iter().zip(kept_widths).map(Some).collect();
        shown.insert(left, None);
        return Fit {
            shown,
            left_out: count - left - right,
        };
    }
    cut(&mut widths, available, |_| 1);
    whole(&widths)
}

/// Narrows the widest columns until the table fits, or every column has its minimum width.
fn cut(widths: &mut [usize], available: usize, min: impl Fn(usize) -> usize) {
    let capped = |widths: &[usize], cap: usize| -> Vec<usize> {
        let widths = widths.iter().enumerate();
        widths
            .map(|(column, width)| *width.min(&cap.max(min(column))))
            .collect()
    };
    let has_place = |cap: usize| table_width(&capped(widths, cap)) <= available;
    // A value may be a million characters long, so a binary search finds the largest cap that fits.
    let (mut narrow, mut wide) = (0, widths.iter().max().copied().unwrap_or(0));
    while narrow < wide {
        let middle = (narrow + wide).div_ceil(2);
        match has_place(middle) {
            true => narrow = middle,
            false => wide = middle - 1,
        }
    }
    widths.copy_from_slice(&capped(widths, narrow));
}

/// Returns the width of a table, with a border around each column and a space on both sides of each
/// value.
fn table_width(widths: &[usize]) -> usize {
    widths.iter().map(|width| width + 3).sum::<usize>() + 1
}

fn draw_names(
    sink: &mut impl Write,
    style: &Style,
    columns: &[Column],
    places: &[Option<ShownColumn>],
) -> Result<(), ArrowError> {
    rule(sink, places, ["┌", "┬", "┐"])?;
    if !style.headers {
        return Ok(());
    }
    for place in places {
        let text = match place {
            Some(place) => {
                let name = columns[place.column].name.as_deref().unwrap_or_default();
                padded(name, place, true)
            }
            None => ELLIPSIS.to_owned(),
        };
        write!(sink, "│ {} ", styled(style, &text, Effects::BOLD))?;
    }
    writeln!(sink, "│")?;
    rule(sink, places, ["├", "┼", "┤"])
}

fn draw_rows(
    sink: &mut impl Write,
    style: &Style,
    places: &[Option<ShownColumn>],
    batch: &RecordBatch,
) -> Result<(), ArrowError> {
    let null = null(style);
    let cells = Cells::new(batch)?;
    for row in 0..cells.rows() {
        let values = cells.row(row).collect::<Result<Vec<_>, _>>()?;
        for place in places {
            let text = match place {
                None => dimmed(style, ELLIPSIS),
                Some(place) => match &values[place.column] {
                    Some(value) => padded(&escape_controls(value), place, place.is_cut),
                    None => dimmed(style, &padded(&null, place, place.is_cut)),
                },
            };
            write!(sink, "│ {text} ")?;
        }
        writeln!(sink, "│")?;
    }
    Ok(())
}

/// Draws a row of dots that stands for the rows left out.
fn draw_gap(
    sink: &mut impl Write,
    style: &Style,
    places: &[Option<ShownColumn>],
) -> Result<(), ArrowError> {
    for place in places {
        let text = match place {
            Some(place) => padded(GAP, place, true),
            None => ELLIPSIS.to_owned(),
        };
        write!(sink, "│ {} ", dimmed(style, &text))?;
    }
    Ok(writeln!(sink, "│")?)
}

fn rule(
    sink: &mut impl Write,
    places: &[Option<ShownColumn>],
    [left, between, right]: [&str; 3],
) -> Result<(), ArrowError> {
    let widths = places
        .iter()
        .map(|place| place.as_ref().map_or(1, |place| place.width));
    let parts: Vec<String> = widths.map(|width| "─".repeat(width + 2)).collect();
    Ok(writeln!(sink, "{left}{}{right}", parts.join(between))?)
}

/// Pads a text to the width of its column. Text that must not be shortened may be wider.
fn padded(text: &str, place: &ShownColumn, is_cut: bool) -> String {
    let text = match is_cut {
        true => shortened(text, place.width),
        false => text.to_owned(),
    };
    let space = " ".repeat(place.width.saturating_sub(text.width()));
    match place.is_number {
        true => space + &text,
        false => text + &space,
    }
}

/// Shortens a text to at most this width.
pub fn shortened(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut left = width.saturating_sub(ELLIPSIS.width());
    for character in text.chars() {
        let wide = character.width().unwrap_or(0);
        if wide > left {
            break;
        }
        left -= wide;
        short.push(character);
    }
    short + ELLIPSIS
}

fn dimmed(style: &Style, text: &str) -> String {
    styled(style, text, Effects::DIMMED)
}

fn styled(style: &Style, text: &str, effects: Effects) -> String {
    if !style.styled {
        return text.to_owned();
    }
    let effects = anstyle::Style::new().effects(effects);
    format!("{effects}{text}{effects:#}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::appearance::Format;
    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use std::sync::Arc;

    fn drawn(batch: &RecordBatch, style: &Style) -> String {
        let mut bytes = Vec::new();
        let mut boxed = Boxed::new(style, batch.schema(), &mut bytes);
        boxed.write(batch).unwrap();
        boxed.finish().unwrap();
        String::from_utf8(bytes).unwrap()
    }

    fn narrow(width: usize) -> Style {
        Style {
            width: Some(width),
            ..Style::plain(Format::Box)
        }
    }

    fn texts(columns: &[(&str, &str)]) -> RecordBatch {
        let columns = columns.iter().map(|(name, value)| {
            let array = Arc::new(StringArray::from(vec![*value])) as ArrayRef;
            (*name, array)
        });
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn long_texts_are_cut_first() {
        let batch = texts(&[("id", "7"), ("text", "a text that goes on and on")]);
        assert_eq!(
            drawn(&batch, &narrow(26)),
            "┌────┬───────────────────┐\n\
             │ id │ text              │\n\
             ├────┼───────────────────┤\n\
             │ 7  │ a text that goes… │\n\
             └────┴───────────────────┘\n"
        );
    }

    #[test]
    fn columns_are_left_out_in_the_middle() {
        let number = Arc::new(Int64Array::from(vec![Some(123_456), None])) as ArrayRef;
        let columns = ["a", "b", "c", "d", "e"].map(|name| (name, Arc::clone(&number)));
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        assert_eq!(
            drawn(&batch, &narrow(34)),
            "┌────────┬────────┬───┬────────┐\n\
             │      a │      b │ … │      e │\n\
             ├────────┼────────┼───┼────────┤\n\
             │ 123456 │ 123456 │ … │ 123456 │\n\
             │   NULL │   NULL │ … │   NULL │\n\
             └────────┴────────┴───┴────────┘\n\
             3 of 5 columns shown\n"
        );
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let long = "x".repeat(1_000_000);
        let batch = texts(&[
            ("a", &long),
            ("日本", "日本日本日本日本"),
            ("c", &long),
            ("d", "1"),
        ]);
        for width in [13, 17, 20, 30, 50, 80, 200] {
            let text = drawn(&batch, &narrow(width));
            let widest = text.lines().take(5).map(UnicodeWidthStr::width).max();
            assert!(widest <= Some(width), "{width}: {text}");
        }
        // A terminal that is too narrow for any column causes no panic.
        drawn(&batch, &narrow(1));
    }

    #[test]
    fn records_take_the_place_of_what_does_not_fit() {
        let batch = texts(&[("a", "a text that goes on and on")]);
        let style = Style {
            expanded: Expanded::Automatic,
            ..narrow(20)
        };
        assert_eq!(
            drawn(&batch, &style),
            "-[ RECORD 1 ]\na = a text that goes on and on\n"
        );
        let style = Style {
            width: None,
            ..style
        };
        assert!(drawn(&batch, &style).starts_with('┌'));
    }

    #[test]
    fn rows_come_once_the_first_are_measured() {
        let rows = |count: usize, text: &str| {
            let values = Arc::new(StringArray::from(vec![text; count])) as ArrayRef;
            RecordBatch::try_from_iter([("a", values)]).unwrap()
        };
        for (width, last) in [(Some(80), "│ a l… │\n"), (None, "│ a longer one │\n")] {
            let style = Style {
                width,
                ..Style::plain(Format::Box)
            };
            let mut bytes = Vec::new();
            let mut boxed = Boxed::new(&style, rows(0, "").schema(), &mut bytes);
            boxed.write(&rows(MEASURED_ROWS - 1, "text")).unwrap();
            assert!(boxed.sink.is_empty());
            boxed.write(&rows(1, "last")).unwrap();
            assert!(boxed.sink.ends_with("│ last │\n".as_bytes()));
            boxed.write(&rows(1, "a longer one")).unwrap();
            assert!(boxed.sink.ends_with(last.as_bytes()));
        }
    }

    #[test]
    fn rows_that_are_left_out_have_a_row_of_dots() {
        let number = Arc::new(Int64Array::from(vec![10, 20])) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("n", number)]).unwrap();
        let mut bytes = Vec::new();
        let mut boxed = Boxed::new(&narrow(80), batch.schema(), &mut bytes);
        boxed.write(&batch.slice(0, 1)).unwrap();
        boxed.skip().unwrap();
        boxed.write(&batch.slice(1, 1)).unwrap();
        boxed.finish().unwrap();
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "┌────┐\n│  n │\n├────┤\n│ 10 │\n│  ⋮ │\n│ 20 │\n└────┘\n"
        );
    }

    #[test]
    fn what_terminals_obey_is_shown_instead() {
        let batch = texts(&[("a", "x\u{1b}[2Jy\n")]);
        assert!(drawn(&batch, &narrow(80)).contains("│ x\\u{1b}[2Jy\\n │"));
    }

    #[test]
    fn nulls_are_dimmed_and_names_bold() {
        let number = Arc::new(Int64Array::from(vec![None])) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("n", number)]).unwrap();
        let style = Style {
            styled: true,
            ..narrow(80)
        };
        let text = drawn(&batch, &style);
        assert!(text.contains("\u{1b}[1m   n\u{1b}[0m"), "{text:?}");
        assert!(text.contains("\u{1b}[2mNULL\u{1b}[0m"), "{text:?}");
    }
}
