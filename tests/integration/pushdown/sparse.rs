//! The block source of the example `sparse_blocks`, which has no axes and is registered with public
//! types only. The expected answers come from the same rows in memory.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{Float64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use tet_sql::provider::source::BlockSource;
use tet_sql::{
    ArrayOptions, ArrayTable, Candidate, Container, Error, Format, FormatRegistry, TableEntry,
    enable_arrays,
};

#[path = "../../../examples/sparse_blocks/points.rs"]
pub mod points;

use crate::support::clock::Clock;
#[cfg(feature = "proto")]
use crate::support::encoded::Encoded;
use points::{Points, Store};

type Row = (f64, f64, Option<&'static str>);

/// Overlapping blocks. The third block replaces two points of the first.
fn blocks() -> Vec<Vec<Row>> {
    vec![
        vec![
            (0.0, 0.0, Some("a")),
            (1.0, 5.0, Some("b")),
            (4.0, 2.0, None),
        ],
        vec![(3.0, 3.0, Some("c")), (9.0, 9.0, Some("d"))],
        vec![
            (1.0, 5.0, None),
            (4.0, 2.0, Some("e")),
            (2.0, 1.0, Some("a")),
        ],
        vec![(20.0, -1.0, Some("f")), (21.0, -2.0, None)],
    ]
}

/// The rows that are left once later blocks have replaced points of earlier ones.
fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (x, y, name) in blocks().into_iter().flatten() {
        rows.retain(|row| (row.0, row.1) != (x, y));
        rows.push((x, y, name));
    }
    rows
}

/// The format of points in memory: the only table of any path.
#[derive(Debug)]
struct PointsFormat(Points);

impl Format for PointsFormat {
    fn name(&self) -> &'static str {
        "points"
    }

    fn keywords(&self) -> &'static [&'static str] {
        &["POINTS"]
    }

    fn extensions(&self) -> &'static [&'static str] {
        &[]
    }

    fn recognises(&self, _candidate: &Candidate<'_>) -> bool {
        false
    }

    fn open(
        &self,
        _path: &Path,
        _options: &ArrayOptions,
        _session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        Ok(Arc::new(PointsContainer {
            points: Arc::new(self.0.clone()),
            tables: vec![TableEntry::new("points")],
        }))
    }
}

#[derive(Debug)]
struct PointsContainer {
    points: Arc<Points>,
    tables: Vec<TableEntry>,
}

impl Container for PointsContainer {
    fn format(&self) -> &'static str {
        "points"
    }

    fn location(&self) -> &str {
        "memory"
    }

    fn path(&self) -> Option<&Path> {
        None
    }

    fn tables(&self) -> &[TableEntry] {
        &self.tables
    }

    fn table(&self, name: &str) -> Result<Option<Arc<dyn BlockSource>>, Error> {
        Ok((name == "points").then(|| Arc::clone(&self.points) as _))
    }
}

fn session(points: Points, partitions: usize) -> SessionContext {
    let formats = FormatRegistry::default().with_format(Arc::new(PointsFormat(points.clone())));
    let config = SessionConfig::new()
        .with_extension(Arc::new(formats))
        .with_target_partitions(partitions)
        .set_u64("datafusion.optimizer.repartition_file_min_size", 1);
    let ctx = enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new());
    let table = ArrayTable::new(Arc::new(points), ArrayOptions::new());
    ctx.register_table("points", Arc::new(table)).unwrap();
    let rows = rows();
    let schema = Schema::new(vec![
        Field::new("x", DataType::Float64, false),
        Field::new("y", DataType::Float64, false),
        Field::new("name", DataType::Utf8, true),
    ]);
    let batch = RecordBatch::try_new(
        Arc::new(schema),
        vec![
            Arc::new(rows.iter().map(|row| Some(row.0)).collect::<Float64Array>()),
            Arc::new(rows.iter().map(|row| Some(row.1)).collect::<Float64Array>()),
            Arc::new(rows.iter().map(|row| row.2).collect::<StringArray>()),
        ],
    );
    ctx.register_batch("rows", batch.unwrap()).unwrap();
    ctx
}

async fn text(ctx: &SessionContext, sql: &str) -> String {
    let batches = ctx.sql(sql).await.unwrap().collect().await.unwrap();
    pretty_format_batches(&batches).unwrap().to_string()
}

