//! Cells as bit patterns, the form in which tests compare results with expected values: exact, and
//! with the same equality for all types.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use datafusion::prelude::{SessionConfig, SessionContext};
use tet_sql::format::tet::{Dtype, OpenOptions, TetFile};
use tet_sql::grid::Window;
use tet_sql::provider::adapters::arrays::{ArrayContainer, ArrayDataset};
use tet_sql::provider::catalog::settings::options::ReadOptions;
use tet_sql::provider::source::GridSource;
use tet_sql::{Access, ArrayOptions, ArraySchema, ArraySessionExt};

/// Both ways to read a file. No answer may depend on the access mode.
pub const ACCESS: [Access; 2] = [Access::Mmap, Access::Pread];

/// The bit pattern of a value in its column's type, zero-extended. `None` for null.
pub type Cell = Option<u64>;

/// Returns the path of a file in `tests/data`.
pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// Converts stored cells to the cells of the SQL column. Cells of f16 are widened to f32 by
/// arithmetic.
pub fn from_stored(dtype: Dtype, bytes: &[u8]) -> Vec<Cell> {
    bytes
        .chunks_exact(dtype.size() as usize)
        .map(|cell| {
            let mut bits = [0; 8];
            bits[..cell.len()].copy_from_slice(cell);
            let bits = u64::from_le_bytes(bits);
            Some(match dtype {
                Dtype::F16 => f16_to_f32_bits(bits).into(),
                _ => bits,
            })
        })
        .collect()
}

/// Returns the bits of the f32 equal to an f16, from the definitions in IEEE 754.
fn f16_to_f32_bits(half: u64) -> u32 {
    let sign = ((half >> 15) as u32) << 31;
    let exponent = (half >> 10) as i32 & 0x1f;
    let fraction = half as u32 & 0x3ff;
    match exponent {
        0 => sign | (fraction as f32 * 2f32.powi(-24)).to_bits(),
        0x1f => sign | 0x7f80_0000 | (fraction << 13),
        _ => sign | ((1024 + fraction) as f32 * 2f32.powi(exponent - 25)).to_bits(),
    }
}

/// Converts a cell to f64. Integers beyond 2^53 are rounded.
pub fn number(dtype: Dtype, cell: u64) -> f64 {
    match dtype {
        Dtype::F16 | Dtype::F32 => f32::from_bits(cell as u32).into(),
        Dtype::F64 => f64::from_bits(cell),
        Dtype::I8 => (cell as i8).into(),
        Dtype::I16 => (cell as i16).into(),
        Dtype::I32 => (cell as i32).into(),
        Dtype::I64 => cell as i64 as f64,
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => cell as f64,
    }
}

/// Returns the Arrow type of a dataset's value column.
pub fn column_type(dtype: Dtype) -> DataType {
    match dtype {
        Dtype::F16 | Dtype::F32 => DataType::Float32,
        Dtype::F64 => DataType::Float64,
        Dtype::I8 => DataType::Int8,
        Dtype::I16 => DataType::Int16,
        Dtype::I32 => DataType::Int32,
        Dtype::I64 => DataType::Int64,
        Dtype::U8 => DataType::UInt8,
        Dtype::U16 => DataType::UInt16,
        Dtype::U32 => DataType::UInt32,
        Dtype::U64 => DataType::UInt64,
    }
}

/// Returns the cells of a column.
pub fn from_column(column: &ArrayRef) -> Vec<Cell> {
    macro_rules! bits {
        ($type:ty, $bits:expr) => {
            column
                .as_primitive::<$type>()
                .iter()
                .map(|value| value.map($bits))
                .collect()
        };
    }
    match column.data_type() {
        DataType::Float32 => bits!(Float32Type, |value| value.to_bits().into()),
        DataType::Float64 => bits!(Float64Type, f64::to_bits),
        DataType::Int16 => bits!(Int16Type, |value| (value as u16).into()),
        DataType::Int32 => bits!(Int32Type, |value| (value as u32).into()),
        DataType::Int64 => bits!(Int64Type, |value| value as u64),
        DataType::UInt8 => bits!(UInt8Type, u64::from),
        DataType::UInt16 => bits!(UInt16Type, u64::from),
        DataType::UInt32 => bits!(UInt32Type, u64::from),
        DataType::UInt64 => bits!(UInt64Type, |value| value),
        other => panic!("column type {other}"),
    }
}

/// Panics if two lists of cells differ, and names the first cell that does.
#[track_caller]
pub fn assert_same(found: &[Cell], expected: &[Cell], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: number of cells");
    for (position, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found, expected, "{what}: cell {position}");
    }
}

/// A session with one file registered as the schema `f`.
pub struct OpenFile {
    pub ctx: SessionContext,
    pub schema: Arc<ArraySchema>,
    options: ArrayOptions,
}

