//! Charts of results as a whole.

use super::*;
use crate::demo::Demo;
use arrow::datatypes::{Int32Type, TimestampSecondType};
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Float64Array, Int64Array, ListArray,
    PrimitiveArray, StringArray,
};
use datafusion::prelude::SessionContext;
use flate2::read::ZlibDecoder;
use std::io::Read;
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
    let units = units(frame.logical_plan());
    let stream = frame.execute_stream().await.unwrap();
    let schema = stream.schema();
    let batches = datafusion::physical_plan::common::collect(stream)
        .await
        .unwrap();
    (Chart::of(&schema, &batches, &units), units)
}

async fn chart(sql: &str) -> Chart {
    query(sql).await.0.unwrap()
}

fn made(columns: Vec<(&str, ArrayRef)>) -> Result<Chart, String> {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    Chart::of(&batch.schema(), &[batch], &BTreeMap::new())
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
            "5 lines of Int64(1) + pressure.value over hour",
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
}

#[test]
fn lines_have_gaps_and_are_sorted() {
    let x = floats([5.0, 4.0, 3.0, 2.0, 1.0, 0.0, 6.0, 7.0]);
    let y = floats([2.5, 2.0, f64::NAN, 1.0, 0.5, 0.0, f64::INFINITY, 3.5]);
    let chart = made(vec![("x", x), ("y", y)]).unwrap();
    assert_eq!(
        ascii(&chart, 32, 11),
        "\
y
  |                           *
  |
2 +               *****
  |      ***
  |  ****
0 +**
  ++---+---+---+--+---+---+---+
   0   1   2   3  4   5   6   7
                 x
1 infinite value is left out
"
    );
    assert_eq!(
        chart.draw((24, 9), Colours::None, Characters::Braille),
        "\
y
  │                   ⠐
2 ┤           ⣀⠤⠔⠂
  │    ⣀⠤
0 ┤⠤⠒⠊⠉
  └┬────┬─────┬────┬───
   0    2     4    6
             x
1 infinite value is left
out
"
    );
}

#[test]
fn terminals_without_braille_draw_blocks() {
    let chart = made(vec![
        ("x", integers(0..9)),
        ("y", integers((0..9).map(|i| i % 4))),
    ])
    .unwrap();
    assert_eq!(
        chart.draw((24, 9), Colours::None, Characters::Blocks),
        "\
y
  │      ▗▞▖       ▄▚
2 ┤     ▞▘ ▚     ▗▀ ▝▖
  │   ▄▀   ▝▖  ▗▞▘   ▚
  │ ▗▞      ▚ ▄▘     ▝▖
0 ┤▞▘       ▝▞        ▚
  └┬────┬────┬───┬────┬
   0    2    4   6    8
             x
"
    );
}

#[test]
fn several_lines_are_told_apart_without_colours() {
    let chart = made(vec![
        ("x", integers(0..4)),
        ("up", integers(0..4)),
        ("down", integers((0..4).rev())),
    ])
    .unwrap();
    assert_eq!(
        chart.draw((24, 9), Colours::None, Characters::Braille),
        "\
* up  o down
  │ooo             ****
2 ┤   ooooo    ****
  │        ****
  │   *****    oooo
0 ┤***             oooo
  └┬─────┬──────┬─────┬
   0     1      2     3
             x
"
    );
    let coloured = chart.draw((24, 9), Colours::Ansi16, Characters::Braille);
    assert!(
        coloured.contains("\x1b[94m─\x1b[0m up") && coloured.contains("\x1b[91m─\x1b[0m down"),
        "{coloured}"
    );
}

