//! Encodes rows for the network.
//!
//! Most bytes of an array's rows are coordinates, which repeat. A primitive column of 4 or 8 bytes without nulls
//! is sent as runs of equal values (of at least 8 rows on average), as a dictionary (of at most 2048 distinct
//! values), or unchanged. Other columns are sent unchanged. A batch becomes one row, with a list of values and the
//! layout of each column:
//!
//! ```text
//! a batch of 4096 rows          values             layout
//! time   0, 0, 0, ...           [0]                0, then 4096: the length of each run
//! lat    50, 40, 50, 40, ...    [50, 40]           1, then 0, 1, 0, 1, ...: the code of each row
//! value  1.5, 2.5, 3.25, ...    [1.5, 2.5, ...]    empty
//! ```
//!
//! The first byte of a layout is 0 before the lengths of runs, which have 16 bits, and otherwise the number of
//! bytes of a code. Numbers are little-endian.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BinaryArray, ListArray, RecordBatch, make_array,
};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::{Result, exec_err, internal_err};

/// The first byte of the lengths of runs.
const RUNS: u8 = 0;
/// The minimum number of rows in a run on average.
const MIN_ROWS_PER_RUN: usize = 8;
/// The maximum number of entries of a dictionary.
const MAX_DISTINCT: usize = 1 << 11;
/// The number of slots of the table that finds entries of a dictionary.
const SLOTS: usize = 2 * MAX_DISTINCT;

/// The key in the metadata of a schema that marks encoded batches.
const MARK: &str = "tet-sql:encoded";

/// Returns the schema of encoded batches, given that of the rows. Returns `None` if there are no columns, or if one
/// is nested or a dictionary: such rows are sent unchanged.
pub(super) fn encoded_schema(schema: &Schema) -> Option<SchemaRef> {
    let fields = schema.fields();
    if fields.is_empty() || !fields.iter().all(|field| is_flat(field.data_type())) {
        return None;
    }
    let fields = fields.iter().flat_map(|field| {
        let values = DataType::List(Arc::clone(field));
        let values = Field::new(field.name(), values, false);
        [values, Field::new("layout", DataType::Binary, false)]
    });
    let mut metadata = schema.metadata().clone();
    metadata.insert(MARK.to_string(), String::new());
    let fields: Vec<Field> = fields.collect();
    Some(Arc::new(Schema::new_with_metadata(fields, metadata)))
}

/// Returns `true` for primitive, boolean, text and binary types.
fn is_flat(data_type: &DataType) -> bool {
    use DataType::*;
    let is_text = matches!(data_type, Utf8 | LargeUtf8 | Utf8View);
    let is_binary = matches!(data_type, Binary | LargeBinary | BinaryView);
    data_type.is_primitive() || *data_type == Boolean || is_text || is_binary
}

