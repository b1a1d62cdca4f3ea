//! Values that differ from the stored numbers: strings stored as category codes, and packed values.

use tet_sql::format::tet::{Dtype, OpenOptions, TetFile};
use tet_sql::{ArrayOptions, ArrayTable, Unpack};

use crate::cells;
use crate::support::cells::data;
use crate::support::sql::{error, open, rows, sample};
use crate::tables::coordinates::{counting, one};

#[tokio::test]
async fn category_columns_are_strings() {
    let names = r#"{"codes":{"Oslo":0,"Bergen":1,"":7},"missing":-1}"#;
    let (_folder, path, ctx) = sample(
        &[
            (
                one("city", Dtype::I64, 4).with_attribute("tetration_categories", names),
                cells!([1i64, 0, -1, 7]),
            ),
            counting("data", &["station"], &[2]),
            (
                one("station", Dtype::I64, 2)
                    .with_dim_names(["station"])
                    .with_attribute("tetration_categories", names),
                cells!([1i64, 0]),
            ),
            (
                one("wrong", Dtype::I64, 2).with_attribute("tetration_categories", names),
                cells!([1i64, 5]),
            ),
            (
                one("broken", Dtype::I64, 1).with_attribute("tetration_categories", "[1"),
                cells!([3i64]),
            ),
        ],
        ArrayOptions::new(),
    )
    .await;
    assert_eq!(
        rows(&ctx, "SELECT value FROM city").await,
        ["Bergen", "Oslo", "NULL", ""]
    );
    assert_eq!(
        rows(&ctx, "SELECT dim_0 FROM city WHERE value LIKE 'O%'").await,
        ["1"]
    );
    assert_eq!(rows(&ctx, "SELECT count(value) FROM city").await, ["3"]);
    assert_eq!(
        rows(&ctx, "SELECT * FROM data WHERE station = 'Oslo'").await,
        ["Oslo 1"]
    );
    let message = error(&ctx, "SELECT * FROM wrong").await;
    assert!(
        message.contains("dataset \"wrong\": cell is code 5"),
        "{message}"
    );
    assert_eq!(rows(&ctx, "SELECT value FROM broken").await, ["3"]);
    let file = TetFile::open(&path, OpenOptions::default()).unwrap();
    assert_eq!(file.warnings(), [] as [&str; 0]);
    let table = ArrayTable::open(&path, &ArrayOptions::new().with_dataset("broken")).unwrap();
    let problems = table.describe().unwrap().problems;
    assert!(
        problems[0].contains("tetration_categories is unreadable"),
        "{problems:?}"
    );
}

#[tokio::test]
async fn packed_values_are_unpacked_on_request() {
    let packed = one("t", Dtype::I16, 4)
        .with_attribute("scale_factor", "0.5")
        .with_attribute("add_offset", "273")
        .with_attribute("_FillValue", "-99");
    let file = [(packed, cells!([0i16, 10, -99, -4]))];
    let (_folder, path, ctx) = sample(&file, ArrayOptions::new()).await;
    assert_eq!(
        rows(&ctx, "SELECT value FROM t").await,
        ["0", "10", "NULL", "-4"]
    );
    let ctx = open(&path, ArrayOptions::new().with_unpack(Unpack::Always)).await;
    assert_eq!(
        rows(&ctx, "SELECT value FROM t").await,
        ["273.0", "278.0", "NULL", "271.0"]
    );
    assert_eq!(
        rows(&ctx, "SELECT value FROM t WHERE value < 273").await,
        ["271.0"]
    );
    // The converted file holds unpacked values, but kept its packing attributes. Unpacking it again
    // gives wrong values, which is why values are only unpacked on request.
    let path = data("converted/netcdf_cf_3d_nc.tet");
    let plain = rows(
        &open(&path, ArrayOptions::new()).await,
        "SELECT CAST(max(value) AS DOUBLE) FROM temperature",
    )
    .await;
    let twice = open(&path, ArrayOptions::new().with_unpack(Unpack::Always)).await;
    let twice = rows(&twice, "SELECT CAST(max(value) AS DOUBLE) FROM temperature").await;
    let [plain, twice] = [plain, twice].map(|rows| rows[0].parse::<f64>().unwrap());
    let expected = plain * 0.009999999776482582 + 273.1499938964844;
    assert!(
        (twice - expected).abs() < 1e-9,
        "{twice}, expected {expected}"
    );
}
