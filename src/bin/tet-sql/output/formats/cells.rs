//! Values as text.

use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::error::ArrowError;

/// How values are shown to people.
pub const READABLE: FormatOptions<'static> = FormatOptions::new().with_null("NULL");

/// The rows of a batch as text.
pub struct Cells<'a> {
    /// A column's nulls are those that its values say, which a dictionary or a column of nothing has, too.
    columns: Vec<(ArrayFormatter<'a>, Option<NullBuffer>)>,
    rows: usize,
}

impl<'a> Cells<'a> {
    /// The rows of a batch.
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

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The texts of a row; `None` is NULL.
    pub fn row(&self, row: usize) -> impl Iterator<Item = Result<Option<String>, ArrowError>> {
        self.columns.iter().map(move |(formatter, nulls)| {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                return Ok(None);
            }
            formatter.value(row).try_to_string().map(Some)
        })
    }
}
