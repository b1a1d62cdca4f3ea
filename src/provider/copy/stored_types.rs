//! Types that Parquet does not have, which `COPY` casts to types with the same values.
//!
//! DataFusion would write them as plain integers, so that other readers would not see times.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Field, FieldRef, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit,
};
use datafusion::common::{Result, plan_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

/// Fails for columns of types that neither Parquet has nor [`stored_schema`] replaces.
pub(super) fn check_storable(schema: &Schema) -> Result<()> {
    let mut fields = schema.fields().iter();
    match fields.find(|field| has_intervals(field.data_type())) {
        Some(field) => plan_err!(
            "column {:?} is of type INTERVAL, which cannot be written to Parquet; cast it, for example to VARCHAR",
            field.name()
        ),
        None => Ok(()),
    }
}

fn has_intervals(data_type: &DataType) -> bool {
    match data_type {
        DataType::Interval(unit) => *unit == IntervalUnit::MonthDayNano,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => has_intervals(item.data_type()),
        DataType::Struct(fields) => {
            let mut types = fields.iter().map(|field| field.data_type());
            types.any(has_intervals)
        }
        DataType::Dictionary(_, value) => has_intervals(value),
        _ => false,
    }
}

/// Returns the schema in which Parquet stores rows.
pub(super) fn stored_schema(schema: &SchemaRef) -> SchemaRef {
    let fields = stored_fields(schema.fields());
    match &fields == schema.fields() {
        true => Arc::clone(schema),
        false => Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())),
    }
}

/// Casts rows to their [`stored_schema`]. The stream fails if a time is out of range.
pub(super) fn cast_rows(rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = stored_schema(&rows.schema());
    if schema == rows.schema() {
        return rows;
    }
    let stored = Arc::clone(&schema);
    let batches = rows.map(move |batch| cast_batch(&batch?, &stored));
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}

fn cast_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns
        .map(|(column, field)| cast_with_options(column, field.data_type(), &options))
        .collect::<Result<Vec<_>, _>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = Arc::clone(schema);
    Ok(RecordBatch::try_new_with_options(schema, columns, &rows)?)
}

fn stored_fields(fields: &Fields) -> Fields {
    fields.iter().map(stored_field).collect()
}

fn stored_field(field: &FieldRef) -> FieldRef {
    let data_type = stored_type(field.data_type());
    match &data_type == field.data_type() {
        true => Arc::clone(field),
        false => Arc::new(Field::clone(field).with_data_type(data_type)),
    }
}

fn stored_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        // Not Date32, because the milliseconds of a Date64 need not be whole days.
        DataType::Date64 => DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::List(item) => DataType::List(stored_field(item)),
        DataType::LargeList(item) => DataType::LargeList(stored_field(item)),
        DataType::FixedSizeList(item, length) => {
            DataType::FixedSizeList(stored_field(item), *length)
        }
        DataType::Struct(fields) => DataType::Struct(stored_fields(fields)),
        DataType::Map(entries, is_sorted) => DataType::Map(stored_field(entries), *is_sorted),
        DataType::Dictionary(key, value) => {
            DataType::Dictionary(key.clone(), Box::new(stored_type(value)))
        }
        _ => data_type.clone(),
    }
}
