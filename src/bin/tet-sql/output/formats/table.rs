//! Writes results as tables with aligned columns.

use crate::output::appearance::Expanded;
use crate::output::formats::canvas::{ASCII, Canvas, LINES, ShownColumn};
use crate::output::formats::cells::Cells;
use crate::output::formats::line::Records;
use crate::output::formats::widths::{Column, fit, text_width};
use crate::output::formats::{MEASURED_ROWS, ResultWriter, Style};
use crate::terminal::{escape_controls, on_lines};
use anstyle::Effects;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use std::io::Write;

/// Writes a result as a table.
///
/// Buffers the first [`MEASURED_ROWS`] rows to compute column widths, then writes rows as they
/// arrive.
///
/// A table for pipes is drawn with ASCII characters. Values keep their line ends, and a later value
/// that is wider than its column shifts the rest of its row.
///
/// A boxed table fits the terminal. If its columns do not, long texts are shortened and columns in
/// the middle are left out:
///
/// ```text
/// ┌────────┬──────────┬───┬────────┐
/// │      a │ text     │ … │      e │
/// ├────────┼──────────┼───┼────────┤
/// │ 123456 │ a long … │ … │ 123456 │
/// └────────┴──────────┴───┴────────┘
/// 3 of 5 columns shown
/// ```
pub struct Table<W> {
    style: Style,
    schema: SchemaRef,
    is_boxed: bool,
    /// Escapes the characters that a table cannot show.
    escape: fn(String) -> String,
    null: String,
    state: State,
    canvas: Canvas<W>,
}

enum State {
    /// The batches so far, their number of rows, and the number of batches before the left-out
    /// rows.
    Measuring {
        batches: Vec<RecordBatch>,
        rows: usize,
        gap: Option<usize>,
    },
    /// The shown columns. A `None` stands for the columns that are left out.
    Drawing(Vec<Option<ShownColumn>>),
    /// Rows are written as one value per line because they do not fit the terminal.
    Records(Records),
}

impl<W: Write + Send> Table<W> {
    /// Creates a writer of a boxed table.
    pub fn boxed(style: &Style, schema: SchemaRef, sink: W) -> Self {
        Self::new(style, schema, true, sink)
    }

    /// Creates a writer of a table of ASCII characters.
    pub fn ascii(style: &Style, schema: SchemaRef, sink: W) -> Self {
        Self::new(style, schema, false, sink)
    }

    fn new(style: &Style, schema: SchemaRef, is_boxed: bool, sink: W) -> Self {
        let escape: fn(String) -> String = match style.width {
            _ if is_boxed => |text| escape_controls(&text),
            Some(_) => |text| on_lines(&text),
            None => |text| text,
        };
        Self {
            style: style.clone(),
            schema,
            is_boxed,
            escape,
            null: escape(style.null.clone().unwrap_or_else(|| "NULL".to_owned())),
            state: State::Measuring {
                batches: Vec::new(),
                rows: 0,
                gap: None,
            },
            canvas: Canvas {
                border: if is_boxed { &LINES } else { &ASCII },
                is_styled: is_boxed && style.styled,
                sink,
            },
        }
    }

    /// Chooses column widths and writes the buffered rows.
    fn begin(&mut self) -> Result<(), ArrowError> {
        let State::Measuring { batches, gap, .. } = &mut self.state else {
            return Ok(());
        };
        let (batches, gap) = (std::mem::take(batches), *gap);
        let columns = self.measured(&batches)?;
        let available = self.style.width.filter(|_| self.is_boxed);
        let shown = fit(&columns, available).into_iter().map(|place| {
            place.map(|(column, width)| ShownColumn {
                column,
                width,
                is_right: self.is_boxed && columns[column].is_number,
                is_cut: width < columns[column].width()
                    || (available.is_some() && !columns[column].is_number),
            })
        });
        let shown: Vec<_> = shown.collect();
        let is_whole = shown.iter().all(|place| {
            let place = place.as_ref();
            place.is_some_and(|place| place.width == columns[place.column].width())
        });
        if self.style.expanded == Expanded::Automatic && !is_whole {
            self.state = State::Records(Records::numbered(&self.style, &self.schema));
        } else {
            self.canvas.rule(&shown, 0)?;
            if self.style.headers {
                self.canvas.row(&shown, Effects::BOLD, |place| {
                    (&columns[place.column].name, Effects::BOLD, true)
                })?;
                self.canvas.rule(&shown, 1)?;
            }
            self.state = State::Drawing(shown);
        }
        for (number, batch) in batches.iter().enumerate() {
            if gap == Some(number) {
                self.skip()?;
            }
            self.write(batch)?;
        }
        Ok(())
    }

    fn measured(&self, batches: &[RecordBatch]) -> Result<Vec<Column>, ArrowError> {
        let null_width = text_width(&self.null);
        let columns = self.schema.fields().iter().map(|field| {
            let name = (self.escape)(field.name().clone());
            Column {
                name_width: if self.style.headers {
                    text_width(&name)
                } else {
                    0
                },
                name,
                values_width: 0,
                is_number: field.data_type().is_numeric(),
            }
        });
        let mut columns: Vec<Column> = columns.collect();
        for batch in batches {
            let cells = Cells::new(batch)?;
            for row in 0..cells.rows() {
                for (value, column) in cells.row(row).zip(&mut columns) {
                    let width =
                        value?.map_or(null_width, |value| text_width(&(self.escape)(value)));
                    column.values_width = column.values_width.max(width);
                }
            }
        }
        Ok(columns)
    }
}

