//! Charts of queries over the demonstration file.

use super::*;
use crate::demo::Demo;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use std::collections::BTreeMap;
use std::sync::Arc;
use tet_sql::{ArrayOptions, ArraySessionExt, enable_arrays};

/// Returns the chart of a query over the demonstration file, and the units of its columns.
async fn query(sql: &str) -> (Result<Chart, String>, BTreeMap<String, String>) {
    let demo = Demo::create().unwrap();
    let context = enable_arrays(SessionContext::new(), ArrayOptions::new());
    context
        .register_array_file(&demo.paths()[0], ArrayOptions::new())
        .await
        .unwrap();
    let statement = "SET datafusion.catalog.default_schema = 'demo'";
    context.sql(statement).await.unwrap();
    let frame = context.sql(sql).await.unwrap();
    let stream = frame.execute_stream().await.unwrap();
    let schema = stream.schema();
    let batches = datafusion::physical_plan::common::collect(stream)
        .await
        .unwrap();
    let units = schema.fields().iter().filter_map(|field| {
        let unit = field.metadata().get("units")?;
        Some((field.name().clone(), unit.clone()))
    });
    (Chart::of(None, &schema, &batches), units.collect())
}

#[tokio::test]
async fn results_choose_their_pictures() {
    let expected = [
        (
            "SELECT lat, avg(value) FROM temperature GROUP BY lat",
            "1 lines of avg(temperature.value) [degC] over lat",
        ),
        (
            "SELECT count(*) AS n, lat FROM temperature GROUP BY lat",
            "1 lines of n over lat",
        ),
        (
            "SELECT lat, count(*) AS n, max(value) AS m FROM temperature GROUP BY lat",
            "2 lines of  over lat",
        ),
        (
            "SELECT time, lat, lon, value FROM temperature WHERE lat = 50 AND lon = 100",
            "1 lines of value [degC] over time",
        ),
        (
            "SELECT time, temperature, humidity FROM time_lat_lon WHERE lat = 50 AND lon = 100",
            "2 lines of  over time",
        ),
        ("SELECT * FROM pressure", "5 lines of value [hPa] over time"),
        (
            "SELECT time, value FROM temperature",
            "1 lines of value [degC] over time",
        ),
        (
            "SELECT lat, lon, max(value) AS m FROM temperature GROUP BY lat, lon",
            "map of m [degC] over lon and lat",
        ),
        (
            "SELECT lon, lat, value FROM temperature",
            "map of value [degC] over lon and lat",
        ),
        (
            "SELECT time, lat, temperature, humidity FROM time_lat_lon",
            "map of temperature [degC] over time and lat",
        ),
        (
            "SELECT floor(lat / 30) AS band, time, count(value) AS n FROM temperature GROUP BY band, time",
            "map of n over time and band",
        ),
        (
            "SELECT station, date_part('hour', time) AS hour, 1 + value FROM pressure WHERE time < '2024-01-01T03:00:00'",
            "5 lines of Int64(1) + pressure.value [hPa] over hour",
        ),
        ("SELECT value FROM temperature", "histogram of value [degC]"),
        ("SELECT time FROM pressure", "histogram of time"),
        (
            "SELECT station FROM pressure",
            "5 bars of rows over station",
        ),
        (
            "SELECT station, min(value) AS least FROM pressure GROUP BY station",
            "5 bars of least [hPa] over station",
        ),
        (
            "SELECT lat > 0 AS north, avg(value) AS mean FROM temperature GROUP BY north",
            "2 bars of mean [degC] over north",
        ),
    ];
    for (sql, expected) in expected {
        assert_eq!(query(sql).await.0.unwrap().summary(), expected, "{sql}");
    }
}

