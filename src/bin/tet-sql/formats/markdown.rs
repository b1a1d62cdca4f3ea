//! Results as tables for documents.

use crate::formats::cells::Cells;
use crate::formats::{ResultWriter, Style};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use std::io::Write;

/// Writes rows as they come, without aligning them: the reader of the document does that.
pub struct Markdown<W> {
    schema: SchemaRef,
    null: String,
    sink: W,
    started: bool,
}

impl<W: Write> Markdown<W> {
    /// A writer of rows of a schema.
    pub fn new(style: &Style, schema: SchemaRef, sink: W) -> Self {
        let null = style.null.as_deref().unwrap_or("NULL");
        Self {
            schema,
            null: escape(null),
            sink,
            started: !style.headers,
        }
    }

    fn start(&mut self) -> Result<(), ArrowError> {
        if self.started {
            return Ok(());
        }
        self.started = true;
        let fields = self.schema.fields();
        for field in fields {
            write!(self.sink, "| {} ", escape(field.name()))?;
        }
        writeln!(self.sink, "|")?;
        for field in fields {
            let rule = if field.data_type().is_numeric() {
                "| ---: "
            } else {
                "| --- "
            };
            write!(self.sink, "{rule}")?;
        }
        Ok(writeln!(self.sink, "|")?)
    }
}

impl<W: Write + Send> ResultWriter for Markdown<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.start()?;
        let cells = Cells::new(batch)?;
        for row in 0..cells.rows() {
            for value in cells.row(row) {
                let value = value?.map(|value| escape(&value));
                write!(self.sink, "| {} ", value.as_ref().unwrap_or(&self.null))?;
            }
            writeln!(self.sink, "|")?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ArrowError> {
        self.start()
    }
}

/// Keeps a value within its cell.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('|', "\\|")
        .replace("\r\n", "<br>")
        .replace(['\n', '\r'], "<br>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_in_their_cells() {
        assert_eq!(escape("a|b\r\nc\nd\\"), "a\\|b<br>c<br>d\\\\");
    }
}