impl<W: Write + Send> ResultWriter for Table<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        match &mut self.state {
            State::Measuring { batches, rows, .. } => {
                batches.push(batch.clone());
                *rows += batch.num_rows();
                if *rows >= MEASURED_ROWS {
                    self.begin()?;
                }
            }
            State::Drawing(shown) => {
                let cells = Cells::new(batch)?;
                for row in 0..cells.rows() {
                    let values = cells.row(row).map(|value| Ok(value?.map(self.escape)));
                    let values = values.collect::<Result<Vec<_>, ArrowError>>()?;
                    self.canvas.row(shown, Effects::DIMMED, |place| {
                        match &values[place.column] {
                            Some(value) => (value, Effects::new(), place.is_cut),
                            None => (&self.null, Effects::DIMMED, place.is_cut),
                        }
                    })?;
                }
            }
            State::Records(records) => records.write(batch, &mut self.canvas.sink)?,
        }
        Ok(())
    }

    fn skip(&mut self) -> Result<(), ArrowError> {
        match &mut self.state {
            State::Measuring { batches, gap, .. } => *gap = Some(batches.len()),
            State::Drawing(shown) => {
                let gap = self.canvas.border.gap;
                self.canvas.row(shown, Effects::DIMMED, |place| {
                    let gap = gap.get(..place.width).unwrap_or(gap);
                    (gap, Effects::DIMMED, false)
                })?;
            }
            State::Records(records) => records.skip(&mut self.canvas.sink)?,
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ArrowError> {
        self.begin()?;
        let State::Drawing(columns) = &self.state else {
            return Ok(());
        };
        self.canvas.rule(columns, 2)?;
        let (shown, all) = (columns.iter().flatten().count(), self.schema.fields().len());
        if shown < all {
            let text = format!("{shown} of {all} columns shown");
            let style = self.canvas.style(Effects::DIMMED);
            writeln!(self.canvas.sink, "{style}{text}{style:#}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::output::appearance::Format;
    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use std::sync::Arc;

    fn drawn(batch: &RecordBatch, style: &Style) -> String {
        let mut bytes = Vec::new();
        let mut table = Table::new(
            style,
            batch.schema(),
            style.format == Format::Box,
            &mut bytes,
        );
        table.write(batch).unwrap();
        table.finish().unwrap();
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

    fn rows(texts: Vec<&str>) -> RecordBatch {
        let values = Arc::new(StringArray::from(texts)) as ArrayRef;
        RecordBatch::try_from_iter([("a", values)]).unwrap()
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
        let cases = [
            (Format::Box, Some(80), "│ last │\n", "│ a l… │\n│ b    │\n"),
            (
                Format::Box,
                None,
                "│ last │\n",
                "│ a longer one │\n│ b    │\n",
            ),
            (
                Format::Table,
                None,
                "| last |\n",
                "| a longer one |\n| b    |\n",
            ),
        ];
        for (format, width, last, longer) in cases {
            let style = Style {
                width,
                ..Style::plain(format)
            };
            let (is_boxed, schema) = (format == Format::Box, rows(vec![]).schema());
            let mut bytes = Vec::new();
            let mut table = Table::new(&style, schema, is_boxed, &mut bytes);
            table.write(&rows(vec!["text"; MEASURED_ROWS - 1])).unwrap();
            assert!(table.canvas.sink.is_empty());
            table.write(&rows(vec!["last"])).unwrap();
            assert!(table.canvas.sink.ends_with(last.as_bytes()));
            table.write(&rows(vec!["a longer one", "b"])).unwrap();
            assert!(table.canvas.sink.ends_with(longer.as_bytes()));
            table.finish().unwrap();
            assert!(!bytes.ends_with(longer.as_bytes()));
        }
    }

    #[test]
    fn rows_that_are_left_out_have_a_row_of_dots() {
        let number = Arc::new(Int64Array::from(vec![10, 20])) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("n", number)]).unwrap();
        for (is_boxed, expected) in [
            (
                true,
                "┌────┐\n│  n │\n├────┤\n│ 10 │\n│  ⋮ │\n│ 20 │\n└────┘\n",
            ),
            (
                false,
                "+----+\n| n  |\n+----+\n| 10 |\n| .. |\n| 20 |\n+----+\n",
            ),
        ] {
            let mut bytes = Vec::new();
            let mut table = Table::new(&narrow(80), batch.schema(), is_boxed, &mut bytes);
            table.write(&batch.slice(0, 1)).unwrap();
            table.skip().unwrap();
            table.write(&batch.slice(1, 1)).unwrap();
            table.finish().unwrap();
            assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        }
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

    #[test]
    fn texts_may_have_several_lines() {
        let batch = rows(vec!["one\nlonger\nthree", "b"]);
        assert_eq!(
            drawn(&batch, &Style::plain(Format::Table)),
            "+--------+\n| a      |\n+--------+\n| one    |\n| longer |\n| three  |\n| b      |\n+--------+\n"
        );
    }
}
