//! Durations that xarray writes: lead times as coordinates, and delays as values.

use tet_sql::provider::convert::{ConvertOptions, ConvertProgress, convert};
use tet_sql::{ArrayOptions, ArraySchema};

use super::stores::{document, unpacked};
use crate::support::sql::{open, plan, rows, run};

const STORES: [&str; 2] = ["forecasts_v2.zarr", "forecasts_v3.zarr"];

/// Returns the times that xarray decodes; `NULL` for its "not a time".
fn expected(store: &str, name: &str) -> Vec<String> {
    let values = document("times.json")[store][name].clone();
    let texts = values.as_array().unwrap().iter();
    texts
        .map(|text| text.as_str().unwrap_or("NULL").to_string())
        .collect()
}

/// The join of forecasts with the analysis at their valid time.
const JOIN: &str = "FROM t2m f JOIN analysis e ON f.init + f.lead = e.time";

#[tokio::test]
async fn durations_match_xarray() {
    for store in STORES {
        let (_folder, path) = unpacked(store);
        let schema = ArraySchema::open("s", &path, ArrayOptions::new()).unwrap();
        assert_eq!(schema.warnings(), [] as [&str; 0]);
        let ctx = open(&path, ArrayOptions::new()).await;
        let sql = "SELECT DISTINCT arrow_typeof(lead), arrow_typeof(init + lead) FROM t2m";
        let found = rows(&ctx, sql).await;
        assert_eq!(found, ["Duration(µs) Timestamp(µs)"]);
        let seconds =
            "SELECT DISTINCT CAST(date_part('epoch', lead) AS BIGINT) AS s FROM t2m ORDER BY s";
        assert_eq!(rows(&ctx, seconds).await, expected(store, "lead"));
        let delays = "SELECT CAST(date_part('epoch', value) AS BIGINT) FROM delay ORDER BY init";
        assert_eq!(rows(&ctx, delays).await, expected(store, "delay"));
        let valid = "SELECT init + lead FROM t2m ORDER BY init, lead";
        assert_eq!(rows(&ctx, valid).await, expected(store, "valid"));
        let errors = format!("SELECT f.value - e.value {JOIN} ORDER BY f.init, f.lead");
        assert_eq!(rows(&ctx, &errors).await, expected(store, "errors"));
        assert!(plan(&ctx, &errors).await.contains("ArrayLookupJoinExec"));
        // Units alone make no duration.
        let period = rows(
            &ctx,
            "SELECT max(value), arrow_typeof(max(value)) FROM period",
        )
        .await;
        assert_eq!(period, ["10.0 Float64"]);
        let plain = open(&path, ArrayOptions::new().with_decode_times(false)).await;
        let found = rows(&plain, "SELECT DISTINCT lead FROM t2m ORDER BY lead").await;
        assert_eq!(found, ["0", "6", "12", "24", "48"]);
    }
}

/// zarr-python reads NaT, too.
#[tokio::test]
async fn absent_chunks_of_times_without_a_fill_value_are_null() {
    for (dtype, first) in [("<M8[s]", "1970-01-01T00:00:07"), (">m8[s]", "7")] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("times.zarr");
        std::fs::create_dir(&path).unwrap();
        let array = serde_json::json!({
            "zarr_format": 2, "shape": [3], "chunks": [1], "dtype": dtype, "order": "C",
            "compressor": null, "filters": null, "fill_value": null,
        });
        std::fs::write(path.join(".zarray"), array.to_string()).unwrap();
        let cell = match dtype.starts_with('<') {
            true => 7i64.to_le_bytes(),
            false => 7i64.to_be_bytes(),
        };
        std::fs::write(path.join("0"), cell).unwrap();
        let ctx = open(&path, ArrayOptions::new()).await;
        let query = "SELECT value FROM times ORDER BY dim_0";
        assert_eq!(rows(&ctx, query).await, [first, "NULL", "NULL"]);
        let count = "SELECT count(value), count(*) FROM times WHERE value IS NULL";
        assert_eq!(rows(&ctx, count).await, ["0 2"]);
    }
}

