//! The order of the rows of aggregates in array space, and the ordering that their plans declare.

use datafusion::prelude::SessionContext;
use tet_sql::ArrayOptions;
use tet_sql::format::tet::{DatasetSpec, Dtype};

use crate::cells;
use crate::support::sql::{plan, rows, sample};

/// A grid with an ascending, a descending and an unsorted axis.
fn axes() -> (DatasetSpec, Vec<u8>) {
    let spec = DatasetSpec::new("v", Dtype::I32, &[4, 3, 5], &[1, 3, 5])
        .with_dim_names(["time", "lat", "lon"])
        .with_labels("lat", ["20", "0", "-20"])
        .with_labels("lon", ["3", "1", "4", "1", "5"]);
    (spec, cells!(0i32..60))
}

async fn set(ctx: &SessionContext, name: &str, value: impl std::fmt::Display) {
    rows(ctx, &format!("SET {name} = {value}")).await;
}

/// Plans need no sort where the group order follows from sorted axes, with and without declared
/// scan orderings. All rows equal those of DataFusion's aggregate, in order.
#[tokio::test]
async fn groups_come_in_the_order_of_sorted_axes() {
    let (_folder, _, ctx) = sample(&[axes()], ArrayOptions::new()).await;
    for (sql, is_sorted) in [
        (
            "SELECT time, sum(value) FROM v GROUP BY time ORDER BY time",
            true,
        ),
        (
            "SELECT time, lat, sum(value) FROM v GROUP BY lat, time ORDER BY time, lat DESC",
            true,
        ),
        (
            "SELECT time, lat, sum(value) FROM v GROUP BY lat, time ORDER BY time, lat DESC LIMIT 2",
            true,
        ),
        (
            "SELECT lat, sum(value) s FROM v GROUP BY lat HAVING sum(value) > 7 ORDER BY lat DESC",
            true,
        ),
        (
            "SELECT time, sum(value) FROM v WHERE value % 7 = 1 GROUP BY time ORDER BY time",
            true,
        ),
        (
            "SELECT lat, sum(value) FROM v GROUP BY lat ORDER BY lat",
            false,
        ),
        (
            "SELECT time, lat, sum(value) FROM v GROUP BY lat, time ORDER BY time, lat",
            false,
        ),
        (
            "SELECT time, lat, sum(value) FROM v GROUP BY lat, time ORDER BY lat DESC, time",
            false,
        ),
        (
            "SELECT lon, sum(value) FROM v GROUP BY lon ORDER BY lon",
            false,
        ),
        (
            "SELECT time, lon, sum(value) FROM v GROUP BY time, lon ORDER BY time, lon",
            false,
        ),
        (
            "SELECT time / 2 h, sum(value) FROM v GROUP BY 1 ORDER BY h",
            false,
        ),
        (
            "SELECT -time n, sum(value) FROM v GROUP BY 1 ORDER BY n",
            false,
        ),
    ] {
        for partitions in [1, 3] {
            for declared in [false, true] {
                set(&ctx, "datafusion.execution.target_partitions", partitions).await;
                set(&ctx, "tet.declare_ordering", declared).await;
                let found = plan(&ctx, sql).await;
                assert!(found.contains("ArrayAggregateExec"), "{found}");
                let has_sort = found.contains("SortExec");
                // With declared scan orderings, plans may also avoid a sort where the groups alone
                // do not prove the order.
                assert!(has_sort != is_sorted || (declared && !is_sorted), "{found}");
                let answer = rows(&ctx, sql).await;
                set(&ctx, "tet.declare_ordering", false).await;
                set(&ctx, "tet.array_aggregates", false).await;
                assert_eq!(answer, rows(&ctx, sql).await, "{sql}");
                set(&ctx, "tet.array_aggregates", true).await;
            }
        }
    }
}

