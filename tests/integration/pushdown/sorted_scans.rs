//! Sorts by the order of an array's cells: the scan returns rows in this order, and nothing is sorted.

use std::path::Path;

use datafusion::prelude::{SessionConfig, SessionContext};
use tet_sql::format::tet::{DatasetSpec, Dtype};
use tet_sql::{ArrayOptions, ArraySessionExt, ArrayTable, enable_arrays};

use crate::cells;
use crate::support::encoded::Encoded;
use crate::support::sql::{plan, rows, sample, write};

/// Writes an array of 12 times, 4 descending latitudes and 6 longitudes, in chunks of whole maps of two
/// times, of half a map of one time, and in chunks that are cut along all dimensions.
fn write_arrays(path: &Path) {
    let spec = |name: &str, chunks: &[u64]| {
        DatasetSpec::new(name, Dtype::F32, &[12, 4, 6], chunks)
            .with_dim_names(["time", "lat", "lon"])
            .with_labels("lat", ["60", "50", "40", "30"])
    };
    let numbers = || (0..12 * 24).map(|n| (n * 7 % 101) as f32);
    write(
        path,
        &[
            (spec("by_time", &[2, 4, 6]), cells!(numbers())),
            (spec("maps", &[1, 2, 6]), cells!(numbers())),
            (spec("boxes", &[4, 2, 3]), cells!(numbers())),
        ],
    );
}

#[tokio::test]
async fn rows_in_the_order_of_cells_are_not_sorted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("arrays.tet");
    write_arrays(&path);
    let config = SessionConfig::new()
        .with_target_partitions(3)
        .with_batch_size(5)
        .set_usize("datafusion.optimizer.repartition_file_min_size", 1);
    // A session without the rules sorts all rows.
    let sorting = SessionContext::new_with_config(config.clone());
    let ctx = enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new());
    for ctx in [&ctx, &sorting] {
        ctx.register_array_file_as("f", &path, ArrayOptions::new())
            .await
            .unwrap();
        rows(ctx, "SET datafusion.catalog.default_schema = 'f'").await;
    }
    let climate = "(SELECT lat, lon, avg(value) AS mean FROM maps GROUP BY lat, lon)";
    for (sql, is_sorted) in [
        ("SELECT * FROM by_time ORDER BY time, lat DESC, lon", false),
        (
            "SELECT * FROM by_time WHERE value > 30 ORDER BY time, lat DESC, lon",
            false,
        ),
        (
            "SELECT value * 2, lon AS x, time, lat FROM by_time ORDER BY time, lat DESC, x",
            false,
        ),
        // Some blocks are pruned, and some keys are left out.
        (
            "SELECT time, lat, lon, value FROM by_time WHERE time IN (1, 5, 6) AND lon < 4 ORDER BY time, lat DESC, lon",
            false,
        ),
        // Half a map of one time after the other.
        ("SELECT * FROM maps ORDER BY time, lat DESC, lon", false),
        ("SELECT * FROM boxes ORDER BY time, lat DESC, lon", true),
        // A dimension with one index does not matter.
        (
            "SELECT * FROM by_time WHERE time = 3 ORDER BY lat DESC, lon",
            false,
        ),
        (
            "SELECT * FROM by_time WHERE lat = 40 ORDER BY time, lon",
            false,
        ),
        // Other orders.
        ("SELECT * FROM by_time ORDER BY time, lat, lon", true),
        (
            "SELECT * FROM by_time ORDER BY time DESC, lat DESC, lon",
            true,
        ),
        ("SELECT * FROM by_time ORDER BY lat DESC, lon, time", true),
        ("SELECT * FROM by_time ORDER BY time, value, lat, lon", true),
        // The first rows are found by a dynamic filter.
        (
            "SELECT * FROM by_time ORDER BY time, lat DESC, lon LIMIT 7",
            true,
        ),
        // A lookup join keeps the order of its probe side.
        (
            &format!(
                "SELECT v.time, v.lat, v.lon, v.value - c.mean FROM by_time v JOIN {climate} c USING (lat, lon) \
                 ORDER BY v.time, v.lat DESC, v.lon"
            ),
            false,
        ),
    ] {
        let shown = plan(&ctx, sql).await;
        assert_eq!(shown.contains("SortExec"), is_sorted, "{sql}\n{shown}");
        assert_eq!(rows(&ctx, sql).await, rows(&sorting, sql).await, "{sql}");
    }
}

