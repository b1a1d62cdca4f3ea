//! Results with a value a line.

use crate::output::formats::cells::Cells;
use crate::output::formats::{ResultWriter, Style};
use crate::terminal::on_a_line;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use std::io::Write;
use unicode_width::UnicodeWidthStr;

/// Names and values, a line each.
pub struct Line<W> {
    records: Records,
    sink: W,
}

impl<W: Write> Line<W> {
    /// A writer of rows of a schema, with empty lines between rows.
    pub fn new(style: &Style, schema: &SchemaRef, sink: W) -> Self {
        Self {
            records: Records::new(style, schema, false),
            sink,
        }
    }

    /// A writer of rows of a schema that are numbered.
    pub fn records(style: &Style, schema: &SchemaRef, sink: W) -> Self {
        Self {
            records: Records::numbered(style, schema),
            sink,
        }
    }
}

impl<W: Write + Send> ResultWriter for Line<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.records.write(batch, &mut self.sink)
    }

    fn skip(&mut self) -> Result<(), ArrowError> {
        self.records.skip(&mut self.sink)
    }

    fn finish(&mut self) -> Result<(), ArrowError> {
        Ok(())
    }
}

/// Writes each row as one value a line.
pub struct Records {
    names: Vec<String>,
    null: String,
    /// Whether a row begins with its number rather than after an empty line.
    is_numbered: bool,
    is_terminal: bool,
    rows: usize,
}

impl Records {
    /// Rows that begin with their number.
    pub fn numbered(style: &Style, schema: &SchemaRef) -> Self {
        Self::new(style, schema, true)
    }

    fn new(style: &Style, schema: &SchemaRef, is_numbered: bool) -> Self {
        let names = schema.fields().iter();
        let names: Vec<String> = names.map(|field| on_a_line(field.name())).collect();
        let names = names.iter().map(String::as_str);
        let width = names.clone().map(UnicodeWidthStr::width).max().unwrap_or(0);
        let names = names.map(|name| format!("{}{name}", " ".repeat(width - name.width())));
        Self {
            names: names.collect(),
            null: style.null.clone().unwrap_or_else(|| "NULL".to_owned()),
            is_numbered,
            is_terminal: style.width.is_some(),
            rows: 0,
        }
    }

    /// Writes rows.
    pub fn write(&mut self, batch: &RecordBatch, sink: &mut impl Write) -> Result<(), ArrowError> {
        let cells = Cells::new(batch)?;
        for row in 0..cells.rows() {
            self.rows += 1;
            if self.is_numbered {
                writeln!(sink, "-[ RECORD {} ]", self.rows)?;
            } else if self.rows > 1 {
                writeln!(sink)?;
            }
            for (value, name) in cells.row(row).zip(&self.names) {
                let mut value = value?.unwrap_or_else(|| self.null.clone());
                if self.is_terminal {
                    value = on_a_line(&value);
                }
                writeln!(sink, "{name} = {value}")?;
            }
        }
        Ok(())
    }

    /// Writes that rows are left out. Those that follow have no number that is known, and go without.
    pub fn skip(&mut self, sink: &mut impl Write) -> Result<(), ArrowError> {
        self.is_numbered = false;
        Ok(writeln!(sink, "\n...")?)
    }
}
