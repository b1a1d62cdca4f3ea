//! Dynamic filters on aggregates in array space: chunks that a filter rules out are not read.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, DynamicFilterPhysicalExpr, lit};
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use tet_sql::ArrayOptions;
use tet_sql::format::tet::{DatasetSpec, Dtype};
use tet_sql::provider::aggregate::ArrayAggregateExec;

use crate::cells;
use crate::support::sql::{metric, rows, rows_without, run, sample, texts};

/// A grid of 20 times, 3 latitudes and 4 longitudes with one chunk per time, and a table `small_table_suffix` with
/// three times to join on.
async fn weather() -> (tempfile::TempDir, SessionContext) {
    let spec = DatasetSpec::new("v", Dtype::F32, &[20, 3, 4], &[1, 3, 4])
        .with_dim_names(["time", "lat", "lon"])
        .with_labels("lat", ["-20", "0", "20"]);
    let datasets = [(spec, cells!((0..240).map(|n| n as f32)))];
    let (folder, _, ctx) = sample(&datasets, ArrayOptions::new()).await;
    rows(&ctx, "CREATE TABLE few AS VALUES (3), (17), (99)").await;
    (folder, ctx)
}

#[tokio::test]
async fn join_keys_prune_chunks_of_an_aggregate() {
    let (_folder, ctx) = weather().await;
    for (sql, reads) in [
        (
            "SELECT a.time, m FROM few JOIN (SELECT time, avg(value) m FROM v GROUP BY time) a ON a.time = column1",
            2,
        ),
        (
            "SELECT a.time, lat, m FROM few JOIN (SELECT time, lat, max(value) m FROM v GROUP BY lat, time) a ON a.time = column1",
            2,
        ),
        // Grouped by an expression, where each key covers two chunks.
        (
            "SELECT t, m FROM few JOIN (SELECT time / 2 t, avg(value) m FROM v GROUP BY 1) a ON t = column1",
            2,
        ),
        // Through a union and the two-stage aggregate that DataFusion plans above it.
        (
            "SELECT a.time, m FROM few JOIN (SELECT time, avg(value) m FROM (SELECT * FROM v UNION ALL SELECT * FROM v) GROUP BY time) a ON a.time = column1",
            4,
        ),
        // An aggregate that works row by row.
        (
            "SELECT a.time, m FROM few JOIN (SELECT time, median(value) m FROM v WHERE lat + lon > 1 GROUP BY time) a ON a.time = column1",
            2,
        ),
        // The join key is not a group key, so its dynamic filter cannot skip chunks.
        (
            "SELECT m, n FROM few JOIN (SELECT lat, count(value) n, max(time) m FROM v GROUP BY lat) a ON m = column1",
            20,
        ),
        (
            "SELECT n FROM few JOIN (SELECT count(value) n FROM v) a ON n > column1",
            20,
        ),
    ] {
        for partitions in [1, 3] {
            rows(
                &ctx,
                &format!("SET datafusion.execution.target_partitions = {partitions}"),
            )
            .await;
            let ran = run(&ctx, sql).await;
            assert_eq!(ran.reads(), reads, "{sql}");
            let mut ours = ran.rows;
            let mut theirs = rows_without(&ctx, "tet.array_aggregates", sql).await;
            ours.sort();
            theirs.sort();
            assert_eq!(ours, theirs, "{sql}");
        }
    }
}

/// The aggregate rule also takes over a dynamic filter that DataFusion has already pushed into the
/// scan.
/// The keys of a join may have a zero of the other sign than the coordinate.
#[tokio::test]
async fn zeros_of_both_signs_are_equal() {
    let spec = DatasetSpec::new("v", Dtype::F32, &[3, 2], &[1, 2])
        .with_dim_names(["lat", "lon"])
        .with_labels("lat", ["-10.5", "0.0", "10.5"]);
    let datasets = [(spec, cells!((0..6).map(|n| n as f32)))];
    let (_folder, _, ctx) = sample(&datasets, ArrayOptions::new()).await;
    let sql = "SELECT b.lat, m FROM (SELECT -column1 AS lat FROM (VALUES (-10.5e0), (0.0e0), (10.5e0))) a
               JOIN (SELECT lat, avg(value) m FROM v GROUP BY lat) b ON a.lat = b.lat ORDER BY b.lat";
    let ran = run(&ctx, sql).await;
    assert_eq!(ran.metric("chunks_read"), 3);
    assert_eq!(ran.rows, ["-10.5 0.5", "0.0 2.5", "10.5 4.5"]);
}

