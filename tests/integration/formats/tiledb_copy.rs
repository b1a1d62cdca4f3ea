//! `COPY ... STORED AS TILEDB`, and `INSERT INTO` arrays.

use std::path::Path;
use std::sync::Arc;

use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use serde_json::{Value, json};
use tet_sql::format::io::storage::Access;
use tet_sql::format::tiledb::{
    CellValues, Datatype, Interval, Layout, OpenOptions, Scalar, TileDbArray,
};
use tet_sql::{ArrayOptions, ArraySessionExt, enable_arrays};

use super::tiledb::rows;
use crate::support::sql::{error, rows as answer, session};

fn open(path: &Path) -> Arc<TileDbArray> {
    Arc::new(TileDbArray::open(path, &OpenOptions::default(), Access::Mmap).unwrap())
}

/// Returns the cells of an array as rows, sorted by their text: of a dense array the written ones.
fn cells(path: &Path) -> Vec<Vec<Value>> {
    let mut rows = rows::read(&open(path), true).unwrap().rows;
    rows.sort_by_key(|row| format!("{row:?}"));
    rows
}

async fn copy(ctx: &SessionContext, query: &str, path: &Path, options: &str) -> Vec<String> {
    let path = path.display();
    let sql = format!("COPY ({query}) TO '{path}' STORED AS TILEDB OPTIONS ({options})");
    answer(ctx, &sql).await
}

async fn refusal(ctx: &SessionContext, query: &str, path: &Path, options: &str) -> String {
    let path = path.display();
    let sql = format!("COPY ({query}) TO '{path}' STORED AS TILEDB OPTIONS ({options})");
    error(ctx, &sql).await
}

#[tokio::test]
async fn unknown_options_of_tables_list_those_of_the_format() {
    let (ctx, folder) = (session(), tempfile::tempdir().unwrap());
    let path = folder.path().join("a");
    copy(&ctx, "SELECT 1 AS x, 2 AS v", &path, "dims 'x'").await;
    let sql = format!(
        "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{}' OPTIONS (timestmp '10')",
        path.display()
    );
    let message = error(&ctx, &sql).await;
    for name in [
        "access",
        "extent",
        "key_file",
        "timestamp",
        "timestamp_start",
        "zone_maps",
    ] {
        assert!(message.contains(name), "{message}");
    }
    let sql = "COPY (SELECT 1 AS x) TO 'a' STORED AS NONSENSE";
    let unknown = tet_sql::create_logical_plan(&ctx.state(), sql).await;
    let unknown = unknown.unwrap_err().to_string();
    assert!(
        unknown.contains("TET, ZARR, TATAMI, TILEDB, PARQUET"),
        "{unknown}"
    );
}

#[tokio::test]
async fn dense_arrays_from_rows_in_any_order() {
    let (ctx, folder) = (session(), tempfile::tempdir().unwrap());
    let path = folder.path().join("grid");
    let query = "SELECT n / 10 AS y, n % 10 + 3 AS x, n + 0.5 AS v, nullif(n % 7, 0) AS w, 'text ' || n AS s \
                 FROM (SELECT (i * 37) % 120 AS n FROM generate_series(0, 119) AS g(i))";
    let options = "dims 'y, x', tile '5, 4', cell_order 'col-major', timestamp '12', filters.v 'bitshuffle, lz4'";
    assert_eq!(copy(&ctx, query, &path, options).await, ["120"]);
    let array = open(&path);
    let schema = array.schema();
    assert_eq!(array.fragments()[0].timestamps(), (12, 12));
    assert_eq!(schema.cell_order, Layout::ColumnMajor);
    let domain = |low, high| {
        let (low, high) = (Scalar::Signed(low), Scalar::Signed(high));
        Some(Interval { low, high })
    };
    assert_eq!(schema.dimensions[0].domain, domain(0, 11));
    assert_eq!(schema.dimensions[1].domain, domain(3, 12));
    assert_eq!(schema.dimensions[1].extent, Some(Scalar::Signed(4)));
    assert_eq!(
        schema.attributes[0].filters.to_string(),
        "bitshuffle, lz4(level=-1)"
    );
    let float = |value: f64| json!(format!("{:016x}", value.to_bits()));
    let mut expected: Vec<Vec<Value>> = (0..120)
        .map(|n| {
            let w = if n % 7 == 0 {
                Value::Null
            } else {
                json!(n % 7)
            };
            let (y, x) = (json!(n / 10), json!(n % 10 + 3));
            vec![y, x, float(n as f64 + 0.5), w, json!(format!("text {n}"))]
        })
        .collect();
    expected.sort_by_key(|row| format!("{row:?}"));
    assert_eq!(cells(&path), expected);
    let message = refusal(&ctx, query, &path, options).await;
    assert!(
        message.contains("grid exists; INSERT INTO adds rows"),
        "{message}"
    );
}

