//! `COPY` to arrays: which columns become dimensions, the order of their coordinates, and how
//! chunks are stored.

use std::path::Path;

use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use tet_sql::format::array::{ArrayFile, Payload};
use tet_sql::format::tet::{Dataset, DatasetSpec, Dtype, OpenOptions, TetFile};
use tet_sql::{Access, ArrayOptions, enable_arrays};

use crate::support::sql::{error, open, rows, write};

/// Creates the source: `lat` descends, `lon` starts at 180, and `station` has no order. The value
/// of a cell is its row-major index.
async fn source(folder: &Path) -> SessionContext {
    let path = folder.join("source.tet");
    let spec = DatasetSpec::new("t2m", Dtype::I32, &[2, 3, 4, 3], &[1, 3, 2, 3])
        .with_dim_names(["time", "lat", "lon", "station"])
        .with_labels("time", ["2024-01-01T00:00:00", "2024-01-01T06:00:00"])
        .with_labels("lat", ["90.0", "0.0", "-90.0"])
        .with_labels("lon", ["180", "270", "0", "90"])
        .with_labels("station", ["KSEA", "EGLL", "RJTT"]);
    let cells = (0..72i32).flat_map(i32::to_le_bytes).collect();
    write(&path, &[(spec, cells)]);
    open(&path, ArrayOptions::new()).await
}

async fn copied(ctx: &SessionContext, query: &str, path: &Path, options: &str) -> TetFile {
    let sql = format!("COPY ({query}) TO '{}' {options}", path.display());
    rows(ctx, &sql).await;
    TetFile::open(path, OpenOptions::default()).unwrap()
}

/// Returns the value dataset, which follows the coordinate datasets.
fn values(file: &TetFile) -> &Dataset {
    file.datasets().last().unwrap()
}

fn labels(file: &TetFile, axis: &str) -> Vec<String> {
    let metadata = file.metadata(values(file)).unwrap();
    metadata.coords[axis].labels.clone()
}

