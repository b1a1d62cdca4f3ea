//! Encodes rows for the network.
//!
//! Most bytes of an array's rows are coordinates: long runs of equal values, or few distinct values. Each
//! column of a batch is sent as its runs, as a dictionary of its distinct values and the code of each row, or
//! as it is. A batch becomes one row, with a list of values and bytes for each column:
//!
//! ```text
//! time  lat  value            time    codes     lat       codes     value              codes
//! 0     50   1.5              [0]     0, 4      [50, 40]  1, 0101   [1.5, 2.5, 3, 4]   (none)
//! 0     40   2.5                      4 times             1 byte
//! 0     50   3                        the same            a row
//! 0     40   4
//! ```
//!
//! The first byte of `codes` is 0 before the lengths of runs, which have 16 bits, and otherwise the number of
//! bytes of a row's code. Numbers are little-endian.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BinaryArray, ListArray, RecordBatch, make_array,
};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::{Result, internal_err};

/// The first byte of the lengths of runs.
const RUNS: u8 = 0;
/// The minimum number of rows in a run on average.
const ROWS_OF_RUN: usize = 8;
/// The maximum number of entries of a dictionary.
const MOST_DISTINCT: usize = 1 << 11;
/// The number of slots of the table that finds entries of a dictionary.
const SLOTS: usize = 2 * MOST_DISTINCT;

/// The metadata of the schema of encoded rows.
const MARK: &str = "tet-sql:packed";

/// Returns the schema of encoded rows, given that of the rows; `None` if these are sent as they are.
pub(super) fn packed_schema(schema: &Schema) -> Option<SchemaRef> {
    let fields = schema.fields();
    if fields.is_empty() || !fields.iter().all(|field| is_flat(field.data_type())) {
        return None;
    }
    let fields = fields.iter().flat_map(|field| {
        let values = DataType::List(Arc::clone(field));
        let values = Field::new(field.name(), values, false);
        [values, Field::new("codes", DataType::Binary, false)]
    });
    let mut metadata = schema.metadata().clone();
    metadata.insert(MARK.to_string(), String::new());
    let fields: Vec<Field> = fields.collect();
    Some(Arc::new(Schema::new_with_metadata(fields, metadata)))
}

/// Returns `true` for types whose arrays consist of values and offsets, and for views, whose buffers are made
/// anew. Dictionaries and nested types are left to datafusion-distributed.
fn is_flat(data_type: &DataType) -> bool {
    use DataType::*;
    let is_text = matches!(data_type, Utf8 | LargeUtf8 | Utf8View);
    let is_binary = matches!(data_type, Binary | LargeBinary | BinaryView);
    data_type.is_primitive() || *data_type == Boolean || is_text || is_binary
}

