//! Groups across many files, and aggregates of dimensions, which are computed from the axes.

use std::path::Path;

use datafusion::prelude::SessionContext;
use tet_sql::format::tet::{DatasetSpec, Dtype};

use crate::cells;
use crate::support::sql::{rows, session, write};

const FILES: u64 = 50;
const LATS: u64 = 40;
const LONS: u64 = 50;

/// The value at the given time, latitude and longitude.
fn value(time: u64, lat: u64, lon: u64) -> i16 {
    (time * 10 + (lat * LONS + lon) % 7) as i16
}

/// Writes one file per time step, all on the same grid. With `is_moved`, every other file has its
/// latitudes shifted by 1000.
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

/// The EXPLAIN line of the `ArrayAggregateExec` in a query's plan, with its statistics.
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
    // Files that share a grid share its groups. Separate groups per file would exceed the limit.
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

/// A table of four files whose times and latitudes partly overlap and whose longitudes repeat.
/// Cells where all three coordinates are even are NaN.
async fn overlapping(folder: &Path) -> SessionContext {
    let labels = |numbers: &[i64]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>();
    let parts: [(&[i64], &[i64]); 4] = [
        (&[0, 1, 2], &[10, 20, 30]),
        (&[2, 3], &[10, 20, 30]),
        (&[1, 4], &[30, 40]),
        (&[0, 1, 2], &[50]),
    ];
    let lons: [i64; 5] = [0, 1, 1, 0, 2];
    for (number, (times, lats)) in parts.into_iter().enumerate() {
        let shape = [times.len() as u64, lats.len() as u64, lons.len() as u64];
        let spec = DatasetSpec::new("v", Dtype::F64, &shape, &[2, 2, 3])
            .with_dim_names(["time", "lat", "lon"])
            .with_labels("time", labels(times))
            .with_labels("lat", labels(lats))
            .with_labels("lon", labels(&lons));
        let cells = times.iter().flat_map(|time| {
            let pairs = lats
                .iter()
                .flat_map(|lat| lons.iter().map(move |lon| (*lat, *lon)));
            let pairs: Vec<(i64, i64)> = pairs.collect();
            pairs.into_iter().map(move |(lat, lon)| {
                match time % 2 == 0 && lat % 20 == 0 && lon % 2 == 0 {
                    true => f64::NAN,
                    false => (time * 100 + lat + lon) as f64,
                }
            })
        });
        let name = format!("{number}.tet");
        write(
            &folder.join(name),
            &[(spec, cells!(cells.collect::<Vec<_>>()))],
        );
    }
    let ctx = session();
    let create = format!(
        "CREATE EXTERNAL TABLE t STORED AS TET LOCATION '{}/*.tet' OPTIONS ('file_column' 'true')",
        folder.display()
    );
    rows(&ctx, &create).await;
    // A copy of the rows in memory, which DataFusion aggregates.
    rows(&ctx, "CREATE TABLE m AS SELECT * FROM t").await;
    ctx
}

/// Aggregates of dimensions equal those of the same rows in memory, for all group keys and
/// overlapping files.
#[tokio::test]
async fn aggregates_of_dimensions_come_from_axes() {
    let folder = tempfile::tempdir().unwrap();
    let ctx = overlapping(folder.path()).await;
    let all = "count(DISTINCT {d}), min({d}), max({d}), sum({d}), avg({d}), count(DISTINCT {d} % 20), \
               count({d}) FILTER (WHERE {d} > 1), sum(DISTINCT {d}) FILTER (WHERE {d} <> 2), \
               sum(CASE WHEN {d} > 2 THEN {d} END), bool_or({d} = 30), arg_max({d}, {d} % 3), sum(1)";
    for dimension in ["time", "lat", "lon"] {
        let aggregates = all.replace("{d}", dimension);
        for keys in [
            "",
            "time",
            "lat",
            "lon",
            "file",
            "time, lat",
            "lat, lon",
            "file, lat",
            "time % 2",
            "time % 2, lat / 20",
            "time, lat, lon, file",
        ] {
            for slice in [
                "",
                " WHERE lat > 10",
                " WHERE lon = 1 AND time < 4",
                " WHERE time > 9",
            ] {
                let sql = match keys {
                    "" => format!("SELECT count(*), {aggregates} FROM {{t}}{slice}"),
                    _ => format!(
                        "SELECT {keys}, count(*), avg(value), {aggregates} FROM {{t}}{slice} GROUP BY {keys}"
                    ),
                };
                let ours = sql.replace("{t}", "t");
                let plan = rows(&ctx, &format!("EXPLAIN FORMAT INDENT {ours}"))
                    .await
                    .concat();
                // A slice without rows leaves no aggregate in the plan.
                if slice != " WHERE time > 9" {
                    assert!(plan.contains("by_axis=[count(DISTINCT"), "{sql}: {plan}");
                    assert!(!plan.contains("by_row"), "{sql}: {plan}");
                    assert!(!plan.contains(" AggregateExec"), "{sql}: {plan}");
                }
                let sorted = |mut rows: Vec<String>| {
                    rows.sort();
                    rows
                };
                let ours = sorted(rows(&ctx, &ours).await);
                let theirs = sorted(rows(&ctx, &sql.replace("{t}", "m")).await);
                assert_eq!(ours, theirs, "{sql}");
            }
        }
    }
}