#[tokio::test]
async fn cells_without_rows_are_null() {
    let (ctx, folder) = (session(), tempfile::tempdir().unwrap());
    let path = folder.path().join("grid");
    let query = "SELECT * FROM (VALUES (1, 10), (4, 40)) AS t(x, v)";
    copy(&ctx, query, &path, "dims 'x'").await;
    let null = Value::Null;
    assert_eq!(
        cells(&path),
        [
            [json!(1), json!(10)],
            [json!(2), null.clone()],
            [json!(3), null],
            [json!(4), json!(40)]
        ]
    );
    let query = "SELECT * FROM (VALUES (1, 10), (1, 40)) AS t(x, v)";
    let message = refusal(&ctx, query, &folder.path().join("twice"), "dims 'x'").await;
    assert!(
        message.contains("two cells have the coordinates [1]"),
        "{message}"
    );
    let query = "SELECT * FROM (VALUES (1, 10), (1000000000000, 40)) AS t(x, v)";
    let message = refusal(&ctx, query, &folder.path().join("vast"), "dims 'x'").await;
    assert!(message.contains("nearly all of them missing"), "{message}");
    // Nothing is left of them.
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}

#[tokio::test]
async fn sparse_arrays_of_all_orders() {
    let (ctx, folder) = (session(), tempfile::tempdir().unwrap());
    let query = "SELECT sin(n) AS x, CAST(n % 50 AS REAL) AS y, 'k' || (n % 9) AS k, n AS v \
                 FROM generate_series(1, 5000) AS g(n)";
    let mut found = Vec::new();
    for (name, options) in [
        ("rows", ""),
        ("columns", ", cell_order 'col-major', capacity '77'"),
        ("curve", ", cell_order 'hilbert', capacity '100'"),
        ("duplicates", ", duplicates 'true', capacity '64'"),
    ] {
        let path = folder.path().join(name);
        let options = format!("dims 'x, y, k', sparse 'true'{options}");
        assert_eq!(copy(&ctx, query, &path, &options).await, ["5000"]);
        let array = open(&path);
        assert_eq!(array.sparse_cells(), Some(5000));
        assert_eq!(array.schema().allows_duplicates, name == "duplicates");
        found.push(cells(&path));
    }
    let path = folder.path().join("tiles");
    copy(
        &ctx,
        "SELECT n % 70 AS a, n AS b, n AS v FROM generate_series(1, 500) AS g(n)",
        &path,
        "dims 'a, b', sparse 'true', tile '7, 100', filters 'double-delta, zstd(9)'",
    )
    .await;
    assert_eq!(cells(&path).len(), 500);
    assert!(found.iter().all(|rows| *rows == found[0]));
    let v: i64 = found[0].iter().map(|row| row[3].as_i64().unwrap()).sum();
    assert_eq!(v, 5000 * 5001 / 2);

    let twice = "SELECT * FROM (VALUES (1.5, 10), (1.5, 40)) AS t(x, v)";
    let path = folder.path().join("twice");
    let message = refusal(&ctx, twice, &path, "dims 'x', sparse 'true'").await;
    assert!(
        message.contains("two cells have the coordinates [1.5]"),
        "{message}"
    );
    copy(
        &ctx,
        twice,
        &path,
        "dims 'x', sparse 'true', duplicates 'true'",
    )
    .await;
    assert_eq!(cells(&path).len(), 2);
    let path = folder.path().join("none");
    copy(
        &ctx,
        "SELECT 1.5 AS x, 2 AS v WHERE false",
        &path,
        "dims 'x', sparse 'true'",
    )
    .await;
    assert_eq!(cells(&path).len(), 0);
}

