//! Grids with evenly spaced coordinates of any type, chunks that start before the array, and cells
//! of one signed byte.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int8Array, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{Result, not_impl_err};
use datafusion::datasource::MemTable;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionConfig, SessionContext};
use tet_sql::grid::reduce::CellType;
use tet_sql::grid::{Axis, ChunkGrid, Steps, Window};
use tet_sql::provider::catalog::description::{
    AttributeDescription, ChunkDescription, TableDescription,
};
use tet_sql::provider::catalog::settings::options::ReadOptions;
use tet_sql::provider::source::{
    CellFormat, Fetch, FetchedBlock, GridSource, ReadCounts, WindowReader,
};
use tet_sql::{ArrayOptions, ArrayTable, enable_arrays};

use crate::support::clock::Clock;
use crate::support::sql::{rows, session};

/// A grid whose cells are a function of their indices.
#[derive(Debug)]
struct Computed {
    axes: Vec<Axis>,
    attributes: Vec<FieldRef>,
    chunks: ChunkGrid,
    /// The clock that fetches of 10 ms each wait for; `None` to read in place.
    store: Option<Arc<Clock>>,
}

impl Computed {
    fn new(axes: Vec<Axis>, chunk_shape: &[u64], phase: &[u64]) -> Self {
        let shape = axes.iter().map(Axis::length).collect();
        Self {
            axes,
            attributes: vec![Arc::new(Field::new("value", DataType::Int8, true))],
            chunks: ChunkGrid::new(shape, chunk_shape.to_vec()).with_phase(phase.to_vec()),
            store: None,
        }
    }

    fn register(self, ctx: &SessionContext, name: &str) {
        let table = ArrayTable::from_grid(Arc::new(self), ArrayOptions::new());
        ctx.register_table(name, Arc::new(table)).unwrap();
    }
}

fn cell(indices: &[u64]) -> i8 {
    let mixed = indices.iter().fold(7u64, |mixed, index| mixed * 31 + index);
    (mixed * 7919 % 251) as u8 as i8
}

/// Returns the indices of all cells of a window, in row-major order.
fn indices(window: &Window) -> Vec<Vec<u64>> {
    let mut all = vec![Vec::new()];
    for range in window.ranges() {
        let longer = all.iter().flat_map(|outer: &Vec<u64>| {
            let extend = |index| outer.iter().copied().chain([index]).collect();
            range.clone().map(extend)
        });
        all = longer.collect();
    }
    all
}

impl GridSource for Computed {
    fn format(&self) -> &'static str {
        "computed"
    }

    fn name(&self) -> &str {
        "c"
    }

    fn path(&self) -> &Path {
        Path::new("computed")
    }

    fn parts(&self) -> Vec<Arc<dyn GridSource>> {
        Vec::new()
    }

    fn axes(&self) -> &[Axis] {
        &self.axes
    }

    fn attributes(&self) -> &[FieldRef] {
        &self.attributes
    }

    fn chunk_grid(&self) -> &ChunkGrid {
        &self.chunks
    }

    fn stored_bytes(&self, chunk: &[u64], _options: &ReadOptions) -> Result<u64> {
        Ok(self.chunks.window(chunk).cells())
    }

    fn may_have_nulls(&self, _attribute: usize, _options: &ReadOptions) -> bool {
        false
    }

    fn cell_format(&self, _attribute: usize, _options: &ReadOptions) -> Option<CellFormat> {
        Some(CellFormat {
            cell_type: CellType::I8,
            fill: None,
            nan_is_null: true,
        })
    }

    fn fetch(
        &self,
        window: &Window,
        _attributes: &[usize],
        _options: &ReadOptions,
    ) -> Option<Fetch> {
        let fetched = self.store.as_ref()?.fetch(10);
        Some(Fetch {
            bytes: window.cells() as usize,
            fetched: Box::pin(async {
                fetched.await;
                Ok(Box::new("fetched") as FetchedBlock)
            }),
        })
    }

    fn window_reader(
        &self,
        attributes: &[usize],
        _options: &ReadOptions,
    ) -> Result<Box<dyn WindowReader>> {
        Ok(Box::new(Reader {
            attributes: attributes.len(),
            is_remote: self.store.is_some(),
            ..Reader::default()
        }))
    }

    fn describe_attributes(&self) -> Vec<AttributeDescription> {
        Vec::new()
    }

    fn describe_chunk(&self, _chunk: &[u64], _options: &ReadOptions) -> Result<ChunkDescription> {
        not_impl_err!("computed chunks are not stored")
    }

    fn describe(&self) -> Result<TableDescription> {
        not_impl_err!("computed arrays are not stored")
    }
}

