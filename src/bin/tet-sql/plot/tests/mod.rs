//! Charts of results as a whole.

mod drawings;
mod files;

use super::*;
use crate::demo::Demo;
use arrow::datatypes::{Int32Type, TimestampSecondType};
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Float64Array, Int64Array, ListArray,
    PrimitiveArray, StringArray,
};
use datafusion::prelude::SessionContext;
use std::collections::BTreeMap;
use std::sync::Arc;
use tet_sql::{TetOptions, TetSessionExt, enable_tet};

/// A chart of a query over the demonstration's file, and the units of its columns.
async fn query(sql: &str) -> (Result<Chart, String>, BTreeMap<String, String>) {
    let demo = Demo::create().unwrap();
    let context = enable_tet(SessionContext::new(), TetOptions::new());
    context
        .register_tet_file(demo.path(), TetOptions::new())
        .await
        .unwrap();
    let state = context.state_ref();
    let options = |schema: &str| {
        state
            .write()
            .config_mut()
            .options_mut()
            .catalog
            .default_schema = schema.to_owned()
    };
    options("demo");
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

async fn chart(sql: &str) -> Chart {
    query(sql).await.0.unwrap()
}

fn made(columns: Vec<(&str, ArrayRef)>) -> Result<Chart, String> {
    made_as(None, columns)
}

fn made_as(kind: Option<ChartKind>, columns: Vec<(&str, ArrayRef)>) -> Result<Chart, String> {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    Chart::of(kind, &batch.schema(), &[batch])
}

fn floats(values: impl IntoIterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}

fn integers(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn kind(chart: &Chart) -> String {
    match &chart.content {
        Content::Lines(lines) => format!(
            "{} lines of {} over {}",
            lines.lines.len(),
            lines.y.title,
            lines.x.title
        ),
        Content::HeatMap(map) => format!(
            "map of {} over {} and {}",
            map.value.title, map.x.title, map.y.title
        ),
        Content::Histogram(histogram) => format!("histogram of {}", histogram.x.title),
        Content::Bars(bars) => format!(
            "{} bars of {} over {}",
            bars.bars.len(),
            bars.value.title,
            bars.title
        ),
    }
}

fn ascii(chart: &Chart, width: usize, height: usize) -> String {
    chart.draw((width, height), Colours::None, Characters::Ascii)
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
        assert_eq!(kind(&chart(sql).await), expected, "{sql}");
    }
}

#[test]
fn a_kind_of_picture_can_be_asked_for() {
    // Two levels of five latitudes, and what is measured there.
    let columns = || {
        vec![
            (
                "level",
                integers([1000, 500].into_iter().flat_map(|level| [level; 5])),
            ),
            ("lat", floats([90.0, 45.0, 0.0, -45.0, -90.0].repeat(2))),
            ("t", floats((0..10).map(f64::from))),
            ("h", floats((0..10).map(|n| f64::from(n * n)))),
        ]
    };
    for (asked, expected) in [
        (None, "map of t over lat and level"),
        (Some(ChartKind::Map), "map of t over lat and level"),
        (Some(ChartKind::Lines), "2 lines of t over lat"),
        (Some(ChartKind::Scatter), "1 lines of lat over level"),
        (Some(ChartKind::Histogram), "histogram of h"),
    ] {
        assert_eq!(kind(&made_as(asked, columns()).unwrap()), expected);
    }
    let error = made_as(Some(ChartKind::Bars), columns()).err().unwrap();
    assert!(error.contains("bars have one"), "{error}");
    let one_axis = || vec![("n", integers(0..3)), ("v", floats([1.0, 2.0, 4.0]))];
    assert_eq!(
        kind(&made_as(Some(ChartKind::Bars), one_axis()).unwrap()),
        "3 bars of v over n"
    );
    let error = made_as(Some(ChartKind::Map), one_axis()).err().unwrap();
    assert!(error.contains("a map needs two"), "{error}");
    let chart = made_as(Some(ChartKind::Scatter), one_axis()).unwrap();
    let Content::Lines(lines) = &chart.content else {
        panic!("no points");
    };
    let points: Vec<_> = lines.lines[0].pieces.iter().flatten().copied().collect();
    assert_eq!(points, [(0.0, 1.0), (1.0, 2.0), (2.0, 4.0)]);
    assert!(lines.lines[0].pieces.iter().all(|piece| piece.len() == 1));
}

#[test]
fn axes_have_the_order_of_the_rows() {
    let line = |lats: [f64; 4]| {
        let chart = made(vec![
            ("lat", floats(lats)),
            ("v", floats([1.0, 2.0, 3.0, 4.0])),
        ]);
        let Ok(Content::Lines(lines)) = chart.map(|chart| chart.content) else {
            panic!("no lines");
        };
        (lines.x.place(90.0), lines.x.place(-90.0))
    };
    assert_eq!(line([90.0, 30.0, -30.0, -90.0]), (0.0, 1.0));
    assert_eq!(line([-90.0, -30.0, 30.0, 90.0]), (1.0, 0.0));
    assert_eq!(line([30.0, 90.0, -90.0, -30.0]), (1.0, 0.0));
    // North is up on a map, and the levels of a column of air begin with that of the ground.
    let map = |name: &str| {
        let up = [1000.0, 700.0, 400.0, 100.0];
        let chart = made_as(
            Some(ChartKind::Map),
            vec![
                (name, floats(up.into_iter().flat_map(|up| [up; 3]))),
                ("lon", floats([0.0, 10.0, 20.0].repeat(4))),
                ("v", floats((0..12).map(f64::from))),
            ],
        );
        let Ok(Content::HeatMap(map)) = chart.map(|chart| chart.content) else {
            panic!("no map");
        };
        (map.y.place(1000.0) < map.y.place(100.0), map.dots(3, 4)[0])
    };
    assert_eq!(map("level"), (true, 9.0));
    assert_eq!(map("lat"), (false, 0.0));
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
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)])]);
    let error = made(vec![("l", Arc::new(lists))]).err().unwrap();
    assert!(
        error.starts_with("there is nothing to draw: l is not drawn: it is of type List"),
        "{error}"
    );
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
fn every_type_finds_its_place() {
    let decimals = Decimal128Array::from(vec![125, 250])
        .with_precision_and_scale(5, 2)
        .unwrap();
    let zoned = PrimitiveArray::<TimestampSecondType>::from(vec![1_719_792_000, 1_719_795_600])
        .with_timezone("Europe/Berlin");
    let chart = made(vec![
        ("t", Arc::new(zoned)),
        ("d", Arc::new(decimals)),
        ("b", Arc::new(BooleanArray::from(vec![true, false]))),
    ])
    .unwrap();
    assert_eq!(kind(&chart), "2 lines of  over t");
    let drawn = ascii(&chart, 60, 12);
    assert!(
        drawn.contains("t (2024-07-01, Europe/Berlin)") && drawn.contains("02:00"),
        "{drawn}"
    );
    let Content::Lines(lines) = &chart.content else {
        panic!("{chart:?}");
    };
    let ends = |line: usize| {
        lines.lines[line].pieces[0]
            .iter()
            .map(|point| point.1)
            .collect::<Vec<_>>()
    };
    assert_eq!((ends(0), ends(1)), (vec![1.25, 2.5], vec![1.0, 0.0]));
    let words: DictionaryArray<Int32Type> = vec![Some("x"), None, Some("x")].into_iter().collect();
    let chart = made(vec![("w", Arc::new(words))]).unwrap();
    let Content::Bars(bars) = &chart.content else {
        panic!("{chart:?}");
    };
    assert_eq!(bars.bars, [("x".to_owned(), 2.0), ("NULL".to_owned(), 1.0)]);
}

