//! `weather_small.tet`, its variants with an older footer and without a footer, and the NumPy
//! arrays they were made from.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::catalog::SchemaProvider;
use tet_sql::ArrayOptions;

use super::assert_slices_same;
use crate::support::cells::{ACCESS, OpenFile, assert_same, counted, data};
use crate::support::npy::open_npz;

/// The files, each with whether it has a footer, and its datasets. All files hold the same arrays.
const FILES: [(&str, bool, &[&str]); 3] = [
    (
        "weather_small.tet",
        true,
        &["temperature", "humidity", "pressure"],
    ),
    (
        "weather_small_v1footer.tet",
        true,
        &["temperature", "pressure"],
    ),
    (
        "weather_small_nofooter.tet",
        false,
        &["temperature", "pressure"],
    ),
];

/// Returns the dimension name and the coordinates of each axis, as given to the writer of the file.
fn axes(dataset: &str) -> Vec<(&'static str, Vec<String>)> {
    let hours = (0..48).map(|hour| format!("2024-01-{:02}T{:02}:00:00Z", 1 + hour / 24, hour % 24));
    let time = ("time", hours.collect());
    if dataset == "pressure" {
        let stations = ["KSEA", "KPDX", "EGLL", "RJTT", "YSSY"];
        return vec![time, ("station", stations.map(String::from).to_vec())];
    }
    let lat = (0..10).map(|row| (10 * row - 45).to_string());
    let lon = (0..20).map(|column| (18 * column).to_string());
    vec![time, ("lat", lat.collect()), ("lon", lon.collect())]
}

/// Returns the fill value of a dataset, if it has one.
fn fill(dataset: &str) -> Option<f64> {
    match dataset {
        "humidity" => Some(-9999.0),
        "pressure" => Some(-32768.0),
        _ => None,
    }
}

#[tokio::test]
async fn cells_match_numpy() {
    let arrays = open_npz(&data("weather_small.npz"));
    for (name, has_footer, datasets) in FILES {
        for access in ACCESS {
            let options = ArrayOptions::new()
                .with_access(access)
                .with_text_labels(true);
            let file = OpenFile::open(&data(name), options.clone()).await.unwrap();
            let options = options.with_nan_as_null(false).with_fill_as_null(false);
            let raw = OpenFile::open(&data(name), options).await.unwrap();
            let mut tables = datasets.to_vec();
            // `temperature` and `humidity` have the same axes, so they also form a wide table.
            // Without dimension names, no axes count as the same.
            tables.extend((has_footer && datasets.contains(&"humidity")).then_some("time_lat_lon"));
            assert_eq!(file.schema.table_names(), tables);
            for dataset in datasets {
                let what = format!("{name}, {dataset}, {access}");
                let array = &arrays[*dataset];
                let axes = axes(dataset);
                let labels: Vec<_> = if has_footer {
                    axes.iter().map(|(_, labels)| labels.clone()).collect()
                } else {
                    counted(&array.shape)
                };

                let cells = array.cells(fill(dataset).filter(|_| has_footer));
                assert_same(&file.table(dataset, &labels).await, &cells, &what);
                assert_slices_same(&file, dataset, &cells);

                let cells = array.raw_cells();
                assert_same(&raw.table(dataset, &labels).await, &cells, &what);
                assert_slices_same(&raw, dataset, &cells);
            }
        }
    }
}

#[tokio::test]
async fn column_names_come_from_footer_or_axis_index() {
    for (name, has_footer, datasets) in FILES {
        let file = OpenFile::open(&data(name), ArrayOptions::new())
            .await
            .unwrap();
        for dataset in datasets {
            let table = file.schema.table(dataset).await.unwrap().unwrap();
            let fields: Vec<_> = table
                .schema()
                .fields()
                .iter()
                .map(|field| (field.name().clone(), field.data_type().clone()))
                .collect();
            let mut expected: Vec<_> = axes(dataset)
                .iter()
                .enumerate()
                .map(|(number, (name, _))| {
                    if !has_footer {
                        return (format!("dim_{number}"), DataType::Int64);
                    }
                    let data_type = match *name {
                        "time" => DataType::Timestamp(TimeUnit::Microsecond, None),
                        "station" => DataType::Utf8,
                        _ => DataType::Int64,
                    };
                    (name.to_string(), data_type)
                })
                .collect();
            let value = match *dataset {
                "temperature" => DataType::Float32,
                "humidity" => DataType::Float64,
                _ => DataType::Int16,
            };
            expected.push(("value".to_string(), value));
            assert_eq!(fields, expected, "{name}, {dataset}");
        }
    }
}

