//! Auxiliary coordinates, such as `lat(y, x)`, as columns.

use std::fs::read_to_string;

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::prelude::SessionContext;
use serde_json::Value;
use tet_sql::ArrayOptions;
use tet_sql::provider::convert::{ConvertOptions, ConvertProgress, convert};

use super::stored::path;
use crate::support::encoded::Encoded;
use crate::support::sql::{open, rows, run, session};

const COLUMNS: &str = "time, y, x, value, lon, lat, basin";

/// Returns the rows that xarray reads, in the order of the columns above.
fn expected() -> Vec<Vec<Option<f64>>> {
    let text = read_to_string(path("curvilinear.nc").with_extension("json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let rows = document["rows"].as_array().unwrap().iter();
    rows.map(|row| row.as_array().unwrap().iter().map(Value::as_f64).collect())
        .collect()
}

/// Returns the rows of a query, all of whose columns are numbers.
async fn numbers(ctx: &SessionContext, sql: &str) -> Vec<Vec<Option<f64>>> {
    let batches = ctx.sql(sql).await.unwrap().collect().await.unwrap();
    let mut found = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter();
        let columns: Vec<_> = columns
            .map(|column| cast(column, &DataType::Float64).unwrap())
            .collect();
        found.extend((0..batch.num_rows()).map(|row| {
            let values = columns.iter().map(|column| {
                let column = column.as_primitive::<Float64Type>();
                column.is_valid(row).then(|| column.value(row))
            });
            values.collect::<Vec<_>>()
        }));
    }
    found
}

#[tokio::test]
async fn auxiliary_coordinates_are_columns_on_request() {
    let directory = tempfile::tempdir().unwrap();
    let zarr = directory.path().join("curvilinear.zarr");
    let progress = ConvertProgress::default();
    convert(
        &path("curvilinear.nc"),
        &zarr,
        &ConvertOptions::default(),
        &progress,
    )
    .await
    .unwrap();
    let options = || ArrayOptions::new().with_auxiliary_coordinates(true);
    for file in [path("curvilinear.nc"), zarr] {
        let ctx = open(&file, options()).await;
        let sql = format!("SELECT {COLUMNS} FROM t2m ORDER BY time, y, x");
        assert_eq!(numbers(&ctx, &sql).await, expected());

        // Rows and chunks are selected by them.
        let north = |row: &&Vec<Option<f64>>| row[5].is_some_and(|lat| lat > 43.0);
        let sql = format!("SELECT {COLUMNS} FROM t2m WHERE lat > 43 ORDER BY time, y, x");
        let wanted: Vec<_> = expected().iter().filter(north).cloned().collect();
        assert_eq!(numbers(&ctx, &sql).await, wanted);
        let ran = run(&ctx, "SELECT count(*), avg(value) FROM t2m WHERE lat > 43").await;
        assert_eq!(ran.metric("chunks_pruned_by_zone_map"), 2);

        // Aggregates and wide tables, against joins of the arrays.
        let apart = open(&file, ArrayOptions::new()).await;
        for (with, joined) in [
            (
                "SELECT basin, avg(value), count(*) FROM t2m GROUP BY basin ORDER BY basin",
                "SELECT b.value AS basin, avg(t.value), count(*) FROM t2m t JOIN basin b USING (x) GROUP BY 1 ORDER BY 1",
            ),
            (
                "SELECT time, max(d2m - t2m), count(plain) FROM time_y_x WHERE lon < 12 AND lat >= 41 GROUP BY time ORDER BY time",
                "SELECT w.time, max(d2m - t2m), count(plain) FROM time_y_x w JOIN lon USING (x, y) JOIN lat ON lat.y = w.y AND lat.x = w.x \
                 WHERE lon.value < 12 AND lat.value >= 41 GROUP BY w.time ORDER BY w.time",
            ),
            (
                "SELECT count(*) FROM t2m WHERE lat IS NULL",
                "SELECT count(*) FROM t2m JOIN lat USING (y, x) WHERE lat.value IS NULL",
            ),
            (
                "SELECT min(lat), max(lon), sum(basin) FROM d2m",
                "SELECT min(lat.value), max(lon.value), sum(basin.value) \
                 FROM d2m d JOIN lat USING (y, x) JOIN lon ON lon.x = d.x AND lon.y = d.y JOIN basin ON basin.x = d.x",
            ),
        ] {
            assert_eq!(rows(&ctx, with).await, rows(&apart, joined).await, "{with}");
        }
        let columns = "SELECT string_agg(column_name, ' ' ORDER BY ordinal_position) \
                       FROM information_schema.columns WHERE table_name = ";
        assert_eq!(
            rows(&apart, &format!("{columns}'t2m'")).await,
            ["time y x value"]
        );
        // Scalars have no dimension, and coordinates are not coordinates of themselves.
        assert_eq!(
            rows(&ctx, &format!("{columns}'t2m'")).await,
            [COLUMNS.replace(',', "")]
        );
        assert_eq!(
            rows(&ctx, &format!("{columns}'plain'")).await,
            ["time y x value"]
        );
        assert_eq!(rows(&ctx, &format!("{columns}'lat'")).await, ["y x value"]);
    }
}

#[tokio::test]
async fn plans_with_auxiliary_coordinates_are_decoded_in_another_session() {
    let (ctx, encoding) = (session(), session());
    Encoded::add_to(&encoding, &[]);
    let file = path("curvilinear.nc").display().to_string();
    for (table, dataset) in [("a", "t2m"), ("b", "time_y_x")] {
        let sql = format!(
            "CREATE EXTERNAL TABLE {table} STORED AS NETCDF LOCATION '{file}' \
             OPTIONS (dataset '{dataset}', auxiliary_coordinates true)"
        );
        rows(&ctx, &sql).await;
        rows(&encoding, &sql).await;
    }
    for sql in [
        "SELECT lat, value FROM a WHERE lat > 44 AND time = 1 ORDER BY 1",
        "SELECT basin, avg(t2m), max(lat) FROM b GROUP BY basin ORDER BY basin",
        "SELECT a.lat, b.d2m FROM a JOIN b USING (time, y, x) WHERE b.lon > 13 ORDER BY 1, 2",
    ] {
        let found = rows(&encoding, sql).await;
        assert!(!found.is_empty(), "{sql}");
        assert_eq!(found, rows(&ctx, sql).await, "{sql}");
    }
}

/// The bounds of coordinates depend on the cells that are null.
#[tokio::test]
async fn bounds_of_coordinates_follow_the_options() {
    let options = ArrayOptions::new().with_auxiliary_coordinates(true);
    let ctx = open(&path("curvilinear.nc"), options).await;
    let sql = "SELECT count(*) FROM t2m WHERE lat < 0";
    for (fill_as_null, count) in [(true, "0"), (false, "4"), (true, "0")] {
        rows(&ctx, &format!("SET tet.fill_as_null = {fill_as_null}")).await;
        assert_eq!(rows(&ctx, sql).await, [count]);
    }
}
