//! Files with values or footers that are easy to get wrong.

use tet_sql::ArrayOptions;
use tet_sql::format::tet::Dtype;
use tet_sql::provider::source::GridSource;

use super::assert_slices_same;
use crate::formats::reference::Reference;
use crate::support::cells::{
    ACCESS, Cell, OpenFile, assert_same, counted, data, from_stored, number,
};

fn f32_cells(values: &[f32]) -> Vec<Cell> {
    values
        .iter()
        .map(|value| Some(value.to_bits().into()))
        .collect()
}

#[tokio::test]
async fn zeros_of_both_signs_nan_and_infinities() {
    let values = [0.0, -0.0, 1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    let stored: Vec<Cell> = values.iter().map(|value| Some(value.to_bits())).collect();
    let mut cells = stored.clone();
    cells[3] = None;
    for access in ACCESS {
        let options = ArrayOptions::new().with_access(access);
        let path = data("specials_f64.tet");
        let file = OpenFile::open(&path, options.clone()).await.unwrap();
        let raw = OpenFile::open(&path, options.with_nan_as_null(false))
            .await
            .unwrap();
        assert_same(&file.table("a", &counted(&[6])).await, &cells, "a");
        assert_slices_same(&file, "a", &cells);
        assert_same(&raw.table("a", &counted(&[6])).await, &stored, "a");
        assert_slices_same(&raw, "a", &stored);
        for (sql, expected) in [
            ("SELECT count(value) FROM f.a", "5"),
            ("SELECT min(value) FROM f.a", "-inf"),
            ("SELECT max(value) FROM f.a", "inf"),
            ("SELECT count(*) FROM f.a WHERE value IS NULL", "1"),
            // In SQL, zeros are equal whatever their sign. `tetration` distinguishes them.
            ("SELECT count(*) FROM f.a WHERE value = 0", "2"),
            ("SELECT count(*) FROM f.a WHERE value <> 0", "3"),
            ("SELECT count(*) FROM f.a WHERE value < 0", "1"),
            ("SELECT count(*) FROM f.a WHERE value <= 0", "3"),
            ("SELECT count(*) FROM f.a WHERE value > 1", "1"),
            ("SELECT x FROM f.a WHERE value IS NULL", "3"),
        ] {
            assert_eq!(file.answer(sql).await, expected, "{sql}");
        }
        for (sql, expected) in [
            ("SELECT count(value) FROM f.a", "6"),
            ("SELECT count(*) FROM f.a WHERE isnan(value)", "1"),
            ("SELECT count(*) FROM f.a WHERE value IS NULL", "0"),
        ] {
            assert_eq!(raw.answer(sql).await, expected, "{sql}");
        }
    }
}

#[tokio::test]
async fn integers_beyond_2_to_the_53_are_exact() {
    const EXACT: i64 = 1 << 53;
    let values = [EXACT, EXACT + 1, EXACT + 2, i64::MIN, i64::MAX, 0];
    let cells: Vec<Cell> = values.iter().map(|value| Some(*value as u64)).collect();
    let sum: i64 = values.iter().sum();
    for access in ACCESS {
        let options = ArrayOptions::new().with_access(access);
        let file = OpenFile::open(&data("big_i64.tet"), options).await.unwrap();
        assert_same(&file.table("a", &counted(&[6])).await, &cells, "a");
        assert_slices_same(&file, "a", &cells);
        // `tetration` computes in f64, where the max is 2^63, and 2^53 + 1 equals 2^53.
        for (sql, expected) in [
            ("SELECT sum(value) FROM f.a".to_string(), sum),
            ("SELECT max(value) FROM f.a".to_string(), i64::MAX),
            ("SELECT min(value) FROM f.a".to_string(), i64::MIN),
            (format!("SELECT x FROM f.a WHERE value = {EXACT}"), 0),
            (format!("SELECT x FROM f.a WHERE value = {}", EXACT + 1), 1),
            (format!("SELECT count(*) FROM f.a WHERE value > {EXACT}"), 3),
            (
                format!("SELECT count(*) FROM f.a WHERE value <> {}", EXACT + 1),
                5,
            ),
            (format!("SELECT x FROM f.a WHERE value = {}", i64::MAX), 4),
        ] {
            assert_eq!(file.answer(&sql).await, expected.to_string(), "{sql}");
        }
    }
}

/// The fill value is the text `1e20`, and the cells hold the nearest f32, which is not exactly
/// 1e20. `tetration` compares in f64 and finds no fill value, except in its zone maps, which
/// compare bytes: it counts 5 or 6 cells above 3, depending on whether the index exists. The right
/// count is 4.
#[tokio::test]
async fn fill_value_not_representable_in_f32() {
    let values = [1.0, 2.0, 1e20, 4.0, 5.0, 1e20, 7.0, 8.0];
    let stored = f32_cells(&values);
    let mut cells = stored.clone();
    (cells[2], cells[5]) = (None, None);
    for access in ACCESS {
        let options = ArrayOptions::new().with_access(access);
        let path = data("fill_1e20.tet");
        let file = OpenFile::open(&path, options.clone()).await.unwrap();
        let raw = OpenFile::open(&path, options.with_fill_as_null(false))
            .await
            .unwrap();
        assert_same(&file.table("a", &counted(&[8])).await, &cells, "a");
        assert_slices_same(&file, "a", &cells);
        assert_same(&raw.table("a", &counted(&[8])).await, &stored, "a");
        assert_slices_same(&raw, "a", &stored);
        for (sql, expected, expected_raw) in [
            ("SELECT count(*) FROM f.a WHERE value > 3", 4.0, 6.0),
            ("SELECT count(value) FROM f.a", 6.0, 8.0),
            ("SELECT count(*) FROM f.a WHERE value IS NULL", 2.0, 0.0),
            (
                "SELECT sum(value) FROM f.a",
                27.0,
                27.0 + 2.0 * f64::from(1e20f32),
            ),
            (
                "SELECT avg(value) FROM f.a",
                4.5,
                (27.0 + 2.0 * f64::from(1e20f32)) / 8.0,
            ),
            ("SELECT max(value) FROM f.a WHERE value < 100", 8.0, 8.0),
        ] {
            assert_eq!(file.number(sql).await, Some(expected), "{sql}");
            assert_eq!(raw.number(sql).await, Some(expected_raw), "{sql}");
        }
    }
}

/// `tetration` refuses to write 65 labels for an axis, and leaves a file with all of the data and
/// no footer.
#[tokio::test]
async fn file_without_footer_after_refused_labels_is_readable() {
    let values: Vec<f32> = (0u8..65).map(f32::from).collect();
    for access in ACCESS {
        let options = ArrayOptions::new().with_access(access);
        let path = data("labels_65_should_fail.tet");
        let file = OpenFile::open(&path, options).await.unwrap();
        assert!(file.tet().footer().history.is_empty());
        let cells = f32_cells(&values);
        assert_same(&file.table("a", &counted(&[65])).await, &cells, "a");
        assert_slices_same(&file, "a", &cells);
        let sum = file
            .number("SELECT sum(value) FROM f.a WHERE dim_0 >= 0")
            .await;
        assert_eq!(sum, Some(f64::from(64 * 65 / 2)));
    }
}

/// Converted files store coordinates in datasets of their own, since they are too long for labels.
#[tokio::test]
async fn coordinate_variables_are_datasets() {
    let path = data("coordvars.tet");
    let reference = Reference::open(&path);
    let expected = reference.array("t2m");
    assert_eq!(
        (expected.dtype, expected.shape.as_slice()),
        (Dtype::F32, &[100, 73, 144][..])
    );
    let cells = from_stored(Dtype::F32, &expected.bytes);
    let total = reference
        .query(r#"{"dataset":"t2m","sum":[]}"#)
        .operation_sum
        .unwrap();
    for access in ACCESS {
        let options = ArrayOptions::new()
            .with_access(access)
            .with_decode_coords(false)
            .with_decode_times(false);
        let file = OpenFile::open(&path, options).await.unwrap();
        let grid = file.grid("t2m");
        let names: Vec<_> = grid.axes().iter().map(|axis| axis.name()).collect();
        assert_eq!(names, ["time", "lat", "lon"]);

        let time: Vec<Cell> = (0..100).map(|hour| Some(3600 * hour)).collect();
        assert_same(&file.table("time", &counted(&[100])).await, &time, "time");
        for (dataset, extent, first) in [("lat", 73u8, -90.0), ("lon", 144, 0.0)] {
            let steps = (0..extent).map(|step| Some((first + 2.5 * f64::from(step)).to_bits()));
            let found = file.table(dataset, &counted(&[extent.into()])).await;
            assert_same(&found, &steps.collect::<Vec<_>>(), dataset);
        }

        assert_slices_same(&file, "t2m", &cells);
        let count = file.answer("SELECT count(*) FROM f.t2m").await;
        assert_eq!(count, (100 * 73 * 144).to_string());
        let sum = file.number("SELECT sum(value) FROM f.t2m").await.unwrap();
        assert!(
            (sum - total).abs() <= 1e-9 * total.abs(),
            "{sum}, expected {total}"
        );
        let pole: f64 = cells
            .iter()
            .enumerate()
            .filter(|(position, _)| position / 144 % 73 == 72)
            .map(|(_, cell)| number(Dtype::F32, cell.unwrap()))
            .sum();
        let sql = "SELECT sum(value) FROM f.t2m WHERE lat = (SELECT max(lat) FROM f.t2m)";
        let sum = file.number(sql).await.unwrap();
        assert!(
            (sum - pole).abs() <= 1e-9 * pole.abs(),
            "{sum}, expected {pole}"
        );
    }
}
