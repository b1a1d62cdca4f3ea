//! Results as tables for papers.

use crate::formats::cells::Cells;
use crate::formats::{ResultWriter, Style};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use std::io::Write;

/// A `tabular` environment, which needs no package.
pub struct Latex<W> {
    schema: SchemaRef,
    null: String,
    headers: bool,
    sink: W,
    started: bool,
}

impl<W: Write> Latex<W> {
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
        let fields = self.schema.fields().iter();
        let columns = fields.map(|field| match field.data_type().is_numeric() {
            true => 'r',
            false => 'l',
        });
        let columns: String = columns.collect();
        writeln!(self.sink, "\\begin{{tabular}}{{{columns}}}\n\\hline")?;
        if self.headers {
            let names = self.schema.fields().iter();
            let names: Vec<String> = names.map(|field| escape(field.name())).collect();
            writeln!(self.sink, "{} \\\\\n\\hline", names.join(" & "))?;
        }
        Ok(())
    }
}

impl<W: Write + Send> ResultWriter for Latex<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.start()?;
        let cells = Cells::new(batch)?;
        for row in 0..cells.rows() {
            let values = cells.row(row).map(|value| {
                let value = value?.map(|value| escape(&value));
                Ok(value.unwrap_or_else(|| self.null.clone()))
            });
            let values = values.collect::<Result<Vec<_>, ArrowError>>()?;
            let row = values.join(" & ");
            // These would be arguments of the end of the line before.
            let start = if row.starts_with(['[', '*']) {
                "{}"
            } else {
                ""
            };
            writeln!(self.sink, "{start}{row} \\\\")?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ArrowError> {
        self.start()?;
        Ok(writeln!(self.sink, "\\hline\n\\end{{tabular}}")?)
    }
}

/// Text without a meaning of its own in LaTeX.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                escaped.push('\\');
                escaped.push(character);
            }
            '\\' => escaped.push_str("\\textbackslash{}"),
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '\n' => escaped.push(' '),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_no_commands() {
        assert_eq!(escape("a_b \\ 5%"), "a\\_b \\textbackslash{} 5\\%");
    }
}
