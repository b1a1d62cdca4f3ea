//! Formats values as text.

use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::error::ArrowError;

/// The options for values that people read.
pub const READABLE: FormatOptions<'static> = FormatOptions::new().with_null("NULL");

/// The rows of a batch as text.
pub struct Cells<'a> {
    /// The formatter and the nulls of each column. Logical nulls include those of dictionary values
    /// and of columns of type `Null`, which have no null buffer of their own.
    columns: Vec<(ArrayFormatter<'a>, Option<NullBuffer>)>,
    rows: usize,
}

impl<'a> Cells<'a> {
    /// Creates the formatters for a batch.
    pub fn new(batch: &'a RecordBatch) -> Result<Self, ArrowError> {
        let columns = batch.columns().iter().map(|column| {
            let formatter = ArrayFormatter::try_new(column.as_ref(), &READABLE)?;
            Ok((formatter, column.logical_nulls()))
        });
        Ok(Self {
            columns: columns.collect::<Result<_, ArrowError>>()?,
            rows: batch.num_rows(),
        })
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the values of a row as text; `None` is null.
    pub fn row(&self, row: usize) -> impl Iterator<Item = Result<Option<String>, ArrowError>> {
        self.columns.iter().map(move |(formatter, nulls)| {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                return Ok(None);
            }
            formatter.value(row).try_to_string().map(Some)
        })
    }
}
