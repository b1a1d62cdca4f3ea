//! Converts columns of types that a format does not support to text.

use crate::output::formats::cells::READABLE;
use arrow::util::display::ArrayFormatter;
use datafusion::arrow::array::{
    Array, ArrayRef, DictionaryArray, RecordBatch, StringBuilder, UInt32Array,
};
use datafusion::arrow::compute::{partition, take};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use std::slice;
use std::sync::Arc;

/// The minimum average length of runs whose values are formatted once.
const ROWS_PER_RUN: usize = 4;

/// Converts columns of types that a format does not support to text.
pub struct AsText {
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl AsText {
    /// Creates a converter for the columns of a schema whose fields are `unknown` to the format.
    pub fn new(schema: &Schema, unknown: impl Fn(&Field) -> bool) -> Self {
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

    /// Returns the schema after the conversion.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Converts a batch.
    pub fn convert(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let mut columns = batch.columns().to_vec();
        for &column in &self.columns {
            columns[column] = text_of(&columns[column])?;
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
    }
}

/// Returns the texts of a column of numbers or times whose values mostly equal those of the row above, as coordinates
/// along outer dimensions do. Formats each run of equal values once. Returns other columns as they are.
pub fn runs_as_text(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !column.data_type().is_primitive() {
        return Ok(Arc::clone(column));
    }
    let runs = partition(slice::from_ref(column))?;
    if runs.len() * ROWS_PER_RUN > column.len() {
        return Ok(Arc::clone(column));
    }
    let runs = runs.ranges();
    let starts = runs.iter().map(|run| run.start as u32);
    let starts = UInt32Array::from_iter_values(starts);
    let texts = text_of(&take(column, &starts, None)?)?;
    let keys = (0..).zip(&runs);
    let keys = keys.flat_map(|(key, run)| std::iter::repeat_n(key, run.len()));
    let keys = UInt32Array::from_iter_values(keys);
    Ok(Arc::new(DictionaryArray::try_new(keys, texts)?))
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
