//! The axes of OME-Zarr images.

use std::path::Path;
use std::sync::Arc;

use datafusion::prelude::{SessionConfig, SessionContext};
use serde_json::{Value, json};
use tet_sql::format::zarr::ZarrHierarchy;
use tet_sql::provider::convert::{ConvertOptions, ConvertProgress, convert};
use tet_sql::{ArrayOptions, ArraySessionExt, ArrayTable, OpeningWarnings, enable_arrays};

use crate::support::image::{RESOLUTIONS, image_attributes, write_array, write_group, write_image};
use crate::support::sql::{assert_same_without, open, rows, run, session};

/// Returns the name, the type and the source of each dimension.
fn dimensions(path: &Path, dataset: &str) -> Vec<String> {
    let options = ArrayOptions::new().with_dataset(dataset);
    let table = ArrayTable::open(path, &options).unwrap();
    let dimensions = table.describe().unwrap().dimensions.into_iter();
    dimensions
        .map(|one| format!("{} {} {}", one.name, one.data_type, one.source))
        .collect()
}

const AXES: [&str; 3] = [
    "c Int64 index",
    "y Float64 scale and translation",
    "x Float64 scale and translation",
];

#[tokio::test]
async fn both_versions_give_the_coordinates_of_their_pixels() {
    for version in ["0.4", "0.5"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cells.zarr");
        write_image(&path, version);
        let ctx = open(&path, ArrayOptions::new()).await;
        for (level, resolution) in RESOLUTIONS.iter().enumerate() {
            let location = path.join(level.to_string());
            // The second resolution has a scale of 1, but begins at 10.
            assert_eq!(dimensions(&path, &level.to_string()), AXES, "{version}");
            for table in [format!("\"{level}\""), format!("'{}'", location.display())] {
                let query = format!("SELECT * FROM {table} ORDER BY c, y, x");
                assert_eq!(
                    rows(&ctx, &query).await,
                    resolution.rows(),
                    "{version} {table}"
                );
            }
            // Opened as a hierarchy of one array, which metadata in the directory above describes.
            let alone = session();
            let opened = alone.register_array_file_as("a", &location, ArrayOptions::new());
            opened.await.unwrap();
            let query = format!("SELECT * FROM a.\"{level}\" ORDER BY c, y, x");
            assert_eq!(rows(&alone, &query).await, resolution.rows(), "{version}");
        }
        let attributes = "SELECT arrow_metadata(c, 'labels'), arrow_metadata(y, 'units'), \
                          arrow_metadata(x, 'units'), arrow_metadata(c, 'units') FROM \"0\" LIMIT 1";
        let expected = "[\"DAPI\",\"GFP\"] micrometer micrometer NULL";
        assert_eq!(rows(&ctx, attributes).await, [expected], "{version}");
        // Options that switch coordinates off apply to these, too.
        let plain = open(&path, ArrayOptions::new().with_decode_coords(false)).await;
        let query = "SELECT max(y), max(x) FROM \"0\"";
        assert_eq!(rows(&plain, query).await, ["3 5"]);
    }
}

#[tokio::test]
async fn filters_on_coordinates_skip_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cells.zarr");
    write_image(&path, "0.4");
    let ctx = open(&path, ArrayOptions::new()).await;
    // The image has two chunks along each axis.
    for (predicate, chunks) in [
        ("x BETWEEN -2 AND -1", 4),
        ("x BETWEEN -1 AND -0.5 AND y > 10.5", 4),
        ("y BETWEEN 11 AND 11.5 AND x >= 0 AND c = 1", 1),
        ("x = 0.1", 0),
        ("y BETWEEN 0 AND 9.9", 0),
    ] {
        let sql = format!("SELECT c, y, x, value FROM \"0\" WHERE {predicate} ORDER BY c, y, x");
        let found = run(&ctx, &sql).await;
        let cells = RESOLUTIONS[0]
            .cells()
            .into_iter()
            .zip(RESOLUTIONS[0].rows());
        let expected = cells.filter(|((c, y, x, _), _)| match predicate {
            "x BETWEEN -2 AND -1" => (-2.0..=-1.0).contains(x),
            "x BETWEEN -1 AND -0.5 AND y > 10.5" => (-1.0..=-0.5).contains(x) && *y > 10.5,
            "y BETWEEN 11 AND 11.5 AND x >= 0 AND c = 1" => *y >= 11.0 && *x >= 0.0 && *c == 1,
            _ => false,
        });
        let expected: Vec<String> = expected.map(|(_, row)| row).collect();
        assert_eq!(found.rows, expected, "{predicate}");
        assert_eq!(found.reads(), chunks, "{predicate}");
    }
    let sum = "SELECT c, sum(value) FROM \"0\" WHERE x < -1 GROUP BY c ORDER BY c";
    let sums = [0, 1].map(|channel| {
        let cells = RESOLUTIONS[0].cells().into_iter();
        let cells = cells.filter(|(c, _, x, _)| *c == channel && *x < -1.0);
        let sum: u32 = cells.map(|(.., value)| u32::from(value)).sum();
        format!("{channel} {sum}")
    });
    assert_eq!(rows(&ctx, sum).await, sums);
}