#[tokio::test]
async fn rule_order_last_keeps_the_dynamic_filter() {
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::SessionConfig;
    use tet_sql::provider::aggregate::ArrayAggregates;
    use tet_sql::provider::rules::filter_pushdown::FilterPushdown;

    let spec = DatasetSpec::new("v", Dtype::F32, &[20, 4], &[1, 4]).with_dim_names(["time", "lon"]);
    let datasets = [(spec, cells!((0..80).map(|n| n as f32)))];
    let (_folder, path, _) = sample(&datasets, ArrayOptions::new()).await;
    let state = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_target_partitions(2))
        .with_default_features()
        .build();
    let mut rules = state.physical_optimizers().to_vec();
    FilterPushdown::replace_in(&mut rules);
    rules.push(Arc::new(ArrayAggregates::new()));
    let state = SessionStateBuilder::new_from_existing(state)
        .with_physical_optimizer_rules(rules)
        .build();
    let ctx = SessionContext::new_with_state(state);
    tet_sql::ArraySessionExt::register_array(&ctx, "v".into(), &path, ArrayOptions::new())
        .await
        .unwrap();
    rows(&ctx, "CREATE TABLE few AS VALUES (3), (17), (99)").await;
    let sql = "SELECT a.time, m FROM few JOIN (SELECT time, avg(value) m FROM v GROUP BY time) a ON a.time = column1 ORDER BY 1";
    let ran = run(&ctx, sql).await;
    assert_eq!(ran.rows, ["3 13.5", "17 69.5"]);
    assert_eq!(ran.reads(), 2);
    assert_eq!(ran.metric("chunks_pruned_by_dynamic_filter"), 18);
}

/// A dynamic filter that is updated during execution is evaluated again before each chunk.
#[tokio::test]
async fn updated_dynamic_filters_are_applied_between_chunks() {
    // The chunks are large enough for the operator to yield between two of them.
    let spec = DatasetSpec::new("v", Dtype::U8, &[8, 512, 1024], &[1, 512, 1024])
        .with_dim_names(["time", "lat", "lon"]);
    let datasets = [(spec, vec![1; 8 << 19])];
    let (_folder, _, ctx) = sample(&datasets, ArrayOptions::new()).await;
    let frame = ctx
        .sql("SELECT time, sum(value) FROM v GROUP BY time")
        .await
        .unwrap();
    let plan = frame.create_physical_plan().await.unwrap();
    let time: Arc<dyn PhysicalExpr> = Arc::new(Column::new("time", 0));
    let filter = Arc::new(DynamicFilterPhysicalExpr::new(
        vec![Arc::clone(&time)],
        lit(true),
    ));
    let plan = plan
        .transform_down(|plan| {
            let Some(operator) = plan.downcast_ref::<ArrayAggregateExec>() else {
                return Ok(Transformed::no(plan));
            };
            let filter: Arc<dyn PhysicalExpr> = Arc::<DynamicFilterPhysicalExpr>::clone(&filter);
            let operator = operator.with_filters(&[filter])?.unwrap();
            Ok(Transformed::yes(Arc::new(operator)))
        })
        .unwrap()
        .data;
    let mut batches = plan.execute(0, ctx.task_ctx()).unwrap();
    assert!(futures::poll!(batches.next()).is_pending());
    let early = BinaryExpr::new(time, Operator::Lt, lit(3i64));
    filter.update(Arc::new(early)).unwrap();
    let batches: Vec<_> = batches.map(Result::unwrap).collect().await;
    assert_eq!(texts(&batches)[..3], ["0 524288", "1 524288", "2 524288"]);
    let metric = |name| metric(&plan, name);
    assert_eq!(
        (
            metric("chunks_read"),
            metric("chunks_pruned_by_dynamic_filter")
        ),
        (3, 5)
    );
    // The plan can be executed again.
    let again = collect(plan, ctx.task_ctx()).await.unwrap();
    assert_eq!(texts(&again)[..3], ["0 524288", "1 524288", "2 524288"]);
}