impl OpenFile {
    /// Opens and registers a file.
    pub async fn open(path: &Path, options: ArrayOptions) -> datafusion::error::Result<Self> {
        // Small batches, so that a chunk spans several. A fixed number of partitions, so that plans
        // are partitioned even on a machine with one core.
        let config = SessionConfig::new()
            .with_batch_size(97)
            .with_target_partitions(3);
        let ctx = SessionContext::new_with_config(config);
        let schema = ctx
            .register_array_file_as("f", path, options.clone())
            .await?;
        Ok(Self {
            ctx,
            schema,
            options,
        })
    }

    /// Runs a query.
    pub async fn query(&self, sql: &str) -> datafusion::error::Result<Vec<RecordBatch>> {
        self.ctx.sql(sql).await?.collect().await
    }

    /// Returns the only value of a query as text, null as `NULL`.
    pub async fn answer(&self, sql: &str) -> String {
        let batches = self.query(sql).await.unwrap();
        let row = batches.iter().find(|batch| batch.num_rows() == 1).unwrap();
        text(row.column(0)).remove(0)
    }

    /// Returns the only value of a query as a number, null as `None`.
    pub async fn number(&self, sql: &str) -> Option<f64> {
        let answer = self.answer(sql).await;
        (answer != "NULL").then(|| answer.parse().unwrap())
    }

    /// Returns all cells of a dataset in row-major order, whatever the order of the rows: the
    /// coordinates of a row decide which cell it is.
    ///
    /// `labels` are the coordinates along each axis, as text. For axes without labels, use
    /// [`counted`].
    pub async fn table(&self, dataset: &str, labels: &[Vec<String>]) -> Vec<Cell> {
        let sql = format!("SELECT * FROM f.\"{dataset}\"");
        let batches = self.query(&sql).await.unwrap();
        let positions: Vec<HashMap<&str, usize>> = labels
            .iter()
            .map(|labels| {
                labels
                    .iter()
                    .enumerate()
                    .map(|(n, l)| (l.as_str(), n))
                    .collect()
            })
            .collect();
        let count = labels.iter().map(Vec::len).product();
        let mut cells = vec![None; count];
        let mut seen = vec![false; count];
        for batch in batches {
            assert_eq!(batch.num_columns(), labels.len() + 1);
            let coordinates: Vec<_> = batch.columns()[..labels.len()].iter().map(text).collect();
            let values = from_column(batch.column(labels.len()));
            for (row, value) in values.into_iter().enumerate() {
                let cell = coordinates
                    .iter()
                    .zip(&positions)
                    .fold(0, |cell, (texts, axis)| {
                        cell * axis.len() + axis[texts[row].as_str()]
                    });
                assert!(!seen[cell], "{dataset}: two rows have cell {cell}");
                seen[cell] = true;
                cells[cell] = value;
            }
        }
        assert!(
            seen.iter().all(|seen| *seen),
            "{dataset}: a cell has no row"
        );
        cells
    }

    /// Opens the file as a [`TetFile`], for what only `.tet` files have.
    pub fn tet(&self) -> TetFile {
        TetFile::open(self.schema.path(), OpenOptions::default()).unwrap()
    }

    /// Opens a dataset as an [`ArrayDataset`].
    pub fn grid(&self, dataset: &str) -> ArrayDataset {
        let container = self.schema.container();
        let arrays = container.downcast_ref::<ArrayContainer>().unwrap();
        ArrayDataset::try_new(arrays.file(), dataset, &self.options).unwrap()
    }

    /// Reads a slice of a dataset directly, without SQL.
    pub fn window(&self, dataset: &str, window: &Window) -> Vec<Cell> {
        let options = ReadOptions {
            access: self.options.access.unwrap_or_default(),
            nan_as_null: self.options.nan_as_null.unwrap_or(true),
            fill_as_null: self.options.fill_as_null.unwrap_or(true),
            ..ReadOptions::default()
        };
        let columns = self
            .grid(dataset)
            .read_window(window, &[0], &options)
            .unwrap();
        assert_eq!(columns.len(), 1);
        from_column(&columns[0])
    }
}

/// Formats the values of a column, null as `NULL`.
pub fn text(column: &ArrayRef) -> Vec<String> {
    let column = cast(column, &DataType::Utf8).unwrap();
    column
        .as_string::<i32>()
        .iter()
        .map(|text| text.unwrap_or("NULL").to_string())
        .collect()
}

/// Returns the indices along each axis as text, the coordinates of axes without labels.
pub fn counted(shape: &[u64]) -> Vec<Vec<String>> {
    shape
        .iter()
        .map(|extent| (0..*extent).map(|position| position.to_string()).collect())
        .collect()
}

#[test]
fn widening_halves_by_arithmetic() {
    for (half, single) in [
        (0x3c00, 1.0f32),
        (0xc000, -2.0),
        (0x7bff, 65504.0),
        (0x0001, 5.960_464_5e-8),
        (0x8000, -0.0),
        (0xfc00, f32::NEG_INFINITY),
    ] {
        assert_eq!(f16_to_f32_bits(half), single.to_bits(), "{half:x}");
    }
    assert!(f32::from_bits(f16_to_f32_bits(0x7e00)).is_nan());
}
