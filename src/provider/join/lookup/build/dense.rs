//! Build sides that are arrays with at most one cell per key index, in the order of the key indices.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, make_array,
};
use arrow::buffer::{BooleanBuffer, MutableBuffer, NullBuffer};
use arrow::datatypes::{Schema, SchemaRef, UInt32Type};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::provider::join::lookup::keys::NO_KEY;

/// Rows whose row number is their key index. Rows of key indices without a cell are not meaningful.
#[derive(Debug)]
pub(in crate::provider::join::lookup) struct DenseRows {
    schema: SchemaRef,
    count: usize,
    columns: Vec<DenseColumn>,
    /// For each key index, `true` if it has a cell.
    present: Vec<bool>,
}

#[derive(Debug)]
struct DenseColumn {
    /// The number of bytes of a value.
    width: usize,
    values: MutableBuffer,
    /// For each key index, `true` if the value is not null; `None` as long as no value is null.
    valid: Option<Vec<bool>>,
}

impl DenseRows {
    /// Creates the rows of `count` key indices. `schema` has the columns before the key index. Returns
    /// `None` if a column has values without a fixed number of bytes.
    ///
    /// # Errors
    /// Returns an error if the memory pool has no space.
    pub fn try_new(
        schema: &Schema,
        count: usize,
        memory: &MemoryReservation,
    ) -> Result<Option<Self>> {
        let widths = schema.fields().iter();
        let widths = widths.map(|field| field.data_type().primitive_width());
        let Some(widths) = widths.collect::<Option<Vec<usize>>>() else {
            return Ok(None);
        };
        let per_row = widths.iter().map(|width| width + 1).sum::<usize>() + 1;
        memory.try_grow(per_row.saturating_mul(count))?;
        let columns = widths.into_iter().map(|width| DenseColumn {
            width,
            values: MutableBuffer::from_len_zeroed(width * count),
            valid: None,
        });
        Ok(Some(Self {
            columns: columns.collect(),
            schema: Arc::new(schema.clone()),
            present: vec![false; count],
            count,
        }))
    }

    /// Adds rows, whose last column is the key index.
    pub fn add(&mut self, batch: &RecordBatch) {
        let Some((keys, columns)) = batch.columns().split_last() else {
            return;
        };
        let keys = keys.as_primitive::<UInt32Type>().values();
        let mut start = 0;
        while start < keys.len() {
            // The key indices of neighbouring cells are often consecutive.
            let first = keys[start];
            if first == NO_KEY {
                start += 1;
                continue;
            }
            let run = keys[start..].iter().zip(first..NO_KEY);
            let length = run.take_while(|(key, expected)| *key == expected).count();
            let first = first as usize;
            self.present[first..first + length].fill(true);
            for (column, values) in self.columns.iter_mut().zip(columns) {
                column.copy(values, start, first, length, self.count);
            }
            start += length;
        }
    }

    /// Returns the rows, and one bit per key index, which is set if it has a cell.
    pub fn finish(self) -> Result<(RecordBatch, BooleanBuffer)> {
        let count = self.count;
        let fields = self.schema.fields().iter();
        let columns = self.columns.into_iter().zip(fields).map(|(column, field)| {
            let valid = column.valid.map(BooleanBuffer::from);
            let data = ArrayData::builder(field.data_type().clone())
                .len(count)
                .add_buffer(column.values.into())
                .nulls(valid.map(NullBuffer::new));
            Ok(make_array(data.build()?))
        });
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        let fields = self.schema.fields().iter();
        let fields = fields.map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let rows = RecordBatch::try_new_with_options(schema, columns, &options)?;
        Ok((rows, BooleanBuffer::from(self.present)))
    }
}

impl DenseColumn {
    /// Copies `length` values of an array from the index `from` to the index `to`. `count` is the
    /// number of values of the column.
    fn copy(&mut self, array: &ArrayRef, from: usize, to: usize, length: usize, count: usize) {
        let data = array.to_data();
        let bytes =
            &data.buffers()[0][(data.offset() + from) * self.width..][..length * self.width];
        self.values.as_slice_mut()[to * self.width..][..bytes.len()].copy_from_slice(bytes);
        if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
            let valid = self.valid.get_or_insert_with(|| vec![true; count]);
            for offset in 0..length {
                valid[to + offset] = nulls.is_valid(from + offset);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float32Array, Int64Array, UInt32Array};
    use arrow::datatypes::{DataType, Field};
    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};

    use super::*;

    #[test]
    fn rows_in_the_order_of_key_indices() {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let memory = MemoryConsumer::new("test").register(&pool);
        let field = |name, data_type| Field::new(name, data_type, true);
        let mut fields = vec![field("f", DataType::Float32), field("i", DataType::Int64)];
        let schema = Schema::new(fields.clone());
        let mut dense = DenseRows::try_new(&schema, 6, &memory).unwrap().unwrap();
        fields.push(field("key_index", DataType::UInt32));
        let batch = |keys: Vec<u32>, floats: Vec<Option<f32>>| {
            let numbers = Int64Array::from_iter_values(keys.iter().map(|key| i64::from(*key)));
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Float32Array::from(floats)),
                Arc::new(numbers),
                Arc::new(UInt32Array::from(keys)),
            ];
            RecordBatch::try_new(Arc::new(Schema::new(fields.clone())), columns).unwrap()
        };
        dense.add(&batch(vec![3, 4, 1], vec![Some(3.0), None, Some(1.0)]));
        dense.add(&batch(vec![9, 5], vec![Some(0.0), Some(5.0)]).slice(1, 1));
        dense.add(&batch(vec![NO_KEY, NO_KEY], vec![Some(7.0), None]));
        let (rows, present) = dense.finish().unwrap();
        let present: Vec<bool> = present.iter().collect();
        assert_eq!(present, [false, true, false, true, true, true]);
        let floats = rows
            .column(0)
            .as_primitive::<arrow::datatypes::Float32Type>();
        let numbers = rows.column(1).as_primitive::<arrow::datatypes::Int64Type>();
        for key in [1, 3, 5] {
            assert_eq!(
                (floats.value(key), numbers.value(key)),
                (key as f32, key as i64)
            );
        }
        assert!(floats.is_null(4) && numbers.value(4) == 4);

        let texts = Schema::new(vec![Field::new("t", DataType::Utf8, true)]);
        assert!(DenseRows::try_new(&texts, 6, &memory).unwrap().is_none());
    }
}
