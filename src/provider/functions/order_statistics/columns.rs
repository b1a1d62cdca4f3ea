//! The columns that accumulators read, and those of their partial states.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, ListArray, PrimitiveArray};
use arrow::buffer::{BooleanBuffer, OffsetBuffer};
use arrow::compute::prep_null_mask_filter;
use arrow::datatypes::{ArrowPrimitiveType, Field};

/// Returns lists of values. `lengths` are their lengths.
pub(super) fn lists<T: ArrowPrimitiveType>(
    values: Vec<T::Native>,
    lengths: impl IntoIterator<Item = usize>,
) -> ArrayRef {
    let offsets = OffsetBuffer::from_lengths(lengths);
    let item = Arc::new(Field::new_list_field(T::DATA_TYPE, true));
    let values = PrimitiveArray::<T>::new(values.into(), None);
    Arc::new(ListArray::new(item, offsets, Arc::new(values), None))
}

/// Returns the rows that are wanted and have a value; `None` if all do.
pub(super) fn kept_rows<T: ArrowPrimitiveType>(
    column: &PrimitiveArray<T>,
    wanted: Option<&BooleanArray>,
) -> Option<BooleanBuffer> {
    let wanted = wanted.map(|wanted| match wanted.null_count() {
        0 => wanted.values().clone(),
        _ => prep_null_mask_filter(wanted).values().clone(),
    });
    let valid = column.nulls().map(|nulls| nulls.inner().clone());
    match (wanted, valid) {
        (Some(wanted), Some(valid)) => Some(&wanted & &valid),
        (wanted, valid) => wanted.or(valid),
    }
}
