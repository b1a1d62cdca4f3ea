//! All operations on a file, for files that may be broken anywhere. The fuzz targets use this
//! module as well.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::Result;
use datafusion::prelude::{SessionConfig, SessionContext};
use tet_sql::format::tet::repair::anatomy::Anatomy;
use tet_sql::format::tet::repair::repair;
use tet_sql::format::tet::verify::{Report, VerifyOptions, verify};
use tet_sql::provider::adapters::arrays::ArrayContainer;
use tet_sql::provider::catalog::settings::options::ReadOptions;
use tet_sql::{Access, ArrayOptions, ArraySchema, ArrayTable};

/// Limits for the blocks and rows read from one table. A changed shape can claim any number.
const MAX_BLOCKS: u64 = 64;
const MAX_ROWS: usize = 100_000;
/// Limit for the tables of a file that are read or queried.
const MAX_TABLES: usize = 6;

/// Opens a file and describes its tables.
pub fn open(path: &Path, access: Access) -> Vec<ArrayTable> {
    let options = ArrayOptions::new()
        .with_access(access)
        .with_decode_times(false);
    let Ok(schema) = ArraySchema::open("f", path, options.clone()) else {
        return Vec::new();
    };
    let arrays = schema.container().downcast_ref::<ArrayContainer>().unwrap();
    arrays.file().chunk_statistics(access).ok();
    arrays.file().value_index(access).ok();
    let mut names = schema.table_names();
    names.truncate(MAX_TABLES);
    let tables = names.into_iter().filter_map(|name| {
        let table = ArrayTable::open(path, &options.clone().with_dataset(name)).ok()?;
        table.describe().ok();
        Some(table)
    });
    tables.collect()
}

/// Reads the tables of a file directly, without SQL, and returns the number of rows read.
pub fn read(path: &Path, access: Access) -> usize {
    let tables = open(path, access);
    let rows = tables.iter().map(|table| read_table(table, access));
    rows.map(|rows| rows.unwrap_or(0)).sum()
}

pub fn read_table(table: &ArrayTable, access: Access) -> Result<usize> {
    let source = table.source();
    let columns: Vec<_> = (0..source.schema().fields().len()).collect();
    let read_options = ReadOptions {
        access,
        ..ReadOptions::default()
    };
    let blocks = source.select(&[], &columns, &read_options)?.blocks;
    for column in &columns {
        blocks.column_statistics(*column, &read_options)?;
    }
    let mut reader = blocks.reader(&columns, 8192, &read_options)?;
    let mut rows = 0;
    for block in 0..blocks.count().unwrap_or(u64::MAX).min(MAX_BLOCKS) {
        reader.open(block, None)?;
        while !reader.advance()? {}
        let mut next = 0;
        while next < reader.rows() {
            let batch = reader.batch(next);
            next = batch.end;
            rows += (batch.end - batch.start) as usize;
            reader.read(batch, None)?;
            if rows > MAX_ROWS {
                return Ok(rows);
            }
        }
    }
    Ok(rows)
}

