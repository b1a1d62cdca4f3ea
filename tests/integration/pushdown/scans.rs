//! Checks by metrics what scans read and skip.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{Int64Type, UInt16Type, UInt64Type};
use datafusion::common::stats::Precision;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::{col, lit};
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::{StreamExt, TryStreamExt};
use tet_sql::format::tet::{Compression, DatasetSpec, Dtype, TetWriter};
use tet_sql::provider::catalog::settings::options::ReadOptions;
use tet_sql::provider::source::RowCount;
use tet_sql::{Access, ArrayOptions, ArraySessionExt, ArrayTable, Unpack, enable_arrays};
use tetration::catalog::embed_indexes_in_tet;

/// Writes consecutive u16 cells of shape (12, 10, 8) in chunks of (3, 4, 8): 4 x 3 x 1 chunks, the
/// last along `y` clipped.
fn write(path: &Path, compression: Compression) {
    let spec = DatasetSpec::new("a", Dtype::U16, &[12, 10, 8], &[3, 4, 8])
        .with_dim_names(["x", "y", "z"])
        .with_compression(compression);
    let cells: Vec<u8> = (0..960u16).flat_map(u16::to_le_bytes).collect();
    let mut writer = TetWriter::create(path, vec![spec]).unwrap();
    writer.write_dataset(0, &cells).unwrap();
    writer.finish().unwrap();
}

/// Opens a session with four partitions, however small the table.
async fn session(path: &Path, access: Access) -> SessionContext {
    let config = SessionConfig::new()
        .with_target_partitions(4)
        .set_usize("datafusion.optimizer.repartition_file_min_size", 1);
    let ctx = SessionContext::new_with_config(config);
    let options = ArrayOptions::new().with_access(access);
    ctx.register_array("a".into(), path, options).await.unwrap();
    ctx
}

async fn plan(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    ctx.sql(sql)
        .await
        .unwrap()
        .create_physical_plan()
        .await
        .unwrap()
}

fn scan(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    if plan.is::<DataSourceExec>() {
        return Some(Arc::clone(plan));
    }
    plan.children().into_iter().find_map(scan)
}

fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let metrics = scan(plan).unwrap().metrics().unwrap();
    metrics
        .sum_by_name(name)
        .unwrap_or_else(|| panic!("no metric {name}"))
        .as_usize()
}

