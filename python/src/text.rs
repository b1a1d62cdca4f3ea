//! Results as text and as charts.

use std::path::Path;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow::util::pretty::pretty_format_batches_with_schema;
use std::sync::Arc;
use tet_sql_plot::{Characters, Chart, ChartKind, Colours};

/// Returns at most `count` rows from the start.
fn first(batches: &[RecordBatch], count: usize) -> Vec<RecordBatch> {
    let mut rest = count;
    let taken = batches.iter().map_while(|batch| {
        let rows = batch.num_rows().min(rest);
        rest -= rows;
        (rows > 0 || batch.num_rows() == 0).then(|| batch.slice(0, rows))
    });
    taken.collect()
}

/// Returns the first rows as a table.
pub fn table(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    count: usize,
) -> Result<String, ArrowError> {
    let rows = first(batches, count);
    Ok(pretty_format_batches_with_schema(Arc::clone(schema), &rows)?.to_string())
}

/// Returns the first rows, with each value as text.
pub fn rows(batches: &[RecordBatch], count: usize) -> Result<Vec<Vec<Option<String>>>, ArrowError> {
    let options = FormatOptions::default();
    let mut rows = Vec::new();
    for batch in first(batches, count) {
        let columns = batch.columns().iter();
        let formatters = columns.map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
        let formatters = formatters.collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().zip(&formatters);
            let values = values.map(|(column, formatter)| match column.is_null(row) {
                true => Ok(None),
                false => formatter.value(row).try_to_string().map(Some),
            });
            rows.push(values.collect::<Result<_, _>>()?);
        }
    }
    Ok(rows)
}

/// Draws a chart as text, or writes it to a file and returns an empty text.
///
/// # Errors
/// Returns the reason why the rows cannot be drawn.
pub fn chart(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    kind: Option<&str>,
    path: Option<&Path>,
    size: (usize, usize),
) -> Result<String, String> {
    let kind = match kind {
        None => None,
        Some(name) => Some(ChartKind::of_name(name).ok_or_else(|| {
            let names = ChartKind::NAMES.map(|(name, _)| name).join(", ");
            format!("there is no chart of kind {name:?}, expected one of {names}")
        })?),
    };
    let chart = Chart::of(kind, schema, batches)?;
    match path {
        Some(path) => {
            chart.write(path)?;
            Ok(String::new())
        }
        None => Ok(chart.draw(size, Colours::None, Characters::Braille)),
    }
}