/// Larger arrays are read in any order of their dimensions.
#[tokio::test]
async fn rows_in_other_orders_are_not_sorted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("arrays.tet");
    let stations: Vec<_> = (0..20).map(|n| format!("s{}", n * 7 % 20)).collect();
    let shape = [30, 37, 20];
    let spec = |name: &str, chunks: &[u64]| {
        DatasetSpec::new(name, Dtype::I32, &shape, chunks)
            .with_dim_names(["time", "lat", "station"])
            .with_labels("station", stations.iter().map(String::as_str))
            .with_attribute("_FillValue", "13")
    };
    let lat = DatasetSpec::new("lat", Dtype::F64, &[37], &[37]).with_dim_names(["lat"]);
    let latitudes = cells!((0..37).map(|n| 90.0 - 5.0 * f64::from(n)));
    let numbers = || (0..30 * 37 * 20).map(|n: i32| n.wrapping_mul(7919) % 1009);
    write(
        &path,
        &[
            (lat, latitudes),
            (spec("boxes", &[7, 10, 6]), cells!(numbers())),
            (spec("maps", &[1, 37, 20]), cells!(numbers())),
        ],
    );
    for partitions in [1, 3] {
        let config = SessionConfig::new()
            .with_target_partitions(partitions)
            .with_batch_size(100)
            .set_usize("datafusion.optimizer.repartition_file_min_size", 1)
            // Otherwise, small arrays are build sides.
            .set_usize(
                "datafusion.optimizer.hash_join_single_partition_threshold_rows",
                1000,
            );
        let sorting = SessionContext::new_with_config(config.clone());
        let ctx = enable_arrays(
            SessionContext::new_with_config(config.clone()),
            ArrayOptions::new(),
        );
        let encoding = enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new());
        Encoded::add_to(&encoding, &[]);
        for ctx in [&ctx, &sorting, &encoding] {
            ctx.register_array_file_as("f", &path, ArrayOptions::new())
                .await
                .unwrap();
            rows(ctx, "SET datafusion.catalog.default_schema = 'f'").await;
        }
        let climate = "(SELECT lat, station, avg(value) AS mean FROM boxes GROUP BY lat, station)";
        let joined = format!(
            "SELECT v.*, v.value - c.mean AS x FROM boxes v JOIN {climate} c USING (lat, station)"
        );
        for (sql, is_sorted) in [
            ("SELECT * FROM boxes ORDER BY time, lat, station", false),
            (
                "SELECT * FROM boxes ORDER BY station DESC, lat, time DESC",
                false,
            ),
            (
                "SELECT value, lat, time FROM boxes ORDER BY lat DESC, time, station",
                false,
            ),
            (
                "SELECT * FROM boxes WHERE lat BETWEEN -80 AND 85 AND station < 's9' ORDER BY lat, station, time",
                false,
            ),
            // A filter of rows may leave few of them.
            (
                "SELECT * FROM boxes WHERE lat = 10 OR time < 25 ORDER BY lat, station, time",
                true,
            ),
            (
                "SELECT time, station FROM maps ORDER BY lat, time, station",
                false,
            ),
            ("SELECT * FROM maps ORDER BY station, lat, time", false),
            (
                "SELECT * FROM boxes WHERE value > 500 ORDER BY lat, station, time",
                true,
            ),
            (
                "SELECT * FROM boxes WHERE time < 2 ORDER BY lat, station, time",
                true,
            ),
            (
                "SELECT * FROM boxes ORDER BY lat, value, station, time",
                true,
            ),
            ("SELECT * FROM boxes ORDER BY abs(lat), station, time", true),
            (
                "SELECT *, ntile(3) OVER (PARTITION BY lat, station ORDER BY time) AS n FROM boxes WHERE value > 300",
                false,
            ),
            (
                "SELECT station, lat, count(*), max(n), sum(n) FROM \
                 (SELECT *, time - row_number() OVER (PARTITION BY station, lat ORDER BY time) AS n FROM boxes WHERE value % 3 > 0) \
                 GROUP BY station, lat ORDER BY station, lat",
                // Unsorted stations are one window, which cannot be divided among partitions.
                partitions > 1,
            ),
            (
                "SELECT *, lag(value, 2) OVER (PARTITION BY lat, station ORDER BY time DESC) AS n FROM boxes WHERE value % 3 > 0",
                false,
            ),
            (
                &format!(
                    "SELECT *, sum(x) OVER (PARTITION BY lat, station ORDER BY time) AS total FROM ({joined})"
                ),
                false,
            ),
            (
                &format!("{joined} ORDER BY v.station, v.lat DESC, v.time"),
                false,
            ),
            // Lists of one group after the other.
            (
                "SELECT station, lat, array_agg(value ORDER BY time DESC) AS x, count(*) AS n FROM boxes \
                 GROUP BY station, lat ORDER BY station, lat",
                partitions > 1,
            ),
            (
                "SELECT lat, station, array_agg(value ORDER BY time DESC) AS x, count(*) AS n FROM boxes \
                 GROUP BY lat, station ORDER BY lat, station",
                false,
            ),
            (
                "SELECT time, string_agg(station, ',' ORDER BY lat DESC, station) AS x, array_agg(value ORDER BY lat DESC, station, time) FILTER (WHERE value > 900) AS y \
                 FROM boxes WHERE station < 's9' GROUP BY time ORDER BY time",
                partitions > 3,
            ),
            // The hash join relies on the partitions of its inputs.
            (
                "SELECT count(*), sum(a.n), sum(b.n) FROM \
                 (SELECT *, row_number() OVER (PARTITION BY lat, station ORDER BY time) AS n FROM boxes WHERE value > 300) a JOIN \
                 (SELECT *, row_number() OVER (PARTITION BY lat, station ORDER BY time) AS n FROM maps WHERE value < 500) b \
                 ON a.lat = b.lat AND a.station = b.station AND abs(a.value - b.value) < 100",
                partitions > 1,
            ),
        ] {
            let mut expected = rows(&sorting, sql).await;
            let is_ordered = !sql.contains("OVER");
            if !is_ordered {
                expected.sort();
            }
            let of_plans = [&ctx, &encoding].into_iter().take(partitions);
            for ctx in of_plans {
                let shown = plan(ctx, sql).await;
                assert_eq!(shown.contains("SortExec"), is_sorted, "{sql}\n{shown}");
                let mut found = rows(ctx, sql).await;
                if !is_ordered {
                    found.sort();
                }
                let differing = found
                    .iter()
                    .zip(&expected)
                    .position(|(one, other)| one != other);
                let is_same = differing.is_none() && found.len() == expected.len();
                assert!(is_same, "{sql}\n{shown}\nrow {differing:?}");
            }
        }
    }
}

