//! Writes result batches in the chosen format.

use crate::markdown::Markdown;
use crate::output::{Format, Sink};
use arrow::csv;
use arrow::json;
use arrow::json::writer::{EncoderOptions, make_encoder};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow::util::pretty::pretty_format_batches_with_options;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringBuilder, new_empty_array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use std::io::Write;
use std::sync::Arc;

/// How values are shown to people.
pub const READABLE: FormatOptions<'static> = FormatOptions::new().with_null("NULL");

/// Writes one result.
pub trait ResultWriter: Send {
    /// Writes rows, or keeps them until the end.
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError>;

    /// Writes what belongs behind the last row.
    fn finish(&mut self) -> Result<(), ArrowError>;
}

/// A writer of a format. All but tables need memory for one batch only.
pub fn writer<'a>(
    format: Format,
    schema: &SchemaRef,
    sink: &'a mut Sink<'_>,
) -> Box<dyn ResultWriter + 'a> {
    let schema = Arc::clone(schema);
    match format {
        Format::Table => Box::new(Table {
            batches: vec![RecordBatch::new_empty(schema)],
            sink,
        }),
        Format::Csv => Box::new(Separated::new(b',', schema, sink)),
        Format::Tsv => Box::new(Separated::new(b'\t', schema, sink)),
        Format::Json => Box::new(Json::<_, json::writer::JsonArray>::new(
            &schema, b"\n", sink,
        )),
        Format::Ndjson => Box::new(Json::<_, json::writer::LineDelimited>::new(
            &schema, b"", sink,
        )),
        Format::Markdown => Box::new(Markdown::new(schema, sink)),
    }
}

struct Table<W> {
    batches: Vec<RecordBatch>,
    sink: W,
}

impl<W: Write + Send> ResultWriter for Table<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.batches.push(batch.clone());
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ArrowError> {
        let table = pretty_format_batches_with_options(&self.batches, &READABLE)?;
        Ok(writeln!(self.sink, "{table}")?)
    }
}

/// Comma- or tab-separated values with a line of names.
struct Separated<W: Write> {
    writer: csv::Writer<W>,
    text: AsText,
    started: bool,
    schema: SchemaRef,
}

impl<W: Write> Separated<W> {
    fn new(delimiter: u8, schema: SchemaRef, sink: W) -> Self {
        Self {
            writer: csv::WriterBuilder::new()
                .with_delimiter(delimiter)
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
        // A result without rows still has its names.
        self.write(&RecordBatch::new_empty(Arc::clone(&self.schema)))
    }
}

struct Json<W: Write, F: json::writer::JsonFormat> {
    writer: json::Writer<W, F>,
    text: AsText,
    /// An array ends without a line end, lines end with one.
    end: &'static [u8],
}

impl<W: Write, F: json::writer::JsonFormat> Json<W, F> {
    fn new(schema: &Schema, end: &'static [u8], sink: W) -> Self {
        Self {
            writer: json::WriterBuilder::new()
                .with_explicit_nulls(true)
                .build(sink),
            text: AsText::new(schema, |field| !has_json_form(field)),
            end,
        }
    }
}

impl<W: Write + Send, F: json::writer::JsonFormat + Send> ResultWriter for Json<W, F> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.writer.write(&self.text.convert(batch)?)
    }

    fn finish(&mut self) -> Result<(), ArrowError> {
        self.writer.finish()?;
        Ok(self.writer.get_mut().write_all(self.end)?)
    }
}

/// Whether the writer of JSON knows a type; it tells only by trying.
fn has_json_form(field: &Field) -> bool {
    let array = new_empty_array(field.data_type());
    let field = Arc::new(field.clone());
    make_encoder(&field, array.as_ref(), &EncoderOptions::default()).is_ok()
}

