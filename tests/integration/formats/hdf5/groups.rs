//! The groups of files as schemas.

use std::path::Path;

use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use tet_sql::format::tet::{DatasetSpec, Dtype};
use tet_sql::provider::convert::{ConvertOptions, ConvertProgress, convert};
use tet_sql::{ArrayOptions, ArraySessionExt, create_logical_plan};

use super::stored::path;
use crate::support::sql::{error, open, rows, session, texts, write};

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
    let expected = "table name ocean.salt is ambiguous: several files have it; \
                    write \"a/ocean\".\"salt\" or \"b/ocean\".\"salt\"";
    assert!(message.contains(expected), "{message}");
}

/// Writes a `.tet` file of arrays with these names.
fn write_arrays(path: &Path, names: &[&str]) {
    let datasets = names.iter().enumerate().map(|(number, name)| {
        let spec = DatasetSpec::new(*name, Dtype::U8, &[2], &[2]).with_dim_names(["x"]);
        (spec, vec![number as u8; 2])
    });
    write(path, &datasets.collect::<Vec<_>>());
}

#[tokio::test]
async fn a_table_that_one_of_several_groups_has_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let ctx = session();
    for (name, arrays) in [
        ("a", &["ocean/salt"][..]),
        ("b", &["ocean/salt", "ocean/temp"]),
        ("c", &["Ocean/salt", "OCEAN/salt"]),
    ] {
        let file = directory.path().join(name).with_extension("tet");
        write_arrays(&file, arrays);
        ctx.register_array_file_as(name, &file, ArrayOptions::new())
            .await
            .unwrap();
    }
    same(&ctx, &["\"b/ocean\".temp", "ocean.temp"]).await;
    error(&ctx, "SELECT * FROM ocean.salt").await;
    same(&ctx, &["c.\"Ocean/salt\"", "\"c/Ocean\".salt"]).await;
    // As for tables, one of several names that only differ in case has to be quoted.
    let message = error(&ctx, "SELECT * FROM \"c/ocean\".salt").await;
    let expected = "has \"OCEAN\" and \"Ocean\"; quote one of them";
    assert!(
        message.contains("group name ocean is ambiguous"),
        "{message}"
    );
    assert!(message.contains(expected), "{message}");
}

/// Runs a statement as the command, the server and the Python package do.
async fn planned(ctx: &SessionContext, sql: &str) -> Result<Vec<String>, DataFusionError> {
    let plan = create_logical_plan(&ctx.state(), sql).await?;
    let frame = ctx.execute_logical_plan(plan).await?;
    Ok(texts(&frame.collect().await?))
}

#[tokio::test]
async fn schemas_are_created_beside_groups() {
    let ctx = open(&path("netcdf.nc"), ArrayOptions::new()).await;
    let message = error(&ctx, "CREATE TABLE ocean.x AS SELECT 1 AS a").await;
    let expected =
        "cannot create x in \"f/ocean\", a group of a file; create it in the schema \"f\"";
    assert!(message.contains(expected), "{message}");
    planned(&ctx, "CREATE SCHEMA ocean").await.unwrap();
    rows(&ctx, "CREATE TABLE ocean.x AS SELECT 1 AS a").await;
    assert_eq!(rows(&ctx, "SELECT a FROM ocean.x").await, ["1"]);
    same(&ctx, &["f.\"ocean/salt\"", "\"f/ocean\".salt"]).await;
    let again = planned(&ctx, "CREATE SCHEMA ocean").await.unwrap_err();
    assert!(
        again.to_string().contains("'ocean' already exists"),
        "{again}"
    );
    planned(&ctx, "CREATE SCHEMA IF NOT EXISTS ocean")
        .await
        .unwrap();
    assert_eq!(rows(&ctx, "SELECT a FROM ocean.x").await, ["1"]);
    rows(&ctx, "DROP SCHEMA ocean CASCADE").await;
    same(&ctx, &["f.\"ocean/salt\"", "ocean.salt"]).await;
    planned(&ctx, "CREATE SCHEMA datafusion.ocean")
        .await
        .unwrap();
    rows(&ctx, "CREATE TABLE ocean.x AS SELECT 2 AS a").await;
    assert_eq!(rows(&ctx, "SELECT a FROM datafusion.ocean.x").await, ["2"]);
}

#[tokio::test]
async fn columns_of_tables_in_groups_are_shown() {
    let ctx = open(&path("netcdf.nc"), ArrayOptions::new()).await;
    let expected = planned(&ctx, "SHOW COLUMNS FROM f.\"ocean/salt\"")
        .await
        .unwrap();
    assert!(expected.len() > 1, "{expected:?}");
    for table in [
        "ocean.salt",
        "OCEAN.Salt",
        "\"f/ocean\".salt",
        "datafusion.ocean.salt",
    ] {
        let sql = format!("SHOW COLUMNS FROM {table}");
        assert_eq!(planned(&ctx, &sql).await.unwrap(), expected, "{table}");
    }
    planned(&ctx, "SHOW COLUMNS FROM ocean.pepper")
        .await
        .unwrap_err();
}

#[tokio::test]
async fn groups_of_other_formats_are_schemas() {
    let directory = tempfile::tempdir().unwrap();
    let input = path("netcdf.nc");
    for name in ["a.tet", "a.zarr"] {
        let output = directory.path().join(name);
        let options = ConvertOptions::default();
        let progress = ConvertProgress::default();
        let converted = convert(&input, &output, &options, &progress);
        converted.await.unwrap();
        let ctx = open(&output, ArrayOptions::new()).await;
        same(&ctx, &["\"ocean/salt\"", "\"f/ocean\".salt", "ocean.salt"]).await;
    }
}