#[tokio::test]
async fn resolutions_join_where_their_coordinates_are_equal() {
    for version in ["0.4", "0.5"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cells.zarr");
        write_image(&path, version);
        let ctx = open(&path, ArrayOptions::new()).await;
        let join = "SELECT c, y, x, fine.value, coarse.value FROM \"0\" AS fine \
                    JOIN \"1\" AS coarse USING (c, y, x) ORDER BY c, y, x";
        let mut expected = Vec::new();
        for (c, y, x, fine) in RESOLUTIONS[0].cells() {
            for (_, _, _, coarse) in RESOLUTIONS[1]
                .cells()
                .into_iter()
                .filter(|cell| (cell.0, cell.1, cell.2) == (c, y, x))
            {
                expected.push(format!("{c} {y:?} {x:?} {fine} {coarse}"));
            }
        }
        assert_eq!(expected.len(), 12);
        assert_eq!(rows(&ctx, join).await, expected);
        assert_same_without(&ctx, "tet.lookup_joins", join).await;
    }
}

/// Labels are images within an image, and the fields of a plate are images within wells. Both use the
/// scale of their own group.
#[tokio::test]
async fn labels_and_fields_of_wells_are_images() {
    for version in ["0.4", "0.5"] {
        let folder = tempfile::tempdir().unwrap();
        let plate = folder.path().join("plate.zarr");
        let zarr_format = if version == "0.5" { 3 } else { 2 };
        for group in ["", "A", "A/1", "A/1/0/labels"] {
            let attributes = json!({"plate": {"wells": [{"path": "A/1"}]}, "labels": ["nuclei"]});
            write_group(&plate.join(group), zarr_format, &attributes);
        }
        write_image(&plate.join("A/1/0"), version);
        write_image(&plate.join("A/1/0/labels/nuclei"), version);
        let expected = RESOLUTIONS[1].rows();
        for array in ["A/1/0/1", "A/1/0/labels/nuclei/1"] {
            assert_eq!(dimensions(&plate, array), AXES);
            let ctx = session();
            for location in [
                plate.join(array).display().to_string(),
                format!("{}#{array}", plate.display()),
            ] {
                let query = format!("SELECT * FROM '{location}' ORDER BY c, y, x");
                assert_eq!(rows(&ctx, &query).await, expected, "{location}");
            }
        }
        // The field by itself.
        assert_eq!(dimensions(&plate.join("A/1/0"), "labels/nuclei/0"), AXES);
    }
}

