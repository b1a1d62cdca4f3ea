//! Converts results to types that all clients support.
//!
//! View, dictionary and run-end encoded types are internal representations of DataFusion. Not every
//! driver supports them (JDBC drivers lack views), and no SQL statement asks for them.

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{can_cast_types, cast};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use std::sync::Arc;

/// Returns the schema of a result as sent to clients. Every column is nullable: the presence of
/// nulls is unknown until the result is computed, and clients compare this schema with that of the
/// result.
pub fn result_schema(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter();
    let fields = fields.map(|field| plain_field(field).as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Returns the schema of a table with the types of results.
pub fn table_schema(schema: &Schema) -> Schema {
    let fields = schema.fields().iter().map(plain_field);
    Schema::new(fields.collect::<Vec<_>>())
}

/// Casts a batch to the types of another schema.
pub fn convert(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    if batch.num_columns() != schema.fields().len() {
        return Err(ArrowError::SchemaError(format!(
            "{} columns, expected {}",
            batch.num_columns(),
            schema.fields().len()
        )));
    }
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| {
        if column.data_type() == field.data_type() {
            Ok(Arc::clone(column))
        } else {
            cast(column, field.data_type())
        }
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>, ArrowError>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

/// Returns the type that clients receive for a type of DataFusion.
pub fn plain_type(data_type: &DataType) -> DataType {
    let plain = match data_type {
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::RunEndEncoded(_, values) => plain_type(values.data_type()),
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        // The encoder of `arrow-flight` announces lists for large lists.
        DataType::List(item)
        | DataType::ListView(item)
        | DataType::LargeList(item)
        | DataType::LargeListView(item) => DataType::List(plain_field(item)),
        DataType::FixedSizeList(item, length) => {
            DataType::FixedSizeList(plain_field(item), *length)
        }
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect()),
        DataType::Map(entries, sorted) => DataType::Map(plain_field(entries), *sorted),
        other => other.clone(),
    };
    if can_cast_types(data_type, &plain) {
        plain
    } else {
        data_type.clone()
    }
}

fn plain_field(field: &FieldRef) -> FieldRef {
    let plain = plain_type(field.data_type());
    if plain == *field.data_type() {
        return Arc::clone(field);
    }
    let same: Field = field.as_ref().clone();
    Arc::new(same.with_data_type(plain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{
        Array, AsArray, DictionaryArray, Int64Array, LargeListArray, ListArray, StringViewArray,
        StructArray,
    };
    use datafusion::arrow::datatypes::Int32Type;

    #[test]
    fn values_stay_the_same_in_plain_types() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![
            Some("a"),
            None,
            Some("long enough for a view"),
        ]));
        let codes: DictionaryArray<Int32Type> =
            vec![Some("x"), Some("y"), None].into_iter().collect();
        let nested = StructArray::from(vec![(
            Arc::new(Field::new("t", DataType::Utf8View, true)),
            Arc::clone(&texts),
        )]);
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let rows = [Some(vec![Some(1)]), None, Some(vec![])];
        let lists = LargeListArray::from_iter_primitive::<Int32Type, _, _>(rows.clone());
        let batch = RecordBatch::try_from_iter([
            ("text", texts),
            ("code", Arc::new(codes) as ArrayRef),
            ("nested", Arc::new(nested) as ArrayRef),
            ("number", Arc::clone(&numbers)),
            ("list", Arc::new(lists) as ArrayRef),
        ])
        .unwrap();
        let schema = result_schema(&batch.schema());
        assert_eq!(schema.field(0).data_type(), &DataType::Utf8);
        assert_eq!(schema.field(1).data_type(), &DataType::Utf8);
        let plain = convert(&batch, &schema).unwrap();
        let texts = plain.column(0).as_string::<i32>();
        assert_eq!(
            texts.iter().collect::<Vec<_>>(),
            [Some("a"), None, Some("long enough for a view")]
        );
        let codes = plain.column(1).as_string::<i32>();
        assert_eq!(
            codes.iter().collect::<Vec<_>>(),
            [Some("x"), Some("y"), None]
        );
        let nested = plain.column(2).as_struct().column(0);
        assert_eq!(nested.as_string::<i32>().value(2), "long enough for a view");
        assert!(plain.column(3).to_data().ptr_eq(&numbers.to_data()));
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(rows);
        assert_eq!(plain.column(4).as_list::<i32>(), &lists);
    }
}
