//! Results as tables for web pages.

use crate::formats::cells::Cells;
use crate::formats::{ResultWriter, Style};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use std::io::Write;

/// A `table` element, to be put into a page.
pub struct Html<W> {
    schema: SchemaRef,
    null: String,
    headers: bool,
    sink: W,
    started: bool,
}

impl<W: Write> Html<W> {
    /// A writer of rows of a schema.
    pub fn new(style: &Style, schema: SchemaRef, sink: W) -> Self {
        Self {
            schema,
            null: escape(style.null.as_deref().unwrap_or_default()),
            headers: style.headers,
            sink,
            started: false,
        }
    }

    fn start(&mut self) -> Result<(), ArrowError> {
        if self.started {
            return Ok(());
        }
        self.started = true;
        writeln!(self.sink, "<table>")?;
        if self.headers {
            writeln!(self.sink, "<thead>")?;
            write!(self.sink, "<tr>")?;
            for field in self.schema.fields() {
                write!(self.sink, "<th>{}</th>", escape(field.name()))?;
            }
            writeln!(self.sink, "</tr>\n</thead>")?;
        }
        Ok(writeln!(self.sink, "<tbody>")?)
    }
}

impl<W: Write + Send> ResultWriter for Html<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.start()?;
        let cells = Cells::new(batch)?;
        for row in 0..cells.rows() {
            write!(self.sink, "<tr>")?;
            for (value, field) in cells.row(row).zip(self.schema.fields()) {
                let value = value?.map(|value| escape(&value));
                let start = match field.data_type().is_numeric() {
                    true => "<td align=\"right\">",
                    false => "<td>",
                };
                let value = value.as_ref().unwrap_or(&self.null);
                write!(self.sink, "{start}{value}</td>")?;
            }
            writeln!(self.sink, "</tr>")?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ArrowError> {
        self.start()?;
        Ok(writeln!(self.sink, "</tbody>\n</table>")?)
    }
}

/// Text without a meaning of its own in HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\n', "<br>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_no_elements() {
        assert_eq!(escape("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
    }
}