/// Operators above a scan rely on its order, and are rebuilt when the sort between them is removed.
#[tokio::test]
async fn aggregates_above_a_sorted_scan_still_know_the_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("descending.tet");
    let time = DatasetSpec::new("time", Dtype::I64, &[240], &[240])
        .with_dim_names(["time"])
        .with_attribute("units", "seconds since 2000-01-01");
    let values = DatasetSpec::new("v", Dtype::F32, &[240, 4], &[5, 4])
        .with_dim_names(["time", "lat"])
        .with_labels("lat", ["10", "20", "30", "40"]);
    // Six times per hour.
    let times = cells!((0..240i64).rev().map(|number| number * 600));
    let numbers = cells!((0..960).map(|n| (n * 7 % 101) as f32));
    write(&path, &[(time, times), (values, numbers)]);
    let hours = |order: &str, sql: &str| {
        format!(
            "SELECT d, x FROM (SELECT date_trunc('hour', v.time) AS d, array_agg({sql} ORDER BY {order}) AS x \
             GROUP BY d) ORDER BY d DESC"
        )
    };
    let order = "v.time DESC, v.lat";
    let joined = "v.value - c.mean";
    let climate = "(SELECT lat, avg(value) AS mean FROM v GROUP BY lat)";
    for partitions in [1, 3] {
        let config = SessionConfig::new()
            .with_target_partitions(partitions)
            .set_usize("datafusion.optimizer.repartition_file_min_size", 1);
        let sorting = SessionContext::new_with_config(config.clone());
        let ctx = enable_arrays(
            SessionContext::new_with_config(config.clone()),
            ArrayOptions::new(),
        );
        let encoding = enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new());
        Encoded::add_to(&encoding, &[]);
        for ctx in [&ctx, &sorting, &encoding] {
            ctx.register_array_file_as("f", &path, ArrayOptions::new())
                .await
                .unwrap();
            rows(ctx, "SET datafusion.catalog.default_schema = 'f'").await;
        }
        for sql in [
            hours(order, "v.value").replace("GROUP", "FROM v GROUP"),
            hours(order, joined).replace(
                "GROUP",
                &format!("FROM v JOIN {climate} c USING (lat) GROUP"),
            ),
        ] {
            let expected = rows(&sorting, &sql).await;
            assert_eq!(expected.len(), 40);
            for ctx in [&ctx, &encoding] {
                let shown = plan(ctx, &sql).await;
                assert!(shown.contains("ordering_mode=Sorted"), "{sql}\n{shown}");
                let is_sorted = shown.contains("SortExec");
                assert!(partitions > 1 || !is_sorted, "{sql}\n{shown}");
                assert_eq!(rows(ctx, &sql).await, expected, "{sql}");
            }
        }
    }
}

#[tokio::test]
async fn a_sort_by_values_loads_no_coordinates() {
    // Statistics load shorter axes.
    let length = (4 << 20) + 1;
    let spec =
        |name: &str| DatasetSpec::new(name, Dtype::U8, &[length], &[length]).with_dim_names(["x"]);
    let cells = vec![1; length as usize];
    let datasets = [(spec("x"), cells.clone()), (spec("v"), cells)];
    let (_directory, _, ctx) = sample(&datasets, ArrayOptions::new()).await;
    let table = ctx.table_provider("v").await.unwrap();
    let grid = table.downcast_ref::<ArrayTable>().unwrap().grid().unwrap();
    let shown = plan(&ctx, "SELECT * FROM v ORDER BY value").await;
    assert!(shown.contains("SortExec"), "{shown}");
    assert!(!grid.axes()[0].is_loaded());
    plan(&ctx, "SELECT * FROM v ORDER BY x").await;
    assert!(grid.axes()[0].is_loaded());
}
