//! Results as boxed tables fitted to the terminal.

use crate::appearance::Expanded;
use crate::formats::cells::Cells;
use crate::formats::line::Line;
use crate::formats::{ResultWriter, Style};
use crate::terminal::on_a_line;
use anstyle::Effects;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use std::io::Write;
use std::sync::Arc;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Stands for what is left out.
const ELLIPSIS: &str = "…";
/// Texts are not cut to less, as long as columns can be left out instead.
const LEAST_WIDTH: usize = 12;

/// Keeps all rows, since a column is as wide as its widest value.
pub struct Boxed<W> {
    style: Style,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    sink: W,
}

impl<W> Boxed<W> {
    /// A writer of rows of a schema.
    pub fn new(style: &Style, schema: SchemaRef, sink: W) -> Self {
        Self {
            style: style.clone(),
            schema,
            batches: Vec::new(),
            sink,
        }
    }
}

impl<W: Write + Send> ResultWriter for Boxed<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.batches.push(batch.clone());
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ArrowError> {
        let columns = columns(&self.style, &self.schema, &self.batches)?;
        let natural: Vec<usize> = columns.iter().map(Column::width).collect();
        let least: Vec<usize> = columns.iter().map(Column::least_width).collect();
        let fit = fit(&natural, &least, self.style.width);
        if self.style.expanded == Expanded::Automatic && !fit.is_whole(&natural) {
            let mut line = Line::records(&self.style, Arc::clone(&self.schema), &mut self.sink);
            for batch in &self.batches {
                line.write(batch)?;
            }
            return line.finish();
        }
        draw(&mut self.sink, &self.style, &columns, &fit)?;
        if fit.left_out > 0 {
            let shown = columns.len() - fit.left_out;
            let text = format!("{shown} of {} columns shown", columns.len());
            writeln!(self.sink, "{}", dimmed(&self.style, &text))?;
        }
        Ok(())
    }
}

/// A column as text.
struct Column {
    name: Option<String>,
    /// `None` is NULL.
    values: Vec<Option<String>>,
    null: String,
    is_number: bool,
}

impl Column {
    fn width(&self) -> usize {
        let name = self.name.as_ref().map_or(0, |name| name.width());
        self.values_width().max(name)
    }

    fn values_width(&self) -> usize {
        let values = self.values.iter();
        let texts = values.map(|value| value.as_ref().unwrap_or(&self.null));
        texts.map(|text| text.width()).max().unwrap_or(0)
    }

    /// What it is not cut below as long as columns can be left out instead. A number that is cut is another number.
    fn least_width(&self) -> usize {
        match self.is_number {
            true => self.values_width().max(LEAST_WIDTH.min(self.width())),
            false => self.width().min(LEAST_WIDTH),
        }
    }
}

fn columns(
    style: &Style,
    schema: &SchemaRef,
    batches: &[RecordBatch],
) -> Result<Vec<Column>, ArrowError> {
    let null = style.null.as_deref().unwrap_or("NULL");
    let columns = schema.fields().iter().map(|field| Column {
        name: style.headers.then(|| on_a_line(field.name())),
        values: Vec::new(),
        null: on_a_line(null),
        is_number: field.data_type().is_numeric(),
    });
    let mut columns: Vec<Column> = columns.collect();
    for batch in batches {
        let cells = Cells::new(batch)?;
        for row in 0..cells.rows() {
            for (value, column) in cells.row(row).zip(&mut columns) {
                column.values.push(value?.map(|value| on_a_line(&value)));
            }
        }
    }
    Ok(columns)
}

/// The columns that are shown, and how wide.
#[derive(Debug, PartialEq, Eq)]
struct Fit {
    /// Columns with their widths; in the place of the first `None` stand those that are left out.
    shown: Vec<Option<(usize, usize)>>,
    left_out: usize,
}