#[tokio::test]
async fn types_of_columns() {
    let (ctx, folder) = (session(), tempfile::tempdir().unwrap());
    let path = folder.path().join("types");
    let query = "SELECT arrow_cast(timestamp '1970-01-01T00:00:02', 'Timestamp(Second, None)') AS t, \
                 true AS b, arrow_cast(7, 'UInt8') AS u, arrow_cast(1.5, 'Float32') AS f, date '1970-01-11' AS d, \
                 arrow_cast('x', 'Dictionary(Int32, Utf8)') AS k, arrow_cast('yz', 'Utf8View') AS s, X'00ff' AS y, \
                 arrow_cast(make_array(1, 2), 'FixedSizeList(2 x Int32)') AS p, make_array(3, 4, 5) AS l, \
                 arrow_cast(5, 'Duration(Millisecond)') AS i, arrow_cast(arrow_cast(90, 'Int32'), 'Time32(Second)') AS c";
    copy(&ctx, query, &path, "dims 't', sparse 'true'").await;
    let array = open(&path);
    assert_eq!(
        array.schema().dimensions[0].datatype,
        Datatype::DatetimeSecond
    );
    let types = array.schema().attributes.iter();
    let types: Vec<_> = types.map(|one| (one.datatype, one.cell_values)).collect();
    let one = CellValues::Fixed(1);
    assert_eq!(
        types,
        [
            (Datatype::Bool, one),
            (Datatype::Uint8, one),
            (Datatype::Float32, one),
            (Datatype::DatetimeDay, one),
            (Datatype::StringUtf8, CellValues::Variable),
            (Datatype::StringUtf8, CellValues::Variable),
            (Datatype::Blob, CellValues::Variable),
            (Datatype::Int32, CellValues::Fixed(2)),
            (Datatype::Int64, CellValues::Variable),
            (Datatype::TimeMillisecond, one),
            (Datatype::TimeSecond, one),
        ]
    );
    let expected = json!([
        2,
        true,
        7,
        "3fc00000",
        10,
        "x",
        "yz",
        "x00ff",
        [1, 2],
        [3, 4, 5],
        5,
        90
    ]);
    assert_eq!(json!(cells(&path)[0]), expected);
}

