//! Sources of coordinates, and queries on unusual coordinates.

use tet_sql::format::tet::{DatasetSpec, Dtype};
use tet_sql::{Access, ArrayOptions, ArraySchema, ArrayTable};

use crate::cells;
use crate::formats::reference::Reference;
use crate::support::cells::data;
use crate::support::sql::{error, open, rows, sample};

pub fn one(name: &str, dtype: Dtype, length: u64) -> DatasetSpec {
    DatasetSpec::new(name, dtype, &[length], &[length.div_ceil(2)])
}

/// A dataset of u8 cells that count from zero, with the given dimensions.
pub fn counting(name: &str, dims: &[&str], shape: &[u64]) -> (DatasetSpec, Vec<u8>) {
    let spec = DatasetSpec::new(name, Dtype::U8, shape, shape);
    let spec = if dims.is_empty() {
        spec
    } else {
        spec.with_dim_names(dims.iter().copied())
    };
    (spec, (0..shape.iter().product::<u64>() as u8).collect())
}

fn sources(path: &std::path::Path, dataset: &str, options: &ArrayOptions) -> Vec<String> {
    let table = ArrayTable::open(path, &options.clone().with_dataset(dataset)).unwrap();
    let description = table.describe().unwrap();
    assert_eq!(description.problems, [] as [&str; 0]);
    let dimensions = description.dimensions.into_iter();
    dimensions
        .map(|dimension| {
            format!(
                "{}: {}, {}",
                dimension.name, dimension.data_type, dimension.source
            )
        })
        .collect()
}

#[tokio::test]
async fn coordinate_arrays_named_like_dimensions() {
    let path = data("coordvars.tet");
    let reference = Reference::open(&path);
    let cells: Vec<f32> = reference
        .array("t2m")
        .bytes
        .chunks_exact(4)
        .map(|cell| f32::from_le_bytes(cell.try_into().unwrap()))
        .collect();
    assert_eq!(
        sources(&path, "t2m", &ArrayOptions::new()),
        [
            "time: Timestamp(µs), dataset time",
            "lat: Float64, dataset lat",
            "lon: Float64, dataset lon"
        ]
    );
    assert_eq!(
        sources(&path, "time", &ArrayOptions::new()),
        ["time: Timestamp(µs), own values"]
    );
    for access in [Access::Mmap, Access::Pread] {
        let ctx = open(&path, ArrayOptions::new().with_access(access)).await;
        // Times are seconds since 2024-01-01, one per hour. Latitudes start at -90, longitudes at
        // 0, in steps of 2.5 degrees.
        let found = rows(
            &ctx,
            "SELECT * FROM t2m WHERE time = '2024-01-02T06:00:00' AND lat = 47.5 AND lon >= 355",
        )
        .await;
        let at = |lon: usize| cells[(30 * 73 + 55) * 144 + lon];
        assert_eq!(
            found,
            [
                format!("2024-01-02T06:00:00 47.5 355.0 {}", at(142)),
                format!("2024-01-02T06:00:00 47.5 357.5 {}", at(143))
            ]
        );
        // A coordinate array is a table of its own and joins with its data.
        let found = rows(
            &ctx,
            "SELECT min(t.value), count(*) FROM time t JOIN t2m USING (time) WHERE lat = 0 AND lon = 0",
        )
        .await;
        assert_eq!(found, ["2024-01-01T00:00:00 100"]);
    }
    let ctx = open(&path, ArrayOptions::new().with_decode_times(false)).await;
    let found = rows(&ctx, "SELECT max(time), arrow_typeof(max(time)) FROM t2m").await;
    assert_eq!(found, ["356400 Int64"]);
    let ctx = open(&path, ArrayOptions::new().with_decode_coords(false)).await;
    assert_eq!(
        rows(&ctx, "SELECT max(time), max(lat) FROM t2m").await,
        ["99 72"]
    );
}