#[tokio::test]
async fn queries_agree_with_the_rows_in_memory() {
    let points = |partitions| session(Points::new(&blocks(), None), partitions);
    #[cfg_attr(not(feature = "proto"), expect(unused_mut))]
    let mut sessions = vec![points(1), points(3)];
    #[cfg(feature = "proto")]
    {
        let encoded = points(3);
        Encoded::add_to(&encoded, &[]);
        sessions.push(encoded);
    }
    for ctx in sessions {
        for sql in [
            "SELECT * FROM t ORDER BY x, y",
            "SELECT count(*) FROM t",
            "SELECT count(*), count(name), min(x), max(y) FROM t",
            "SELECT * FROM t WHERE x > 3 ORDER BY x, y",
            "SELECT y FROM t WHERE x > 3 AND name IS NOT NULL ORDER BY y",
            "SELECT name FROM t WHERE x BETWEEN 1 AND 4 AND y > x ORDER BY name",
            "SELECT x FROM t WHERE name IS NULL ORDER BY x",
            "SELECT name, count(*), sum(x * y) FROM t GROUP BY name ORDER BY name",
            "SELECT t.name, b.x FROM t JOIN rows AS b ON t.x = b.y ORDER BY t.name, b.x",
            "SELECT x, y FROM t ORDER BY x DESC LIMIT 2",
            "SELECT count(*) FROM (SELECT * FROM t LIMIT 7)",
            "SELECT x FROM t WHERE x = (SELECT max(x) FROM t)",
            "SELECT name FROM t WHERE x > 100",
        ] {
            let of = |table: &str| sql.replace("FROM t", &format!("FROM {table} AS t"));
            let (found, expected) = (of("points"), of("rows"));
            let (found, expected) = (text(&ctx, &found).await, text(&ctx, &expected).await);
            assert_eq!(found, expected, "{sql}");
        }
    }
}

#[tokio::test]
async fn bounds_prune_blocks() {
    let ctx = session(Points::new(&blocks(), None), 1);
    let plan = text(
        &ctx,
        "EXPLAIN SELECT name FROM points WHERE x > 10 AND y < 0",
    )
    .await;
    assert!(
        plan.contains("points=points, chunks=1 of 4, pruned_by_bounds=3"),
        "{plan}"
    );
    assert!(plan.contains("filter=x@1 > 10 AND y@2 < 0"), "{plan}");
    assert!(!plan.contains("FilterExec"), "{plan}");
    // Blocks may have fewer rows than points, so counting reads them.
    let plan = text(&ctx, "EXPLAIN SELECT count(*) FROM points").await;
    assert!(plan.contains("chunks=4 of 4"), "{plan}");
}

/// A store in which every fetch takes this time.
fn store(clock: &Arc<Clock>, latency: u64) -> Store {
    let clock = Arc::clone(clock);
    Store(Arc::new(move |_| clock.fetch(latency)))
}

/// A hundred blocks with one point each, in a store whose fetches take 10 ms.
fn remote() -> (Arc<Clock>, SessionContext) {
    let clock = Arc::new(Clock::default());
    let blocks: Vec<Vec<Row>> = (0..100).map(|x| vec![(f64::from(x), 0.0, None)]).collect();
    let ctx = session(Points::new(&blocks, Some(store(&clock, 10))), 1);
    (clock, ctx)
}

#[tokio::test]
async fn blocks_are_fetched_ahead() {
    let (clock, ctx) = remote();
    let found = clock
        .run(text(&ctx, "SELECT sum(x), count(*) FROM points"))
        .await;
    assert!(found.contains("4950.0") && found.contains("100"), "{found}");
    let now = clock.now();
    assert!((130..200).contains(&now), "{now} ms");
    assert_eq!(clock.started(), 100);
}

#[tokio::test]
async fn a_limit_is_not_outrun() {
    let (clock, ctx) = remote();
    clock.run(text(&ctx, "SELECT x FROM points LIMIT 1")).await;
    let fetched = clock.started();
    assert!(fetched <= 2, "{fetched} blocks");
}

#[tokio::test]
async fn a_dynamic_filter_is_not_outrun() {
    let (clock, ctx) = remote();
    // Otherwise the first batch has the rows of all blocks.
    text(&ctx, "SET datafusion.execution.batch_size = 2").await;
    let sql = "SELECT x FROM points ORDER BY x LIMIT 1";
    let found = clock.run(text(&ctx, sql)).await;
    assert!(found.contains("0.0"), "{found}");
    let fetched = clock.started();
    assert!(fetched < 20, "{fetched} blocks");
}

#[tokio::test]
async fn only_rows_that_pass_the_filter_fetch_other_columns() {
    let (clock, ctx) = remote();
    // Each block fits the bounds, so the filter has to read `x` of every block.
    let sql = "SELECT name FROM points WHERE sin(x) > 2";
    clock.run(text(&ctx, sql)).await;
    assert_eq!(clock.started(), 100);
    let sql = "SELECT y FROM points WHERE round(x) = 7";
    clock.run(text(&ctx, sql)).await;
    assert_eq!(clock.started(), 201);
}

#[tokio::test]
async fn dropping_a_query_ends_its_fetches() {
    let (clock, ctx) = remote();
    let plan = ctx.sql("SELECT x FROM points").await.unwrap();
    let plan: Arc<dyn ExecutionPlan> = plan.create_physical_plan().await.unwrap();
    let context: Arc<TaskContext> = ctx.task_ctx();
    let pool: Arc<dyn MemoryPool> = Arc::clone(context.memory_pool());
    let mut rows = execute_stream(plan, context).unwrap();
    // The batches are small, so that blocks are in flight when the first one is ready.
    clock
        .run(async {
            let first = futures::poll!(rows.next());
            assert!(first.is_pending());
        })
        .await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(pool.reserved() > 0);
    assert_eq!(clock.waiting(), 1);
    drop(rows);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(clock.waiting(), 0);
    assert_eq!(pool.reserved(), 0);
}
