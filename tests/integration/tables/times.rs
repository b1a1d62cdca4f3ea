//! Times of the calendars of climate models, durations, and arithmetic with intervals.

use tet_sql::ArrayOptions;
use tet_sql::ArraySchema;
use tet_sql::format::tet::{DatasetSpec, Dtype};

use crate::cells;
use crate::support::sql::{error, open, rows, run, sample};
use crate::tables::coordinates::{counting, one};

/// Values over `time` and `x`, in chunks of `chunk` time steps, with times in these units.
fn over_time<const N: usize>(
    units: &str,
    calendar: &str,
    chunk: u64,
    times: [f64; N],
) -> [(DatasetSpec, Vec<u8>); 2] {
    let length = N as u64;
    let spec = DatasetSpec::new("data", Dtype::F32, &[length, 2], &[chunk, 2]);
    let time = one("time", Dtype::F64, length)
        .with_dim_names(["time"])
        .with_attribute("units", units)
        .with_attribute("calendar", calendar);
    [
        (
            spec.with_dim_names(["time", "x"]),
            cells!((0..2 * N).map(|n| n as f32)),
        ),
        (time, cells!(times)),
    ]
}

/// Half-days of 360_day: noon of two years, one chunk per month.
fn two_years() -> [(DatasetSpec, Vec<u8>); 2] {
    let times: [f64; 720] = std::array::from_fn(|day| day as f64 + 0.5);
    over_time("days since 2001-01-01", "360_day", 30, times)
}

#[tokio::test]
async fn dates_without_timestamps_are_text() {
    let (_folder, path, ctx) = sample(&two_years(), ArrayOptions::new()).await;
    let schema = ArraySchema::open("s", &path, ArrayOptions::new()).unwrap();
    assert_eq!(schema.warnings(), [] as [&str; 0]);
    let found = rows(
        &ctx,
        "SELECT arrow_typeof(time), min(time), max(time) FROM data GROUP BY 1",
    )
    .await;
    assert_eq!(found, ["Utf8 2001-01-01T12:00:00 2002-12-30T12:00:00"]);
    // The 60th day is 30 February.
    let sql = "SELECT time, year(time), quarter(time), month(time), day(time), hour(time), minute(time), \
               second(time), season(time), value FROM data WHERE month(time) = 2 AND day(time) = 30 AND x = 0";
    assert_eq!(
        rows(&ctx, sql).await,
        [
            "2001-02-30T12:00:00 2001 1 2 30 12 0 0 DJF 118.0",
            "2002-02-30T12:00:00 2002 1 2 30 12 0 0 DJF 838.0"
        ]
    );
    let sql = "SELECT season(time) AS s, count(*), min(time) FROM data GROUP BY s ORDER BY s";
    assert_eq!(
        rows(&ctx, sql).await,
        [
            "DJF 360 2001-01-01T12:00:00",
            "JJA 360 2001-06-01T12:00:00",
            "MAM 360 2001-03-01T12:00:00",
            "SON 360 2001-09-01T12:00:00"
        ]
    );
    // The day of the year depends on the calendar.
    let message = error(&ctx, "SELECT dayofyear(time) FROM data").await;
    assert!(message.contains("2001-02-29T12:00:00"), "{message}");
    // Undecoded, the coordinates are the stored numbers.
    let plain = open(&path, ArrayOptions::new().with_decode_times(false)).await;
    assert_eq!(rows(&plain, "SELECT max(time) FROM data").await, ["719.5"]);
}

/// Filters on text dates select on the axis, and chunks without a selected date are not read.
#[tokio::test]
async fn filters_on_text_dates_prune_chunks() {
    let (_folder, _, ctx) = sample(&two_years(), ArrayOptions::new()).await;
    for (filter, cells, reads) in [
        ("time >= '2002-12-15'", 32, 1),
        ("time < '2001-02'", 60, 1),
        ("time BETWEEN '2001-02-30' AND '2001-03-02'", 4, 2),
        ("time = '2001-02-30T12:00:00'", 2, 1),
        ("time LIKE '2001-02%'", 60, 1),
        ("year(time) = 2001", 720, 12),
        ("season(time) = 'JJA' AND year(time) = 2002", 180, 3),
    ] {
        let found = run(&ctx, &format!("SELECT value FROM data WHERE {filter}")).await;
        assert_eq!(
            (found.rows.len(), found.reads()),
            (cells, reads),
            "{filter}"
        );
    }
}

#[tokio::test]
async fn dates_out_of_range_stay_numbers() {
    let file = over_time("days since 9999-12-30", "360_day", 2, [0.0, 1.0]);
    let (_folder, path, ctx) = sample(&file, ArrayOptions::new()).await;
    let schema = ArraySchema::open("s", &path, ArrayOptions::new()).unwrap();
    let [warning] = schema.warnings() else {
        panic!("{:?}", schema.warnings());
    };
    assert!(
        warning.contains("1.0 at index 1, expected a date in the years 0000 to 9999"),
        "{warning}"
    );
    assert!(warning.ends_with("the coordinates are not decoded to times"));
    let found = rows(&ctx, "SELECT DISTINCT time FROM data ORDER BY time").await;
    assert_eq!(found, ["0.0", "1.0"]);
}