#[test]
fn larger_is_further_up_in_heat_maps() {
    let (lat, lon) = (
        integers([10, 10, 0, 0, -10, -10]),
        integers([0, 90, 0, 90, 0, 90]),
    );
    let value = Arc::new(Float64Array::from(vec![
        Some(9.0),
        Some(8.0),
        None,
        Some(4.0),
        Some(1.0),
        Some(0.0),
    ]));
    let chart = made(vec![("lat", lat), ("lon", lon), ("v", value)]).unwrap();
    assert_eq!(
        ascii(&chart, 32, 10),
        "\
lat                            v
    |@@@@@@@@@@@@@@@@@@@@  @@
 10 +@@@@@@@@@@@@@@@@@@@@  ##
    |          ++++++++++  ** 5
  0 +          ++++++++++  ==
-10 +::::::::::..........  --
    |::::::::::..........  .. 0
    +-----+--------+-----
          0       90
              lon
"
    );
    let coloured = chart.draw((32, 10), Colours::TrueColour, Characters::Blocks);
    // The highest value is in the lightest colour.
    assert!(coloured.contains("\x1b[38;2;253;231;37m█"), "{coloured:?}");
}

#[test]
fn bars_begin_at_zero() {
    let chart = made(vec![
        ("name", texts(&["b", "a", "c"])),
        ("n", integers([3, -1, 2])),
    ])
    .unwrap();
    assert_eq!(
        ascii(&chart, 32, 12),
        "\
name
 b|       ################## 3
 a| ###### -1
 c|       ############ 2
  +-+-----+-----+----+-----+-
   -1     0     1    2     3
                n
"
    );
    let chart = made(vec![
        ("name", texts(&["b", "a", "c"])),
        ("n", floats([3.0, 1.25, f64::NAN])),
    ])
    .unwrap();
    assert_eq!(
        chart.draw((32, 12), Colours::None, Characters::Blocks),
        "\
name
 b│███████████████████████▏ 3
 a│█████████▋ 1.25
 c│NULL
  └┬──────┬───────┬──────┬─
   0      1       2      3
               n
"
    );
}

#[test]
fn histograms_count() {
    let values = integers([1, 2, 2, 3, 3, 3, 4, 4, 5]);
    let chart = made(vec![("n", values)]).unwrap();
    let Content::Histogram(histogram) = &chart.content else {
        panic!("{chart:?}");
    };
    assert_eq!(histogram.edges, [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]);
    assert_eq!(histogram.counts, [1, 2, 3, 2, 1]);
    assert_eq!(
        chart.draw((32, 10), Colours::None, Characters::Blocks),
        "\
rows
  │           ▆▆▆▆▆▆
  │           ██████
2 ┤      ▇▇▇▇▇██████▇▇▇▇▇
  │      ████████████████
  │▇▇▇▇▇▇████████████████▇▇▇▇▇▇
0 ┤████████████████████████████
  └───┬────┬─────┬────┬────┬───
      1    2     3    4    5
                 n
"
    );
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
        assert_well_formed(&std::fs::read_to_string(path).unwrap());
    }
}

#[test]
fn rows_of_one_place_are_averaged() {
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

#[tokio::test]
async fn pictures_are_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let chart =
        chart("SELECT lat, lon, avg(value) AS \"</script>\" FROM temperature GROUP BY lat, lon")
            .await;
    chart.write(&path("a.svg")).unwrap();
    let svg = std::fs::read_to_string(path("a.svg")).unwrap();
    assert_well_formed(&svg);
    for text in [
        ">lon<",
        ">lat<",
        ">&lt;/script&gt; [degC]<",
        ">330<",
        ">-60<",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    chart.write(&path("a.PNG")).unwrap();
    let (width, height, pixels) = png(&std::fs::read(path("a.PNG")).unwrap());
    assert_eq!((width, height), (1600, 960));
    let colours: std::collections::HashSet<&[u8]> = pixels.chunks(3).collect();
    // The ends of the scale, white and the ink of the text, which needs no font of the machine.
    for colour in [
        [0x44, 1, 0x54],
        [0xfd, 0xe7, 0x25],
        [255, 255, 255],
        [0x22, 0x22, 0x22],
    ] {
        assert!(colours.contains(colour.as_slice()), "{colour:?}");
    }
    chart.write(&path("a.html")).unwrap();
    let html = std::fs::read_to_string(path("a.html")).unwrap();
    assert_eq!(
        (
            html.matches("<script").count(),
            html.matches("</script>").count()
        ),
        (2, 2)
    );
    assert_eq!(
        html.matches("http").count(),
        1,
        "only the name of the namespace"
    );
    let data = html
        .split("id=\"data\">")
        .nth(1)
        .unwrap()
        .split("</script>")
        .next()
        .unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["cells"]["values"].as_array().unwrap().len(), 19 * 36);
    assert_eq!(data["cells"]["yTexts"][0], "-90");
}