impl Fit {
    fn is_whole(&self, natural: &[usize]) -> bool {
        let widths = self.shown.iter().flatten();
        self.left_out == 0 && widths.map(|(_, width)| width).eq(natural)
    }
}

/// Finds widths with which a table has place: long texts are cut first, then columns are left out in the middle, and if
/// nothing else helps, everything is cut.
fn fit(natural: &[usize], least: &[usize], available: Option<usize>) -> Fit {
    let whole = |widths: &[usize]| Fit {
        shown: widths.iter().copied().enumerate().map(Some).collect(),
        left_out: 0,
    };
    let Some(available) = available else {
        return whole(natural);
    };
    let mut widths = natural.to_vec();
    cut(&mut widths, available, |column| least[column]);
    if table_width(&widths) <= available {
        return whole(&widths);
    }
    // Those at the left tell what a row is about, those at the right what came of it.
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

/// Takes from the widest columns until the table has place, or all are as narrow as they may be.
fn cut(widths: &mut [usize], available: usize, least: impl Fn(usize) -> usize) {
    let capped = |widths: &[usize], cap: usize| -> Vec<usize> {
        let widths = widths.iter().enumerate();
        widths
            .map(|(column, width)| *width.min(&cap.max(least(column))))
            .collect()
    };
    let has_place = |cap: usize| table_width(&capped(widths, cap)) <= available;
    // A value may be a million characters long, so the widest cap is searched by halves.
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

/// With a border at both ends, and between columns, and a space beside each.
fn table_width(widths: &[usize]) -> usize {
    widths.iter().map(|width| width + 3).sum::<usize>() + 1
}

fn draw(
    sink: &mut impl Write,
    style: &Style,
    columns: &[Column],
    fit: &Fit,
) -> Result<(), ArrowError> {
    rule(sink, fit, ["┌", "┬", "┐"])?;
    if style.headers {
        for place in &fit.shown {
            let name = place.and_then(|(column, _)| columns[column].name.as_deref());
            let name = name.unwrap_or(ELLIPSIS);
            let (width, right) = match place {
                Some((column, width)) => (*width, columns[*column].is_number),
                None => (1, false),
            };
            let text = padded(name, width, right);
            write!(sink, "│ {} ", styled(style, &text, Effects::BOLD))?;
        }
        writeln!(sink, "│")?;
        rule(sink, fit, ["├", "┼", "┤"])?;
    }
    let rows = columns.first().map_or(0, |column| column.values.len());
    for row in 0..rows {
        for place in &fit.shown {
            let text = match place {
                None => dimmed(style, ELLIPSIS),
                Some((column, width)) => {
                    let column = &columns[*column];
                    match &column.values[row] {
                        Some(value) => padded(value, *width, column.is_number),
                        None => dimmed(style, &padded(&column.null, *width, column.is_number)),
                    }
                }
            };
            write!(sink, "│ {text} ")?;
        }
        writeln!(sink, "│")?;
    }
    rule(sink, fit, ["└", "┴", "┘"])
}

fn rule(
    sink: &mut impl Write,
    fit: &Fit,
    [left, between, right]: [&str; 3],
) -> Result<(), ArrowError> {
    let widths = fit
        .shown
        .iter()
        .map(|place| place.map_or(1, |(_, width)| width));
    let parts: Vec<String> = widths.map(|width| "─".repeat(width + 2)).collect();
    Ok(writeln!(sink, "{left}{}{right}", parts.join(between))?)
}

/// A text of exactly this width.
fn padded(text: &str, width: usize, right: bool) -> String {
    let text = shortened(text, width);
    let space = " ".repeat(width.saturating_sub(text.width()));
    match right {
        true => space + &text,
        false => text + &space,
    }
}

/// A text of at most this width.
fn shortened(text: &str, width: usize) -> String {
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
    use crate::appearance::Format;
    use arrow::array::{ArrayRef, Int64Array, StringArray};

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
        // Nothing is wrong with no place at all, either.
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
