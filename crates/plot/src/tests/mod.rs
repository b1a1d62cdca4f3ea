//! Tests of charts of whole results.

mod drawings;
mod files;

use super::*;
use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Float64Array, Int64Array, ListArray,
    PrimitiveArray, StringArray,
};
use arrow::datatypes::{Int32Type, TimestampSecondType};
use std::sync::Arc;

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

fn ascii(chart: &Chart, width: usize, height: usize) -> String {
    chart.draw((width, height), Colours::None, Characters::Ascii)
}

#[test]
fn a_kind_of_picture_can_be_asked_for() {
    // Two levels of five latitudes, with two values each.
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
        assert_eq!(made_as(asked, columns()).unwrap().summary(), expected);
    }
    let error = made_as(Some(ChartKind::Bars), columns()).err().unwrap();
    assert!(error.contains("bars have one"), "{error}");
    let one_axis = || vec![("n", integers(0..3)), ("v", floats([1.0, 2.0, 4.0]))];
    assert_eq!(
        made_as(Some(ChartKind::Bars), one_axis())
            .unwrap()
            .summary(),
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
    // North is up on a map, and levels start at the ground.
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

#[test]
fn a_result_of_lists_has_no_picture() {
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)])]);
    let error = made(vec![("l", Arc::new(lists))]).err().unwrap();
    assert!(
        error.starts_with("there is nothing to draw: l is not drawn: it is of type List"),
        "{error}"
    );
}

#[test]
fn every_type_is_drawn() {
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
    assert_eq!(chart.summary(), "2 lines of  over t");
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
    let chart = made(vec![
        ("x", integers([1, 1, 1])),
        ("y", floats([1.0, 3.0, 5.0])),
    ])
    .unwrap();
    assert_eq!(
        chart.notes,
        ["2 rows have the x of another: their mean is drawn"]
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
    // The first column of the result is the vertical axis.
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
    // Cells of two longitudes and three latitudes; the last row of cells has one latitude.
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
            || chart.summary().contains("lines"),
        "{chart:?}"
    );
}