/// Aggregates of the file column, of constants and over a union come from the axes. Those that
/// depend on single rows do not.
#[tokio::test]
async fn aggregates_from_axes_and_from_rows() {
    let folder = tempfile::tempdir().unwrap();
    let ctx = overlapping(folder.path()).await;
    for (sql, by_axis, by_row) in [
        (
            "SELECT count(DISTINCT file), avg(value) FROM {t}",
            "by_axis=[count(DISTINCT",
            false,
        ),
        (
            "SELECT lat, max(right(file, 5)), avg(value) FROM {t} GROUP BY lat",
            "by_axis=[max(",
            false,
        ),
        (
            "SELECT count(DISTINCT lat), count(*) FROM (SELECT * FROM {t} UNION ALL SELECT * FROM {t})",
            "by_axis=[count(DISTINCT",
            false,
        ),
        (
            "SELECT lat, min(time), avg(time), sum(lon) FROM (SELECT * FROM {t} UNION ALL SELECT * FROM {t}) GROUP BY lat",
            "by_axis=[min(",
            false,
        ),
        (
            "SELECT count(DISTINCT time), count(DISTINCT value) FROM {t}",
            "by_axis=[count(DISTINCT t.time)]",
            true,
        ),
        // Arguments of several dimensions, and rows that a value predicate selects, need rows.
        (
            "SELECT count(DISTINCT lat + lon), avg(value) FROM {t}",
            "",
            true,
        ),
        ("SELECT sum(lat) FILTER (WHERE lon > 0) FROM {t}", "", true),
        (
            "SELECT lon, count(DISTINCT lat), avg(value) FROM {t} WHERE value > 100 GROUP BY lon",
            "",
            true,
        ),
        (
            "SELECT lon, count(DISTINCT lat), avg(value) FROM {t} WHERE lat > time GROUP BY lon",
            "",
            true,
        ),
    ] {
        let ours = sql.replace("{t}", "t");
        let plan = rows(&ctx, &format!("EXPLAIN FORMAT INDENT {ours}"))
            .await
            .concat();
        assert!(plan.contains("ArrayAggregateExec"), "{sql}: {plan}");
        assert!(plan.contains(by_axis), "{sql}: {plan}");
        assert_eq!(
            plan.contains("by_axis"),
            !by_axis.is_empty(),
            "{sql}: {plan}"
        );
        assert_eq!(plan.contains("by_row"), by_row, "{sql}: {plan}");
        let mut ours = rows(&ctx, &ours).await;
        let mut theirs = rows(&ctx, &sql.replace("{t}", "m")).await;
        ours.sort();
        theirs.sort();
        assert_eq!(ours, theirs, "{sql}");
    }
    // The filter removes the coordinate on which the argument would fail.
    let filtered =
        "SELECT lat, sum(100 / time) FILTER (WHERE time <> 0) FROM t GROUP BY lat ORDER BY lat";
    let slice = "SELECT lat, sum(100 / time) FROM m WHERE time <> 0 GROUP BY lat ORDER BY lat";
    assert_eq!(rows(&ctx, filtered).await, rows(&ctx, slice).await);
}
