//! Progress of running tasks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;

use crate::cluster::answers::cluster;

/// Returns the sum of a metric over all operators of a plan.
fn total(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name(name));
    let children = plan.children().into_iter();
    own.map_or(0, |value| value.as_usize())
        + children.map(|child| total(child, name)).sum::<usize>()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_query_reports_what_its_tasks_have_read() {
    let (_folder, ctx, workers) = cluster(2).await;
    workers.join(&ctx).await;
    let sql = "SELECT time, value FROM a WHERE time < 6";
    let plan = ctx.sql(sql).await.unwrap();
    let plan = plan.create_physical_plan().await.unwrap();
    let mut rows = execute_stream(Arc::clone(&plan), ctx.task_ctx()).unwrap();
    rows.next().await.unwrap().unwrap();

    // The query cannot end while rows are left to take.
    let started = Instant::now();
    while total(&plan, "chunks_read") < 12 && started.elapsed() < Duration::from_secs(20) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let wanted = total(&plan, "chunks_total") - total(&plan, "chunks_pruned_by_slice");
    assert_eq!((total(&plan, "chunks_read"), wanted), (12, 12));

    while let Some(batch) = rows.next().await {
        batch.unwrap();
    }
    // Now the operators of the tasks have metrics, and chunks are not counted twice.
    assert_eq!(total(&plan, "chunks_read"), 12);
}
