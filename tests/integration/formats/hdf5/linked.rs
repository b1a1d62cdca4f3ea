//! Coordinates of arrays that soft links lead to, and links beside coordinates.

use tet_sql::{Access, ArrayOptions};

use super::stored::{open as open_file, path};
use crate::support::sql::{open, rows};

const FILE: &str = "linked_coordinates.h5";

#[tokio::test]
async fn a_link_has_the_coordinates_of_its_target() {
    let ctx = open(&path(FILE), ArrayOptions::new()).await;
    assert_eq!(
        rows(&ctx, "SELECT x FROM latest ORDER BY x").await,
        ["10", "20", "30", "40"]
    );
    assert_eq!(
        rows(&ctx, "SELECT x, value FROM latest").await,
        rows(&ctx, "SELECT x, value FROM run.t").await
    );
}

/// `other/lat` is a soft link to `grid/lat`, the only dataset of this name.
#[tokio::test]
async fn a_link_does_not_make_the_name_of_its_target_ambiguous() {
    let ctx = open(&path(FILE), ArrayOptions::new()).await;
    let sql = "SELECT lat FROM data.v ORDER BY lat";
    assert_eq!(rows(&ctx, sql).await, ["50", "51", "52", "53"]);
}

/// The attribute is `lat /grid/height area`, and all are in the group `grid`.
#[tokio::test]
async fn auxiliary_coordinates_are_found_like_those_of_axes() {
    let options = ArrayOptions::new().with_auxiliary_coordinates(true);
    let ctx = open(&path(FILE), options).await;
    let sql = "SELECT lat, value, height, area FROM data.w ORDER BY value";
    let expected = (0..12).map(|number| {
        let (lat, height, area) = (50 + number / 3, number + 100, number * 7);
        format!("{lat} {number}.0 {height}.0 {area}.0")
    });
    assert_eq!(rows(&ctx, sql).await, expected.collect::<Vec<_>>());
}

/// The file has 20 external links.
#[test]
fn external_links_are_counted() {
    let file = open_file(FILE, Access::Pread);
    let warnings = file.warnings();
    assert_eq!(warnings.len(), 16 + 1, "{warnings:?}");
    assert!(
        warnings
            .iter()
            .all(|warning| warning.contains("external link"))
    );
    let last = "linked_coordinates.h5: has 4 more external links, which are not followed";
    assert!(
        warnings.iter().any(|warning| warning.ends_with(last)),
        "{warnings:?}"
    );
}
