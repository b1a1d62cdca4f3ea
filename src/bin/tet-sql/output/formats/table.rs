//! Writes results as tables of plain characters.

use crate::output::formats::cells::Cells;
use crate::output::formats::{MEASURED_ROWS, ResultWriter, Style};
use crate::terminal::on_lines;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;

/// Marks rows that are left out.
const GAP: &str = "...";

/// Writes a result as a table drawn with ASCII characters.
///
/// Buffers the first [`MEASURED_ROWS`] rows to compute column widths, then writes rows as they
/// arrive. A later value that is wider than its column shifts the rest of its row.
pub struct Table<W> {
    names: Vec<String>,
    null: String,
    headers: bool,
    is_terminal: bool,
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
    /// The width of each column.
    Writing(Vec<usize>),
}

impl<W: Write> Table<W> {
    /// Creates a writer for rows of a schema.
    pub fn new(style: &Style, schema: &SchemaRef, sink: W) -> Self {
        let is_terminal = style.width.is_some();
        let names = schema.fields().iter();
        Self {
            names: names
                .map(|field| shown(field.name().clone(), is_terminal))
                .collect(),
            null: style.null.clone().unwrap_or_else(|| "NULL".to_owned()),
            headers: style.headers,
            is_terminal,
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
        let names = self.names.iter();
        let mut widths: Vec<usize> = match self.headers {
            true => names.map(|name| width(name)).collect(),
            false => vec![0; names.len()],
        };
        for batch in &batches {
            let cells = Cells::new(batch)?;
            for row in 0..cells.rows() {
                for (value, widest) in self.row(&cells, row)?.iter().zip(&mut widths) {
                    *widest = width(value).max(*widest);
                }
            }
        }
        rule(&mut self.sink, &widths)?;
        if self.headers {
            line(&mut self.sink, &self.names, &widths)?;
            rule(&mut self.sink, &widths)?;
        }
        self.state = State::Writing(widths);
        for (number, batch) in batches.iter().enumerate() {
            if gap == Some(number) {
                self.skip()?;
            }
            self.write(batch)?;
        }
        Ok(())
    }

    fn row(&self, cells: &Cells<'_>, row: usize) -> Result<Vec<String>, ArrowError> {
        let values = cells.row(row).map(|value| {
            let value = value?.unwrap_or_else(|| self.null.clone());
            Ok(shown(value, self.is_terminal))
        });
        values.collect()
    }
}

impl<W: Write + Send> ResultWriter for Table<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        if let State::Measuring { batches, rows, .. } = &mut self.state {
            batches.push(batch.clone());
            *rows += batch.num_rows();
            return match *rows >= MEASURED_ROWS {
                true => self.begin(),
                false => Ok(()),
            };
        }
        let cells = Cells::new(batch)?;
        for row in 0..cells.rows() {
            let values = self.row(&cells, row)?;
            if let State::Writing(widths) = &self.state {
                line(&mut self.sink, &values, widths)?;
            }
        }
        Ok(())
    }

    fn skip(&mut self) -> Result<(), ArrowError> {
        match &mut self.state {
            State::Measuring { batches, gap, .. } => *gap = Some(batches.len()),
            State::Writing(widths) => {
                let dots = widths
                    .iter()
                    .map(|width| GAP[..GAP.len().min(*width)].to_owned());
                line(&mut self.sink, &dots.collect::<Vec<_>>(), widths)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ArrowError> {
        self.begin()?;
        if let State::Writing(widths) = &self.state {
            rule(&mut self.sink, widths)?;
        }
        Ok(())
    }
}

fn shown(text: String, is_terminal: bool) -> String {
    match is_terminal {
        true => on_lines(&text),
        false => text,
    }
}

/// Returns the width of the widest line of a text.
fn width(text: &str) -> usize {
    text.split('\n')
        .map(UnicodeWidthStr::width)
        .max()
        .unwrap_or(0)
}

fn rule(sink: &mut impl Write, widths: &[usize]) -> io::Result<()> {
    for width in widths {
        write!(sink, "+{}", "-".repeat(width + 2))?;
    }
    writeln!(sink, "+")
}

/// Writes a row, on as many lines as its tallest value has.
fn line(sink: &mut impl Write, values: &[String], widths: &[usize]) -> io::Result<()> {
    let mut lines: Vec<_> = values.iter().map(|value| value.split('\n')).collect();
    let count = values.iter().map(|value| value.split('\n').count()).max();
    for _ in 0..count.unwrap_or(1) {
        for (lines, width) in lines.iter_mut().zip(widths) {
            let text = lines.next().unwrap_or_default();
            let space = " ".repeat(width.saturating_sub(text.width()));
            write!(sink, "| {text}{space} ")?;
        }
        writeln!(sink, "|")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::appearance::Format;
    use arrow::array::{ArrayRef, StringArray};
    use std::sync::Arc;

    fn rows(texts: Vec<&str>) -> RecordBatch {
        let values = Arc::new(StringArray::from(texts)) as ArrayRef;
        RecordBatch::try_from_iter([("a", values)]).unwrap()
    }

    #[test]
    fn rows_come_once_the_first_are_measured() {
        let mut bytes = Vec::new();
        let batch = rows(vec!["text"; MEASURED_ROWS - 1]);
        let mut table = Table::new(&Style::plain(Format::Table), batch.schema_ref(), &mut bytes);
        table.write(&batch).unwrap();
        assert!(table.sink.is_empty());
        table.write(&rows(vec!["last"])).unwrap();
        assert!(
            table
                .sink
                .starts_with(b"+------+\n| a    |\n+------+\n| text |\n")
        );
        assert!(table.sink.ends_with(b"| last |\n"));
        table.write(&rows(vec!["a longer one", "b"])).unwrap();
        assert!(table.sink.ends_with(b"| a longer one |\n| b    |\n"));
        table.finish().unwrap();
        assert!(bytes.ends_with(b"| b    |\n+------+\n"));
    }

    #[test]
    fn texts_may_have_several_lines() {
        let mut bytes = Vec::new();
        let batch = rows(vec!["one\nlonger\nthree", "b"]);
        let mut table = Table::new(&Style::plain(Format::Table), batch.schema_ref(), &mut bytes);
        table.write(&batch).unwrap();
        table.finish().unwrap();
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "+--------+\n| a      |\n+--------+\n| one    |\n| longer |\n| three  |\n| b      |\n+--------+\n"
        );
    }
}
