//! Conventions for whole files, in classic NetCDF and in NetCDF-4. `tests/data/netcdf/conventions.py` writes the
//! files; the expected answers are those of xarray 2026.7, except for coordinates.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tet_sql::format::array::ArrayFile;
use tet_sql::format::hdf5::Hdf5File;
use tet_sql::format::tet::verify::{VerifyOptions, verify_arrays};
use tet_sql::format::zarr::{OutwardLinks, ZarrFile};
use tet_sql::provider::adapters::arrays::ArrayContainer;
use tet_sql::provider::convert::{ConvertOptions, ConvertProgress, convert};
use tet_sql::provider::source::container::Container;
use tet_sql::{Access, ArrayOptions};

use super::path;
use crate::support::sql::{error, open, rows};

const FILES: [&str; 2] = ["conventions.nc", "conventions_4.nc"];

#[tokio::test]
async fn all_tables_have_the_coordinates_that_one_attribute_names() {
    for file in FILES {
        let ctx = open(&path(file), ArrayOptions::new()).await;
        let sql =
            "SELECT u.y, z, u.value, t.value FROM u JOIN t USING (z) WHERE u.y = 1 ORDER BY z";
        let expected = ["1 500.0 5.0 3.0", "1 850.0 4.0 2.0", "1 1000.0 3.0 1.0"];
        assert_eq!(rows(&ctx, sql).await, expected);
        for table in ["lev", "missing", "t"] {
            let sql = format!("SELECT value FROM {table} WHERE z = 850");
            assert_eq!(rows(&ctx, &sql).await.len(), 1, "{file} {table}");
        }
        let options = ArrayOptions::new().with_decode_coords(false);
        let ctx = open(&path(file), options).await;
        assert_eq!(rows(&ctx, "SELECT value FROM t WHERE z = 1").await, ["2.0"]);
    }
}

#[tokio::test]
async fn coordinates_stay_within_their_groups() {
    let ctx = open(&path("profiles.nc"), ArrayOptions::new()).await;
    for (table, expected) in [
        ("a.u", "1000.0 850.0 500.0"),
        ("b.u", "0 1 2"),
        ("c.u", "1000.0 850.0 500.0"),
    ] {
        let found = rows(&ctx, &format!("SELECT z FROM {table}")).await;
        assert_eq!(found.join(" "), expected, "{table}");
    }
}

#[tokio::test]
async fn missing_coordinates_do_not_fail_other_tables() {
    let file = path("profiles.nc");
    let ctx = open(&file, ArrayOptions::new()).await;
    for table in ["temp", "qc", "time"] {
        let obs = rows(&ctx, &format!("SELECT obs FROM {table}")).await;
        assert_eq!(obs, ["0", "1", "2"], "{table}");
    }
    let sql = "SELECT time.value, temp.value FROM temp JOIN time USING (obs)";
    let expected = [
        "2020-01-01T00:00:00 1.0",
        "NULL 2.0",
        "2020-01-01T02:00:00 3.0",
    ];
    assert_eq!(rows(&ctx, sql).await, expected);
    let sql = "SELECT station, value FROM flow";
    assert_eq!(rows(&ctx, sql).await, ["Ulm 1.0", " 2.0", "Bonn 3.0"]);
    assert_eq!(
        rows(&ctx, "SELECT value FROM name").await,
        ["Ulm", "NULL", "Bonn"]
    );
    let array: Arc<dyn ArrayFile> = Arc::new(Hdf5File::open(&file, Access::Pread).unwrap());
    let container = ArrayContainer::new(array, &ArrayOptions::new());
    let warnings = container.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].ends_with("; the indices take their place"),
        "{warnings:?}"
    );
}

#[tokio::test]
async fn strings_that_an_attribute_declares_missing_are_null() {
    for file in FILES {
        let ctx = open(&path(file), ArrayOptions::new()).await;
        for (table, expected) in [
            ("code", ["ab", "NULL", "xyz"]),
            ("letter", ["a", "NULL", "b"]),
        ] {
            let sql = format!("SELECT value FROM {table}");
            assert_eq!(rows(&ctx, &sql).await, expected, "{file}");
        }
        let sql = "SELECT count(value) FROM code WHERE value <> 'ab'";
        assert_eq!(rows(&ctx, sql).await, ["1"]);
    }
    let ctx = open(&path("conventions_4.nc"), ArrayOptions::new()).await;
    let words = rows(&ctx, "SELECT value FROM word").await;
    assert_eq!(words, ["x", "NULL", "y"]);
}

