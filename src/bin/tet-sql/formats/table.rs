//! Results as tables of plain characters.

use crate::formats::{ResultWriter, Style};
use crate::terminal::on_lines;
use arrow::util::display::FormatOptions;
use arrow::util::pretty::pretty_format_batches_with_options;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use std::io::Write;

/// Keeps all rows, since a column is as wide as its widest value.
pub struct Table<W> {
    batches: Vec<RecordBatch>,
    null: String,
    headers: bool,
    is_terminal: bool,
    sink: W,
}

impl<W> Table<W> {
    /// A writer of rows of a schema.
    pub fn new(style: &Style, schema: SchemaRef, sink: W) -> Self {
        Self {
            batches: vec![RecordBatch::new_empty(schema)],
            null: style.null.clone().unwrap_or_else(|| "NULL".to_owned()),
            headers: style.headers,
            is_terminal: style.width.is_some(),
            sink,
        }
    }
}

impl<W: Write + Send> ResultWriter for Table<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.batches.push(batch.clone());
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ArrowError> {
        let options = FormatOptions::new().with_null(&self.null);
        let table = pretty_format_batches_with_options(&self.batches, &options)?;
        let mut text = table.to_string();
        if self.is_terminal {
            text = on_lines(&text);
        }
        if self.headers {
            return Ok(writeln!(self.sink, "{text}")?);
        }
        // Names are between the first rule and the second.
        let rest = text.find("\n+").map_or("", |place| &text[place + 1..]);
        Ok(writeln!(self.sink, "{rest}")?)
    }
}
