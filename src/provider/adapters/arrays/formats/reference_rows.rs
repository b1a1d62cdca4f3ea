//! Decodes the Parquet files of references.
//!
//! Here, and not with the layout of the references in `format`, because DataFusion's reader of Parquet
//! returns Arrow arrays.

use bytes::Bytes;

use crate::format::io::remote::PartitionRows;

/// Decodes the rows of a partition, at most `most`. The error says what is wrong.
#[cfg(not(feature = "parquet"))]
pub(super) fn decode_rows(_bytes: Bytes, _most: u64) -> Result<PartitionRows, String> {
    Err("Parquet, which this build does not read (feature `parquet`)".to_string())
}

#[cfg(feature = "parquet")]
pub(super) use with_parquet::decode_rows;

#[cfg(feature = "parquet")]
mod with_parquet {
    use std::collections::HashMap;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
    use arrow::compute::cast;
    use arrow::datatypes::{DataType, Int64Type};
    use datafusion::parquet::arrow::ProjectionMask;
    use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;
    use crate::format::io::remote::PartitionRow;

    /// The columns that are read. Writers leave out those without values.
    const COLUMNS: [&str; 4] = ["path", "offset", "size", "raw"];

    /// Decodes the rows of a partition, at most `most`. The error says what is wrong.
    pub fn decode_rows(bytes: Bytes, most: u64) -> Result<PartitionRows, String> {
        // DataFusion's reader panics on some damaged files.
        let decoded = catch_unwind(AssertUnwindSafe(|| decode(bytes, most)));
        decoded.unwrap_or_else(|_| Err("a damaged Parquet file".to_string()))
    }

    fn decode(bytes: Bytes, most: u64) -> Result<PartitionRows, String> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes);
        let builder = builder.map_err(|error| error.to_string())?;
        let count = builder.metadata().file_metadata().num_rows();
        if u64::try_from(count).map_or(true, |count| count > most) {
            return Err(format!("{count} rows, more than the {most} of a partition"));
        }
        let columns = ProjectionMask::columns(builder.parquet_schema(), COLUMNS);
        let reader = builder.with_projection(columns).build();
        let reader = reader.map_err(|error| error.to_string())?;
        let mut decoded = PartitionRows::default();
        let mut numbers = HashMap::new();
        for batch in reader {
            let batch = batch.map_err(|error| error.to_string())?;
            add(&batch, &mut decoded, &mut numbers)?;
        }
        Ok(decoded)
    }

    /// Returns a column as an array of this type, if the batch has it.
    fn column(
        batch: &RecordBatch,
        name: &str,
        datatype: &DataType,
    ) -> Result<Option<ArrayRef>, String> {
        let found = batch.column_by_name(name);
        let found = found.map(|array| cast(array, datatype));
        found
            .transpose()
            .map_err(|error| format!("the column {name}: {error}"))
    }

    /// Adds the rows of a batch. `numbers` has the indices of the paths.
    fn add(
        batch: &RecordBatch,
        decoded: &mut PartitionRows,
        numbers: &mut HashMap<String, usize>,
    ) -> Result<(), String> {
        let [path, offset, size, raw] = COLUMNS;
        let paths = column(batch, path, &DataType::Utf8)?;
        let offsets = column(batch, offset, &DataType::Int64)?;
        let sizes = column(batch, size, &DataType::Int64)?;
        let raws = column(batch, raw, &DataType::Binary)?;
        let paths = paths.as_ref().map(|array| array.as_string::<i32>());
        let raws = raws.as_ref().map(|array| array.as_binary::<i32>());
        let number = |array: &Option<ArrayRef>, name: &str, row: usize| {
            let Some(array) = array.as_ref().filter(|array| array.is_valid(row)) else {
                return Ok(0);
            };
            let value = array.as_primitive::<Int64Type>().value(row);
            u64::try_from(value).map_err(|_| format!("{name} {value} in row {row}"))
        };
        for row in 0..batch.num_rows() {
            let raw = raws.filter(|array| array.is_valid(row));
            let path = paths.filter(|array| array.is_valid(row));
            decoded.rows.push(match (raw, path) {
                (Some(array), _) => PartitionRow::Inline(Bytes::copy_from_slice(array.value(row))),
                (None, Some(array)) if !array.value(row).is_empty() => {
                    let path = array.value(row);
                    let known = numbers.get(path).copied();
                    let path = known.unwrap_or_else(|| {
                        numbers.insert(path.to_string(), decoded.paths.len());
                        decoded.paths.push(path.to_string());
                        decoded.paths.len() - 1
                    });
                    PartitionRow::Part {
                        path,
                        offset: number(&offsets, offset, row)?,
                        size: number(&sizes, size, row)?,
                    }
                }
                _ => PartitionRow::Absent,
            });
        }
        Ok(())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn partition() -> Vec<u8> {
            let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
            std::fs::read(root.join("tests/data/references/mapper.parq/t/refs.1.parq")).unwrap()
        }

        #[test]
        fn rows_are_parts_of_files_or_bytes() {
            let decoded = decode_rows(Bytes::from(partition()), 4).unwrap();
            assert_eq!(decoded.paths, ["cells.h5"]);
            let [part, inline, absent, last] = decoded.rows.as_slice() else {
                panic!("{decoded:?}");
            };
            let expected = PartitionRow::Part {
                path: 0,
                offset: 6333,
                size: 23,
            };
            assert_eq!(*part, expected);
            assert!(matches!(inline, PartitionRow::Inline(bytes) if bytes.len() == 18));
            assert_eq!([absent, last], [&PartitionRow::Absent; 2]);
            let error = decode_rows(Bytes::from(partition()), 3).unwrap_err();
            assert!(error.contains("4 rows"), "{error}");
        }

        #[test]
        fn broken_files_are_errors() {
            let whole = partition();
            for end in 0..whole.len() {
                assert!(decode_rows(Bytes::copy_from_slice(&whole[..end]), 4).is_err());
            }
            for index in 0..whole.len() {
                for mask in [1, 0x10, 0x80, 0xff] {
                    let mut changed = whole.clone();
                    changed[index] ^= mask;
                    // Not all changes are errors, but none may panic.
                    let _ = decode_rows(Bytes::from(changed), 4);
                }
            }
        }
    }
}
