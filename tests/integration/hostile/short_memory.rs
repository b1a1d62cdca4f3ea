//! DataFusion plans that have to run with less memory than they ask for.

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_proto_converter, physical_plan_to_bytes_with_proto_converter,
};
use datafusion_proto::physical_plan::DeduplicatingProtoConverter;
use std::sync::Arc;

use crate::support::memory::measure;
use crate::support::sql::texts;
use tet_sql::{ArrayOptions, ArrayPlanCodec, enable_arrays};

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

/// The rows of a list repeat the other columns, here a text of a megabyte two thousand times.
#[test]
fn lists_are_unnested_in_slices() {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.unwrap();
    let config = SessionConfig::new().with_target_partitions(1);
    let context = enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new());
    let sql = "SELECT CAST(sum(length(text)) AS BIGINT) FROM \
               (SELECT repeat('x', 1000000) AS text, unnest(range(2000)) AS n)";
    let (found, allocated) = measure(|| runtime.block_on(run(&context, sql)).unwrap());
    assert_eq!(numbers(&found), [2_000_000_000]);
    assert!(allocated.most_held < 256 << 20, "{allocated:?}");
}

/// The rows of nested lists are not split, but a single row makes at most 64 MiB.
#[tokio::test]
async fn nested_lists_are_bounded() {
    let context = session(64 << 20, 8192);
    let counted = |text: usize, lists: usize| {
        format!(
            "SELECT CAST(sum(length(text)) AS BIGINT) FROM (SELECT repeat('x', {text}) AS text, \
             unnest(unnest(array_repeat(range(100), {lists}))) AS n FROM range(3))"
        )
    };
    let few = run(&context, &counted(1000, 100)).await.unwrap();
    assert_eq!(numbers(&few), [3 * 1000 * 100 * 100]);
    // 10,000 rows of 10 KB each.
    let error = run(&context, &counted(10_000, 100)).await.unwrap_err();
    let error = error.find_root().to_string();
    assert!(error.contains("tet.max_value_bytes"), "{error}");
    let sql = "SELECT n, text FROM (SELECT repeat('x', 1000000) AS text, \
               unnest(arrow_cast(range(100), 'FixedSizeList(100, Int64)')) AS n)";
    let error = run(&context, sql).await.unwrap_err();
    let error = error.find_root().to_string();
    assert!(error.contains("tet.max_value_bytes"), "{error}");
}

/// A batch of 8,192 rows would repeat these texts in 8 GB.
#[test]
fn long_constants_are_repeated_in_small_batches() {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.unwrap();
    let config = SessionConfig::new().with_target_partitions(1);
    let context = enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new());
    let text = "repeat('x', 1000000)";
    for sql in [
        format!(
            "SELECT CAST(sum(length(t) + v) AS BIGINT) FROM (SELECT {text} AS t, value AS v FROM range(1000) WHERE value < 1000 UNION ALL SELECT 'y', 0)"
        ),
        format!(
            "SELECT CAST(sum(length(CASE WHEN value < 1000 THEN {text} ELSE '' END) + value) AS BIGINT) + 1 FROM range(1000)"
        ),
        format!(
            "SELECT 1000000000 + 1 + sum(value) FROM range(1000) HAVING max({text}) IS NOT NULL"
        ),
    ] {
        let (found, allocated) = measure(|| runtime.block_on(run(&context, &sql)).unwrap());
        assert_eq!(numbers(&found), [1000 * 1_000_000 + 499_500 + 1], "{sql}");
        assert!(allocated.most_held < 128 << 20, "{allocated:?}: {sql}");
    }
}

/// A batch of two rows splits all of these lists.
#[tokio::test]
async fn slices_of_lists_keep_all_rows() {
    let rows = "(VALUES (1, [1, 2, 3, 4, 5], ['a']), (2, NULL, ['b', NULL, 'd']), (3, [6, 7], NULL), (4, NULL, NULL)) AS v(k, l, m)";
    let one = format!("SELECT k, unnest(l) FROM {rows}");
    let two = format!("SELECT k, unnest(l), unnest(m) FROM {rows}");
    let (large, small) = (session(64 << 20, 8192), session(64 << 20, 2));
    for (sql, expected) in [
        (one, vec!["1 1", "1 2", "1 3", "1 4", "1 5", "3 6", "3 7"]),
        (
            two,
            vec![
                "1 1 a",
                "1 2 NULL",
                "1 3 NULL",
                "1 4 NULL",
                "1 5 NULL",
                "2 NULL NULL",
                "2 NULL b",
                "2 NULL d",
                "3 6 NULL",
                "3 7 NULL",
            ],
        ),
    ] {
        let mut found = Vec::new();
        for context in [&large, &small] {
            let mut rows = texts(&run(context, &sql).await.unwrap());
            rows.sort_unstable();
            found.push(rows);
        }
        assert_eq!(found[0], expected, "{sql}");
        assert_eq!(found[1], expected, "{sql}");
    }
}

#[tokio::test]
async fn grouped_aggregates_that_keep_values_have_one_stage() {
    let rows = "(SELECT value % 1000 AS k, value FROM range(300000))";
    let sql = format!(
        "SELECT CAST(sum(m) AS BIGINT), sum(n) FROM (SELECT k, median(value) AS m, count(*) AS n FROM {rows} GROUP BY k)"
    );
    // The median of k, k + 1000, ... k + 299000 is k + 149500.
    let expected = 1000 * 999 / 2 + 1000 * 149_500;
    for bytes in [64 << 20, 2 << 20] {
        let context = session(bytes, 1024);
        let plan = context
            .sql(&sql)
            .await
            .unwrap()
            .create_physical_plan()
            .await;
        let plan = datafusion::physical_plan::displayable(plan.unwrap().as_ref())
            .indent(false)
            .to_string();
        assert!(plan.contains("mode=SinglePartitioned"), "{plan}");
        let found = run(&context, &sql).await.unwrap();
        assert_eq!(numbers(&found), [expected], "{bytes}");
    }
}

/// A plan that is decoded in another session reserves memory there.
#[tokio::test]
async fn decoded_plans_reserve_texts() {
    let context = session(64 << 20, 8192);
    let sql = "SELECT max(length(repeat('x', 1000000) || CAST(value AS VARCHAR))) \
               FROM 'tests/data/weather_small.tet#temperature'";
    let query = context.sql(sql).await.unwrap();
    let plan = query.create_physical_plan().await.unwrap();
    let (codec, converter) = (ArrayPlanCodec::new(), DeduplicatingProtoConverter {});
    let bytes = physical_plan_to_bytes_with_proto_converter(plan, &codec, &converter);
    let other = session(1 << 20, 8192);
    let task = other.task_ctx();
    let plan =
        physical_plan_from_bytes_with_proto_converter(&bytes.unwrap(), &task, &codec, &converter);
    let error = collect(plan.unwrap(), task).await.unwrap_err();
    let root = error.find_root().to_string();
    assert!(root.contains("for ||"), "{root}");
}
