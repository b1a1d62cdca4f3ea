//! Versions of a file. Each cell identifies its version, so that a mixture of two versions is
//! always detected.

use std::path::Path;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use tet_sql::format::tet::{Compression, DatasetSpec, Dtype, TetWriter};

/// Extents of the axes `a` and `b`.
pub const SHAPE: [u64; 2] = [40, 64];
/// Number of cells of a version.
pub const CELLS: i64 = 40 * 64;
/// Difference between a cell's values in two consecutive versions.
const STEP: i64 = 1 << 20;

/// Writes a version in place of the previous one. Odd versions are compressed, and every third has
/// zone maps.
pub fn write(path: &Path, version: i64) {
    let compression = match version % 2 {
        0 => Compression::Raw,
        _ => Compression::Zstd { level: 1 },
    };
    let spec = DatasetSpec::new("v", Dtype::I64, &SHAPE, &[4, 64])
        .with_dim_names(["a", "b"])
        .with_compression(compression);
    let mut writer = TetWriter::create(path, vec![spec]).unwrap();
    if version % 3 == 0 {
        writer.embed_zone_maps();
    }
    let cells = (0..CELLS).flat_map(|cell| (version * STEP + cell).to_le_bytes());
    writer.write_dataset(0, &cells.collect::<Vec<_>>()).unwrap();
    writer.finish().unwrap();
}

/// Returns a COPY statement that writes a version.
pub fn copy(path: &Path, version: i64) -> String {
    format!(
        "COPY (SELECT value / {1} AS a, value % {1} AS b, {version} * {STEP} + value AS v FROM range({CELLS})) TO '{0}' \
         OPTIONS (dims 'a,b', chunk '4,64')",
        path.display(),
        SHAPE[1]
    )
}

/// Returns the version of all values, or an error if they belong to several versions.
pub fn of_values(values: impl IntoIterator<Item = i64>) -> Result<i64, String> {
    let mut versions = values.into_iter().map(|value| value.div_euclid(STEP));
    let first = versions.next().ok_or("no values")?;
    match versions.find(|version| *version != first) {
        Some(other) => Err(format!("cells of versions {first} and {other}")),
        None => Ok(first),
    }
}

/// A query, with its expected rows for a version.
pub struct Query {
    pub sql: String,
    pub answer: fn(i64) -> Vec<Vec<i64>>,
}

/// Returns queries of a table, whose name is spelled as in SQL and whose value column is `value`.
pub fn queries(table: &str) -> Vec<Query> {
    let query = |sql: String, answer| Query { sql, answer };
    vec![
        query(
            format!("SELECT count(*), count(value), sum(value) FROM {table}"),
            |version| vec![vec![CELLS, CELLS, total(version, 0..CELLS)]],
        ),
        query(
            format!("SELECT min(value), max(value) FROM {table}"),
            |version| vec![vec![version * STEP, version * STEP + CELLS - 1]],
        ),
        query(
            format!(
                "SELECT count(*), sum(value) FROM {table} WHERE a BETWEEN 10 AND 19 AND value % 2 = 0"
            ),
            |version| {
                let even = (640..1280).step_by(2);
                vec![vec![320, even.map(|cell| version * STEP + cell).sum()]]
            },
        ),
        query(
            format!("SELECT a, sum(value), count(*) FROM {table} GROUP BY a ORDER BY a"),
            |version| {
                let rows = (0..40).map(|a| vec![a, total(version, a * 64..a * 64 + 64), 64]);
                rows.collect()
            },
        ),
        query(
            format!("SELECT a, b, value FROM {table} WHERE b IN (0, 63) ORDER BY a, b"),
            |version| {
                let rows = (0..80).map(|row| {
                    let (a, b) = (row / 2, row % 2 * 63);
                    vec![a, b, version * STEP + a * 64 + b]
                });
                rows.collect()
            },
        ),
        query(
            format!("SELECT max(value) FROM (SELECT value FROM {table} ORDER BY value LIMIT 3)"),
            |version| vec![vec![version * STEP + 2]],
        ),
    ]
}

fn total(version: i64, cells: std::ops::Range<i64>) -> i64 {
    let count = cells.end - cells.start;
    version * STEP * count + cells.sum::<i64>()
}

/// Returns the rows of an answer that consists of integers.
pub fn numbers(batches: &[RecordBatch]) -> Vec<Vec<i64>> {
    let rows = batches.iter().flat_map(|batch| {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| arrow::compute::cast(column, &arrow::datatypes::DataType::Int64))
            .collect::<Result<_, _>>()
            .unwrap();
        let row = move |row| {
            let columns = columns.iter();
            columns
                .map(|column| column.as_primitive::<Int64Type>().value(row))
                .collect::<Vec<_>>()
        };
        (0..batch.num_rows()).map(row).collect::<Vec<_>>()
    });
    rows.collect()
}

/// Returns the version that an answer belongs to, among the given versions.
pub fn version_of_answer(
    query: &Query,
    answer: &[Vec<i64>],
    mut versions: std::ops::RangeInclusive<i64>,
) -> Option<i64> {
    versions.find(|version| (query.answer)(*version) == answer)
}
