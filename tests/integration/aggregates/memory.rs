//! Aggregates in array space under memory limits. Expected values are closed forms.

use std::sync::Arc;

use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use tet_sql::format::tet::{DatasetSpec, Dtype};
use tet_sql::{ArrayOptions, ArraySessionExt, enable_arrays};

use crate::cells;
use crate::support::sql::{metric, run, write};

const EXTENTS: [u64; 3] = [50, 100, 100];

/// Cells numbered from 0 in one chunk per time, in a session with the given memory limit and number
/// of partitions.
async fn limited(bytes: usize, partitions: usize) -> (tempfile::TempDir, SessionContext) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.tet");
    let spec = DatasetSpec::new("v", Dtype::I32, &EXTENTS, &[1, 100, 100])
        .with_dim_names(["time", "lat", "lon"])
        .with_labels("time", (0..50).rev().map(|time| time.to_string()));
    let count = EXTENTS.iter().product::<u64>() as i32;
    write(&path, &[(spec, cells!(0..count))]);
    let config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_batch_size(1024)
        .set_usize(
            "datafusion.execution.sort_spill_reservation_bytes",
            64 << 10,
        )
        .set_usize("datafusion.optimizer.repartition_file_min_size", 1);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(bytes)))
        .build_arc()
        .unwrap();
    let ctx = SessionContext::new_with_config_rt(config, runtime);
    let ctx = enable_arrays(ctx, ArrayOptions::new());
    let options = ArrayOptions::new();
    ctx.register_array("v".into(), &path, options)
        .await
        .unwrap();
    (folder, ctx)
}

/// Aggregates with one group per cell, which an optimizer rule does not see: it would project the cells.
const CELLS: &str = "SELECT count(*), sum(s), min(time + lat + lon), sum(c) FROM \
    (SELECT abs(time) AS time, lat, lon, sum(value) s, count(*) c FROM v GROUP BY abs(time), lat, lon)";

#[tokio::test]
async fn groups_beyond_memory_fall_back_to_datafusion() {
    let count = EXTENTS.iter().product::<u64>();
    let expected = [format!("{count} {} 0 {count}", count * (count - 1) / 2)];
    for (megabytes, partitions, left) in [(128, 4, 0), (11, 2, 1)] {
        let (_folder, ctx) = limited(megabytes << 20, partitions).await;
        let ran = run(&ctx, CELLS).await;
        assert_eq!(ran.rows, expected);
        let found = ran.metric("left_to_engine");
        assert_eq!(found, left, "{megabytes} MiB, {partitions} partitions");
    }
}

/// Falling back to DataFusion does not change the result, also where each input of a union falls
/// back on its own, and where the declared order must be kept.
#[tokio::test]
async fn fallback_to_datafusion_keeps_the_result() {
    let both = "(SELECT * FROM v UNION ALL SELECT time, lat, lon, value * 2 FROM v)";
    for sql in [
        format!(
            "SELECT count(*), sum(s) FROM \
             (SELECT time, lat, lon, sum(value) s FROM {both} GROUP BY time, lat, lon)"
        ),
        "SELECT time, lat, lon, sum(value), var_pop(value) FROM v WHERE lat > 3 GROUP BY lat, lon, time \
         ORDER BY time DESC, lat, lon LIMIT 3000"
            .to_string(),
    ] {
        let (_folder, ample) = limited(256 << 20, 2).await;
        let (_folder, short) = limited(11 << 20, 2).await;
        let (ample, short) = (run(&ample, &sql).await, run(&short, &sql).await);
        assert_eq!(ample.metric("left_to_engine"), 0, "{sql}");
        assert!(short.metric("left_to_engine") > 0, "{sql}");
        assert_eq!(ample.rows, short.rows, "{sql}");
    }
}