/// Every date of `noleap` is a timestamp. 2000-02-28 and 2000-03-01 are one day apart there.
#[tokio::test]
async fn dates_without_leap_days_are_timestamps() {
    let file = over_time("days since 2000-02-28", "noleap", 2, [0.0, 1.0, 366.25]);
    let (_folder, path, ctx) = sample(&file, ArrayOptions::new()).await;
    let schema = ArraySchema::open("s", &path, ArrayOptions::new()).unwrap();
    assert_eq!(schema.warnings(), [] as [&str; 0]);
    let sql = "SELECT time, month(time) FROM data WHERE x = 0 AND time >= '2000-02'";
    assert_eq!(
        rows(&ctx, sql).await,
        [
            "2000-02-28T00:00:00 2",
            "2000-03-01T00:00:00 3",
            "2001-03-01T06:00:00 3"
        ]
    );
}

/// A copy of an array with text dates has the same coordinates.
#[tokio::test]
async fn text_dates_are_copied() {
    let file = over_time("days since 2001-02-28", "360_day", 2, [0.0, 1.0, 2.0, 3.0]);
    let (folder, path, ctx) = sample(&file, ArrayOptions::new()).await;
    let dates = rows(&ctx, "SELECT time, x, value FROM data").await;
    assert_eq!(dates[4], "2001-02-30T00:00:00 0 4.0");
    for name in ["copy.tet", "copy.zarr"] {
        let output = folder.path().join(name);
        let copy = format!("COPY (SELECT * FROM data) TO '{}'", output.display());
        rows(&ctx, &copy).await;
        let sql = format!("SELECT time, x, value FROM '{}#data'", output.display());
        assert_eq!(rows(&ctx, &sql).await, dates, "{name}");
    }
    drop(path);
}

/// Text that is no date of another calendar is a timestamp, as before.
#[tokio::test]
async fn fields_of_text() {
    let (_folder, _, ctx) = sample(&two_years(), ArrayOptions::new()).await;
    let found = rows(
        &ctx,
        "SELECT year('2024-02-29'), day('2024-02-29T23:30:00'), hour('2024-02-29T23:30:00+01:00'), \
         dayofyear('2024-03-01'), week('2024-03-01'), month(NULL), season('2024-12-01'), year('3000-01-01')",
    )
    .await;
    assert_eq!(found, ["2024 29 22 61 9 NULL DJF 3000"]);
    let message = error(&ctx, "SELECT year('noon')").await;
    assert!(message.contains("noon"), "{message}");
}

#[tokio::test]
async fn intervals_are_multiplied() {
    let (_folder, _, ctx) = sample(&two_years(), ArrayOptions::new()).await;
    let sql = "SELECT TIMESTAMP '2024-01-31' + INTERVAL '1 month' * 2, \
               TIMESTAMP '2024-01-01' + 36 * INTERVAL '1 hour', \
               TIMESTAMP '2024-01-01' + INTERVAL '1 day' * 0.5, \
               TIMESTAMP '2024-01-01' - x * INTERVAL '1 minute' \
               FROM data WHERE x = 1 LIMIT 1";
    assert_eq!(
        rows(&ctx, sql).await,
        ["2024-03-31T00:00:00 2024-01-02T12:00:00 2024-01-01T12:00:00 2023-12-31T23:59:00"]
    );
    let sql = "SELECT INTERVAL '1 day' * NULL IS NULL, NULL * INTERVAL '1 day' IS NULL, 2 * 3, \
               arrow_typeof(INTERVAL '1 day' * 2)";
    assert_eq!(
        rows(&ctx, sql).await,
        ["true true 6 Interval(MonthDayNano)"]
    );
    let message = error(&ctx, "SELECT INTERVAL '1 year' * 1000000000").await;
    assert!(message.contains("out of range"), "{message}");
    assert!(message.contains("1000000000"), "{message}");
    let message = error(&ctx, "SELECT INTERVAL '1 hour' * 'x'").await;
    assert!(!message.contains("tet_"), "{message}");
}