#[tokio::test]
async fn what_no_picture_shows_is_told() {
    let expected = [
        (
            "SELECT * FROM temperature",
            "the result has 3 axes (time, lat, lon), and a picture has two: aggregate over the others, as in SELECT lat, \
             lon, avg(...) ... GROUP BY lat, lon, or fix one of them, as in WHERE time = '2024-01-01T00:00:00'",
        ),
        (
            "SELECT * FROM temperature WHERE lat > 100",
            "the result has no rows, so there is nothing to draw",
        ),
        (
            "SELECT time, lat FROM temperature",
            "there is no column of numbers to draw along the axes: add one, such as value, avg(value) or count(*)",
        ),
        (
            "SELECT lat, avg(value) AS mean FROM temperature WHERE value IS NULL GROUP BY lat",
            "there is nothing to draw: mean has no finite number",
        ),
    ];
    for (sql, expected) in expected {
        assert_eq!(query(sql).await.0.err().as_deref(), Some(expected), "{sql}");
    }
}

#[tokio::test]
async fn units_survive_what_keeps_them() {
    let sql = "SELECT lat, min(value) AS a, round(avg(value), 1) AS b, CAST(max(value) AS DOUBLE) - min(value) AS c, \
               var_pop(value) AS d, count(value) AS e, sum(value * 2) AS f FROM temperature GROUP BY lat";
    let of = |names: &str| {
        names
            .chars()
            .map(|name| (name.to_string(), "degC".to_owned()))
            .collect::<BTreeMap<_, _>>()
    };
    assert_eq!(query(sql).await.1, of("abc"));
    let sql = "WITH t AS (SELECT time, lat, value AS v FROM temperature WHERE lon = 0) \
               SELECT time, max(s) AS a, max(n) AS b FROM (SELECT time, v - lag(v) OVER (ORDER BY time) AS s, 1 AS n FROM t) \
               GROUP BY time ORDER BY time LIMIT 3";
    assert_eq!(query(sql).await.1, of("a"));
    let sql = "SELECT max(value) AS a, lat FROM temperature GROUP BY lat UNION ALL SELECT min(value), lat FROM temperature \
               GROUP BY lat";
    assert_eq!(query(sql).await.1, of("a"));
    let sql =
        "SELECT DISTINCT ON (lat) abs(value) AS a, lon, time, value * 2 AS b FROM temperature";
    assert_eq!(query(sql).await.1, of("a"));
    let sql = "SELECT coalesce(temperature, 0) AS a, coalesce(temperature, humidity) AS b FROM time_lat_lon";
    assert_eq!(query(sql).await.1, of("a"));
}

#[tokio::test]
async fn no_unit_is_that_of_something_else() {
    for sql in [
        "SELECT max(value) AS a FROM temperature UNION ALL SELECT max(value) FROM humidity",
        "SELECT a FROM pressure RIGHT SEMI JOIN (SELECT time, lat, value * 2 AS a FROM temperature) AS twice \
         ON pressure.time = twice.time",
    ] {
        assert_eq!(query(sql).await.1, BTreeMap::new(), "{sql}");
    }
}

#[test]
fn array_files_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("array.svg");
    std::fs::write(&path, b"TETR and more").unwrap();
    let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let batch = RecordBatch::try_from_iter([("n", values)]).unwrap();
    let chart = Chart::of(None, &batch.schema(), &[batch]).unwrap();
    let Err(Failure::Message(message)) = write(&chart, &path) else {
        panic!("the array file is overwritten");
    };
    assert!(message.ends_with("array.svg: is an array file; array files are never overwritten"));
    assert_eq!(std::fs::read(&path).unwrap(), b"TETR and more");
}

/// Regenerates the pictures of the README: `cargo test --bin tet-sql pictures_of_the_readme --
/// --ignored`.
#[tokio::test]
#[ignore = "writes into docs/images"]
async fn pictures_of_the_readme() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/images");
    for (name, sql) in [
        (
            "plot-lines.png",
            "SELECT * FROM pressure WHERE station IN ('KSEA', 'KPDX', 'RJTT')",
        ),
        (
            "plot-heat-map.png",
            "SELECT lat, lon, avg(value) AS mean FROM temperature GROUP BY lat, lon",
        ),
        ("plot-histogram.png", "SELECT value FROM temperature"),
    ] {
        let path = folder.join(name);
        query(sql).await.0.unwrap().write(&path).unwrap();
        assert!(std::fs::metadata(path).unwrap().len() < 60_000, "{name}");
    }
}