/// Turns columns of types that a writer does not know into text.
struct AsText {
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl AsText {
    fn new(schema: &Schema, unknown: impl Fn(&Field) -> bool) -> Self {
        let columns: Vec<usize> = (0..schema.fields().len())
            .filter(|&column| unknown(schema.field(column)))
            .collect();
        let fields = schema.fields().iter().enumerate().map(|(column, field)| {
            if columns.contains(&column) {
                Arc::new(Field::new(field.name(), DataType::Utf8, true))
            } else {
                Arc::clone(field)
            }
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Self { columns, schema }
    }

    fn convert(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        if self.columns.is_empty() {
            return Ok(batch.clone());
        }
        let mut columns = batch.columns().to_vec();
        for &column in &self.columns {
            columns[column] = text_of(&columns[column])?;
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
    }
}

fn text_of(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let formatter = ArrayFormatter::try_new(array.as_ref(), &READABLE)?;
    let mut text = StringBuilder::new();
    for row in 0..array.len() {
        if array.is_null(row) {
            text.append_null();
        } else {
            text.append_value(formatter.value(row).try_to_string()?);
        }
    }
    Ok(Arc::new(text.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Cancellation;
    use crate::output::Output;
    use arrow::array::{Float16Array, Int64Array, ListArray};
    use arrow::datatypes::Int64Type;

    fn written(format: Format, batches: &[RecordBatch], schema: &SchemaRef) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        let output = Output::open(format, Some(file.path()), &[]).unwrap();
        let mut sink = output.sink(Cancellation::default());
        let mut writer = writer(format, schema, &mut sink);
        for batch in batches {
            writer.write(batch).unwrap();
        }
        writer.finish().unwrap();
        drop(writer);
        sink.finish().unwrap();
        std::fs::read_to_string(file.path()).unwrap()
    }

    fn sample() -> RecordBatch {
        let list = vec![Some(vec![Some(1), None]), None];
        RecordBatch::try_from_iter([
            (
                "n",
                Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef,
            ),
            ("h", {
                let halves = arrow::compute::cast(
                    &arrow::array::Float32Array::from(vec![1.5, f32::NAN]),
                    &DataType::Float16,
                );
                let halves = halves.unwrap();
                assert!(halves.as_any().is::<Float16Array>());
                halves
            }),
            (
                "l",
                Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(list)),
            ),
        ])
        .unwrap()
    }

    #[test]
    fn every_format_writes_every_type() {
        let batch = sample();
        let expected = [
            (Format::Csv, "n,h,l\n1,1.5,\"[1, NULL]\"\n,NaN,\n"),
            (Format::Tsv, "n\th\tl\n1\t1.5\t[1, NULL]\n\tNaN\t\n"),
            (
                Format::Json,
                "[{\"n\":1,\"h\":1.5,\"l\":[1,null]},{\"n\":null,\"h\":null,\"l\":null}]\n",
            ),
            (
                Format::Ndjson,
                "{\"n\":1,\"h\":1.5,\"l\":[1,null]}\n{\"n\":null,\"h\":null,\"l\":null}\n",
            ),
            (
                Format::Markdown,
                "| n | h | l |\n| ---: | ---: | --- |\n| 1 | 1.5 | [1, NULL] |\n| NULL | NaN | NULL |\n",
            ),
        ];
        for (format, text) in expected {
            let schema = batch.schema();
            assert_eq!(written(format, std::slice::from_ref(&batch), &schema), text);
        }
        let table = written(Format::Table, std::slice::from_ref(&batch), &batch.schema());
        assert!(table.contains("| NULL | NaN | NULL      |"), "{table}");
    }

    #[test]
    fn results_without_rows_have_their_names() {
        let schema = sample().schema();
        let expected = [
            (Format::Csv, "n,h,l\n"),
            (Format::Json, "[]\n"),
            (Format::Ndjson, ""),
            (Format::Markdown, "| n | h | l |\n| ---: | ---: | --- |\n"),
        ];
        for (format, text) in expected {
            assert_eq!(written(format, &[], &schema), text);
        }
        assert!(written(Format::Table, &[], &schema).contains("| n | h | l |"));
    }
}
