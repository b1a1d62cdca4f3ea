//! Writes results as tables in a markup language.

use crate::output::formats::cells::Cells;
use crate::output::formats::{ResultWriter, Style};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Fields, SchemaRef};
use datafusion::arrow::error::ArrowError;
use std::io::{self, Write};
use std::marker::PhantomData;

/// A markup language with tables. The names and values of `begin` and `row` are already escaped.
pub trait Markup: Send {
    /// The default text for null.
    const NULL: &'static str;

    /// Escapes characters that have a meaning in the language.
    fn escape(text: &str) -> String;

    /// Begins a table. `names` are the column names; `None` means no header.
    fn begin(sink: &mut impl Write, fields: &Fields, names: Option<&[String]>) -> io::Result<()>;

    /// Writes a row.
    fn row(sink: &mut impl Write, fields: &Fields, values: &[String]) -> io::Result<()>;

    /// Ends a table.
    fn end(sink: &mut impl Write) -> io::Result<()>;
}

/// Writes rows as they arrive, without aligning them: the program that renders the document does
/// so.
pub struct MarkupTable<M, W> {
    schema: SchemaRef,
    null: String,
    headers: bool,
    sink: W,
    started: bool,
    markup: PhantomData<M>,
}

impl<M: Markup, W: Write> MarkupTable<M, W> {
    /// Creates a writer for rows of a schema.
    pub fn new(style: &Style, schema: SchemaRef, sink: W) -> Self {
        Self {
            schema,
            null: M::escape(style.null.as_deref().unwrap_or(M::NULL)),
            headers: style.headers,
            sink,
            started: false,
            markup: PhantomData,
        }
    }

    fn start(&mut self) -> io::Result<()> {
        if self.started {
            return Ok(());
        }
        self.started = true;
        let fields = self.schema.fields();
        let names: Vec<String> = fields.iter().map(|field| M::escape(field.name())).collect();
        M::begin(
            &mut self.sink,
            fields,
            self.headers.then_some(names.as_slice()),
        )
    }
}

impl<M: Markup, W: Write + Send> ResultWriter for MarkupTable<M, W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.start()?;
        let cells = Cells::new(batch)?;
        for row in 0..cells.rows() {
            let values = cells.row(row).map(|value| {
                let value = value?.map(|value| M::escape(&value));
                Ok(value.unwrap_or_else(|| self.null.clone()))
            });
            let values = values.collect::<Result<Vec<String>, ArrowError>>()?;
            M::row(&mut self.sink, self.schema.fields(), &values)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ArrowError> {
        self.start()?;
        Ok(M::end(&mut self.sink)?)
    }
}
