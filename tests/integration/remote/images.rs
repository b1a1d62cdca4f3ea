//! The requests for OME-Zarr images without consolidated metadata.

use std::fs;

use crate::remote::session;
use crate::support::http::{FaultKind, HttpServer, Request};
use crate::support::image::{RESOLUTIONS, write_array, write_image};
use crate::support::sql::{error, rows};

/// The paths of the requests, sorted.
fn targets(log: &[Request]) -> Vec<&str> {
    let mut targets: Vec<_> = log.iter().map(|request| request.target.as_str()).collect();
    targets.sort_unstable();
    targets
}

fn count(location: &str) -> String {
    format!("SELECT count(*) FROM '{location}'")
}

fn cells(location: &str) -> String {
    format!("SELECT * FROM '{location}' ORDER BY c, y, x")
}

/// The metadata of the image names the arrays.
#[tokio::test]
async fn images_on_a_server_that_cannot_list() {
    for version in ["0.4", "0.5"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cells.zarr");
        write_image(&path, version);
        write_image(&path.join("labels/nuclei"), version);
        let server = HttpServer::of(directory.path());
        let url = server.url("cells.zarr");
        assert_eq!(
            rows(&session(), &count(&format!("{url}#0"))).await,
            ["48"],
            "{version}"
        );
        let log = server.take_log();
        // The path of the image itself is that of the request for a list.
        let expected: &[&str] = match version {
            "0.4" => &[
                "",
                "/.zarray",
                "/.zattrs",
                "/.zgroup",
                "/.zmetadata",
                "/0/.zarray",
                "/0/.zattrs",
                "/1/.zarray",
                "/1/.zattrs",
                "/zarr.json",
            ],
            _ => &["", "/0/zarr.json", "/1/zarr.json", "/zarr.json"],
        };
        let expected: Vec<_> = expected
            .iter()
            .map(|key| format!("/cells.zarr{key}"))
            .collect();
        assert_eq!(targets(&log), expected);
        for (level, resolution) in RESOLUTIONS.iter().enumerate() {
            // A label image is not among the arrays of the image, and is found by its path.
            for name in [format!("{level}"), format!("labels/nuclei/{level}")] {
                for separator in ["/", "#"] {
                    let found = rows(&session(), &cells(&format!("{url}{separator}{name}"))).await;
                    assert_eq!(found, resolution.rows(), "{version} {name}");
                }
            }
        }
        let message = error(&session(), &count(&format!("{url}/none"))).await;
        assert!(message.contains("none"), "{message}");
    }
}

#[tokio::test]
async fn arrays_of_an_image_may_be_absent() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cells.zarr");
    write_image(&path, "0.4");
    fs::remove_dir_all(path.join("1")).unwrap();
    let server = HttpServer::of(directory.path());
    let found = rows(&session(), &cells(&server.url("cells.zarr/0"))).await;
    assert_eq!(found, RESOLUTIONS[0].rows());
    server.delete("cells.zarr/0/.zarray");
    let message = error(&session(), &count(&server.url("cells.zarr"))).await;
    assert!(message.contains("it does not exist"), "{message}");
    // The attributes of other groups name no arrays.
    server.put("cells.zarr/.zattrs", "{\"title\": \"none\"}");
    let message = error(&session(), &count(&server.url("cells.zarr"))).await;
    assert!(message.contains("cannot list"), "{message}");
}

/// Some stores answer 403 for objects that do not exist.
#[tokio::test]
async fn images_on_a_server_that_denies_absent_objects() {
    let directory = tempfile::tempdir().unwrap();
    write_image(&directory.path().join("cells.zarr"), "0.4");
    let server = HttpServer::of(directory.path());
    for absent in [
        "zarr.json",
        ".zmetadata",
        ".zarray",
        "0/.zattrs",
        "1/.zattrs",
    ] {
        let path = format!("/cells.zarr/{absent}");
        server.fail(&path, FaultKind::Status(403), 100);
    }
    let found = rows(&session(), &cells(&server.url("cells.zarr/1"))).await;
    assert_eq!(found, RESOLUTIONS[1].rows());
}

/// The group directly around an array is read if the array may be a resolution of an image.
#[tokio::test]
async fn an_array_alone_has_the_coordinates_of_its_image() {
    for (version, document, requests) in [("0.4", ".zattrs", 6), ("0.5", "zarr.json", 3)] {
        let directory = tempfile::tempdir().unwrap();
        write_image(&directory.path().join("cells"), version);
        let server = HttpServer::of(directory.path());
        let url = server.url("cells/1");
        assert_eq!(rows(&session(), &count(&url)).await, ["12"], "{version}");
        let log = server.take_log();
        assert_eq!(log.len(), requests, "{log:?}");
        let found = rows(&session(), &cells(&url)).await;
        assert_eq!(found, RESOLUTIONS[1].rows(), "{version}");
        // The array can be read without the group.
        let path = format!("/cells/{document}");
        server.fail(&path, FaultKind::Status(403), 1);
        assert_eq!(rows(&session(), &count(&url)).await, ["12"], "{version}");
        server.delete(&format!("cells/{document}"));
        assert_eq!(rows(&session(), &count(&url)).await, ["12"], "{version}");
    }
}

#[tokio::test]
async fn the_group_around_other_arrays_is_not_read() {
    for zarr_format in [2, 3] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("grid/t");
        let names = ["time", "y", "x"];
        write_array(&path, zarr_format, &[2, 4, 6], 1, Some(&names));
        let server = HttpServer::of(directory.path());
        assert_eq!(
            rows(&session(), &count(&server.url("grid/t"))).await,
            ["48"]
        );
        let log = server.take_log();
        let is_within = |request: &Request| request.target.starts_with("/grid/t");
        assert!(log.iter().all(is_within), "{log:?}");
    }
}

/// A list of a group shows whether the group has attributes. All of them are read at the end, at the same
/// time.
#[cfg(feature = "tiledb")]
#[tokio::test]
async fn the_attributes_of_groups_that_a_store_lists() {
    use crate::remote::logged::LoggedStore;
    use crate::support::image::write_group;

    let directory = tempfile::tempdir().unwrap();
    let plate = directory.path().join("plate.zarr");
    for group in ["", "A", "A/1"] {
        let attributes = serde_json::json!({"plate": {"wells": [{"path": "A/1"}]}});
        write_group(&plate.join(group), 2, &attributes);
    }
    fs::remove_file(plate.join("A/.zattrs")).unwrap();
    for field in ["A/1/0", "A/1/1"] {
        write_image(&plate.join(field), "0.4");
    }
    let store = LoggedStore::of(directory.path()).await;
    let ctx = store.session(1);
    let found = rows(&ctx, &cells("s3://b/plate.zarr/A/1/0/1")).await;
    assert_eq!(found, RESOLUTIONS[1].rows());
    let log = store.take_log();
    let attributes = log.iter().filter(|path| path.ends_with("/.zattrs"));
    let attributes: Vec<&str> = attributes.map(String::as_str).collect();
    let (arrays, groups) = attributes.split_at(4);
    assert!(
        arrays
            .iter()
            .all(|path| path.ends_with("/0/.zattrs") || path.ends_with("/1/.zattrs")),
        "{arrays:?}"
    );
    let mut groups = groups.to_vec();
    groups.sort_unstable();
    let expected = [
        "plate.zarr/.zattrs",
        "plate.zarr/A/1/.zattrs",
        "plate.zarr/A/1/0/.zattrs",
        "plate.zarr/A/1/1/.zattrs",
    ];
    assert_eq!(groups, expected);
}