/// Encodes a batch as one row of this schema.
pub(super) fn encode(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    for (field, column) in schema.fields().iter().step_by(2).zip(batch.columns()) {
        let DataType::List(field) = field.data_type() else {
            return internal_err!("values of type {} are not encoded", field.data_type());
        };
        let encoded = encode_column(column);
        let (values, layout) = encoded.unwrap_or_else(|| (compacted(column), Vec::new()));
        let all = OffsetBuffer::from_lengths([values.len()]);
        let values = ListArray::try_new(Arc::clone(field), all, values, None)?;
        columns.push(Arc::new(values));
        columns.push(Arc::new(BinaryArray::from_iter_values([layout])));
    }
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// Returns a column whose views refer to no bytes of other rows.
fn compacted(column: &ArrayRef) -> ArrayRef {
    if let Some(views) = column.as_string_view_opt() {
        return Arc::new(views.gc());
    }
    match column.as_binary_view_opt() {
        Some(views) => Arc::new(views.gc()),
        None => Arc::clone(column),
    }
}

/// Returns the rows of an encoded batch. Other batches are returned as they are.
pub(super) fn decode(batch: RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    if !schema.metadata().contains_key(MARK) {
        return Ok(batch);
    }
    let mut fields: Vec<FieldRef> = Vec::with_capacity(schema.fields().len() / 2);
    let mut columns = Vec::with_capacity(fields.capacity());
    for pair in batch.columns().chunks(2) {
        let lists = pair.first().and_then(|lists| lists.as_list_opt::<i32>());
        let layouts = pair
            .get(1)
            .and_then(|layouts| layouts.as_binary_opt::<i32>());
        let (Some(lists), Some(layouts), 1) = (lists, layouts, batch.num_rows()) else {
            return exec_err!(
                "an encoded batch has {} rows with the schema {schema:?}, expected one row of lists and layouts",
                batch.num_rows()
            );
        };
        let DataType::List(field) = lists.data_type() else {
            return internal_err!("a list has the type {}", lists.data_type());
        };
        fields.push(Arc::clone(field));
        let values = lists.value(0);
        columns.push(match layouts.value(0).split_first() {
            None => values,
            Some((kind, layout)) => decode_column(field, &values, *kind, layout)?,
        });
    }
    let mut metadata = schema.metadata().clone();
    metadata.remove(MARK);
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
    Ok(RecordBatch::try_new(schema, columns)?)
}

/// A value of a column, by its bits.
trait Bits: ArrowNativeType + Eq {
    /// Returns the first slot in which a value is looked for.
    fn slot(self) -> usize {
        // 2^64 divided by the golden ratio: the upper bits of the product depend on all bits.
        let mixed = (self.as_usize() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> (64 - SLOTS.ilog2())) as usize
    }
}

impl Bits for u32 {}
impl Bits for u64 {}

/// Returns the runs or distinct values of a column, and its layout; `None` if it is sent unchanged.
fn encode_column(column: &ArrayRef) -> Option<(ArrayRef, Vec<u8>)> {
    fn of_width<T: Bits>(column: &ArrayRef) -> Option<(ArrayRef, Vec<u8>)> {
        let values = native::<T>(column);
        let (values, layout) = runs(&values).or_else(|| dictionary(&values))?;
        Some((array_of(column.data_type(), values).ok()?, layout))
    }
    if column.null_count() > 0 {
        return None;
    }
    match column.data_type().primitive_width()? {
        4 => of_width::<u32>(column),
        8 => of_width::<u64>(column),
        _ => None,
    }
}

/// Returns the value of each run, and the layout with their lengths; `None` if there are many.
fn runs<T: Bits>(values: &[T]) -> Option<(Vec<T>, Vec<u8>)> {
    let pairs = values.iter().zip(values.get(1..)?);
    let count = 1 + pairs.filter(|(one, next)| one != next).count();
    if count * MIN_ROWS_PER_RUN > values.len() {
        return None;
    }
    let (mut firsts, mut layout) = (Vec::with_capacity(count), vec![RUNS]);
    let runs = values.chunk_by(|one, next| one == next);
    for run in runs.flat_map(|run| run.chunks(usize::from(u16::MAX))) {
        firsts.push(run[0]);
        layout.extend((run.len() as u16).to_le_bytes());
    }
    Some((firsts, layout))
}

/// Returns the distinct values, and the layout with the code of each row; `None` if there are many.
fn dictionary<T: Bits>(values: &[T]) -> Option<(Vec<T>, Vec<u8>)> {
    let most = MAX_DISTINCT.min(values.len() / 4);
    let (mut distinct, mut codes) = (Vec::new(), Vec::with_capacity(values.len()));
    // A slot holds the number of distinct values when its value was found first, or 0.
    let mut slots = vec![0; SLOTS];
    for value in values {
        let mut slot = value.slot();
        let number = loop {
            match slots[slot] {
                0 if distinct.len() == most => return None,
                0 => {
                    distinct.push(*value);
                    slots[slot] = distinct.len() as u16;
                    break slots[slot];
                }
                number if distinct[usize::from(number) - 1] == *value => break number,
                _ => slot = (slot + 1) % SLOTS,
            }
        };
        codes.push(number - 1);
    }
    let codes = codes.into_iter();
    let layout = match distinct.len() <= 1 << u8::BITS {
        true => std::iter::once(1)
            .chain(codes.map(|code| code as u8))
            .collect(),
        false => std::iter::once(2)
            .chain(codes.flat_map(u16::to_le_bytes))
            .collect(),
    };
    Some((distinct, layout))
}

/// Returns the column of the rows. `kind` is the first byte of its layout.
fn decode_column(field: &Field, values: &ArrayRef, kind: u8, layout: &[u8]) -> Result<ArrayRef> {
    fn of_width<T: Bits>(
        name: &str,
        values: &ArrayRef,
        kind: u8,
        layout: &[u8],
    ) -> Result<ArrayRef> {
        let pairs = layout.chunks_exact(2);
        let wide = pairs.map(|pair| usize::from(u16::from_le_bytes([pair[0], pair[1]])));
        let distinct = native::<T>(values);
        let rows = match kind {
            RUNS => Some(repeated(&distinct, wide)),
            1 => taken(&distinct, layout.iter().map(|code| usize::from(*code))),
            _ => taken(&distinct, wide),
        };
        match rows {
            Some(rows) => array_of(values.data_type(), rows),
            None => exec_err!(
                "the encoded column {name} has a code of {} or more, its number of values",
                distinct.len()
            ),
        }
    }
    match values.data_type().primitive_width() {
        Some(4) => of_width::<u32>(field.name(), values, kind, layout),
        Some(8) => of_width::<u64>(field.name(), values, kind, layout),
        _ => exec_err!(
            "the encoded column {} has a layout, but the type {}",
            field.name(),
            values.data_type()
        ),
    }
}

/// Returns each value as often as its length says.
fn repeated<T: Bits>(values: &[T], lengths: impl Iterator<Item = usize> + Clone) -> Vec<T> {
    let mut rows = Vec::with_capacity(lengths.clone().sum());
    for (value, length) in values.iter().zip(lengths) {
        rows.resize(rows.len() + length, *value);
    }
    rows
}

/// Returns the values with these numbers; `None` if there is no such value.
fn taken<T: Bits>(values: &[T], numbers: impl Iterator<Item = usize> + Clone) -> Option<Vec<T>> {
    match numbers.clone().max() {
        Some(last) if last >= values.len() => None,
        _ => Some(numbers.map(|number| values[number]).collect()),
    }
}

/// Returns the values of a column without nulls whose type has this width.
fn native<T: Bits>(column: &ArrayRef) -> ScalarBuffer<T> {
    let data = column.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

fn array_of<T: Bits>(data_type: &DataType, values: Vec<T>) -> Result<ArrayRef> {
    let data = ArrayData::builder(data_type.clone()).len(values.len());
    let data = data.add_buffer(Buffer::from_vec(values)).build()?;
    Ok(make_array(data))
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        BooleanArray, DictionaryArray, Float32Array, Float64Array, Int64Array, StringArray,
        StringViewArray, TimestampSecondArray,
    };

    use arrow::datatypes::Int32Type;

    use super::*;

    /// Encodes and decodes a batch. Returns the bytes sent for each column.
    fn round_trip(columns: Vec<ArrayRef>) -> Vec<usize> {
        let named = columns.iter().map(|column| ("c", Arc::clone(column)));
        let batch = RecordBatch::try_from_iter(named).unwrap();
        let schema = encoded_schema(&batch.schema()).unwrap();
        let sent = encode(&batch, &schema).unwrap();
        assert_eq!(sent.num_rows(), 1);
        assert_eq!(decode(sent.clone()).unwrap(), batch);
        let pairs = sent.columns().chunks(2);
        let sizes = pairs.map(|pair| {
            let values = pair[0].as_list::<i32>().value(0);
            values.get_buffer_memory_size() + pair[1].as_binary::<i32>().value(0).len()
        });
        sizes.collect()
    }

    #[test]
    fn repeating_columns_become_small() {
        let rows = 0..8192_i64;
        let sizes = round_trip(vec![
            Arc::new(TimestampSecondArray::from_iter_values(
                rows.clone().map(|row| row / 4096 * 3600),
            )),
            Arc::new(Float64Array::from_iter_values(
                rows.clone().map(|row| (row % 256) as f64 * 0.25),
            )),
            Arc::new(Float32Array::from_iter_values(
                rows.clone().map(|row| (row % 2000) as f32),
            )),
            Arc::new(Int64Array::from_iter_values(rows)),
        ]);
        assert_eq!(sizes[0], 2 * 8 + 1 + 2 * 2);
        assert!(sizes[1] < 256 * 8 + 8192 + 100, "{sizes:?}");
        assert!((8192 * 2..8192 * 4).contains(&sizes[2]), "{sizes:?}");
        assert_eq!(sizes[3], 8192 * 8);
    }

    #[test]
    fn batches_are_decoded_as_they_were() {
        let long = vec![7_i64; 200_000];
        round_trip(vec![Arc::new(Int64Array::from(long))]);
        for rows in [0, 1, 2, 31, 100] {
            let texts = (0..rows).map(|row| format!("row {row}"));
            let numbers = Float64Array::from_iter_values((0..rows).map(|row| (row % 3) as f64));
            let some = (0..rows).map(|row| (row % 2 == 0).then_some(1_i64));
            round_trip(vec![
                Arc::new(numbers.slice(rows as usize / 2, 0)),
                Arc::new(Float64Array::from(Vec::<f64>::new())),
            ]);
            round_trip(vec![
                Arc::new(numbers),
                Arc::new(StringArray::from_iter_values(texts)),
                Arc::new(some.collect::<Int64Array>()),
                Arc::new(BooleanArray::from_iter((0..rows).map(|row| Some(row > 5)))),
            ]);
        }
        let zeros = Float64Array::from_iter_values((0..64).map(|row| [0.0, -0.0][row % 2]));
        let sent = Arc::new(zeros.slice(3, 40)) as ArrayRef;
        round_trip(vec![sent]);
    }

    #[test]
    fn codes_beyond_the_values_are_an_error() {
        let numbers = Arc::new(Int64Array::from(vec![5])) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("c", numbers)]).unwrap();
        let schema = encoded_schema(&batch.schema()).unwrap();
        let sent = |layout: Vec<u8>| {
            let mut columns = encode(&batch, &schema).unwrap().columns().to_vec();
            columns[1] = Arc::new(BinaryArray::from_iter_values([layout]));
            RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
        };
        assert_eq!(decode(sent(vec![1, 0, 0])).unwrap().num_rows(), 2);
        for layout in [vec![1, 0, 1], vec![2, 0, 1]] {
            let error = decode(sent(layout)).unwrap_err();
            assert!(
                error
                    .to_string()
                    .contains("column c has a code of 1 or more")
            );
        }
    }

    #[test]
    fn views_are_sent_without_other_rows() {
        let texts = (0..1000).map(|row| format!("a text of more than twelve bytes, {row}"));
        let texts = StringViewArray::from_iter_values(texts);
        let sizes = round_trip(vec![Arc::new(texts.slice(500, 2))]);
        assert!(sizes[0] < 200, "{sizes:?}");
    }

    #[test]
    fn dictionaries_are_sent_as_they_are() {
        let texts: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
        let batch = RecordBatch::try_from_iter([("c", Arc::new(texts) as ArrayRef)]).unwrap();
        assert_eq!(encoded_schema(&batch.schema()), None);
        assert_eq!(decode(batch.clone()).unwrap(), batch);
    }
}