/// Every worker holds the partial states of all groups, so memory limits the number of workers.
#[tokio::test]
async fn fewer_workers_where_memory_is_short() {
    let by_place = "SELECT count(*), sum(s) FROM \
                    (SELECT lat, lon, sum(value) s FROM v GROUP BY lat, lon)";
    let count = EXTENTS.iter().product::<u64>();
    let expected = [format!("10000 {}", count * (count - 1) / 2)];
    for kilobytes in [16_000, 2_400] {
        let (_folder, ctx) = limited(kilobytes << 10, 8).await;
        let ran = run(&ctx, by_place).await;
        assert_eq!(ran.rows, expected);
        assert_eq!(ran.metric("left_to_engine"), 0, "{kilobytes} KiB");
    }
}

/// Accumulators are created for all groups up front. Half a million of them at a few hundred bytes
/// each exceed the limit before any chunk is read, so DataFusion takes over.
#[tokio::test]
async fn accumulators_beyond_memory_fall_back_before_reading() {
    let (_folder, ctx) = limited(64 << 20, 2).await;
    let sql = "SELECT time, lat, lon, approx_median(value) FROM v GROUP BY time, lat, lon";
    let frame = ctx.sql(sql).await.unwrap();
    let plan = frame.create_physical_plan().await.unwrap();
    let mut batches = plan.execute(0, ctx.task_ctx()).unwrap();
    // The result of DataFusion's plan is not tested here.
    assert!(futures::poll!(batches.next()).is_pending());
    let metric = |name| metric(&plan, name);
    assert_eq!((metric("left_to_engine"), metric("chunks_read")), (1, 0));
}

/// 10,000 histograms of half a mebibyte each exceed the memory limit. Until then, a group needs
/// memory only for its distinct values, not for all its bins.
#[tokio::test]
async fn histograms_need_memory_for_distinct_values_only() {
    let (_folder, ctx) = limited(64 << 20, 2).await;
    let sql = "SELECT lat, lon, histogram(value, 0, 500000, 65536) AS h FROM v GROUP BY lat, lon";
    let error = ctx.sql(sql).await.unwrap().collect().await.unwrap_err();
    assert!(error.to_string().contains("Resources exhausted"), "{error}");
    // 100 groups of 5,000 distinct values each fit, computed by cell and by row.
    for from in ["v", "(SELECT * FROM v WHERE value + lon >= 0)"] {
        let sql = format!(
            "SELECT count(*), sum(n) FROM (SELECT unnest(h) AS n FROM \
             (SELECT lat, histogram(value, 0, 500000, 5000) AS h FROM {from} GROUP BY lat))"
        );
        assert_eq!(run(&ctx, &sql).await.rows, ["500000 500000"], "{from}");
    }
}

/// Medians take the memory of the values that they keep, also if the groups are of very different sizes, and most rows
/// are NULL.
#[tokio::test]
async fn medians_need_memory_for_their_values_only() {
    for (sql, expected) in [
        (
            "SELECT count(*), sum(n) FROM (SELECT lat, median(CASE WHEN value % 16 = 0 THEN value END) AS m, \
             count(*) AS n FROM v GROUP BY lat)",
            "100 500000",
        ),
        (
            "SELECT count(*), sum(n) FROM (SELECT lat < 1, median(value) AS m, count(*) AS n FROM v GROUP BY lat < 1)",
            "2 500000",
        ),
    ] {
        for kilobytes in [8 << 10, 12 << 10, 64 << 10] {
            let (_folder, ctx) = limited(kilobytes << 10, 2).await;
            let ran = run(&ctx, sql).await;
            assert_eq!(ran.rows, [expected]);
            assert_eq!(ran.metric("left_to_engine"), 0, "{kilobytes} KiB: {sql}");
        }
    }
}

/// Merging the values of several workers counts against the memory limit.
#[tokio::test]
async fn merging_medians_respects_the_memory_limit() {
    let sql = "SELECT median(value), count(*) FROM v";
    // Half a million values of four bytes.
    let (_folder, ctx) = limited(64 << 20, 4).await;
    assert_eq!(run(&ctx, sql).await.rows, ["249999.5 500000"]);
    let (_folder, ctx) = limited(3 << 20, 4).await;
    let error = ctx.sql(sql).await.unwrap().collect().await.unwrap_err();
    assert!(error.to_string().contains("Resources exhausted"), "{error}");
}