async fn run(ctx: &SessionContext, plan: &Arc<dyn ExecutionPlan>) -> Vec<RecordBatch> {
    collect(Arc::clone(plan), ctx.task_ctx()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slice_reads_the_chunks_it_touches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    for compression in [Compression::Raw, Compression::Zstd { level: 3 }] {
        write(&path, compression);
        for access in [Access::Mmap, Access::Pread] {
            let ctx = session(&path, access).await;
            for (condition, chunks, cells) in [
                ("true", 12, 960),
                ("x = 5", 3, 80),
                ("x BETWEEN 2 AND 3 AND y >= 8", 2, 32),
                ("y IN (0, 9)", 8, 192),
                ("x % 6 = 0 AND y = 4 AND z = 7", 2, 2),
                ("x = 0 OR y = 0", 6, 528),
                ("(x = 0 AND y = 0) OR (x = 1 AND y = 9)", 2, 32),
                ("x > 100", 0, 0),
            ] {
                let sql = format!("SELECT value FROM a WHERE {condition}");
                let plan = plan(&ctx, &sql).await;
                run(&ctx, &plan).await;
                assert_eq!(metric(&plan, "chunks_total"), 12, "{sql}");
                assert_eq!(metric(&plan, "chunks_read"), chunks, "{sql}");
                assert_eq!(
                    metric(&plan, "chunks_pruned_by_slice"),
                    12 - chunks,
                    "{sql}"
                );
                assert_eq!(metric(&plan, "chunks_pruned_by_zone_map"), 0);
                if compression == Compression::Raw && access == Access::Mmap {
                    assert_eq!(metric(&plan, "bytes_read"), 2 * cells, "{sql}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn coordinates_and_counts_read_no_chunk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    write(&path, Compression::Raw);
    let ctx = session(&path, Access::Mmap).await;
    for sql in [
        "SELECT count(*) FROM a",
        "SELECT count(*), min(x), max(z) FROM a WHERE y > 3",
        "SELECT count(*), count(x) FROM a WHERE x > 100",
        // An integer array without a fill value has no nulls.
        "SELECT count(value) FROM a",
    ] {
        assert!(scan(&plan(&ctx, sql).await).is_none(), "{sql}");
    }
    for sql in [
        "SELECT x, z FROM a",
        "SELECT x, count(*) FROM a WHERE y < 3 GROUP BY x",
        "SELECT 1 FROM a WHERE x < 5 LIMIT 7",
    ] {
        let plan = plan(&ctx, sql).await;
        run(&ctx, &plan).await;
        assert_eq!(metric(&plan, "chunks_read"), 0, "{sql}");
        assert_eq!(metric(&plan, "bytes_read"), 0, "{sql}");
        assert_eq!(metric(&plan, "chunks_pruned_by_slice"), 12, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_cut_evenly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    write(&path, Compression::Raw);
    let ctx = session(&path, Access::Mmap).await;
    let sql = "SET datafusion.execution.enable_file_stream_work_stealing = false";
    ctx.sql(sql).await.unwrap();
    let plan = plan(&ctx, "SELECT value FROM a").await;
    let scan = scan(&plan).unwrap();
    let partitions = scan.properties().output_partitioning().partition_count();
    assert_eq!(partitions, 4);
    let mut values = Vec::new();
    for partition in 0..partitions {
        let mut stream = scan.execute(partition, ctx.task_ctx()).unwrap();
        let mut rows = 0;
        while let Some(batch) = stream.next().await {
            let batch = batch.unwrap();
            rows += batch.num_rows();
            let column = batch
                .column(0)
                .as_primitive::<datafusion::arrow::datatypes::UInt16Type>();
            values.extend_from_slice(column.values());
        }
        assert_eq!(rows, 240);
    }
    values.sort_unstable();
    assert_eq!(values, (0..960).collect::<Vec<u16>>());
}

/// A slice of a few compressed chunks is decompressed in parallel, with DataFusion's own minimum
/// size of partitions. Raw chunks of the same size are not worth a thread.
#[tokio::test]
async fn a_few_compressed_chunks_are_read_in_parallel() {
    let folder = tempfile::tempdir().unwrap();
    // Chunks of 1.2 MB and of 120 kB, which take a few kilobytes in the file.
    for (extent, compression, expected) in
        [(1000, Compression::ZSTD, 4), (100, Compression::ZSTD, 1)]
    {
        let path = folder.path().join(format!("{extent}-{compression:?}.tet"));
        let spec = DatasetSpec::new("a", Dtype::U16, &[6, 2, extent, 300], &[1, 2, extent, 300])
            .with_dim_names(["t", "x", "y", "z"])
            .with_compression(compression);
        let cells = (0..6 * 2 * extent * 300).flat_map(|cell| (cell as u16).to_le_bytes());
        let mut writer = TetWriter::create(&path, vec![spec]).unwrap();
        writer
            .write_dataset(0, &cells.collect::<Vec<u8>>())
            .unwrap();
        writer.finish().unwrap();
        let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(8));
        let options = ArrayOptions::new();
        ctx.register_array("a".into(), &path, options)
            .await
            .unwrap();
        let sql = "SELECT value FROM a WHERE t BETWEEN 1 AND 4 AND y = 5";
        let plan = plan(&ctx, sql).await;
        let scan = scan(&plan).unwrap();
        let partitions = scan.properties().output_partitioning().partition_count();
        assert_eq!(partitions, expected, "{extent} {compression:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_share_the_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    write(&path, Compression::Raw);
    let ctx = session(&path, Access::Mmap).await;
    let plan = plan(&ctx, "SELECT value FROM a").await;
    // Partitions share the chunks, so the first partition that is polled reads them all, each time
    // the plan is executed.
    for order in [[0, 1, 2, 3], [2, 0, 3, 1]] {
        let mut rows = Vec::new();
        for partition in order {
            let stream = plan.execute(partition, ctx.task_ctx()).unwrap();
            let batches: Vec<_> = stream.try_collect().await.unwrap();
            rows.push(batches.iter().map(RecordBatch::num_rows).sum::<usize>());
        }
        assert_eq!(rows, [960, 0, 0, 0]);
    }
    assert_eq!(metric(&plan, "chunks_read"), 24);
    // With a declared ordering, each partition reads only its own chunks.
    ctx.sql("SET tet.declare_ordering = true").await.unwrap();
    let plan = self::plan(&ctx, "SELECT value FROM a").await;
    let stream = plan.execute(1, ctx.task_ctx()).unwrap();
    let batches: Vec<_> = stream.try_collect().await.unwrap();
    assert_eq!(
        batches.iter().map(RecordBatch::num_rows).sum::<usize>(),
        240
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_reads_the_first_chunks_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    write(&path, Compression::Raw);
    let ctx = session(&path, Access::Mmap).await;
    for (limit, chunks) in [(5, 1), (96, 1), (97, 2), (2000, 12)] {
        let plan = plan(&ctx, &format!("SELECT value FROM a LIMIT {limit}")).await;
        let rows: usize = run(&ctx, &plan)
            .await
            .iter()
            .map(RecordBatch::num_rows)
            .sum();
        assert_eq!(rows, limit.min(960));
        assert_eq!(metric(&plan, "chunks_read"), chunks, "LIMIT {limit}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_can_be_executed_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    write(&path, Compression::Zstd { level: 3 });
    let ctx = session(&path, Access::Mmap).await;
    let plan = plan(&ctx, "SELECT sum(value) FROM a WHERE x > 1").await;
    let sum =
        |batches: Vec<RecordBatch>| batches[0].column(0).as_primitive::<UInt64Type>().value(0);
    let first = sum(run(&ctx, &plan).await);
    assert_eq!(first, (160..960).sum::<u64>());
    assert_eq!(sum(run(&ctx, &plan).await), first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_stream_stops_within_a_chunk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    write(&path, Compression::Zstd { level: 3 });
    let ctx = session(&path, Access::Mmap).await;
    {
        let state = ctx.state_ref();
        let mut state = state.write();
        let options = state.config_mut().options_mut();
        options
            .set("datafusion.execution.target_partitions", "1")
            .unwrap();
        options.set("datafusion.execution.batch_size", "8").unwrap();
    }
    let plan = plan(&ctx, "SELECT value FROM a").await;
    let mut stream = execute_stream(Arc::clone(&plan), ctx.task_ctx()).unwrap();
    assert!(futures::poll!(stream.next()).is_ready());
    drop(stream);
    assert_eq!(metric(&plan, "chunks_read"), 1);

    let config = SessionConfig::new().with_target_partitions(1);
    let ctx = SessionContext::new_with_config(config);
    // A chunk above 32 MiB is decompressed in steps, and the stream yields between them.
    let path = folder.path().join("large.tet");
    let cells: Vec<u8> = (0..66u32 << 20).map(|cell| (cell >> 12) as u8).collect();
    let spec = DatasetSpec::new("large", Dtype::U8, &[2, 33 << 20], &[1, 33 << 20])
        .with_compression(Compression::Zstd { level: 1 });
    let mut writer = TetWriter::create(&path, vec![spec]).unwrap();
    writer.write_dataset(0, &cells).unwrap();
    writer.finish().unwrap();
    for access in [Access::Mmap, Access::Pread] {
        let options = ArrayOptions::new().with_access(access);
        let frame = ctx.read_array(&path, options).await.unwrap();
        let plan = frame.clone().create_physical_plan().await.unwrap();
        let mut stream = execute_stream(Arc::clone(&plan), ctx.task_ctx()).unwrap();
        assert!(futures::poll!(stream.next()).is_pending());
        drop(stream);
        assert_eq!(metric(&plan, "chunks_read"), 1);
        ctx.deregister_table("large").unwrap();
        ctx.register_table("large", frame.into_view()).unwrap();
        let sum = ctx.sql("SELECT sum(value) FROM large").await.unwrap();
        let sum = sum.collect().await.unwrap()[0]
            .column(0)
            .as_primitive::<UInt64Type>()
            .value(0);
        assert_eq!(sum, cells.iter().map(|cell| u64::from(*cell)).sum::<u64>());
    }
}

#[test]
fn blocks_have_rows_bytes_and_statistics() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    write(&path, Compression::Raw);
    let table = ArrayTable::open(&path, &ArrayOptions::new()).unwrap();
    let filters = [col("x").between(lit(2), lit(3)), col("z").eq(lit(7))];
    let options = ReadOptions::default();
    let source = table.source();
    let schema = DFSchema::try_from(Arc::clone(source.schema())).unwrap();
    let session = SessionContext::new();
    let filters = filters.map(|filter| session.create_physical_expr(filter, &schema).unwrap());
    let selected = source.select(&filters, &[0, 1, 2, 3], &options).unwrap();
    assert!(selected.residual.is_empty());
    let blocks = selected.blocks;
    assert_eq!((blocks.total(), blocks.count()), (Some(12), Some(6)));
    assert_eq!(blocks.rows(), RowCount::Exact(20));
    // The clipped chunk at x 0..3, y 8..10.
    assert_eq!(blocks.rows_in(&[2]).unwrap(), RowCount::Exact(2));
    assert_eq!(blocks.block_bytes(2, &options).unwrap(), 2 * 3 * 2 * 8);
    let range = |column| {
        let statistics = blocks.column_statistics(column, &options).unwrap();
        let number = |value: Precision<ScalarValue>| match value {
            Precision::Exact(ScalarValue::Int64(Some(value))) => value,
            other => panic!("{other:?}"),
        };
        (number(statistics.min_value), number(statistics.max_value))
    };
    assert_eq!([range(0), range(1), range(2)], [(2, 3), (0, 9), (7, 7)]);
    let in_blocks = |column| {
        let known = blocks.statistics(&[column], &[2, 5], &options).unwrap();
        assert_eq!(known.rows.values(), &[48, 48]);
        let known = known.columns[0].as_ref().unwrap();
        let min = known.min.as_primitive::<Int64Type>().values().to_vec();
        let max = known.max.as_primitive::<Int64Type>().values().to_vec();
        (min, max)
    };
    assert_eq!(in_blocks(0), (vec![2, 3], vec![2, 3]));
    assert_eq!(in_blocks(1), (vec![8, 8], vec![9, 9]));
    assert_eq!(in_blocks(2), (vec![7, 7], vec![7, 7]));
    let among = |values: &[i64]| {
        let values = values.iter().map(|value| ScalarValue::from(*value));
        let found = blocks.contained(1, &[0, 1, 2], &values.collect(), &options);
        found.unwrap().unwrap().iter().collect::<Vec<_>>()
    };
    assert_eq!(among(&[8, 9, 12]), [Some(false), Some(false), Some(true)]);
    assert_eq!(among(&[4]), [Some(false), None, Some(false)]);
    assert!(blocks.rows_in(&[6]).is_err());
}

/// DataFusion may simplify a filter after the scan has declared it exact, here to NULL and to
/// false.
#[tokio::test]
async fn filters_simplified_to_constants_are_applied() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    write(&path, Compression::Raw);
    let ctx = session(&path, Access::Mmap).await;
    for (sql, expected) in [
        ("SELECT value FROM a WHERE x NOT IN (1, NULL)", 0),
        ("SELECT value FROM a WHERE x NOT IN (1, 2)", 800),
        (
            "SELECT l.value FROM a l RIGHT JOIN a r ON l.value = r.value WHERE l.x IS NULL AND l.value < 9",
            0,
        ),
        (
            "SELECT l.value FROM a l RIGHT JOIN a r ON l.value = r.value WHERE l.x IS NOT NULL AND l.value < 9",
            9,
        ),
    ] {
        let count = ctx.sql(sql).await.unwrap().count().await.unwrap();
        assert_eq!(count, expected, "{sql}");
    }
}

/// Zero times infinity is NaN and cannot be a bound.
#[tokio::test]
async fn zone_maps_with_nan_bounds_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    let spec = DatasetSpec::new("a", Dtype::F64, &[4], &[4])
        .with_attribute("scale_factor", "0")
        .with_attribute("add_offset", "5");
    let cells = [f64::NEG_INFINITY, 1.0, 2.0, f64::INFINITY];
    let mut writer = TetWriter::create(&path, vec![spec]).unwrap();
    writer
        .write_dataset(0, &cells.map(f64::to_le_bytes).concat())
        .unwrap();
    writer.finish().unwrap();
    embed_indexes_in_tet(&path, 0).unwrap();
    let ctx = SessionContext::new();
    let options = ArrayOptions::new().with_unpack(Unpack::Always);
    ctx.register_array("a".into(), &path, options)
        .await
        .unwrap();
    let fives = ctx
        .sql("SELECT value FROM a WHERE value = 5")
        .await
        .unwrap();
    assert_eq!(fives.count().await.unwrap(), 2);
}

/// The reader of a filter opens chunks that the reader of the other columns skips, so both cut the
/// chunks after it into different batches.
#[tokio::test]
async fn rows_that_pass_a_filter_have_their_own_coordinates() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    let shape = [5, 4, 10];
    let spec = DatasetSpec::new("a", Dtype::U16, &shape, &[1, 4, 10])
        .with_dim_names(["x", "y", "z"])
        .with_compression(Compression::Zstd { level: 1 });
    // No cell of the first and the third chunk passes the filter.
    let cell = |index: u16| {
        if [0, 2].contains(&(index / 40)) {
            0
        } else {
            index
        }
    };
    let cells: Vec<u8> = (0..200).map(cell).flat_map(u16::to_le_bytes).collect();
    let mut writer = TetWriter::create(&path, vec![spec]).unwrap();
    writer.write_dataset(0, &cells).unwrap();
    writer.finish().unwrap();
    for batch_size in [1, 3, 7, 8, 16, 33, 8192] {
        let config = SessionConfig::new()
            .with_target_partitions(1)
            .with_batch_size(batch_size);
        let ctx = enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new());
        ctx.register_array("a".into(), &path, ArrayOptions::new())
            .await
            .unwrap();
        let plan = plan(&ctx, "SELECT x, y, z, value FROM a WHERE value % 5 > 1").await;
        let mut found = Vec::new();
        for batch in run(&ctx, &plan).await {
            let column = |index: usize| batch.column(index).as_primitive::<Int64Type>();
            let values = batch.column(3).as_primitive::<UInt16Type>();
            for row in 0..batch.num_rows() {
                let place = [0, 1, 2].map(|index| column(index).value(row));
                found.push((place, values.value(row)));
            }
        }
        let expected = (0..200).map(|index| (index, cell(index)));
        let expected = expected
            .filter(|(_, value)| value % 5 > 1)
            .map(|(index, value)| {
                let index = i64::from(index);
                ([index / 40, index / 10 % 4, index % 10], value)
            });
        assert_eq!(found, expected.collect::<Vec<_>>(), "{batch_size}");
    }
}
