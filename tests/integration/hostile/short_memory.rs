//! DataFusion plans that have to run with less memory than they ask for.

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use std::sync::Arc;
use tet_sql::{ArrayOptions, enable_arrays};

/// Creates a session with a memory pool of the given size.
fn session(bytes: usize, batch_size: usize) -> SessionContext {
    let mut config = SessionConfig::new()
        .with_target_partitions(4)
        .with_batch_size(batch_size);
    config.options_mut().execution.sort_spill_reservation_bytes = bytes / 16;
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(bytes)))
        .build_arc()
        .unwrap();
    enable_arrays(
        SessionContext::new_with_config_rt(config, runtime),
        ArrayOptions::new(),
    )
}

async fn run(context: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>, DataFusionError> {
    context.sql(sql).await?.collect().await
}

fn numbers(batches: &[RecordBatch]) -> Vec<i64> {
    let columns = batches
        .iter()
        .map(|batch| batch.column(0).as_primitive::<Int64Type>());
    columns
        .flat_map(|column| column.values().to_vec())
        .collect()
}

/// Returns a query that joins 500 rows of one kilobyte with themselves, with both inputs
/// repartitioned.
fn pairs(join: &str) -> String {
    // A literal, since SQL's `repeat` would reserve memory for its values.
    let text = "x".repeat(1000);
    let side =
        format!("(SELECT value, '{text}' || value AS text FROM range(500) WHERE value % 7 < 7)");
    format!(
        "SELECT count(*) FROM {side} a {join} JOIN {side} b ON a.value > b.value AND length(a.text) + length(b.text) > 0"
    )
}

#[tokio::test]
async fn nested_loop_joins_spill_or_report_exhausted_memory() {
    let expected = 500 * 499 / 2;
    for bytes in [64 << 20, 256 << 10] {
        let context = session(bytes, 100);
        let counted = run(&context, &pairs("INNER")).await;
        assert_eq!(numbers(&counted.unwrap()), [expected], "{bytes}");
    }
    // Row 0 of the left input has no match.
    let counted = run(&session(64 << 20, 100), &pairs("LEFT")).await;
    assert_eq!(numbers(&counted.unwrap()), [expected + 1]);
    match run(&session(256 << 10, 100), &pairs("LEFT")).await {
        Err(error) => {
            let root = error.find_root();
            assert!(
                matches!(root, DataFusionError::ResourcesExhausted(_)),
                "{error}"
            );
        }
        Ok(batches) => assert_eq!(numbers(&batches), [expected + 1]),
    }
}

#[tokio::test]
async fn sorts_with_long_limits_spill() {
    let mut sorted: Vec<i64> = (0..1_000_000).collect();
    sorted.sort_by_key(|value| value * 7919 % 1_000_003);
    let context = session(6 << 20, 8192);
    for (limit, offset) in [(3, 900_000), (2, 1)] {
        let sql = format!(
            "SELECT value FROM range(1000000) ORDER BY value * 7919 % 1000003 LIMIT {limit} OFFSET {offset}"
        );
        let rows = run(&context, &sql).await.unwrap();
        assert_eq!(numbers(&rows), sorted[offset..offset + limit]);
    }
}