#[tokio::test]
async fn what_cannot_be_written_is_refused() {
    let (ctx, folder) = (session(), tempfile::tempdir().unwrap());
    let path = folder.path().join("array");
    let grid = "SELECT 1 AS x, 2.5 AS y, 'a' AS s, 3 AS v";
    for (query, options, expected) in [
        (grid, "dims 'x, z'", "names \"z\""),
        (
            grid,
            "dims 'x, y'",
            "dimension \"y\" has the datatype FLOAT64",
        ),
        (grid, "dims 'x', tile '1, 2'", "option tile has 2 extents"),
        (grid, "dims 'x', tile '0'", "option tile has \"0\""),
        (
            grid,
            "dims 'x, s', sparse 'true', tile '1, 2'",
            "texts have no tiles",
        ),
        (
            grid,
            "dims 'x', filters 'dictionary'",
            "filter is dictionary",
        ),
        (grid, "dims 'x', filters 'zip'", "filter is \"zip\""),
        (
            grid,
            "dims 'x', filters.q 'zstd'",
            "option filters.q names no column",
        ),
        (grid, "dims 'x', rows '3'", "unknown option rows"),
        (
            grid,
            "dims 'x', duplicates 'true'",
            "requires a sparse array",
        ),
        (
            "SELECT CAST(1 AS BIGINT UNSIGNED) AS a, CAST(1 AS INT) AS b, 1 AS v",
            "dims 'a, b'",
            "need one datatype",
        ),
        (
            "SELECT 1 AS x, make_array(1, NULL) AS v",
            "dims 'x'",
            "null within a list",
        ),
        (
            "SELECT 1 AS x, CAST(1 AS DECIMAL(9, 2)) AS v",
            "dims 'x'",
            "cast it to a number",
        ),
        (
            "SELECT nullif(1, 1) AS x, 1 AS v",
            "dims 'x'",
            "dimension \"x\" has a null",
        ),
        (
            "SELECT CAST('NaN' AS DOUBLE) AS x, 1 AS v",
            "dims 'x', sparse 'true'",
            "has NaN",
        ),
        (
            "SELECT 'é' AS x, 1 AS v",
            "dims 'x', sparse 'true'",
            "expected ASCII",
        ),
        (
            "SELECT 1 AS x, 2 AS v WHERE false",
            "dims 'x'",
            "returned no rows",
        ),
    ] {
        let message = refusal(&ctx, query, &path, options).await;
        assert!(message.contains(expected), "{query}, {options}: {message}");
    }
    let message = refusal(&ctx, grid, &path.join("deep"), "dims 'x'").await;
    assert!(message.contains("does not exist"), "{message}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[tokio::test]
async fn more_rows_than_memory() {
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_limit(12 << 20, 1.0)
        .build_arc()
        .unwrap();
    let config = SessionConfig::new().with_target_partitions(1);
    let ctx = SessionContext::new_with_config_rt(config, runtime);
    let ctx = enable_arrays(ctx, ArrayOptions::new());
    let folder = tempfile::tempdir().unwrap();
    let query = "SELECT (n * 7919) % 300000 AS x, n AS v, repeat('t', 40) AS s FROM generate_series(0, 299999) AS g(n)";
    for (name, options) in [
        ("dense", "dims 'x', tile '10000'"),
        ("sparse", "dims 'x', sparse 'true'"),
    ] {
        let path = folder.path().join(name);
        assert_eq!(copy(&ctx, query, &path, options).await, ["300000"]);
        let array = open(&path);
        let summary = array.fragments()[0].summary(0).unwrap().unwrap();
        assert_eq!(summary.sum, Some(Scalar::Signed(299_999 * 300_000 / 2)));
        assert_eq!(summary.null_count, Some(0));
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 2);
}

/// Returns the statement that creates a table over an array.
fn creation(table: &str, path: &Path) -> String {
    let path = path.display();
    format!("CREATE EXTERNAL TABLE {table} STORED AS TILEDB LOCATION '{path}'")
}

#[tokio::test]
async fn rows_are_added_to_arrays() {
    let (ctx, folder) = (session(), tempfile::tempdir().unwrap());
    let query = "SELECT x, 10 * x AS v, nullif(CAST(x AS TEXT), '') AS s FROM generate_series(1, 4) AS t(x)";
    for kind in ["dense", "sparse"] {
        let path = folder.path().join(kind);
        let options = format!("dims 'x', sparse '{}'", kind == "sparse");
        copy(&ctx, query, &path, &options).await;
        answer(&ctx, &creation(kind, &path)).await;
        let sql = format!("INSERT INTO {kind} VALUES (3, 33, 'c'), (2, 22, NULL)");
        assert_eq!(answer(&ctx, &sql).await, ["2"]);
        assert_eq!(open(&path).fragments().len(), 2);
        let row = |x: i64, v: i64, s: Value| vec![json!(x), json!(v), s];
        let expected = vec![
            row(1, 10, json!("1")),
            row(2, 22, Value::Null),
            row(3, 33, json!("c")),
            row(4, 40, json!("4")),
        ];
        assert_eq!(cells(&path), expected);
        let sql = format!("INSERT INTO {kind} VALUES (NULL, 33, 'c')");
        let message = error(&ctx, &sql).await;
        assert!(message.contains("null"), "{message}");
        assert_eq!(cells(&path), expected);
        let message = error(&ctx, &format!("INSERT OVERWRITE {kind} VALUES (1, 1, '')")).await;
        assert!(message.contains("rows can only be added"), "{message}");
    }
    let message = error(&ctx, "INSERT INTO dense VALUES (1, 1, ''), (3, 3, '')").await;
    assert!(
        message.contains("2 cells are given of the 3 cells in the box [1 to 3]"),
        "{message}"
    );
    let message = error(&ctx, "INSERT INTO dense VALUES (5, 1, '')").await;
    assert!(message.contains("expected 1 to 4"), "{message}");
    // The domain of a sparse array without tiles is that of its datatype.
    answer(&ctx, "INSERT INTO sparse VALUES (-5, 1, '')").await;
    assert_eq!(cells(&folder.path().join("sparse")).len(), 5);
}

#[tokio::test]
async fn rows_are_added_to_external_tables() {
    let (ctx, folder) = (session(), tempfile::tempdir().unwrap());
    let query = "SELECT x, 10 * x AS v FROM generate_series(1, 4) AS t(x)";
    for kind in ["dense", "sparse"] {
        let path = folder.path().join(kind);
        let options = format!("dims 'x', sparse '{}'", kind == "sparse");
        copy(&ctx, query, &path, &options).await;
        let create = creation(kind, &path);
        answer(&ctx, &create).await;
        for (x, v) in [(2, 22), (3, 33)] {
            let sql = format!("INSERT INTO {kind} VALUES ({x}, {v})");
            assert_eq!(answer(&ctx, &sql).await, ["1"]);
        }
        let sql = format!("SELECT v FROM {kind} ORDER BY x");
        assert_eq!(answer(&ctx, &sql).await, ["10", "22", "33", "40"]);
        assert_eq!(
            answer(
                &ctx,
                &format!("SELECT count(*) FROM tiledb_fragments('{kind}')")
            )
            .await,
            ["3"]
        );
        // A table as of a given time stays as it is; a file that is opened shows new rows.
        let pinned = create.replace(&format!("TABLE {kind}"), &format!("TABLE {kind}_pinned"));
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        let options = format!("{pinned} OPTIONS (timestamp '{}')", now.as_millis());
        answer(&ctx, &options).await;
        let schema = format!("{kind}_file");
        ctx.register_array_file_as(&schema, &path, ArrayOptions::new())
            .await
            .unwrap();
        let in_file = format!("SELECT v FROM {schema}.{kind} ORDER BY x");
        assert_eq!(answer(&ctx, &in_file).await, ["10", "22", "33", "40"]);
        // So does a table of several arrays.
        let other = folder.path().join(format!("{kind}_other"));
        let options = format!("dims 'x', sparse '{}'", kind == "sparse");
        copy(&ctx, "SELECT 9 AS x, 90 AS v", &other, &options).await;
        let both = format!("{kind}_both");
        let pattern = folder.path().join(format!("{kind}*"));
        let create = creation(&both, &pattern);
        answer(&ctx, &format!("{create} OPTIONS (file_column 'true')")).await;
        let in_both = format!("SELECT v FROM {both} ORDER BY x");
        let expected = ["10", "22", "33", "40", "90"];
        assert_eq!(answer(&ctx, &in_both).await, expected);
        std::thread::sleep(std::time::Duration::from_millis(2));
        answer(&ctx, &format!("INSERT INTO {kind} VALUES (4, 44)")).await;
        assert_eq!(answer(&ctx, &sql).await, ["10", "22", "33", "44"]);
        assert_eq!(answer(&ctx, &in_file).await, ["10", "22", "33", "44"]);
        let expected = ["10", "22", "33", "44", "90"];
        assert_eq!(answer(&ctx, &in_both).await, expected);
        let sql = format!("SELECT v FROM {both} WHERE file LIKE '%_other'");
        assert_eq!(answer(&ctx, &sql).await, ["90"]);
        let message = error(&ctx, &format!("INSERT INTO {both} VALUES (4, 44, '')")).await;
        assert!(message.contains("several arrays"), "{message}");
        let pinned = format!("SELECT v FROM {kind}_pinned ORDER BY x");
        assert_eq!(answer(&ctx, &pinned).await, ["10", "22", "33", "40"]);
    }
}

#[test]
fn a_killed_copy_leaves_no_array() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("array");
    let sql = format!(
        "COPY (SELECT n AS x, n AS v FROM generate_series(1, 100000000000) AS g(n)) TO '{}' STORED AS TILEDB \
         OPTIONS (dims 'x', sparse 'true')",
        path.display()
    );
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tet-sql"));
    let mut process = command.args(["-c", &sql]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert!(process.try_wait().unwrap().is_none());
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(!path.exists());
}
