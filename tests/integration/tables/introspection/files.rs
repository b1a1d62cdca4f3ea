//! Introspection of files and their dimensions.

use std::fs;

use tet_sql::format::tet::{DatasetSpec, Dtype};
use tet_sql::{ArrayOptions, ArraySessionExt};
use tetration::catalog::TetPackage;

use super::{days, quoted};
use crate::formats::packages::publish;
use crate::formats::reference::Reference;
use crate::support::cells::data;
use crate::support::sql::{open, rows, session, write};

#[tokio::test]
async fn dimensions_show_their_ranges() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("days.tet");
    days(&path);
    let ctx = open(&path, ArrayOptions::new()).await;
    let sql = "SELECT position, dimension, extent, data_type, min, max, coordinates, direction, is_unique, problem \
               FROM tet_dimensions() WHERE table_name = 'v' ORDER BY position";
    assert_eq!(
        rows(&ctx, sql).await,
        [
            "0 day 10 Int64 91 100 labels descending true NULL",
            "1 place 10 Int64 0 9 index ascending true NULL"
        ]
    );
    let labels = ["b", "a", "b", "c"];
    let spec = DatasetSpec::new("t", Dtype::U8, &[4, 1], &[4, 1])
        .with_dim_names(["name", "one"])
        .with_labels("name", labels)
        .with_labels("one", ["2024-05-01"]);
    let path = folder.path().join("texts.tet");
    write(&path, &[(spec, vec![1, 2, 3, 4])]);
    let ctx = open(&path, ArrayOptions::new()).await;
    let sql = "SELECT dimension, data_type, min, max, direction, is_unique FROM tet_dimensions() ORDER BY position";
    assert_eq!(
        rows(&ctx, sql).await,
        [
            "name Utf8 a c none false",
            "one Date32 2024-05-01 2024-05-01 NULL true"
        ]
    );
    // Coordinates in datasets of their own, with their attributes.
    let ctx = open(&data("coordvars.tet"), ArrayOptions::new()).await;
    let sql = "SELECT DISTINCT dimension, units FROM tet_dimensions() WHERE units IS NOT NULL ORDER BY dimension";
    let reference = Reference::open(&data("coordvars.tet"));
    let metadata = &reference.summary.metadata.datasets;
    let expected: Vec<_> = metadata
        .iter()
        .filter(|(name, _)| ["lat", "lon"].contains(&name.as_str()))
        .map(|(name, metadata)| format!("{name} {}", metadata.attrs["units"]))
        .collect();
    assert!(!expected.is_empty());
    assert_eq!(rows(&ctx, sql).await, expected);
}

#[tokio::test]
async fn deleted_files_and_packages_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gone.tet");
    fs::copy(data("weather_small.tet"), &path).unwrap();
    let ctx = open(&path, ArrayOptions::new()).await;
    fs::remove_file(&path).unwrap();
    let sql = "SELECT datasets, stored_bytes, modified, problem FROM tet_files()";
    let found = rows(&ctx, sql).await.remove(0);
    assert!(found.starts_with("3 NULL NULL "), "{found}");
    assert!(
        found.contains("gone.tet: cannot read the metadata"),
        "{found}"
    );

    let path = folder.path().join("weather.tet.d");
    let package = TetPackage::create(&path).unwrap();
    publish(&package, 1, &data("specials_f64.tet"));
    publish(&package, 2, &data("weather_small.tet"));
    let ctx = open(&path, ArrayOptions::new()).await;
    let sql = "SELECT generation, datasets, stored_bytes FROM tet_files()";
    let both = ["specials_f64.tet", "weather_small.tet"];
    let both = both.map(|name| fs::metadata(data(name)).unwrap().len());
    let found = rows(&ctx, sql).await.remove(0);
    let (start, bytes) = found.rsplit_once(' ').unwrap();
    assert_eq!(start, "2 3");
    assert!(bytes.parse::<u64>().unwrap() >= both.iter().sum());
}

#[tokio::test]
async fn introspection_handles_all_edge_case_files() {
    for entry in data("edge").read_dir().unwrap() {
        let path = entry.unwrap().path();
        let ctx = session();
        let registered = ctx.register_array_file_as("f", &path, ArrayOptions::new());
        if registered.await.is_err() {
            continue;
        }
        for function in [
            "tet_files",
            "tet_datasets",
            "tet_dimensions",
            "tet_attributes",
            "tet_history",
        ] {
            rows(&ctx, &format!("SELECT * FROM {function}()")).await;
        }
        for table in rows(&ctx, "SELECT table_name FROM tet_datasets()").await {
            // The query returns an answer, or an error that names the file.
            let sql = format!("SELECT * FROM tet_chunks('f.{}') LIMIT 10", quoted(&table));
            rows(&ctx, &sql).await;
        }
    }
}