#[tokio::test]
async fn coordinates_format_like_their_labels() {
    for access in ACCESS {
        let options = ArrayOptions::new().with_access(access);
        let file = OpenFile::open(&data("weather_small.tet"), options)
            .await
            .unwrap();
        let arrays = open_npz(&data("weather_small.npz"));
        for dataset in ["temperature", "humidity", "pressure"] {
            // Numbers and strings are formatted as in their labels. Timestamps come without the Z
            // that every label has.
            let labels: Vec<Vec<String>> = axes(dataset)
                .into_iter()
                .map(|(_, labels)| {
                    labels
                        .iter()
                        .map(|label| label.trim_end_matches('Z').to_string())
                        .collect()
                })
                .collect();
            let expected = arrays[dataset].cells(fill(dataset));
            assert_same(&file.table(dataset, &labels).await, &expected, dataset);
        }
    }
}

#[tokio::test]
async fn aggregates_match_expected_answers() {
    let text = std::fs::read_to_string(data("weather_small.expected.json")).unwrap();
    let expected: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
    for access in ACCESS {
        let options = ArrayOptions::new().with_access(access);
        let file = OpenFile::open(&data("weather_small.tet"), options)
            .await
            .unwrap();
        let mut figures = 0;
        for (key, value) in &expected {
            let mut questions = Vec::new();
            match key.as_str() {
                "temperature" | "humidity" | "pressure" => {
                    for (figure, value) in value.as_object().unwrap() {
                        let expression = match figure.as_str() {
                            "count" => "count(*)",
                            "non_null" => "count(value)",
                            "mean" => "avg(value)",
                            other => &format!("{other}(value)"),
                        };
                        questions.push((format!("SELECT {expression} FROM f.{key}"), value));
                    }
                }
                "pressure_mean_by_station" => {
                    for (station, value) in value.as_object().unwrap() {
                        let filter = format!("WHERE station = '{station}'");
                        let sql = format!("SELECT avg(value) FROM f.pressure {filter}");
                        questions.push((sql, value));
                    }
                }
                "temperature_mean_by_lat" => {
                    for (lat, value) in value.as_object().unwrap() {
                        let sql = format!(
                            "SELECT mean FROM (SELECT lat, avg(value) AS mean FROM f.temperature \
                             GROUP BY lat) WHERE lat = {lat}"
                        );
                        questions.push((sql, value));
                    }
                }
                "temperature_gt_25_count" => {
                    let sql = "SELECT count(*) FROM f.temperature WHERE value > 25";
                    questions.push((sql.to_string(), value));
                }
                "temperature_gt_25_sum" => {
                    // The sum of no values is zero in NumPy and null in SQL.
                    let sql = "SELECT coalesce(sum(value), 0) FROM f.temperature WHERE value > 25";
                    questions.push((sql.to_string(), value));
                }
                "humidity_slice_t10_15_lat2_4" => {
                    // time[10:15] and lat[2:4] as ranges of coordinates.
                    let sql = "SELECT sum(value) FROM f.humidity WHERE time >= '2024-01-01T10:00:00' \
                               AND time < '2024-01-01T15:00:00' AND lat BETWEEN -25 AND -15";
                    questions.push((sql.to_string(), value));
                }
                other => panic!("no query for {other}"),
            }
            for (sql, expected) in questions {
                let found = file.number(&sql).await.unwrap();
                let expected = expected.as_f64().unwrap();
                // NumPy and SQL add in different orders.
                let tolerance = 1e-9 * expected.abs();
                assert!(
                    (found - expected).abs() <= tolerance,
                    "{sql}: {found}, expected {expected}"
                );
                figures += 1;
            }
        }
        assert_eq!(figures, 3 * 6 + 5 + 10 + 3);
    }
}

#[tokio::test]
async fn all_footer_versions_give_the_same_sum() {
    // One slice is queried in each file: by coordinates or, without a footer, by indices.
    let mut answers = Vec::new();
    for (name, has_footer, _) in FILES {
        for access in ACCESS {
            let options = ArrayOptions::new().with_access(access);
            let file = OpenFile::open(&data(name), options).await.unwrap();
            let filter = if has_footer {
                "lat >= 25 AND lon < 54 AND time = '2024-01-02T06:00:00'"
            } else {
                "dim_1 >= 7 AND dim_2 < 3 AND dim_0 = 30"
            };
            let sql = format!("SELECT sum(value * 1.0) FROM f.temperature WHERE {filter}");
            answers.push(file.number(&sql).await.unwrap());
        }
    }
    let array = &open_npz(&data("weather_small.npz"))["temperature"];
    let numbers = array.numbers();
    let expected: f64 = crate::support::npy::slice_indices(&array.shape, &[30..31, 7..10, 0..3])
        .into_iter()
        .map(|position| numbers[position])
        .sum();
    for answer in answers {
        assert!(
            (answer - expected).abs() < 1e-9,
            "{answer}, expected {expected}"
        );
    }
}
