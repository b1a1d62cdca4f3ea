//! The groups of files as schemas.

use datafusion::prelude::SessionContext;
use tet_sql::provider::convert::{ConvertOptions, ConvertProgress, convert};
use tet_sql::{ArrayOptions, ArraySessionExt};

use super::stored::path;
use crate::support::sql::{error, open, rows, session};

/// Checks that queries of one table by several names have the same rows.
async fn same(ctx: &SessionContext, tables: &[&str]) {
    let query = async |table: &&str| rows(ctx, &format!("SELECT * FROM {table}")).await;
    let expected = query(&tables[0]).await;
    assert!(!expected.is_empty(), "{tables:?}");
    for table in &tables[1..] {
        assert_eq!(query(table).await, expected, "{table}");
    }
}

#[tokio::test]
async fn groups_are_schemas() {
    let ctx = open(&path("netcdf.nc"), ArrayOptions::new()).await;
    let salt = [
        "\"ocean/salt\"",
        "f.\"ocean/salt\"",
        "\"f/ocean\".salt",
        "ocean.salt",
        "OCEAN.Salt",
    ];
    same(&ctx, &salt).await;
    // Columns may be qualified by the schema.
    let sql = "SELECT max(ocean.salt.depth) FROM ocean.salt WHERE salt.lat > 10";
    assert_eq!(rows(&ctx, sql).await, ["50.0"]);
    // Each table is listed once.
    let sql = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_name LIKE '%salt'";
    assert_eq!(rows(&ctx, sql).await, ["f ocean/salt"]);
    let sql = "SELECT count(*) FROM tet_datasets() WHERE dataset = 'ocean/salt'";
    assert_eq!(rows(&ctx, sql).await, ["1"]);
    // The default schema may be a group.
    for schema in ["ocean", "f/ocean"] {
        ctx.sql(&format!(
            "SET datafusion.catalog.default_schema = '{schema}'"
        ))
        .await
        .unwrap();
        same(&ctx, &["f.\"ocean/salt\"", "salt"]).await;
    }
    for (table, found) in [
        ("ocean.pepper", "pepper"),
        ("sea.salt", "sea.salt"),
        ("\"f/sea\".salt", "f/sea.salt"),
    ] {
        let message = error(&ctx, &format!("SELECT * FROM {table}")).await;
        assert!(message.contains(found), "{message}");
    }
}

#[tokio::test]
async fn nested_groups_are_schemas() {
    for name in ["groups_earliest.h5", "groups_latest.h5"] {
        let ctx = open(&path(name), ArrayOptions::new()).await;
        let tables = [
            "\"deep/deeper/x\"",
            "\"deep/deeper\".x",
            "\"f/deep/deeper\".x",
            "deep.\"deeper/x\"",
            "\"f/deep\".\"deeper/x\"",
        ];
        same(&ctx, &tables).await;
    }
}

#[tokio::test]
async fn a_schema_of_the_same_name_comes_first() {
    let ctx = open(&path("netcdf.nc"), ArrayOptions::new()).await;
    same(&ctx, &["f.\"ocean/salt\"", "ocean.salt"]).await;
    let file = path("scales.h5");
    let register = ctx.register_array_file_as("ocean", &file, ArrayOptions::new());
    register.await.unwrap();
    error(&ctx, "SELECT * FROM ocean.salt").await;
    same(&ctx, &["ocean.lat"]).await;
    same(&ctx, &["f.\"ocean/salt\"", "\"f/ocean\".salt"]).await;
}

#[tokio::test]
async fn a_group_of_several_files_needs_the_name_of_the_file() {
    let ctx = session();
    for name in ["a", "b"] {
        ctx.register_array_file_as(name, &path("netcdf.nc"), ArrayOptions::new())
            .await
            .unwrap();
    }
    same(&ctx, &["\"a/ocean\".salt", "\"b/ocean\".salt"]).await;
    let message = error(&ctx, "SELECT * FROM ocean.salt").await;
    let expected = "several files have a group of this name; write \"a/ocean\" or \"b/ocean\"";
    assert!(message.contains(expected), "{message}");
}

#[tokio::test]
async fn groups_of_other_formats_are_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let input = path("netcdf.nc");
    for name in ["a.tet", "a.zarr"] {
        let output = folder.path().join(name);
        let options = ConvertOptions::default();
        let progress = ConvertProgress::default();
        let converted = convert(&input, &output, &options, &progress);
        converted.await.unwrap();
        let ctx = open(&output, ArrayOptions::new()).await;
        same(&ctx, &["\"ocean/salt\"", "\"f/ocean\".salt", "ocean.salt"]).await;
    }
}
