//! Writes results as JSON.

use crate::output::formats::ResultWriter;
use crate::output::formats::text::AsText;
use arrow::json;
use arrow::json::writer::{EncoderOptions, make_encoder};
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions, new_empty_array};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use std::collections::HashSet;
use std::io::Write;
use std::sync::Arc;

/// Writes an object for each row.
struct Json<W: Write, F: json::writer::JsonFormat> {
    writer: json::Writer<W, F>,
    text: AsText,
    /// The columns with unique names, because an object has each key only once.
    schema: SchemaRef,
    /// The bytes after the last row. Arrow's writer ends an array without a line end, but ends each
    /// line with one.
    end: &'static [u8],
}

/// Returns a writer of one array of objects.
pub fn array<'a, W: Write + Send + 'a>(schema: &Schema, sink: W) -> Box<dyn ResultWriter + 'a> {
    Box::new(Json::<W, json::writer::JsonArray>::new(schema, b"\n", sink))
}

/// Returns a writer of one object per line.
pub fn lines<'a, W: Write + Send + 'a>(schema: &Schema, sink: W) -> Box<dyn ResultWriter + 'a> {
    Box::new(Json::<W, json::writer::LineDelimited>::new(
        schema, b"", sink,
    ))
}

impl<W: Write, F: json::writer::JsonFormat> Json<W, F> {
    fn new(schema: &Schema, end: &'static [u8], sink: W) -> Self {
        let text = AsText::new(schema, |field| !has_json_form(field));
        Self {
            schema: Arc::new(with_different_names(text.schema())),
            text,
            writer: json::WriterBuilder::new()
                .with_explicit_nulls(true)
                .build(sink),
            end,
        }
    }
}

impl<W: Write + Send, F: json::writer::JsonFormat + Send> ResultWriter for Json<W, F> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let batch = self.text.convert(batch)?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = batch.columns().to_vec();
        let schema = Arc::clone(&self.schema);
        self.writer.write(&RecordBatch::try_new_with_options(
            schema, columns, &options,
        )?)
    }

    fn finish(&mut self) -> Result<(), ArrowError> {
        self.writer.finish()?;
        Ok(self.writer.get_mut().write_all(self.end)?)
    }
}

/// Makes column names unique by appending a number to duplicates.
fn with_different_names(schema: &Schema) -> Schema {
    let mut names = HashSet::new();
    let fields = schema.fields().iter().map(|field| {
        let mut name = field.name().clone();
        let mut number = 1;
        while !names.insert(name.clone()) {
            name = format!("{}_{number}", field.name());
            number += 1;
        }
        field.as_ref().clone().with_name(name)
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// Returns `true` if Arrow's JSON writer supports the type. The only way to find out is to create
/// an encoder.
fn has_json_form(field: &Field) -> bool {
    let array = new_empty_array(field.data_type());
    let field = Arc::new(field.clone());
    make_encoder(&field, array.as_ref(), &EncoderOptions::default()).is_ok()
}