#[tokio::test]
async fn default_fill_values_are_null_and_no_attribute() {
    for file in FILES {
        let ctx = open(&path(file), ArrayOptions::new()).await;
        let holes = rows(&ctx, "SELECT value FROM holes").await;
        assert_eq!(holes, ["7", "NULL", "NULL"], "{file}");
        let sql = "SELECT count(*) FROM tet_attributes() WHERE dataset = 'holes'";
        assert_eq!(rows(&ctx, sql).await, ["0"], "{file}");
    }
}

/// Returns the metadata of an array of a Zarr directory.
fn document(zarr: &Path, array: &str) -> Value {
    let bytes = std::fs::read(zarr.join(array).join("zarr.json")).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[tokio::test]
async fn conversion_to_zarr_keeps_types_of_attributes_and_adds_no_fill_values() {
    let directory = tempfile::tempdir().unwrap();
    for file in FILES {
        let zarr = directory.path().join(file).with_extension("zarr");
        let progress = ConvertProgress::default();
        let (from, options) = (path(file), ConvertOptions::default());
        let converted = convert(&from, &zarr, &options, &progress).await.unwrap();
        let renamed = r#"dataset "square": dim_names is ["k", "k"], expected distinct names; they become ["k", "k_2"]"#;
        assert!(
            converted.warnings.iter().any(|one| one.contains(renamed)),
            "{:?}",
            converted.warnings
        );
        let count = document(&zarr, "count");
        let expected = json!({"flag_values": [0, 1, 2], "flag_meanings": "none some all", "valid_range": [0, 9]});
        assert_eq!(count["attributes"], expected, "{file}");
        assert_eq!(document(&zarr, "holes")["attributes"]["_FillValue"], -32767);
        let missing = document(&zarr, "missing");
        assert_eq!(missing["attributes"]["missing_value"], json!([-1.0, -2.0]));
        // The answers stay the same.
        let before = open(&path(file), ArrayOptions::new()).await;
        let after = open(&zarr, ArrayOptions::new()).await;
        for table in ["t", "u", "count", "holes", "missing"] {
            let sql = format!("SELECT * FROM {table}");
            assert_eq!(
                rows(&after, &sql).await,
                rows(&before, &sql).await,
                "{file} {table}"
            );
        }
    }
    let after = open(
        &directory.path().join("conventions_4.zarr"),
        ArrayOptions::new(),
    )
    .await;
    assert_eq!(rows(&after, "SELECT value FROM place").await, ["here"]);
    let sql = "SELECT y, k, value FROM \"table\" ORDER BY y, k";
    assert_eq!(
        rows(&after, sql).await,
        ["0 0 a", "0 1 b", "1 0 c", "1 1 a"]
    );
}

#[tokio::test]
async fn conversion_to_tet_keeps_nulls() {
    let directory = tempfile::tempdir().unwrap();
    for file in FILES {
        let tet = directory.path().join(file).with_extension("tet");
        let progress = ConvertProgress::default();
        convert(&path(file), &tet, &ConvertOptions::default(), &progress)
            .await
            .unwrap();
        let ctx = open(&tet, ArrayOptions::new()).await;
        let sql = "SELECT count(value), count(*) FROM holes";
        assert_eq!(rows(&ctx, sql).await, ["1 3"], "{file}");
    }
}

#[tokio::test]
async fn converted_arrays_keep_coordinates_that_others_name() {
    let directory = tempfile::tempdir().unwrap();
    for extension in ["zarr", "tet"] {
        let output = directory.path().join("lev").with_extension(extension);
        let input = path("conventions.nc#lev");
        let (options, progress) = (ConvertOptions::default(), ConvertProgress::default());
        convert(&input, &output, &options, &progress).await.unwrap();
        let ctx = open(&output, ArrayOptions::new()).await;
        assert_eq!(
            rows(&ctx, "SELECT value FROM lev WHERE z = 850").await,
            ["850.0"]
        );
        let output = directory.path().join("u").with_extension(extension);
        let input = path("conventions.nc#u");
        let progress = ConvertProgress::default();
        convert(&input, &output, &ConvertOptions::default(), &progress)
            .await
            .unwrap();
        let ctx = open(&output, ArrayOptions::new()).await;
        let sql = "SELECT z FROM u WHERE y = 0";
        assert_eq!(rows(&ctx, sql).await, ["1000.0", "850.0", "500.0"]);
    }
}

#[tokio::test]
async fn errors_tell_why_a_dataset_is_left_out() {
    let file = path("conventions_4.nc");
    let ctx = open(&file, ArrayOptions::new()).await;
    let sql = format!("SELECT * FROM '{}#pairs'", file.display());
    let message = error(&ctx, &sql).await;
    let expected = "dataset \"pairs\": has elements of a compound type; the dataset is left out";
    assert!(message.contains(expected), "{message}");
}

#[tokio::test]
async fn damaged_files_are_not_sound() {
    let verified =
        |file: Arc<dyn ArrayFile>| verify_arrays(&file, VerifyOptions::default(), &|_, _| {});
    let directory = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(path("conventions_4.nc")).unwrap();
    let cut = directory.path().join("cut.nc");
    for (length, is_sound) in [(bytes.len(), true), (bytes.len() - 1, false), (4000, false)] {
        std::fs::write(&cut, &bytes[..length]).unwrap();
        let Ok(file) = Hdf5File::open(&cut, Access::Pread) else {
            assert!(!is_sound);
            continue;
        };
        let report = verified(Arc::new(file));
        assert_eq!(report.ok, is_sound, "{length}: {:?}", report.findings);
    }
    // Neither an empty dataset nor a user block that was removed is damage.
    let bytes = std::fs::read(path("empty.h5")).unwrap();
    for length in [0, 512] {
        std::fs::write(&cut, &bytes[length..]).unwrap();
        let file = Hdf5File::open(&cut, Access::Pread).unwrap();
        assert_eq!(file.warnings().len(), 1, "{:?}", file.warnings());
        assert!(verified(Arc::new(file)).ok);
    }
    let zarr = directory.path().join("a.zarr");
    let options = ConvertOptions::default();
    convert(
        &path("conventions.nc"),
        &zarr,
        &options,
        &ConvertProgress::default(),
    )
    .await
    .unwrap();
    let open = || Arc::new(ZarrFile::open(&zarr, Access::Pread, OutwardLinks::Follow).unwrap());
    assert!(verified(open()).ok);
    // Without the consolidated metadata, each document is read.
    let root = json!({"zarr_format": 3, "node_type": "group", "attributes": {}});
    std::fs::write(zarr.join("zarr.json"), root.to_string()).unwrap();
    assert!(verified(open()).ok);
    std::fs::write(zarr.join("t/zarr.json"), "{").unwrap();
    assert!(!verified(open()).ok);
}

/// The expected times are those of xarray. Bounds have the unit of the coordinates that name them.
#[tokio::test]
async fn bounds_of_times_are_times() {
    let ctx = open(&path("cf_2000.nc"), ArrayOptions::new()).await;
    let sql = "SELECT arrow_typeof(value), value FROM time_bnds WHERE time < '2000-03' ORDER BY time, bnds";
    let times = ["2000-01-01", "2000-02-01", "2000-02-01", "2000-03-03"];
    let expected = times.map(|day| format!("Timestamp(µs) {day}T00:00:00"));
    assert_eq!(rows(&ctx, sql).await, expected);
    let sql = "SELECT count(*) FROM time_bnds WHERE value >= '2000-02'";
    assert_eq!(
        rows(&ctx, sql).await,
        [rows(&ctx, "SELECT count(*) - 1 FROM time_bnds").await[0].as_str()]
    );
    let options = ArrayOptions::new().with_decode_times(false);
    let ctx = open(&path("cf_2000.nc"), options).await;
    let sql = "SELECT value FROM time_bnds WHERE time = 0 ORDER BY bnds";
    assert_eq!(rows(&ctx, sql).await, ["0.0", "31.0"]);
}
