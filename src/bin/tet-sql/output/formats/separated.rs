//! Writes results as comma- or tab-separated values.

use crate::output::formats::text::{AsText, runs_as_text};
use crate::output::formats::{ResultWriter, Style};
use arrow::csv;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use std::io::Write;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

/// The minimum number of rows that a thread formats.
const ROWS_PER_THREAD: usize = 2048;

/// Writes comma- or tab-separated values after a line of column names. Several threads format the rows of a batch.
pub struct Separated<W: Write> {
    builder: csv::WriterBuilder,
    text: AsText,
    /// `true` until the column names are written.
    needs_header: bool,
    threads: usize,
    schema: SchemaRef,
    sink: W,
}

impl<W: Write> Separated<W> {
    /// Creates a writer for rows of a schema.
    pub fn new(delimiter: u8, style: &Style, schema: SchemaRef, sink: W) -> Self {
        Self {
            builder: csv::WriterBuilder::new()
                .with_delimiter(delimiter)
                .with_header(false)
                .with_null(style.null.clone().unwrap_or_default()),
            text: AsText::new(&schema, |field| field.data_type().is_nested()),
            needs_header: style.headers,
            threads: thread::available_parallelism().map_or(1, NonZero::get),
            schema,
            sink,
        }
    }

    /// Writes the column names, once.
    fn write_header(&mut self) -> Result<(), ArrowError> {
        if std::mem::take(&mut self.needs_header) {
            // An empty batch makes the CSV writer write the column names.
            let empty = self
                .text
                .convert(&RecordBatch::new_empty(Arc::clone(&self.schema)))?;
            let writer = self.builder.clone().with_header(true);
            writer.build(&mut self.sink).write(&empty)?;
        }
        Ok(())
    }
}

impl<W: Write + Send> ResultWriter for Separated<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.write_header()?;
        let rows = batch.num_rows();
        let length = rows.div_ceil(self.threads).max(ROWS_PER_THREAD);
        let (text, builder) = (&self.text, &self.builder);
        let format = |start: usize| {
            let mut bytes = Vec::new();
            let part = text.convert(&batch.slice(start, length.min(rows - start)))?;
            let columns = part.schema_ref().fields().iter().zip(part.columns());
            let columns = columns.map(|(field, column)| Ok((field.name(), runs_as_text(column)?)));
            let part =
                RecordBatch::try_from_iter(columns.collect::<Result<Vec<_>, ArrowError>>()?)?;
            builder.clone().build(&mut bytes).write(&part)?;
            Ok::<_, ArrowError>(bytes)
        };
        thread::scope(|scope| {
            let format = &format;
            let others = (length..rows).step_by(length);
            let others: Vec<_> = others
                .map(|start| scope.spawn(move || format(start)))
                .collect();
            self.sink.write_all(&format(0)?)?;
            for other in others {
                let bytes = other.join().unwrap_or_else(|panic| resume_unwind(panic))?;
                self.sink.write_all(&bytes)?;
            }
            Ok(())
        })
    }

    fn finish(&mut self) -> Result<(), ArrowError> {
        self.write_header()?;
        Ok(self.sink.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::formats::Format;
    use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, TimestampNanosecondArray};

    #[test]
    fn runs_of_equal_values_are_written_like_other_values() {
        let hour = 3_600_000_000_000;
        let times = TimestampNanosecondArray::from_iter((0..24).map(|row| match row / 6 {
            2 => None,
            time => Some(time * hour),
        }));
        let zeros = Float64Array::from_iter_values((0..24).map(|row| match row / 8 {
            0 => 0.0,
            1 => -0.0,
            _ => f64::NAN,
        }));
        let columns: [(&str, ArrayRef); 2] = [("time", Arc::new(times)), ("zero", Arc::new(zeros))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut expected = Vec::new();
        csv::Writer::new(&mut expected).write(&batch).unwrap();
        let mut sink = Vec::new();
        let mut writer =
            Separated::new(b',', &Style::plain(Format::Csv), batch.schema(), &mut sink);
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        drop(writer);
        assert_eq!(
            String::from_utf8(sink).unwrap(),
            String::from_utf8(expected).unwrap()
        );
    }

    #[test]
    fn rows_that_several_threads_format_keep_their_order() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_001));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        let mut sink = Vec::new();
        let mut writer =
            Separated::new(b',', &Style::plain(Format::Csv), batch.schema(), &mut sink);
        writer.threads = 3;
        writer.write(&batch).unwrap();
        writer.write(&batch.slice(7, 1)).unwrap();
        writer.finish().unwrap();
        drop(writer);
        let lines: Vec<_> = std::str::from_utf8(&sink).unwrap().lines().collect();
        let numbers = (0..10_001).chain([7]).map(|number| number.to_string());
        let expected: Vec<_> = std::iter::once("n".to_string()).chain(numbers).collect();
        assert_eq!(lines, expected);
    }
}
