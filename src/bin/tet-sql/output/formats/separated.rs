//! Writes results as comma- or tab-separated values.

use crate::output::formats::text::AsText;
use crate::output::formats::{ResultWriter, Style};
use arrow::csv;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use std::io::Write;
use std::sync::Arc;

/// Writes comma- or tab-separated values after a line of column names.
pub struct Separated<W: Write> {
    writer: csv::Writer<W>,
    text: AsText,
    started: bool,
    schema: SchemaRef,
}

impl<W: Write> Separated<W> {
    /// Creates a writer for rows of a schema.
    pub fn new(delimiter: u8, style: &Style, schema: SchemaRef, sink: W) -> Self {
        Self {
            writer: csv::WriterBuilder::new()
                .with_delimiter(delimiter)
                .with_header(style.headers)
                .with_null(style.null.clone().unwrap_or_default())
                .build(sink),
            text: AsText::new(&schema, |field| field.data_type().is_nested()),
            started: false,
            schema,
        }
    }
}

impl<W: Write + Send> ResultWriter for Separated<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.started = true;
        self.writer.write(&self.text.convert(batch)?)
    }

    fn finish(&mut self) -> Result<(), ArrowError> {
        if self.started {
            return Ok(());
        }
        // An empty batch makes the CSV writer write the column names of a result without rows.
        self.write(&RecordBatch::new_empty(Arc::clone(&self.schema)))
    }
}