/// Limits, windows, joins and unions above an ordered aggregate return DataFusion's rows.
#[tokio::test]
async fn operators_above_an_ordered_aggregate_are_correct() {
    let (_folder, _, ctx) = sample(&[axes()], ArrayOptions::new()).await;
    for sql in [
        "SELECT time, avg(value), count(*) OVER () FROM v GROUP BY time ORDER BY time LIMIT 2",
        "SELECT time, sum(value), sum(sum(value)) OVER (ORDER BY time) FROM v GROUP BY time ORDER BY time LIMIT 3",
        "SELECT time, lat, sum(value), row_number() OVER (PARTITION BY time ORDER BY lat) FROM v GROUP BY time, lat ORDER BY time, lat LIMIT 5",
        "SELECT time, lag(sum(value)) OVER (ORDER BY time) FROM v GROUP BY time ORDER BY time",
        "SELECT time, lead(sum(value)) OVER (ORDER BY time) FROM v GROUP BY time ORDER BY time LIMIT 2",
        "SELECT a.time, s, m FROM (SELECT time, sum(value) s FROM v GROUP BY time) a \
         JOIN (SELECT time, max(value) m FROM v GROUP BY time) b ON a.time = b.time ORDER BY a.time",
        "SELECT time, max(s) FROM (SELECT time, lat, sum(value) s FROM v GROUP BY time, lat) GROUP BY time ORDER BY time",
        "SELECT time, s FROM (SELECT time, sum(value) s FROM v GROUP BY time \
         UNION ALL SELECT time, max(value) s FROM v GROUP BY time) ORDER BY time, s",
        "SELECT DISTINCT time FROM v ORDER BY time LIMIT 2",
        "SELECT time, sum(value) FROM v GROUP BY time ORDER BY time LIMIT 2 OFFSET 1",
    ] {
        for partitions in [1, 3] {
            set(&ctx, "datafusion.execution.target_partitions", partitions).await;
            for prefer_hash_join in [true, false] {
                set(
                    &ctx,
                    "datafusion.optimizer.prefer_hash_join",
                    prefer_hash_join,
                )
                .await;
                let answer = rows(&ctx, sql).await;
                set(&ctx, "tet.array_aggregates", false).await;
                assert_eq!(answer, rows(&ctx, sql).await, "{sql}");
                set(&ctx, "tet.array_aggregates", true).await;
            }
        }
    }
}

/// The coordinates of several files may interleave, so their groups need a sort.
#[tokio::test]
async fn groups_of_several_files_need_a_sort() {
    let folder = tempfile::tempdir().unwrap();
    for (name, labels) in [("a", ["1", "3"]), ("b", ["0", "2"])] {
        let spec = DatasetSpec::new("v", Dtype::I32, &[2, 2], &[1, 2])
            .with_dim_names(["t", "x"])
            .with_labels("t", labels);
        crate::support::sql::write(
            &folder.path().join(format!("{name}.tet")),
            &[(spec, cells!(0i32..4))],
        );
    }
    let ctx = crate::support::sql::session();
    let create = format!(
        "CREATE EXTERNAL TABLE v STORED AS TET LOCATION '{}/*.tet' OPTIONS ('file_column' 'true')",
        folder.path().display()
    );
    rows(&ctx, &create).await;
    let sql = "SELECT t, sum(value) FROM v GROUP BY t ORDER BY t";
    assert!(plan(&ctx, sql).await.contains("SortExec"));
    assert_eq!(rows(&ctx, sql).await, ["0 1", "1 1", "2 5", "3 5"]);
    // The groups of a single file are in order.
    let sql = "SELECT file <> '', t, sum(value) FROM v WHERE file LIKE '%a.tet' GROUP BY file, t ORDER BY t";
    let found = plan(&ctx, sql).await;
    assert!(
        found.contains("ArrayAggregateExec") && !found.contains("SortExec"),
        "{found}"
    );
    assert_eq!(rows(&ctx, sql).await, ["true 1 1", "true 3 5"]);
}