#[test]
fn other_files_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let chart = made(vec![("n", integers(0..3))]).unwrap();
    std::fs::write(path("array.svg"), b"TETR and more").unwrap();
    std::fs::write(path("old.svg"), b"<svg/>").unwrap();
    std::fs::create_dir(path("folder.png")).unwrap();
    for (name, expected) in [
        (
            "array.svg",
            "array.svg: is an array file, which is not overwritten",
        ),
        (
            "folder.png",
            "folder.png: is no file, and is not replaced by a picture",
        ),
        ("a.gif", "a.gif: pictures end in .svg, .png or .html"),
        ("svg", "svg: pictures end in .svg, .png or .html"),
        ("nowhere/a.svg", "nowhere/a.svg: "),
    ] {
        let error = chart.write(&path(name)).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    chart.write(&path("old.svg")).unwrap();
    assert!(
        std::fs::read_to_string(path("old.svg"))
            .unwrap()
            .contains("<title>histogram of n</title>")
    );
    assert_eq!(std::fs::read(path("array.svg")).unwrap(), b"TETR and more");
    // No temporary file is left.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
}

/// Makes the pictures of the README anew: `cargo test --bin tet-sql pictures_of_the_readme -- --ignored`.
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
        chart(sql).await.write(&path).unwrap();
        assert!(std::fs::metadata(path).unwrap().len() < 60_000, "{name}");
    }
}

/// Every element ends, within the one that it begins in; and nothing is in it that XML forbids.
fn assert_well_formed(text: &str) {
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text}");
    let mut open = Vec::new();
    for part in text.split('<').skip(1) {
        let (tag, content) = part.split_once('>').unwrap();
        let name = tag.split([' ', '/']).find(|name| !name.is_empty()).unwrap();
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        let entities = ["amp;", "lt;", "gt;", "quot;"];
        assert!(
            content
                .split('&')
                .skip(1)
                .all(|rest| entities.iter().any(|entity| rest.starts_with(entity)))
        );
        assert!(!content.contains('>'), "{content}");
    }
    assert!(open.is_empty(), "{open:?}");
}

/// The width, the height and the pixels of a file, by the specification of PNG.
fn png(file: &[u8]) -> (u32, u32, Vec<u8>) {
    let (signature, mut rest) = file.split_at(8);
    assert_eq!(signature, b"\x89PNG\r\n\x1a\n");
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
        chunks.push((&rest[4..8], &rest[8..8 + length]));
        let mut crc = flate2::Crc::new();
        crc.update(&rest[4..8 + length]);
        assert_eq!(rest[8 + length..12 + length], crc.sum().to_be_bytes());
        rest = &rest[12 + length..];
    }
    let kinds: Vec<&[u8]> = chunks.iter().map(|chunk| chunk.0).collect();
    assert_eq!(kinds, [b"IHDR", b"IDAT", b"IEND"]);
    let header = chunks[0].1;
    let number = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
    assert_eq!(header[8..], [8, 2, 0, 0, 0]);
    let (width, height) = (number(0), number(4));
    let mut lines = Vec::new();
    ZlibDecoder::new(chunks[1].1)
        .read_to_end(&mut lines)
        .unwrap();
    let row = width as usize * 3;
    assert_eq!(lines.len(), height as usize * (row + 1));
    let mut pixels: Vec<u8> = Vec::new();
    for line in lines.chunks(row + 1) {
        let above = pixels.len().checked_sub(row);
        for (column, value) in line[1..].iter().enumerate() {
            let above = above
                .filter(|_| line[0] == 2)
                .map_or(0, |above| pixels[above + column]);
            pixels.push(value.wrapping_add(above));
        }
    }
    (width, height, pixels)
}