fn dimensions(file: &TetFile) -> Vec<String> {
    let metadata = file.metadata(values(file)).unwrap();
    metadata.dim_names.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn axes_keep_the_order_of_their_source() {
    let folder = tempfile::tempdir().unwrap();
    let ctx = source(folder.path()).await;
    let path = folder.path().join("copy.tet");
    let file = copied(&ctx, "SELECT * FROM t2m", &path, "OPTIONS (codec 'raw')").await;
    assert_eq!(labels(&file, "lat"), ["90.0", "0.0", "-90.0"]);
    assert_eq!(labels(&file, "lon"), ["180", "270", "0", "90"]);
    assert_eq!(labels(&file, "station"), ["KSEA", "EGLL", "RJTT"]);
    // The cells are in the same order as in the source.
    let chunk = |file: &TetFile| {
        let dataset = &file.datasets()[0];
        let stored = file.chunk(dataset, &[0, 0, 0, 0], Access::Pread).unwrap();
        assert_eq!(stored.raw_bytes, 72 * 4);
        let Payload::Raw(offset) = stored.payload else {
            panic!("{stored:?}");
        };
        let bytes = std::fs::read(&path).unwrap();
        let cells = bytes[offset as usize..][..72 * 4].as_chunks::<4>().0.iter();
        cells
            .map(|cell| i32::from_le_bytes(*cell))
            .collect::<Vec<_>>()
    };
    assert_eq!(chunk(&file), (0..72).collect::<Vec<_>>());
    for (query, expected) in [
        // The order of the source survives groupings, sorts, joins, unions and filters.
        (
            "SELECT lat, lon, avg(value) AS mean FROM t2m GROUP BY lat, lon",
            ["90.0 0.0 -90.0", "180 270 0 90"],
        ),
        (
            "SELECT lat, lon, mean FROM (SELECT lon, lat, sum(value) AS mean FROM t2m GROUP BY lon, lat) ORDER BY mean DESC",
            ["90.0 0.0 -90.0", "180 270 0 90"],
        ),
        (
            "SELECT a.lat, a.lon, a.value - b.least AS d FROM t2m a JOIN (SELECT lat, lon, station, min(value) AS least \
             FROM t2m GROUP BY 1, 2, 3) b USING (lat, lon, station) WHERE a.time = '2024-01-01' AND a.station = 'EGLL'",
            ["90.0 0.0 -90.0", "180 270 0 90"],
        ),
        (
            "SELECT lat, lon, value FROM t2m WHERE time = '2024-01-01' AND station = 'KSEA' AND lat < 0 UNION ALL \
             SELECT lat, lon, value FROM t2m WHERE time = '2024-01-01' AND station = 'KSEA' AND lat >= 0",
            ["90.0 0.0 -90.0", "180 270 0 90"],
        ),
        (
            "SELECT lat, lon, max(value) AS m FROM t2m WHERE lat < 50 AND lon <> 270 GROUP BY lat, lon",
            ["0.0 -90.0", "180 0 90"],
        ),
        // Computed coordinates have no order in the source, so they are sorted.
        (
            "SELECT lat + 1 AS lat, (lon + 180) % 360 - 180 AS lon, max(value) AS m FROM t2m GROUP BY 1, 2",
            ["-89.0 1.0 91.0", "-180 -90 0 90"],
        ),
    ] {
        let file = copied(&ctx, query, &path, "").await;
        let found = ["lat", "lon"].map(|axis| labels(&file, axis).join(" "));
        assert_eq!(found, expected, "{query}");
    }
    let sorted = copied(
        &ctx,
        "SELECT * FROM t2m",
        &path,
        "OPTIONS (axis_order 'sorted')",
    )
    .await;
    assert_eq!(labels(&sorted, "lat"), ["-90.0", "0.0", "90.0"]);
    assert_eq!(labels(&sorted, "lon"), ["0", "90", "180", "270"]);
    assert_eq!(labels(&sorted, "station"), ["EGLL", "KSEA", "RJTT"]);
    // The coordinates of two files read as one table follow the order of the files.
    for (name, condition) in [("1.tet", "lat > 0"), ("2.tet", "lat <= 0")] {
        let part = folder.path().join(name);
        copied(
            &ctx,
            &format!("SELECT * FROM t2m WHERE {condition}"),
            &part,
            "",
        )
        .await;
    }
    let both = format!("SELECT * FROM '{}/[12].tet'", folder.path().display());
    let file = copied(&ctx, &both, &path, "").await;
    assert_eq!(labels(&file, "lat"), ["90.0", "0.0", "-90.0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn group_by_keys_become_dimensions() {
    let folder = tempfile::tempdir().unwrap();
    let ctx = source(folder.path()).await;
    let path = folder.path().join("copy.tet");
    for (query, expected) in [
        (
            "SELECT date_part('hour', time) AS hour, lat, lon, avg(value) AS mean FROM t2m GROUP BY hour, lat, lon",
            "hour lat lon",
        ),
        (
            "SELECT lat, date_part('hour', time) AS hour, count(*) AS n, max(time) AS last FROM t2m GROUP BY 1, 2",
            "lat hour",
        ),
        (
            "SELECT floor(lat / 100) AS band, max(value) AS m FROM t2m GROUP BY 1 HAVING max(value) > 0 ORDER BY m LIMIT 9",
            "band",
        ),
        (
            "SELECT value % 3 AS rest, count(*) AS n FROM t2m GROUP BY 1",
            "rest",
        ),
        (
            "SELECT CAST(hour AS SMALLINT) AS hour, m FROM (SELECT date_part('hour', time) AS hour, max(value) AS m \
             FROM t2m GROUP BY 1)",
            "hour",
        ),
        // A function of coordinates in the output is a value. A function of a coordinate that is
        // not in the output is a dimension.
        (
            "SELECT time, lat, lon, station, date_part('hour', time) AS hour, value FROM t2m",
            "time lat lon station",
        ),
        (
            "SELECT date_part('hour', time) AS hour, lat, lon, station, value FROM t2m",
            "hour lat lon station",
        ),
        (
            "SELECT lat, lon, cos(radians(lat)) AS weight, value FROM t2m WHERE time = '2024-01-01' AND station = 'KSEA'",
            "lat lon",
        ),
        // Rows that come from no array follow the same rules.
        (
            "SELECT a, b, sum(c) AS s, count(*) AS n FROM (VALUES (1, 2.5, 3), (1, 3.5, 4)) t(a, b, c) GROUP BY a, b",
            "a b",
        ),
        (
            "SELECT DISTINCT * FROM (VALUES (1, 2.5), (2, 2.5)) t(a, v)",
            "a",
        ),
    ] {
        let file = copied(&ctx, query, &path, "").await;
        assert_eq!(dimensions(&file).join(" "), expected, "{query}");
        let found = rows(&ctx, &format!("SELECT count(*) FROM ({query})")).await;
        let cells: u64 = values(&file).shape().iter().product();
        assert_eq!(found, [cells.to_string()], "{query}");
    }
    // A column that may be a dimension or a value is an error, with options that can be copied from
    // the message.
    let query = "SELECT lat, lon, station, time, n, value FROM t2m, (VALUES (1), (2)) v(n)";
    let sql = format!("COPY ({query}) TO '{}'", path.display());
    let told = error(&ctx, &sql).await;
    assert!(told.contains("n may be dimensions or values"), "{told}");
    let options = "OPTIONS (dims 'lat,lon,station,time,n')";
    assert!(told.contains(options), "{told}");
    assert_eq!(rows(&ctx, &format!("{sql} {options}")).await, ["144"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_are_compressed_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let ctx = source(folder.path()).await;
    for (options, is_raw) in [
        ("", false),
        ("OPTIONS (compression 'zstd(7)')", false),
        ("OPTIONS (codec 'zstd', level 7)", false),
        ("OPTIONS (compression 'none')", true),
        ("OPTIONS (compression 'uncompressed')", true),
        ("OPTIONS (codec 'raw')", true),
    ] {
        let path = folder.path().join("copy.tet");
        let file = copied(&ctx, "SELECT * FROM t2m", &path, options).await;
        let dataset = &file.datasets()[0];
        let stored = file.chunk(dataset, &[0, 0, 0, 0], Access::Pread).unwrap();
        let is_found_raw = matches!(stored.payload, Payload::Raw(_));
        assert_eq!(is_found_raw, is_raw, "{options}: {stored:?}");
        if cfg!(feature = "zarr") {
            let path = folder.path().join("copy.zarr");
            let sql = format!("COPY t2m TO '{}' {options}", path.display());
            rows(&ctx, &sql).await;
            let metadata = std::fs::read_to_string(path.join("t2m/zarr.json")).unwrap();
            assert_eq!(metadata.contains("zstd"), !is_raw, "{options}: {metadata}");
        }
    }
}

/// Eight dimensions are a limit of `.tet`, not of Zarr.
#[cfg(feature = "zarr")]
#[tokio::test]
async fn each_format_has_its_own_limit_of_dimensions() {
    let folder = tempfile::tempdir().unwrap();
    let ctx = source(folder.path()).await;
    let query = "SELECT 1 AS a, 2 AS b, 3 AS c, 4 AS d, 5 AS e, 6 AS f, 7 AS g, 8 AS h, i, i * 1.5 AS x \
                 FROM range(1, 4) AS r(i)";
    let copy = |name: &str| {
        let path = folder.path().join(name);
        format!(
            "COPY ({query}) TO '{}' OPTIONS (dims 'a,b,c,d,e,f,g,h,i')",
            path.display()
        )
    };
    let message = error(&ctx, &copy("nine.tet")).await;
    assert!(message.contains("at most 8"), "{message}");
    rows(&ctx, &copy("nine.zarr")).await;
    let ctx = open(&folder.path().join("nine.zarr"), ArrayOptions::new()).await;
    let sum = "SELECT a, h, sum(i), sum(value) FROM x WHERE i > 1 GROUP BY a, h";
    assert_eq!(rows(&ctx, sum).await, ["1 8 5 7.5"]);
}

/// The first axis grows until the last row, when the rows have long been more than the memory.
#[tokio::test(flavor = "multi_thread")]
async fn coordinates_fit_beside_the_rows_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(8 << 20, 1.0);
    let config = SessionConfig::new().with_target_partitions(2);
    let ctx = SessionContext::new_with_config_rt(config, runtime.build_arc().unwrap());
    let ctx = enable_arrays(ctx, ArrayOptions::new());
    let query = "SELECT a.value AS x, b.value AS y, 1.0 AS u, 2.0 AS v, 3.0 AS w \
                 FROM generate_series(1, 2000) AS a, generate_series(1, 300) AS b";
    let path = folder.path().join("rows.zarr");
    let sql = format!(
        "COPY ({query}) TO '{}' OPTIONS (dims 'x,y')",
        path.display()
    );
    assert_eq!(rows(&ctx, &sql).await, ["600000"]);
}