#[tokio::test]
async fn coordinate_arrays_named_by_the_coordinates_attribute() {
    // HDF5 has no names of dimensions. The lengths tell which coordinate array belongs to which
    // axis.
    assert_eq!(
        sources(&data("converted/era.h5.tet"), "t2m", &ArrayOptions::new()),
        [
            "dim_0: Int64, dataset time, by attribute coordinates",
            "dim_1: Float64, dataset lat, by attribute coordinates",
            "dim_2: Float64, dataset lon, by attribute coordinates"
        ]
    );
    // All axes of this file have the same length, so no coordinates are assigned until the axes
    // have names.
    let path = data("converted/h5_cf_3d_h5.tet");
    assert_eq!(
        sources(&path, "temperature", &ArrayOptions::new()),
        [
            "dim_0: Int64, index",
            "dim_1: Int64, index",
            "dim_2: Int64, index"
        ]
    );
    let named = ArrayOptions::new().with_dims(["time", "lat", "lon"]);
    assert_eq!(
        sources(&path, "temperature", &named),
        [
            "time: Timestamp(µs), dataset coordinates/time, by attribute coordinates",
            "lat: Float64, labels",
            "lon: Float64, labels"
        ]
    );
    let ctx = open(&path, named).await;
    let found = rows(
        &ctx,
        "SELECT DISTINCT time FROM temperature WHERE time > '2020-01-30' ORDER BY time",
    )
    .await;
    assert_eq!(found, ["2020-01-31T00:00:00", "2020-02-01T00:00:00"]);
}

#[tokio::test]
async fn netcdf_labels_are_on_coordinate_arrays_only() {
    let path = data("converted/netcdf_cf_3d_nc.tet");
    assert_eq!(
        sources(&path, "temperature", &ArrayOptions::new()),
        [
            "time: Timestamp(µs), dataset time",
            "lat: Float64, dataset lat",
            "lon: Float64, dataset lon"
        ]
    );
    // The labels of `time` repeat its values, which decode to times.
    assert_eq!(
        sources(&path, "time", &ArrayOptions::new()),
        ["time: Timestamp(µs), own values"]
    );
    assert_eq!(
        sources(&path, "lat", &ArrayOptions::new()),
        ["lat: Float64, labels"]
    );
    let ctx = open(&path, ArrayOptions::new()).await;
    // Stored as f32, and found by the decimal as written.
    let found = rows(
        &ctx,
        "SELECT count(*) FROM temperature WHERE lat = -84.19355",
    )
    .await;
    assert_eq!(found, ["1024"]);
    let found = rows(
        &ctx,
        "SELECT count(*) FROM temperature t JOIN lat USING (lat) JOIN time s ON s.time = t.time",
    )
    .await;
    assert_eq!(found, ["32768"]);
}

#[tokio::test]
async fn coordinate_arrays_apply_within_their_group() {
    let (_folder, _, ctx) = sample(
        &[
            counting("a/b/temp", &["x"], &[3]),
            (
                one("a/b/x", Dtype::I16, 3).with_dim_names(["x"]),
                cells!([5i16, 7, 9]),
            ),
            counting("temp", &["x"], &[3]),
            counting("c/temp", &["x"], &[3]),
            (one("c/x", Dtype::U8, 2).with_dim_names(["x"]), vec![1, 2]),
        ],
        ArrayOptions::new(),
    )
    .await;
    assert_eq!(
        rows(&ctx, "SELECT * FROM \"a/b/temp\"").await,
        ["5 0", "7 1", "9 2"]
    );
    assert_eq!(
        rows(&ctx, "SELECT * FROM f.\"A/B/Temp\" WHERE x = 9").await,
        ["9 2"]
    );
    assert_eq!(
        rows(&ctx, "SELECT * FROM temp").await,
        ["0 0", "1 1", "2 2"]
    );
    // A coordinate array of another length is ignored.
    assert_eq!(
        rows(&ctx, "SELECT * FROM \"c/temp\"").await,
        ["0 0", "1 1", "2 2"]
    );
    let tables = rows(
        &ctx,
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'f' ORDER BY 1",
    )
    .await;
    assert_eq!(tables, ["a/b/temp", "a/b/x", "c/temp", "c/x", "temp"]);
}