#[tokio::test]
async fn filters_on_durations_select_on_the_axis() {
    let (_folder, path) = unpacked("forecasts_v3.zarr");
    let ctx = open(&path, ArrayOptions::new()).await;
    for (filter, slice, values) in [
        ("lead = INTERVAL '24 hours'", "lead: 1 of 5", "3.0 8.0 13.0"),
        ("lead = INTERVAL '1 day'", "lead: 1 of 5", "3.0 8.0 13.0"),
        ("lead > INTERVAL '1 day'", "lead: 1 of 5", "4.0 9.0 14.0"),
        (
            "lead <= INTERVAL '2 days' AND lead >= INTERVAL '2 days'",
            "lead: 1 of 5",
            "4.0 9.0 14.0",
        ),
        (
            "lead IN (INTERVAL '6 hours')",
            "lead: 1 of 5",
            "1.0 6.0 11.0",
        ),
        (
            "lead = 4 * INTERVAL '6 hours'",
            "lead: 1 of 5",
            "3.0 8.0 13.0",
        ),
    ] {
        let sql = format!("SELECT value FROM t2m WHERE {filter}");
        let text = plan(&ctx, &sql).await;
        assert!(
            text.contains(slice) && !text.contains("FilterExec"),
            "{text}"
        );
        assert_eq!(rows(&ctx, &sql).await.join(" "), values, "{filter}");
    }
    // Forecasts are valid on the second day in chunks of every initialisation but the last.
    let sql = "SELECT value FROM t2m WHERE init + lead < '2024-01-01T12:00'";
    assert_eq!(run(&ctx, sql).await.reads(), 1);
    let groups = "SELECT lead, count(*) FROM t2m WHERE lead < INTERVAL '12 hours' GROUP BY lead ORDER BY lead";
    assert_eq!(rows(&ctx, groups).await.len(), 2);
}

/// Leads that are numbers of hours, as with `decode_timedelta=False`, are multiplied by an hour.
#[tokio::test]
async fn leads_in_hours_are_join_keys() {
    let (_folder, path) = unpacked("forecasts_v3.zarr");
    let ctx = open(&path, ArrayOptions::new()).await;
    let table = format!(
        "CREATE EXTERNAL TABLE hours STORED AS ZARR LOCATION '{}' OPTIONS (dataset 't2m', decode_times false)",
        path.display()
    );
    rows(&ctx, &table).await;
    let sql = "SELECT f.value - e.value FROM hours f JOIN analysis e \
               ON TIMESTAMP '2024-01-01' + (f.init + f.lead) * INTERVAL '1 hour' = e.time \
               ORDER BY f.init, f.lead";
    let text = plan(&ctx, sql).await;
    assert!(text.contains("ArrayLookupJoinExec"), "{text}");
    assert_eq!(
        rows(&ctx, sql).await,
        expected("forecasts_v3.zarr", "errors")
    );
}

/// Copies and conversions read back as the same durations.
#[tokio::test]
async fn durations_are_copied() {
    let (folder, path) = unpacked("forecasts_v3.zarr");
    let ctx = open(&path, ArrayOptions::new()).await;
    let expected = rows(&ctx, "SELECT init, lead, value FROM t2m").await;
    let delays = rows(&ctx, "SELECT init, value FROM delay").await;
    for name in ["copy.tet", "copy.zarr"] {
        let output = folder.path().join(name);
        let copy = format!("COPY (SELECT * FROM t2m) TO '{}'", output.display());
        rows(&ctx, &copy).await;
        let sql = format!("SELECT init, lead, value FROM '{}#t2m'", output.display());
        assert_eq!(rows(&ctx, &sql).await, expected, "{name}");
        let of_values = folder.path().join(format!("delay_{name}"));
        let copy = format!(
            "COPY (SELECT init, value AS delay FROM delay) TO '{}' OPTIONS (dims 'init')",
            of_values.display()
        );
        rows(&ctx, &copy).await;
        let sql = format!("SELECT init, value FROM '{}#delay'", of_values.display());
        assert_eq!(rows(&ctx, &sql).await, delays, "{name}");
    }
    for name in ["converted.tet", "converted.zarr"] {
        let output = folder.path().join(name);
        let (options, progress) = (ConvertOptions::default(), ConvertProgress::default());
        convert(&path, &output, &options, &progress).await.unwrap();
        let sql = format!("SELECT init, lead, value FROM '{}#t2m'", output.display());
        assert_eq!(rows(&ctx, &sql).await, expected, "{name}");
        let sql = format!("SELECT init, value FROM '{}#delay'", output.display());
        assert_eq!(rows(&ctx, &sql).await, delays, "{name}");
    }
}
