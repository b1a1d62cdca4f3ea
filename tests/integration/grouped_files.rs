//! Groups of the rows of many files: along an axis that they share, files have the same groups.

use std::path::Path;

use datafusion::prelude::SessionContext;
use tet_sql::format::tet::{DatasetSpec, Dtype};

use crate::cells;
use crate::sql::{rows, session, write};

const FILES: u64 = 50;
const LATS: u64 = 40;
const LONS: u64 = 50;

/// The value at a time, a latitude and a longitude.
fn value(time: u64, lat: u64, lon: u64) -> i16 {
    (time * 10 + (lat * LONS + lon) % 7) as i16
}

/// A file with a time step each, all on the same grid but for every other one, whose latitudes are moved if that is wanted.
fn files(folder: &Path, is_moved: bool) {
    for time in 0..FILES {
        let offset = if is_moved { time % 2 * 1000 } else { 0 };
        let labels = |first: u64, count: u64| (first..first + count).map(|n| n.to_string());
        let spec = DatasetSpec::new("v", Dtype::I16, &[1, LATS, LONS], &[1, LATS, LONS])
            .with_dim_names(["time", "lat", "lon"])
            .with_labels("time", [time.to_string()])
            .with_labels("lat", labels(offset, LATS).collect::<Vec<_>>())
            .with_labels("lon", labels(0, LONS).collect::<Vec<_>>());
        let places = (0..LATS).flat_map(|lat| (0..LONS).map(move |lon| (lat, lon)));
        let bytes = cells!(places.map(|(lat, lon)| value(time, lat, lon)));
        write(&folder.join(format!("{time:02}.tet")), &[(spec, bytes)]);
    }
}

async fn table(folder: &Path) -> SessionContext {
    let ctx = session();
    let create = format!(
        "CREATE EXTERNAL TABLE t STORED AS TET LOCATION '{}/*.tet' OPTIONS ('file_column' 'true')",
        folder.display()
    );
    rows(&ctx, &create).await;
    rows(&ctx, "SET datafusion.explain.show_statistics = true").await;
    ctx
}

/// The operator that aggregates, with what it expects.
async fn operator(ctx: &SessionContext, sql: &str) -> String {
    let plan = rows(ctx, &format!("EXPLAIN FORMAT INDENT {sql}")).await;
    let mut lines = plan.iter().flat_map(|row| row.lines());
    let operator = lines.find(|line| line.contains("ArrayAggregateExec"));
    operator.unwrap_or_else(|| panic!("{plan:?}")).to_string()
}

#[tokio::test]
async fn files_on_one_grid_have_the_groups_of_one_file() {
    let folder = tempfile::tempdir().unwrap();
    files(folder.path(), false);
    let ctx = table(folder.path()).await;
    // Were every file to have places of its own, there would be 50 * 50 times as many groups: more than may be.
    for (keys, groups) in [
        ("lat, lon", LATS * LONS),
        ("lat, lon % 10", LATS * LONS),
        ("time, lat, lon", FILES * LATS * LONS),
        ("time / 10, lat, lon", FILES * LATS * LONS),
        ("file, lat, lon", FILES * LATS * LONS),
    ] {
        let sql = format!("SELECT sum(value) FROM t GROUP BY {keys}");
        let operator = operator(&ctx, &sql).await;
        let expected = format!("Rows=Inexact({groups})");
        assert!(operator.contains(&expected), "{keys}: {operator}");
    }
    let sums = "SELECT lat, lon, sum(value) AS s, count(*) AS c FROM t GROUP BY lat, lon";
    let times: u64 = (0..FILES).map(|time| time * 10).sum();
    let check = format!(
        "SELECT count(*), bool_and(c = {FILES} AND s = {times} + {FILES} * ((lat * {LONS} + lon) % 7)) FROM ({sums})"
    );
    assert_eq!(rows(&ctx, &check).await, [format!("{} true", LATS * LONS)]);
}

#[tokio::test]
async fn files_on_two_grids_have_the_groups_of_two() {
    let folder = tempfile::tempdir().unwrap();
    files(folder.path(), true);
    let ctx = table(folder.path()).await;
    let sums = "SELECT lat, lon, sum(value) AS s, count(*) AS c FROM t GROUP BY lat, lon";
    let operator = operator(&ctx, sums).await;
    let expected = format!("Rows=Inexact({})", 2 * LATS * LONS);
    assert!(operator.contains(&expected), "{operator}");
    let times = |first: u64| -> u64 { (first..FILES).step_by(2).map(|time| time * 10).sum() };
    let half = FILES / 2;
    let check = format!(
        "SELECT lat >= 1000 AS odd, count(*), \
         bool_and(c = {half} AND s = CASE WHEN lat >= 1000 THEN {} ELSE {} END + {half} * ((lat % 1000 * {LONS} + lon) % 7)) \
         FROM ({sums}) GROUP BY odd ORDER BY odd",
        times(1),
        times(0)
    );
    let places = LATS * LONS;
    let expected = [
        format!("false {places} true"),
        format!("true {places} true"),
    ];
    assert_eq!(rows(&ctx, &check).await, expected);
}