#[test]
fn odd_results_have_pictures() {
    let of = |x: Vec<f64>, y: Vec<f64>| made(vec![("x", floats(x)), ("y", floats(y))]).unwrap();
    let charts = [
        of(vec![1.0], vec![1.0]),
        of(vec![1.0, 2.0], vec![7.0, 7.0]),
        of(vec![-1e300, 1e300], vec![1e300, -1e300]),
        of(vec![0.0, 1e-310], vec![5e-324, 0.0]),
        of(vec![1e17, 1e17 + 16.0], vec![0.0, 1.0]),
        made(vec![("n", floats([3.0]))]).unwrap(),
        made(vec![("n", integers([i64::MIN, i64::MAX, 0]))]).unwrap(),
        made(vec![
            ("a", integers([1])),
            ("b", texts(&["x"])),
            ("c", floats([1.0])),
        ])
        .unwrap(),
        made(vec![
            ("lat", integers([1, 2])),
            ("b", integers([1, 1])),
            ("c", floats([1.0, 1.0])),
        ])
        .unwrap(),
        made(vec![
            ("\u{1b}[2J<&\"'>\u{0}", texts(&["]]>", "\u{202e}\n"])),
            ("温度", floats([1.0, 2.0])),
        ])
        .unwrap(),
    ];
    for chart in charts {
        for characters in [Characters::Ascii, Characters::Blocks, Characters::Braille] {
            for size in [(0, 0), (24, 8), (80, 24), (10_000, 10_000)] {
                let drawn = chart.draw(size, Colours::None, characters);
                assert!(
                    !drawn.contains('\u{1b}') && drawn.lines().count() >= 4,
                    "{drawn}"
                );
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.svg");
        chart.write(&path).unwrap();
        files::assert_well_formed(&std::fs::read_to_string(path).unwrap());
    }
}

#[test]
fn labels_may_be_as_wide_as_the_terminal() {
    let chart = made(vec![
        ("lat", integers([1, 2, 1, 2])),
        ("lon", integers([1, 1, 2, 2])),
        ("v", floats([0.0, 1.0, 2.0, 3.0].map(|n| -1e-5 - n * 1e-16))),
    ])
    .unwrap();
    assert!(ascii(&chart, 24, 8).lines().count() >= 8);
}

#[tokio::test]
async fn rows_of_one_place_are_averaged() {
    let chart = made(vec![
        ("x", integers([1, 1, 2])),
        ("y", floats([1.0, 3.0, 5.0])),
    ])
    .unwrap();
    let Content::Lines(lines) = &chart.content else {
        panic!("{chart:?}");
    };
    assert_eq!(lines.lines[0].pieces, [[(1.0, 2.0), (2.0, 5.0)]]);
    assert_eq!(
        chart.notes,
        ["1 row has the x of another: their mean is drawn"]
    );
    let sql = "SELECT time, value * 0 AS a, value * 0 AS b FROM pressure";
    assert_eq!(
        self::chart(sql).await.notes,
        ["192 rows have the time of another: their mean is drawn"]
    );
    let columns = [
        integers([1, 1, 2, 2, 1]),
        integers([1, 2, 1, 2, 1]),
        floats([1.0, 2.0, 3.0, 4.0, 5.0]),
    ];
    let [a, b, value] = columns;
    let chart = made(vec![("a", a), ("b", b), ("value", value)]).unwrap();
    let Content::HeatMap(map) = &chart.content else {
        panic!("{chart:?}");
    };
    // The first column of the result is that of the rows.
    assert_eq!(map.cells, [3.0, 2.0, 3.0, 4.0]);
    assert_eq!(
        chart.notes,
        ["up to 2 rows have the same b and a: their mean is drawn"]
    );
}

#[test]
fn large_results_are_as_small_as_a_screen() {
    let rows = 1_000_000;
    let chart = made(vec![
        ("x", integers(0..rows)),
        ("y", integers((0..rows).map(|i| i * 7919 % 1009))),
    ])
    .unwrap();
    let Content::Lines(lines) = &chart.content else {
        panic!("{chart:?}");
    };
    let points: usize = lines.lines[0].pieces.iter().map(Vec::len).sum();
    assert!((2000..5000).contains(&points), "{points}");
    let square = |part: fn(i64) -> i64| integers((0..rows).map(part));
    let value = integers((0..rows).map(|i| i / 1000));
    let chart = made(vec![
        ("lat", square(|i| i / 1000)),
        ("lon", square(|i| i % 1000)),
        ("v", value),
    ])
    .unwrap();
    let Content::HeatMap(map) = &chart.content else {
        panic!("{chart:?}");
    };
    // Two longitudes and three latitudes to a cell, the last of which has one.
    assert_eq!((map.columns(), map.rows()), (500, 334));
    assert_eq!(
        (map.cells[0], map.cells[500], map.cells[334 * 500 - 1]),
        (1.0, 4.0, 999.0)
    );
    assert_eq!(
        chart.notes,
        ["1000 x 1000 coordinates are drawn as 500 x 334 cells, each the mean of its values"]
    );
    let scattered = |by: i64| floats((0..5000).map(move |i| ((i * i * by) % 100_003) as f64));
    let chart = made(vec![
        ("a", scattered(7)),
        ("b", scattered(31)),
        ("v", scattered(3)),
    ])
    .unwrap();
    assert!(
        chart
            .notes
            .iter()
            .any(|note| note.contains("lie on no grid"))
            || kind(&chart).contains("lines"),
        "{chart:?}"
    );
}