#[tokio::test]
async fn every_type_of_coordinate() {
    let halves = [33.3f32, -1.5, 0.0].map(half::f16::from_f32);
    for (dtype, stored, expected, literal) in [
        (Dtype::I16, cells!([-3i16, 5, 4]), "Int16 -3,5,4", "5"),
        (Dtype::I32, cells!([-3i32, 5, 4]), "Int32 -3,5,4", "5"),
        (
            Dtype::I64,
            cells!([i64::MAX, 5, 4]),
            "Int64 9223372036854775807,5,4",
            "5",
        ),
        (Dtype::U8, vec![255, 5, 4], "UInt8 255,5,4", "5"),
        (
            Dtype::U16,
            cells!([65535u16, 5, 4]),
            "UInt16 65535,5,4",
            "5",
        ),
        (
            Dtype::U32,
            cells!([u32::MAX, 5, 4]),
            "UInt32 4294967295,5,4",
            "5",
        ),
        (
            Dtype::U64,
            cells!([u64::MAX, 5, 4]),
            "UInt64 18446744073709551615,5,4",
            "5",
        ),
        (
            Dtype::F32,
            cells!([33.3f32, -0.1, 0.0]),
            "Float64 33.3,-0.1,0.0",
            "-0.1",
        ),
        (
            Dtype::F64,
            cells!([33.3f64, -0.1, -0.0]),
            "Float64 33.3,-0.1,0.0",
            "-0.1",
        ),
        (Dtype::F16, cells!(halves), "Float64 33.3,-1.5,0.0", "-1.5"),
    ] {
        let (_folder, _, ctx) = sample(
            &[
                counting("data", &["x"], &[3]),
                (one("x", dtype, 3).with_dim_names(["x"]), stored),
            ],
            ArrayOptions::new(),
        )
        .await;
        let found = rows(&ctx, "SELECT x, arrow_typeof(x) FROM data").await;
        let (kind, values) = expected.split_once(' ').unwrap();
        let expected: Vec<_> = values
            .split(',')
            .map(|value| format!("{value} {kind}"))
            .collect();
        assert_eq!(found, expected);
        let found = rows(&ctx, &format!("SELECT value FROM data WHERE x = {literal}")).await;
        assert_eq!(found, ["1"], "{dtype}");
    }
}

#[tokio::test]
async fn times_of_the_cf_conventions() {
    let with_time = |units: &str, calendar: Option<&str>, hours: [f64; 3]| {
        let mut time = one("time", Dtype::F64, 3)
            .with_dim_names(["time"])
            .with_attribute("units", units);
        if let Some(calendar) = calendar {
            time = time.with_attribute("calendar", calendar);
        }
        [
            counting("data", &["time", "x"], &[3, 2]),
            (time, cells!(hours)),
            counting("other", &["x"], &[2]),
        ]
    };
    let file = with_time(
        "hours since 1900-01-01 00:00:0.0",
        Some("gregorian"),
        [0.0, 1.5, 613_608.0],
    );
    let (_folder, _, ctx) = sample(&file, ArrayOptions::new()).await;
    let found = rows(
        &ctx,
        "SELECT time FROM data WHERE x = 0 AND time < '2000-01-01'",
    )
    .await;
    assert_eq!(
        found,
        [
            "1900-01-01T00:00:00",
            "1900-01-01T01:30:00",
            "1970-01-01T00:00:00"
        ]
    );

    // Times that cannot be decoded stay numbers, with a warning.
    for (units, calendar, expected) in [
        ("days since 2000-01-01", Some("none"), "calendar is"),
        ("days since 2000-01-01", Some("tai"), "calendar is"),
        ("months since 2000-01-01", None, "units is"),
        ("days since yesterday", None, "units is"),
    ] {
        let file = with_time(units, calendar, [0.0, 1.0, 2.0]);
        let (_folder, path, ctx) = sample(&file, ArrayOptions::new()).await;
        let schema = ArraySchema::open("s", &path, ArrayOptions::new()).unwrap();
        let [warning] = schema.warnings() else {
            panic!("{:?}", schema.warnings());
        };
        assert!(warning.contains(expected), "{warning}");
        assert!(warning.contains("dataset \"time\""), "{warning}");
        assert!(
            warning.ends_with("the coordinates are not decoded to times"),
            "{warning}"
        );
        let plain = open(&path, ArrayOptions::new().with_decode_times(false)).await;
        for ctx in [ctx, plain] {
            let found = rows(&ctx, "SELECT time, value FROM data WHERE x = 1").await;
            assert_eq!(found, ["0.0 1", "1.0 3", "2.0 5"]);
            let found = rows(&ctx, "SELECT value FROM data WHERE time > 1").await;
            assert_eq!(found, ["4", "5"]);
        }
    }
    // The values of a coordinate array are checked only when they are needed.
    for (hours, expected) in [
        ([0.0, f64::NAN, 1.0], "NaN"),
        ([0.0, 1e300, 1.0], "1e300"),
        ([0.0, -5e6, 1.0], "1582-10-15"),
    ] {
        let file = with_time("hours since 1900-01-01", None, hours);
        let (_folder, _, ctx) = sample(&file, ArrayOptions::new()).await;
        assert_eq!(rows(&ctx, "SELECT sum(value) FROM data").await, ["15"]);
        for sql in [
            "SELECT time FROM data",
            "SELECT value FROM data WHERE time > '1900-01-01'",
            "SELECT max(time) FROM data",
        ] {
            let message = error(&ctx, sql).await;
            assert!(message.contains(expected), "{message}");
            assert!(message.contains("decode_times"), "{message}");
        }
    }
}

