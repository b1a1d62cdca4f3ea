//! Dimensions that groups share, that variables have twice, and that are longer than a variable.
//! `tests/data/netcdf/conventions.py` writes the file.

use tet_sql::ArrayOptions;
use tet_sql::provider::convert::{ConvertOptions, ConvertProgress, convert};

use super::path;
use crate::support::sql::{open, rows};

#[tokio::test]
async fn groups_that_share_a_dimension_share_its_coordinates() {
    let ctx = open(&path("dimensions.nc"), ArrayOptions::new()).await;
    let sql = "SELECT z, x, r.value, t.value FROM r JOIN inner.t USING (z) WHERE x = 20 ORDER BY z";
    let expected = [
        "500.0 20.0 5.0 3.0",
        "850.0 20.0 3.0 2.0",
        "1000.0 20.0 1.0 1.0",
    ];
    assert_eq!(rows(&ctx, sql).await, expected);
    let sql = "SELECT z, r.value, s.value FROM r JOIN other.s USING (x) WHERE z = 1000 ORDER BY x";
    let expected = ["1000.0 0.0 5.0", "1000.0 1.0 6.0"];
    assert_eq!(rows(&ctx, sql).await, expected);
    // This group has other dimensions of the same names and lengths.
    let sql = "SELECT z, w, value FROM apart.u WHERE z < 2";
    let expected = ["0 0 0.0", "0 1 1.0", "1 0 2.0", "1 1 3.0"];
    assert_eq!(rows(&ctx, sql).await, expected);
}

#[tokio::test]
async fn both_axes_of_a_repeated_dimension_have_its_coordinates() {
    let file = path("dimensions.nc");
    let ctx = open(&file, ArrayOptions::new()).await;
    let sql = "SELECT k, k_2, x, value FROM cov WHERE k = 3 AND x = 10";
    assert_eq!(rows(&ctx, sql).await, ["3 3 10.0 0.0", "3 5 10.0 2.0"]);
    let directory = tempfile::tempdir().unwrap();
    let zarr = directory.path().join("cov.zarr");
    let (options, progress) = (ConvertOptions::default(), ConvertProgress::default());
    convert(&file, &zarr, &options, &progress).await.unwrap();
    let after = open(&zarr, ArrayOptions::new()).await;
    let sql = "SELECT k, value FROM cov WHERE k_2 = 1";
    let expected = ["3 2.0", "3 3.0", "5 6.0", "5 7.0"];
    assert_eq!(rows(&after, sql).await, expected);
}

/// For these cells, the NetCDF library returns its default fill values and empty strings.
#[tokio::test]
async fn cells_beyond_the_end_of_a_variable_are_null() {
    let ctx = open(&path("dimensions.nc"), ArrayOptions::new()).await;
    for (table, expected) in [
        ("name", ["a", "NULL", "NULL", "NULL"]),
        ("none", ["NULL"; 4]),
        ("letters", ["ab", "c", "NULL", "NULL"]),
        ("short", ["1.0", "2.0", "NULL", "NULL"]),
        ("counted", ["9", "NULL", "NULL", "NULL"]),
        ("signed", ["65534", "NULL", "NULL", "NULL"]),
    ] {
        let sql = format!("SELECT value FROM {table} ORDER BY time");
        assert_eq!(rows(&ctx, &sql).await, expected, "{table}");
    }
    let sql =
        "SELECT name.value, short.value FROM name JOIN short USING (time) WHERE name.time < 2";
    assert_eq!(rows(&ctx, sql).await, ["a 1.0", "NULL 2.0"]);
}

/// Missing chunks within a variable without a fill value are zeros; only cells beyond its end are NULL.
#[tokio::test]
async fn unwritten_chunks_within_a_variable_have_its_fill_value() {
    let ctx = open(&path("short.h5"), ArrayOptions::new()).await;
    let sql = "SELECT value FROM short WHERE time < 8 ORDER BY time";
    let expected = ["7", "0", "0", "0", "0", "0", "NULL", "NULL"];
    assert_eq!(rows(&ctx, sql).await, expected);
    for table in ["short", "name"] {
        let sql = format!("SELECT count(*), count(value) FROM {table}");
        let values = if table == "short" { 6 } else { 1 };
        assert_eq!(rows(&ctx, &sql).await, [format!("70000 {values}")]);
    }
}