/// Encodes a batch as one row of this schema.
pub(super) fn pack(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    for (field, column) in schema.fields().iter().step_by(2).zip(batch.columns()) {
        let DataType::List(field) = field.data_type() else {
            return internal_err!("values of type {} are not encoded", field.data_type());
        };
        let packed = packed(column);
        let (values, codes) = packed.unwrap_or_else(|| (own_rows(column), Vec::new()));
        let all = OffsetBuffer::from_lengths([values.len()]);
        let values = ListArray::try_new(Arc::clone(field), all, values, None)?;
        columns.push(Arc::new(values));
        columns.push(Arc::new(BinaryArray::from_iter_values([codes])));
    }
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// Returns a column whose buffers hold no other rows. Views may share theirs with rows that were left out.
fn own_rows(column: &ArrayRef) -> ArrayRef {
    if let Some(views) = column.as_string_view_opt() {
        return Arc::new(views.gc());
    }
    match column.as_binary_view_opt() {
        Some(views) => Arc::new(views.gc()),
        None => Arc::clone(column),
    }
}

/// Returns the rows of an encoded batch. Other batches are returned as they are.
pub(super) fn unpack(batch: RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    if !schema.metadata().contains_key(MARK) {
        return Ok(batch);
    }
    let mut fields: Vec<FieldRef> = Vec::with_capacity(schema.fields().len() / 2);
    let mut columns = Vec::with_capacity(fields.capacity());
    for pair in batch.columns().chunks(2) {
        let [lists, codes] = pair else {
            return internal_err!("a worker sent values without codes");
        };
        let (lists, codes) = (lists.as_list_opt::<i32>(), codes.as_binary_opt::<i32>());
        let (Some(lists), Some(codes), 1) = (lists, codes, batch.num_rows()) else {
            return internal_err!("a worker sent no encoded rows: {schema:?}");
        };
        let DataType::List(field) = lists.data_type() else {
            return internal_err!("a worker sent values of type {}", lists.data_type());
        };
        fields.push(Arc::clone(field));
        let values = lists.value(0);
        columns.push(match codes.value(0).split_first() {
            None => values,
            Some((kind, codes)) => unpacked(&values, *kind, codes)?,
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

/// Returns the runs or distinct values of a column and the codes of its rows; `None` if the column is sent as
/// it is.
fn packed(column: &ArrayRef) -> Option<(ArrayRef, Vec<u8>)> {
    fn of_width<T: Bits>(column: &ArrayRef) -> Option<(ArrayRef, Vec<u8>)> {
        let values = native::<T>(column);
        let (values, codes) = runs(&values).or_else(|| dictionary(&values))?;
        Some((array_of(column.data_type(), values).ok()?, codes))
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

/// Returns the first value of each run, and the lengths of the runs; `None` if there are many.
fn runs<T: Bits>(values: &[T]) -> Option<(Vec<T>, Vec<u8>)> {
    let pairs = values.iter().zip(values.get(1..)?);
    let count = 1 + pairs.filter(|(one, next)| one != next).count();
    if count * ROWS_OF_RUN > values.len() {
        return None;
    }
    let (mut firsts, mut codes) = (Vec::with_capacity(count), vec![RUNS]);
    let runs = values.chunk_by(|one, next| one == next);
    for run in runs.flat_map(|run| run.chunks(usize::from(u16::MAX))) {
        firsts.push(run[0]);
        codes.extend((run.len() as u16).to_le_bytes());
    }
    Some((firsts, codes))
}

/// Returns the distinct values, and the number of each row's value among them; `None` if there are many.
fn dictionary<T: Bits>(values: &[T]) -> Option<(Vec<T>, Vec<u8>)> {
    let most = MOST_DISTINCT.min(values.len() / 4);
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
    let codes = match distinct.len() <= 1 << u8::BITS {
        true => std::iter::once(1)
            .chain(codes.map(|code| code as u8))
            .collect(),
        false => std::iter::once(2)
            .chain(codes.flat_map(u16::to_le_bytes))
            .collect(),
    };
    Some((distinct, codes))
}

/// Returns the column of the rows with these codes.
fn unpacked(values: &ArrayRef, kind: u8, codes: &[u8]) -> Result<ArrayRef> {
    fn of_width<T: Bits>(values: &ArrayRef, kind: u8, codes: &[u8]) -> Result<ArrayRef> {
        let pairs = codes.chunks_exact(2);
        let wide = pairs.map(|pair| usize::from(u16::from_le_bytes([pair[0], pair[1]])));
        let distinct = native::<T>(values);
        let rows = match kind {
            RUNS => Some(repeated(&distinct, wide)),
            1 => taken(&distinct, codes.iter().map(|code| usize::from(*code))),
            _ => taken(&distinct, wide),
        };
        match rows {
            Some(rows) => array_of(values.data_type(), rows),
            None => internal_err!("a worker sent codes beyond its {} values", distinct.len()),
        }
    }
    match values.data_type().primitive_width() {
        Some(4) => of_width::<u32>(values, kind, codes),
        Some(8) => of_width::<u64>(values, kind, codes),
        _ => internal_err!("a worker sent codes for {}", values.data_type()),
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
        let schema = packed_schema(&batch.schema()).unwrap();
        let sent = pack(&batch, &schema).unwrap();
        assert_eq!(sent.num_rows(), 1);
        assert_eq!(unpack(sent.clone()).unwrap(), batch);
        let pairs = sent.columns().chunks(2);
        let sizes = pairs.map(|pair| {
            let values = pair[0].as_list::<i32>().value(0);
            values.get_buffer_memory_size() + pair[1].as_binary::<i32>().value(0).len()
        });
        sizes.collect()
    }

    #[test]
    fn coordinates_become_small() {
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
    fn all_rows_return() {
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
        let schema = packed_schema(&batch.schema()).unwrap();
        let sent = |codes: Vec<u8>| {
            let mut columns = pack(&batch, &schema).unwrap().columns().to_vec();
            columns[1] = Arc::new(BinaryArray::from_iter_values([codes]));
            RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
        };
        assert_eq!(unpack(sent(vec![1, 0, 0])).unwrap().num_rows(), 2);
        for codes in [vec![1, 0, 1], vec![2, 0, 1]] {
            let error = unpack(sent(codes)).unwrap_err();
            assert!(error.to_string().contains("codes beyond its 1 values"));
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
        assert_eq!(packed_schema(&batch.schema()), None);
        assert_eq!(unpack(batch.clone()).unwrap(), batch);
    }
}