/// Versions before 0.4 have no scales, and those before 0.3 always five axes.
#[tokio::test]
async fn earlier_versions_only_name_axes() {
    for (version, axes, shape) in [
        ("0.1", json!(null), &[2, 1, 3, 4, 6][..]),
        ("0.2", json!(null), &[2, 1, 3, 4, 6][..]),
        ("0.3", json!(["z", "y", "x"]), &[3, 4, 6][..]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.zarr");
        let image = json!({"version": version, "axes": axes, "datasets": [{"path": "a/0"}]});
        write_group(&path, 2, &json!({"multiscales": [image]}));
        write_group(&path.join("a"), 2, &json!({}));
        write_array(&path.join("a/0"), 2, shape, 1, None);
        let names = ["t", "c", "z", "y", "x"];
        let expected = names[names.len() - shape.len()..].iter();
        let expected: Vec<String> = expected.map(|name| format!("{name} Int64 index")).collect();
        assert_eq!(dimensions(&path, "a/0"), expected, "{version}");
        assert_eq!(dimensions(&path.join("a/0"), "0"), expected, "{version}");
    }
}

/// Returns an image of version 0.4 after a change of its metadata.
fn changed(change: impl FnOnce(&mut Value)) -> Value {
    let mut attributes = image_attributes("0.4");
    change(&mut attributes["multiscales"][0]);
    attributes
}

#[tokio::test]
async fn metadata_that_cannot_be_used_is_ignored_with_one_warning() {
    let scale = |image: &mut Value, scale: Value| {
        image["datasets"][1]["coordinateTransformations"][0]["scale"] = scale;
    };
    for (attributes, expected) in [
        (
            changed(|image| image["axes"] = json!([{"name": "y"}, {"name": "x"}])),
            "scale is [1,1,2], expected 2 positive numbers, one for each axis",
        ),
        (
            changed(|image| image["axes"][1]["name"] = json!("x")),
            "expected a list of axes with distinct names",
        ),
        (
            changed(|image| image["version"] = json!("0.7")),
            "version is \"0.7\", expected 0.1, 0.2, 0.3, 0.4",
        ),
        (
            changed(|image| scale(image, json!([1, 0, 1]))),
            "scale is [1,0,1], expected 3 positive numbers",
        ),
        (
            changed(|image| scale(image, json!([1, -1, 1]))),
            "scale is [1,-1,1], expected 3 positive numbers",
        ),
        (
            changed(|image| scale(image, json!([1, "Infinity", 1]))),
            "scale is [1,\"Infinity\",1], expected 3 positive numbers",
        ),
        (
            changed(|image| scale(image, json!([1, 1e200, 1e308]))),
            "expected a positive scale and finite coordinates",
        ),
        (
            changed(|image| scale(image, json!([1, 1, 5e307]))),
            "a scale of 1e308 and a translation of -2.0 along \"x\"",
        ),
        (
            changed(|image| image["datasets"] = json!([])),
            "datasets is [], expected a list of arrays",
        ),
        (
            json!({"multiscales": "x"}),
            "multiscales is \"x\", expected a list of images",
        ),
        (
            json!({"multiscales": [{"version": "0.2", "datasets": [{"path": "0"}]}]}),
            "axes is [\"t\", \"c\", \"z\", \"y\", \"x\"], expected the 3 axes of the array \"0\"",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("odd.zarr");
        write_image(&path, "0.4");
        write_group(&path, 2, &attributes);
        let opened = ZarrHierarchy::open(&path).unwrap();
        let [warning] = opened.warnings() else {
            panic!("{expected}: {:?}", opened.warnings());
        };
        assert!(
            warning.contains("odd.zarr") && warning.contains(expected),
            "{warning}"
        );
        let warnings = Arc::new(OpeningWarnings::default());
        let config = SessionConfig::new().with_extension(Arc::clone(&warnings));
        let ctx = enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new());
        let query = format!(
            "SELECT dim_0, dim_1, dim_2, value FROM '{}/0' WHERE dim_2 = 5 AND dim_1 = 3 ORDER BY 1",
            path.display()
        );
        assert_eq!(
            rows(&ctx, &query).await,
            ["0 3 5 24", "1 3 5 48"],
            "{warning}"
        );
        assert_eq!(warnings.take().len(), 1, "{warning}");
    }
}

#[tokio::test]
async fn paths_of_other_arrays_are_ignored_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.zarr");
    write_image(&path, "0.4");
    let twice = || {
        let mut attributes = image_attributes("0.4");
        let mut other = attributes["multiscales"][0].clone();
        other["coordinateTransformations"][0]["scale"] = json!([1, 1, 7]);
        let images = attributes["multiscales"].as_array_mut().unwrap();
        images.push(other);
        attributes
    };
    for (attributes, expected) in [
        (
            changed(|image| image["datasets"][0]["path"] = json!("./0/")),
            None,
        ),
        (
            changed(|image| {
                let datasets = image["datasets"].as_array_mut().unwrap();
                datasets.push(json!({"path": "5"}));
            }),
            Some("path is \"5\", expected the path of an array; "),
        ),
        (
            twice(),
            Some(
                "path is \"0\", expected the path of an array that no other image has with other axes; ",
            ),
        ),
    ] {
        write_group(&path, 2, &attributes);
        let opened = ZarrHierarchy::open(&path).unwrap();
        let warnings = opened.warnings();
        match expected {
            None => assert_eq!(warnings, [""; 0]),
            Some(expected) => {
                assert_eq!(warnings.len(), 1, "{warnings:?}");
                assert!(warnings[0].contains(expected), "{warnings:?}");
                assert!(warnings[0].ends_with("the metadata of this array is ignored"));
            }
        }
        let query = format!("SELECT * FROM '{}/0' ORDER BY c, y, x", path.display());
        assert_eq!(rows(&session(), &query).await, RESOLUTIONS[0].rows());
    }
}

/// zarr-python gives integers of version 2 a fill value of 0, which other arrays read as NULL.
#[tokio::test]
async fn pixels_with_the_fill_value_are_not_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cells.zarr");
    write_image(&path, "0.4");
    let array = path.join("0");
    write_array(&array, 2, &RESOLUTIONS[0].shape, 0, None);
    let document = std::fs::read_to_string(array.join(".zarray")).unwrap();
    let filled = document.replace("\"fill_value\":null", "\"fill_value\":0");
    assert_ne!(filled, document);
    std::fs::write(array.join(".zarray"), filled).unwrap();
    // The last chunk is absent.
    std::fs::remove_file(array.join("1/1/1")).unwrap();
    let query = format!(
        "SELECT count(value), count(*) FILTER (WHERE value = 0) FROM '{}'",
        array.display()
    );
    assert_eq!(rows(&session(), &query).await, ["48 7"]);
    // An attribute says that they are missing, and so does the array by itself.
    let attributes = array.join(".zattrs");
    std::fs::write(&attributes, "{\"_FillValue\": 0}").unwrap();
    assert_eq!(rows(&session(), &query).await, ["41 0"]);
    std::fs::remove_file(attributes).unwrap();
    write_group(&path, 2, &json!({}));
    assert_eq!(rows(&session(), &query).await, ["41 0"]);
}