/// Runs a query over one or two tables of a file, and returns the number of rows. `selector`
/// chooses the tables and the query.
pub fn query(path: &Path, access: Access, selector: usize) -> Result<usize> {
    let tables = open(path, access);
    if tables.is_empty() {
        return Ok(0);
    }
    let (selector, kind) = (selector / QUERIES, selector % QUERIES);
    let first = selector % tables.len();
    let second = selector / tables.len() % tables.len();
    let schemas = [&tables[first], &tables[second]].map(|table| table.schema());
    let sql = sql(kind, &schemas[0], &schemas[1]);
    let config = SessionConfig::new().with_target_partitions(2);
    let ctx = SessionContext::new_with_config(config);
    for (number, table) in tables.into_iter().enumerate() {
        let provider: Arc<dyn TableProvider> = Arc::new(table);
        for (name, wanted) in [("x", first), ("y", second)] {
            if number == wanted {
                ctx.register_table(name, Arc::clone(&provider)).ok();
            }
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let batches = runtime?.block_on(async { ctx.sql(&sql).await?.collect().await })?;
    Ok(batches.iter().map(|batch| batch.num_rows()).sum())
}

/// Inspects, verifies and repairs a file, and returns the number of errors. A repair must not
/// increase that number.
pub fn check(path: &Path, access: Access) -> usize {
    if let Ok(anatomy) = Anatomy::of(path, access)
        && let Some(file) = &anatomy.opened
    {
        file.stored_rows(access, 100, |_, _| {}).ok();
    }
    let options = VerifyOptions {
        deep: true,
        access,
        threads: 1,
    };
    let Ok(report) = verify(path, options, &|_, _| {}) else {
        return 0;
    };
    let errors = |report: &Report| report.checks.iter().map(|check| check.errors).sum::<u64>();
    if let Ok(repaired) = repair(path, true, options) {
        assert!(errors(&repaired.report) <= errors(&report), "{repaired:#?}");
        assert_eq!(repaired.steps.is_empty(), repaired.report == report);
    }
    errors(&report) as usize
}

/// The number of different queries.
pub const QUERIES: usize = 8;

/// Returns a query over the tables `x` and `y`.
///
/// Numbers are quoted because a column may hold strings. No query returns one row per cell from the
/// dimensions alone, because a file may legally claim more cells than a test can wait for.
fn sql(kind: usize, one: &Schema, other: &Schema) -> String {
    let quoted = |schema: &Schema| -> Vec<String> {
        let fields = schema.fields().iter();
        fields
            .map(|field| format!("\"{}\"", field.name().replace('"', "\"\"")))
            .collect()
    };
    let (columns, others) = (quoted(one), quoted(other));
    let name = |columns: &[String], last: bool| match last {
        true => columns.last().cloned().unwrap_or_default(),
        false => columns.first().cloned().unwrap_or_default(),
    };
    let (dimension, value) = (name(&columns, false), name(&columns, true));
    let other_value = name(&others, true);
    match kind {
        0 => format!("SELECT count(*), min({value}), max({value}) FROM x WHERE {value} > '3'"),
        1 => {
            format!("SELECT * FROM x WHERE {value} IN ('1', '2', '27') OR {value} IS NULL LIMIT 50")
        }
        2 => format!("SELECT {dimension}, count({value}) FROM x GROUP BY {dimension} LIMIT 100"),
        3 => format!("SELECT * FROM x ORDER BY {value} DESC LIMIT 3"),
        4 => format!("SELECT {value} FROM x WHERE {value} = (SELECT max({value}) FROM x) LIMIT 9"),
        5 => {
            let all = columns.iter();
            let bounds: Vec<_> = all
                .map(|column| format!("min({column}), max({column})"))
                .collect();
            format!("SELECT count(*), {} FROM x", bounds.join(", "))
        }
        6 => {
            let types =
                [one, other].map(|schema| schema.fields().last().map(|field| field.data_type()));
            let equal = match types[0] == types[1] {
                true => format!("x.{value} = y.{other_value}"),
                false => format!("x.{value} IS NOT NULL"),
            };
            format!(
                "SELECT count(*) FROM (SELECT * FROM x LIMIT 200) x JOIN (SELECT * FROM y LIMIT 200) y ON {equal} \
                 WHERE x.{value} <> '0'"
            )
        }
        _ => {
            let equal: Vec<_> = columns[..columns.len() - 1]
                .iter()
                .filter(|column| others.contains(column))
                .map(|column| format!("x.{column} = y.{column}"))
                .chain(["true".to_string()])
                .collect();
            format!(
                "SELECT count(*), min(y.{other_value}) FROM (SELECT * FROM x WHERE {value} >= '0' LIMIT 200) x \
                 JOIN y ON {}",
                equal.join(" AND ")
            )
        }
    }
}