#[derive(Debug, Default)]
struct Reader {
    attributes: usize,
    is_remote: bool,
    cells: Vec<u8>,
    counts: ReadCounts,
}

impl WindowReader for Reader {
    fn open(&mut self, window: &Window, fetched: Option<FetchedBlock>) -> Result<()> {
        assert_eq!(fetched.is_some(), self.is_remote);
        let cells = indices(window)
            .into_iter()
            .map(|indices| cell(&indices) as u8);
        self.cells = cells.collect();
        self.counts.chunks += 1;
        Ok(())
    }

    fn advance(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn cells(&mut self, _attribute: usize, range: Range<u64>) -> Result<&[u8]> {
        Ok(&self.cells[range.start as usize..range.end as usize])
    }

    fn read(&mut self, runs: &[Range<u64>]) -> Result<Vec<ArrayRef>> {
        let cells = runs.iter().cloned().flatten();
        let cells = cells.map(|cell| self.cells[cell as usize] as i8);
        let cells: ArrayRef = Arc::new(Int8Array::from_iter_values(cells));
        Ok(vec![cells; self.attributes])
    }

    fn counts(&self) -> ReadCounts {
        self.counts
    }
}

fn stepped(name: &str, data_type: DataType, start: i128, step: i128, length: u64) -> Axis {
    Axis::stepped(
        name,
        Steps::try_new(data_type, start, step, length).unwrap(),
    )
}

async fn plan(ctx: &SessionContext, sql: &str) -> String {
    let plan = ctx.sql(sql).await.unwrap().create_physical_plan().await;
    displayable(plan.unwrap().as_ref())
        .indent(false)
        .to_string()
}

fn axes() -> Vec<Axis> {
    let seconds = DataType::Timestamp(TimeUnit::Second, None);
    vec![
        stepped("t", seconds, 1_704_067_200, -3600, 13),
        stepped("y", DataType::Int8, -5, 3, 9),
        stepped("d", DataType::Date32, 19_723, 1, 6),
    ]
}

/// Registers the cells of an array as rows in memory.
fn register_rows(ctx: &SessionContext, name: &str, axes: &[Axis]) {
    let window = Window::new(axes.iter().map(|axis| 0..axis.length()).collect());
    let cells = indices(&window);
    let mut columns = Vec::new();
    for (number, axis) in axes.iter().enumerate() {
        let along = cells.iter().map(|indices| indices[number]);
        let column = axis.coordinates().unwrap().at(along).unwrap();
        columns.push((axis.name(), column, false));
    }
    let values = cells.iter().map(|indices| cell(indices));
    let values: ArrayRef = Arc::new(Int8Array::from_iter_values(values));
    columns.push(("value", values, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    ctx.register_table(name, Arc::new(table)).unwrap();
}

#[tokio::test]
async fn queries_answer_as_over_rows() {
    for phase in [[0, 0, 0], [1, 2, 3], [3, 2, 4]] {
        let ctx = session();
        Computed::new(axes(), &[4, 3, 5], &phase).register(&ctx, "a");
        register_rows(&ctx, "m", &axes());
        for query in [
            "SELECT * FROM {t} ORDER BY t, y, d",
            "SELECT * FROM {t} WHERE t > '2023-12-31T20:00:00' AND y IN (-5, 4, 5) ORDER BY t, y, d",
            "SELECT * FROM {t} WHERE t BETWEEN '2023-12-31T14:30:00' AND '2023-12-31T18:00:00' AND d = '2024-01-03' ORDER BY t, y",
            "SELECT * FROM {t} WHERE d <> DATE '2024-01-02' AND y % 2 = 0 AND value > 100 ORDER BY t, y, d",
            "SELECT count(*), min(t), max(t), min(y), max(d), count(DISTINCT t), sum(y) FROM {t} WHERE y < 10",
            "SELECT t, sum(value), min(value), max(value), count(value) FROM {t} GROUP BY t ORDER BY t",
            "SELECT y, sum(value), min(value), max(value), avg(value) FROM {t} WHERE value <> -3 GROUP BY y ORDER BY y",
            "SELECT d, t, max(value) FROM {t} WHERE y >= 4 GROUP BY d, t ORDER BY d, t",
            "SELECT count(*), sum(value) FROM {t} WHERE value BETWEEN -20 AND 30 AND NOT value = 7",
            "SELECT stddev(value) > 1, median(value) FROM {t} WHERE t < '2023-12-31T20:00:00'",
            "SELECT t, y, d, value FROM {t} ORDER BY value DESC, t, y, d LIMIT 5",
        ] {
            let sql = |table| query.replace("{t}", table);
            let expected = rows(&ctx, &sql("m")).await;
            assert_eq!(rows(&ctx, &sql("a")).await, expected, "{query} {phase:?}");
        }
    }
}

#[tokio::test]
async fn chunks_that_start_before_the_array_are_pruned() {
    let ctx = session();
    // Along `y`, the chunks hold the indices 0..1, 1..4, 4..7 and 7..9.
    Computed::new(axes(), &[4, 3, 5], &[1, 2, 3]).register(&ctx, "a");
    for (predicate, chunks) in [
        ("y = -5", 8),
        ("y = -2", 8),
        ("y BETWEEN -5 AND -2", 16),
        ("y > 15", 8),
        ("t = '2024-01-01' AND y = 4 AND d = '2024-01-02'", 1),
        ("t > '2023-12-31T22:00:00' AND d >= '2024-01-03'", 4),
        ("t > '2023-12-31T20:00:00' AND d >= '2024-01-03'", 8),
    ] {
        let text = plan(&ctx, &format!("SELECT * FROM a WHERE {predicate}")).await;
        let expected = format!("chunks={chunks} of 32,");
        assert!(text.contains(&expected), "{predicate}: {expected} {text}");
    }
}

#[tokio::test]
async fn a_trillion_steps() {
    let ctx = session();
    let length = 1_000_000_000_000;
    let milliseconds = DataType::Timestamp(TimeUnit::Millisecond, None);
    let axes = vec![
        stepped("t", milliseconds, 1_000_000_000_000, -20, length),
        stepped("k", DataType::UInt16, 65_535, -1, 3),
    ];
    Computed::new(axes, &[1000, 2], &[999, 1]).register(&ctx, "a");
    let sql = "SELECT t, k, value FROM a WHERE t > '2001-09-09T01:46:39.950' AND k < 65535";
    let expected = [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)].map(|(t, k)| {
        let millisecond = 1000 - 20 * t;
        let time = match millisecond {
            1000 => "2001-09-09T01:46:40".to_string(),
            _ => format!("2001-09-09T01:46:39.{millisecond}"),
        };
        format!("{time} {} {}", 65_535 - k, cell(&[t, k]))
    });
    assert_eq!(
        rows(&ctx, &format!("{sql} ORDER BY t DESC, k DESC")).await,
        expected
    );
    // The first chunk along `t` has one index, and the first along `k` as well.
    let text = plan(&ctx, sql).await;
    assert!(
        text.contains("slice=[t: 3 of 1000000000000, k: 2 of 3]"),
        "{text}"
    );
    assert!(text.contains("chunks=2 of 2000000002,"), "{text}");
    let counted = "SELECT count(*), max(t), min(k) FROM a WHERE t <> '2001-09-09T01:46:40'";
    assert_eq!(
        rows(&ctx, counted).await,
        ["2999999999997 2001-09-09T01:46:39.980 65533"]
    );
}

#[tokio::test]
async fn aggregates_fetch_chunks_ahead() {
    let clock = Arc::new(Clock::default());
    let config = SessionConfig::new().with_target_partitions(1);
    let ctx = enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new());
    let axis = || stepped("i", DataType::Int32, 0, 1, 400);
    let mut array = Computed::new(vec![axis()], &[4], &[0]);
    array.store = Some(Arc::clone(&clock));
    array.register(&ctx, "a");
    register_rows(&ctx, "m", &[axis()]);
    for query in [
        "SELECT sum(value), count(value), min(value) FROM {t}",
        "SELECT i % 10, max(value) FROM {t} GROUP BY 1 ORDER BY 1",
        "SELECT median(value) FROM {t}",
        "SELECT * FROM {t} WHERE value > 100 ORDER BY i",
    ] {
        let sql = |table| query.replace("{t}", table);
        let expected = rows(&ctx, &sql("m")).await;
        let (time, fetched) = (clock.now(), clock.started());
        let found = clock.run(rows(&ctx, &sql("a"))).await;
        assert_eq!(found, expected, "{query}");
        assert_eq!(clock.started() - fetched, 100, "{query}");
        let time = clock.now() - time;
        assert!((130..200).contains(&time), "{query}: {time} ms");
    }
    // No chunk is needed.
    let fetched = clock.started();
    clock
        .run(rows(&ctx, "SELECT count(*), max(i) FROM a"))
        .await;
    assert_eq!(clock.started(), fetched);
}