/// The arrays of version 0.5 name their dimensions, which must be the axes.
#[tokio::test]
async fn names_of_the_array_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cells.zarr");
    write_image(&path, "0.5");
    let shape = &RESOLUTIONS[0].shape;
    write_array(&path.join("0"), 3, shape, 1, Some(&["c", "x", "y"]));
    let expected = ["c Int64 index", "x Int64 index", "y Int64 index"];
    assert_eq!(dimensions(&path, "0"), expected);
    let opened = ZarrHierarchy::open(&path).unwrap();
    assert_eq!(opened.warnings().len(), 1, "{:?}", opened.warnings());
    // Without names of its own, the array has those of the axes.
    write_array(&path.join("0"), 3, shape, 1, None);
    assert_eq!(dimensions(&path, "0"), AXES);
}

#[tokio::test]
async fn many_faulty_images_give_one_warning() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plate.zarr");
    write_group(&path, 2, &json!({}));
    for field in ["a", "b", "c"] {
        write_image(&path.join(field), "0.4");
        let attributes = changed(|image| image["version"] = json!("0.7"));
        write_group(&path.join(field), 2, &attributes);
    }
    let opened = ZarrHierarchy::open(&path).unwrap();
    let [warning] = opened.warnings() else {
        panic!("{:?}", opened.warnings());
    };
    assert!(
        warning.contains("\"a\"") && warning.contains("and that of 2 more"),
        "{warning}"
    );
}

#[tokio::test]
async fn copies_keep_names_coordinates_and_units() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cells.zarr");
    write_image(&path, "0.4");
    let ctx = session();
    for name in ["copy.zarr", "copy.tet"] {
        let copy = folder.path().join(name);
        let (from, to) = (path.join("0"), copy.display());
        let sql = format!("COPY (SELECT * FROM '{}') TO '{to}'", from.display());
        rows(&ctx, &sql).await;
        let query = format!("SELECT * FROM '{to}' ORDER BY c, y, x");
        assert_eq!(rows(&ctx, &query).await, RESOLUTIONS[0].rows(), "{name}");
    }
    let zarr = folder.path().join("copy.zarr");
    let units = format!(
        "SELECT arrow_metadata(x, 'units') FROM '{}' LIMIT 1",
        zarr.display()
    );
    assert_eq!(rows(&ctx, &units).await, ["micrometer"]);
}

#[tokio::test]
async fn conversions_keep_the_coordinates_of_one_resolution() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cells.zarr");
    write_image(&path, "0.4");
    let ctx = session();
    // A Zarr directory of all resolutions keeps the metadata of the group, which describes them.
    for (from, to, table) in [
        ("cells.zarr#0", "one.tet", "one.tet"),
        ("cells.zarr#0", "one.zarr", "one.zarr/0"),
        ("cells.zarr/0", "alone.zarr", "alone.zarr/0"),
        ("cells.zarr", "all.zarr", "all.zarr/0"),
    ] {
        let [from, to, table] = [from, to, table].map(|name| folder.path().join(name));
        let (options, progress) = (ConvertOptions::default(), ConvertProgress::default());
        let converted = convert(&from, &to, &options, &progress).await.unwrap();
        let lost = converted
            .warnings
            .iter()
            .any(|warning| warning.contains("coordinates"));
        assert!(!lost, "{:?}", converted.warnings);
        let query = format!("SELECT * FROM '{}' ORDER BY c, y, x", table.display());
        assert_eq!(
            rows(&ctx, &query).await,
            RESOLUTIONS[0].rows(),
            "{}",
            to.display()
        );
        if to.is_dir() {
            let opened = ZarrHierarchy::open(&to).unwrap();
            assert_eq!(opened.warnings(), [""; 0], "{}", to.display());
        }
    }
    let to = folder.path().join("all.tet");
    let (options, progress) = (ConvertOptions::default(), ConvertProgress::default());
    let converted = convert(&path, &to, &options, &progress).await.unwrap();
    let lost = converted.warnings.iter();
    let lost = lost.filter(|warning| warning.contains("its coordinates are left out"));
    assert_eq!(lost.count(), 2, "{:?}", converted.warnings);
    let query = format!("SELECT max(c), max(y), max(x) FROM '{}#0'", to.display());
    assert_eq!(rows(&ctx, &query).await, ["1 3 5"]);
}
