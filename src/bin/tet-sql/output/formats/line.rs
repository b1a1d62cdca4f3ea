//! Writes results as one value per line.

use crate::output::formats::cells::Cells;
use crate::output::formats::{ResultWriter, Style};
use crate::terminal::escape_controls;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use std::io::Write;
use unicode_width::UnicodeWidthStr;

/// Writes each value on a line, after its column name.
pub struct Line<W> {
    records: Records,
    sink: W,
}

impl<W: Write> Line<W> {
    /// Creates a writer that separates rows with empty lines.
    pub fn new(style: &Style, schema: &SchemaRef, sink: W) -> Self {
        Self {
            records: Records::new(style, schema, false),
            sink,
        }
    }

    /// Creates a writer that starts each row with its number.
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

/// Writes rows as one value per line, to any sink.
pub struct Records {
    names: Vec<String>,
    null: String,
    /// `true` if each row starts with a line that has its number, `false` if an empty line
    /// separates rows.
    is_numbered: bool,
    is_terminal: bool,
    rows: usize,
}

impl Records {
    /// Creates a writer that starts each row with its number.
    pub fn numbered(style: &Style, schema: &SchemaRef) -> Self {
        Self::new(style, schema, true)
    }

    fn new(style: &Style, schema: &SchemaRef, is_numbered: bool) -> Self {
        let names = schema.fields().iter();
        let names: Vec<String> = names.map(|field| escape_controls(field.name())).collect();
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

    /// Writes the rows of a batch.
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
                    value = escape_controls(&value);
                }
                writeln!(sink, "{name} = {value}")?;
            }
        }
        Ok(())
    }

    /// Marks that rows are left out. The numbers of the rows that follow are unknown, so those rows
    /// have none.
    pub fn skip(&mut self, sink: &mut impl Write) -> Result<(), ArrowError> {
        self.is_numbered = false;
        Ok(writeln!(sink, "\n...")?)
    }
}