#[tokio::test]
async fn repeated_unsorted_and_nan_coordinates() {
    // Repeated and unsorted coordinates: a selection may be any set of indices.
    let (_folder, _, ctx) = sample(
        &[
            counting("data", &["x"], &[5]),
            (
                one("x", Dtype::F32, 5).with_dim_names(["x"]),
                cells!([2f32, 1.0, 2.0, f32::NAN, 0.5]),
            ),
            counting("down", &["y"], &[3]),
            (
                one("y", Dtype::I32, 3).with_dim_names(["y"]),
                cells!([30i32, 20, 10]),
            ),
        ],
        ArrayOptions::new(),
    )
    .await;
    assert_eq!(
        rows(&ctx, "SELECT * FROM data WHERE x = 2").await,
        ["2.0 0", "2.0 2"]
    );
    assert_eq!(
        rows(&ctx, "SELECT value FROM data WHERE x < 1.5").await,
        ["1", "4"]
    );
    assert_eq!(
        rows(&ctx, "SELECT x, count(*) FROM data GROUP BY x ORDER BY x").await,
        ["0.5 1", "1.0 1", "2.0 2", "NaN 1"]
    );
    // A NaN coordinate stays NaN and is not NULL. DataFusion orders it above all other values.
    assert_eq!(
        rows(&ctx, "SELECT value FROM data WHERE isnan(x)").await,
        ["3"]
    );
    assert_eq!(
        rows(&ctx, "SELECT value FROM data WHERE x IS NULL").await,
        [] as [&str; 0]
    );
    assert_eq!(
        rows(&ctx, "SELECT value FROM data WHERE x > 1.5").await,
        ["0", "2", "3"]
    );
    assert_eq!(rows(&ctx, "SELECT min(x) FROM data").await, ["0.5"]);
    assert_eq!(
        rows(&ctx, "SELECT * FROM down WHERE y <= 20").await,
        ["20 1", "10 2"]
    );
    assert_eq!(
        rows(&ctx, "SELECT min(y), max(y) FROM down WHERE value > 0").await,
        ["10 20"]
    );
}

#[tokio::test]
async fn dimensions_of_any_name() {
    let (_folder, _, ctx) = sample(
        &[
            counting("select", &["value", "select", "time"], &[2, 1, 1]),
            counting("value", &["value", "value_"], &[2, 1]),
        ],
        ArrayOptions::new(),
    )
    .await;
    assert_eq!(
        rows(
            &ctx,
            "SELECT value, \"select\", time FROM \"select\" WHERE value = 1"
        )
        .await,
        ["1 0 0"]
    );
    // The value column gives way: it takes the name of the dataset, and then an underscore is
    // appended.
    let found = rows(
        &ctx,
        "SELECT column_name FROM information_schema.columns \
                            WHERE table_schema = 'f' ORDER BY table_name, ordinal_position",
    );
    assert_eq!(
        found.await,
        [
            "value", "select", "time", "select_", "value", "value_", "value__"
        ]
    );
    assert_eq!(
        rows(&ctx, "SELECT value__ FROM value WHERE value = 1").await,
        ["1"]
    );
}

#[tokio::test]
async fn f32_integers_and_times_are_exact() {
    let seconds = cells!([1_700_000_128f32, 1_700_000_256.0]);
    for (units, expected) in [
        ("m", ["1700000128.0", "1700000256.0"]),
        (
            "seconds since 1970-01-01",
            ["2023-11-14T22:15:28", "2023-11-14T22:17:36"],
        ),
    ] {
        let stored = one("x", Dtype::F32, 2)
            .with_dim_names(["x"])
            .with_attribute("units", units);
        let file = [counting("data", &["x"], &[2]), (stored, seconds.clone())];
        let (_folder, _, ctx) = sample(&file, ArrayOptions::new()).await;
        assert_eq!(rows(&ctx, "SELECT x FROM data").await, expected);
    }
}

#[tokio::test]
async fn coordinate_arrays_on_another_dimension_are_ignored() {
    let (_folder, _, ctx) = sample(
        &[
            counting("data", &["x"], &[3]),
            (
                one("x", Dtype::I16, 3).with_dim_names(["y"]),
                cells!([9i16, 8, 7]),
            ),
        ],
        ArrayOptions::new(),
    )
    .await;
    assert_eq!(rows(&ctx, "SELECT x FROM data").await, ["0", "1", "2"]);
}
