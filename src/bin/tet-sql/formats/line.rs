//! Results with a value a line.

use crate::formats::cells::Cells;
use crate::formats::{ResultWriter, Style};
use crate::terminal::on_a_line;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use std::io::Write;
use unicode_width::UnicodeWidthStr;

/// Names and values, a line each.
pub struct Line<W> {
    names: Vec<String>,
    null: String,
    /// Whether a row begins with its number rather than after an empty line.
    numbered: bool,
    is_terminal: bool,
    rows: usize,
    sink: W,
}

impl<W: Write> Line<W> {
    /// A writer of rows of a schema, with empty lines between rows.
    pub fn new(style: &Style, schema: SchemaRef, sink: W) -> Self {
        let names = schema.fields().iter();
        let names: Vec<String> = names.map(|field| on_a_line(field.name())).collect();
        let names = names.iter().map(String::as_str);
        let width = names.clone().map(UnicodeWidthStr::width).max().unwrap_or(0);
        let names = names.map(|name| format!("{}{name}", " ".repeat(width - name.width())));
        Self {
            names: names.collect(),
            null: style.null.clone().unwrap_or_else(|| "NULL".to_owned()),
            numbered: false,
            is_terminal: style.width.is_some(),
            rows: 0,
            sink,
        }
    }

    /// A writer of rows of a schema that are numbered.
    pub fn records(style: &Style, schema: SchemaRef, sink: W) -> Self {
        Self {
            numbered: true,
            ..Self::new(style, schema, sink)
        }
    }
}

impl<W: Write + Send> ResultWriter for Line<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let cells = Cells::new(batch)?;
        for row in 0..cells.rows() {
            self.rows += 1;
            if self.numbered {
                writeln!(self.sink, "-[ RECORD {} ]", self.rows)?;
            } else if self.rows > 1 {
                writeln!(self.sink)?;
            }
            for (value, name) in cells.row(row).zip(&self.names) {
                let mut value = value?.unwrap_or_else(|| self.null.clone());
                if self.is_terminal {
                    value = on_a_line(&value);
                }
                writeln!(self.sink, "{name} = {value}")?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ArrowError> {
        Ok(())
    }
}