/// Products of integers and intervals that have the same length at any time are added as durations.
#[tokio::test]
async fn products_of_fixed_length_are_durations() {
    let (_folder, _, ctx) = sample(&two_years(), ArrayOptions::new()).await;
    for (sum, is_fixed, expected) in [
        ("t - n * INTERVAL '1 hour'", true, "2024-03-30T10:00:00"),
        ("INTERVAL '36 hours' * n + t", true, "2024-04-02T12:00:00"),
        ("t + n * INTERVAL '1 day'", true, "2024-04-01T12:00:00"),
        ("t - n * INTERVAL '1 month'", false, "2024-01-30T12:00:00"),
        (
            "t + n / 4.0 * INTERVAL '1 day'",
            false,
            "2024-03-31T00:00:00",
        ),
        (
            "t + n * INTERVAL '1 nanosecond'",
            false,
            "2024-03-30T12:00:00",
        ),
        // Clocks change in between.
        (
            "zoned + n * INTERVAL '1 day'",
            false,
            "2024-04-01T12:00:00+02:00",
        ),
        (
            "zoned + n * INTERVAL '24 hours'",
            true,
            "2024-04-01T13:00:00+02:00",
        ),
    ] {
        let sql = format!(
            "SELECT {sum} FROM (SELECT t, n, arrow_cast(t, 'Timestamp(µs, \"Europe/Berlin\")') AS zoned \
             FROM (SELECT arrow_cast(t, 'Timestamp(µs)') AS t, n FROM (VALUES ('2024-03-30T12:00:00', 2)) v(t, n)))"
        );
        assert_eq!(rows(&ctx, &sql).await, [expected], "{sum}");
        let plan = ctx.sql(&sql).await.unwrap().into_optimized_plan().unwrap();
        let plan = plan.display_indent().to_string();
        assert_eq!(plan.contains("DurationMicrosecond"), is_fixed, "{plan}");
    }
}

/// A duration has as many days of 24 hours as an interval says, whatever its fields.
#[tokio::test]
async fn durations_compare_with_intervals() {
    let (_folder, _, ctx) = sample(&two_years(), ArrayOptions::new()).await;
    const DAYS: &str = "TIMESTAMP '2024-01-03' - TIMESTAMP '2024-01-01'";
    for (predicate, expected) in [
        ("d = INTERVAL '2 days'", "true"),
        ("d = INTERVAL '48 hours'", "true"),
        ("d < INTERVAL '3 days'", "true"),
        ("INTERVAL '1 day' > d", "false"),
        ("d <> INTERVAL '2 days'", "false"),
        ("d BETWEEN INTERVAL '1 day' AND INTERVAL '50 hours'", "true"),
        ("d IN (INTERVAL '1 day', INTERVAL '2 days')", "true"),
        ("d NOT IN (INTERVAL '1 day', INTERVAL '2 days')", "false"),
        ("d = 2 * INTERVAL '1 day'", "true"),
        ("d * 2 = INTERVAL '4 days'", "true"),
        ("d IS DISTINCT FROM INTERVAL '2 days'", "false"),
    ] {
        let sql = format!("SELECT {predicate} FROM (SELECT {DAYS} AS d)");
        assert_eq!(rows(&ctx, &sql).await, [expected], "{predicate}");
    }
    let sql = format!("SELECT ({DAYS}) < INTERVAL '1 month'");
    let message = error(&ctx, &sql).await;
    assert!(message.contains("without months and years"), "{message}");
    let sql = format!("SELECT DATE '2024-02-28' + ({DAYS}), DATE '2024-03-01' - ({DAYS})");
    assert_eq!(
        rows(&ctx, &sql).await,
        ["2024-03-01T00:00:00 2024-02-28T00:00:00"]
    );
}

#[tokio::test]
async fn labels_are_used_where_times_cannot_be_decoded() {
    let labelled = |calendar: &str| {
        let (data, cells) = counting("data", &["time"], &[2]);
        let time = one("time", Dtype::I32, 2)
            .with_dim_names(["time"])
            .with_attribute("units", "days since 2000-01-01")
            .with_attribute("calendar", calendar);
        [
            (data.with_labels("time", ["0", "31"]), cells),
            (time, cells!([0i32, 31])),
        ]
    };
    let (_folder, _, ctx) = sample(&labelled("standard"), ArrayOptions::new()).await;
    let found = rows(&ctx, "SELECT max(time) FROM data").await;
    assert_eq!(found, ["2000-02-01T00:00:00"]);
    let (_folder, _, ctx) = sample(&labelled("none"), ArrayOptions::new()).await;
    assert_eq!(rows(&ctx, "SELECT max(time) FROM data").await, ["31"]);
}

/// A time that is the fill value is no time. The fill value 0 is one, because Zarr may have it without being told.
#[tokio::test]
async fn fill_values_are_no_times() {
    for (fill, expected) in [
        ("-1", Err("time coordinate is the fill value at index 1")),
        ("0", Ok("3")),
        ("9", Ok("3")),
    ] {
        let [data, (time, cells)] =
            over_time("days since 2000-01-01", "standard", 3, [0.0, -1.0, 2.0]);
        let time = time.with_attribute("_FillValue", fill);
        let datasets = [data, (time, cells)];
        let (_folder, _, ctx) = sample(&datasets, ArrayOptions::new()).await;
        let query = "SELECT count(DISTINCT time) FROM data WHERE time < '2001-01-01'";
        match expected {
            Ok(count) => assert_eq!(rows(&ctx, query).await, [count]),
            Err(text) => {
                let message = error(&ctx, query).await;
                assert!(message.contains(text), "{fill}: {message}");
            }
        }
    }
}
