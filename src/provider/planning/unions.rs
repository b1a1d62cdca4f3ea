//! Arrays whose type is or contains a union, such as geometries.

use arrow::array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow::compute::{interleave, take};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

/// Takes rows of a column by row number. A null row number gives null, also for unions.
pub(in crate::provider) fn take_or_null(
    column: &ArrayRef,
    rows: &UInt32Array,
) -> Result<ArrayRef, ArrowError> {
    if rows.null_count() == 0 || !ignores_null_indices(column.data_type()) {
        return take(column, rows, None);
    }
    let null = new_null_array(column.data_type(), 1);
    let indices = rows.iter().map(|row| match row {
        Some(row) => (0, row as usize),
        None => (1, 0),
    });
    interleave(&[column, &null], &indices.collect::<Vec<_>>())
}

/// Returns `true` if `take` ignores null indices for this type.
pub(in crate::provider) fn ignores_null_indices(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) | DataType::RunEndEncoded(..) => true,
        DataType::Struct(fields) => {
            let mut fields = fields.iter();
            fields.any(|field| ignores_null_indices(field.data_type()))
        }
        DataType::FixedSizeList(item, _) => ignores_null_indices(item.data_type()),
        _ => false,
    }
}

/// Returns `true` if values of this type are or contain unions.
#[cfg(feature = "sql")]
pub(in crate::provider) fn contains_union(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) => true,
        DataType::Struct(fields) => {
            let mut fields = fields.iter();
            fields.any(|field| contains_union(field.data_type()))
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _)
        | DataType::RunEndEncoded(_, item) => contains_union(item.data_type()),
        DataType::Dictionary(_, values) => contains_union(values),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, Float64Array, Int32Array, StructArray, UnionArray};
    use arrow::buffer::NullBuffer;
    use arrow::datatypes::{Field, UnionFields};

    use super::*;

    #[test]
    fn unions_are_null_at_null_indices() {
        let fields = [("a", DataType::Int32), ("b", DataType::Float64)];
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
        let union = UnionArray::try_new(
            UnionFields::try_new([3, 6], fields).unwrap(),
            vec![6, 3, 6].into(),
            Some(vec![0, 0, 1].into()),
            vec![
                Arc::new(Int32Array::from(vec![7])),
                Arc::new(Float64Array::from(vec![1.5, 2.5])),
            ],
        );
        let union: ArrayRef = Arc::new(union.unwrap());
        let field = Field::new("union", union.data_type().clone(), true);
        let column: ArrayRef = Arc::new(StructArray::from(vec![(Arc::new(field), union)]));
        // The number of a null row means nothing.
        let nulls = NullBuffer::from(vec![true, false, true, true]);
        let rows = UInt32Array::new(vec![2, u32::MAX, 1, 0].into(), Some(nulls));
        let found = take_or_null(&column, &rows).unwrap();
        assert!(found.is_null(1));
        let found = found.as_struct().column(0).as_union();
        let float = |row| {
            found
                .value(row)
                .as_primitive::<arrow::datatypes::Float64Type>()
                .value(0)
        };
        assert_eq!((float(0), float(3)), (2.5, 1.5));
        assert!(found.value(1).is_null(0));
        assert_eq!(
            found
                .value(2)
                .as_primitive::<arrow::datatypes::Int32Type>()
                .value(0),
            7
        );
    }
}
