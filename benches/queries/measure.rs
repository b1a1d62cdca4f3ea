//! Timing, and the table of figures.

use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::physical_plan::{collect, execute_stream_partitioned};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;

use crate::Result;
use crate::answers::Answer;
use crate::memory::{self, Peak, Sampler};

/// Times of several runs.
#[derive(Debug, Default)]
pub struct Times(Vec<Duration>);

impl Times {
    /// Runs something a number of times.
    pub fn of<T>(runs: usize, mut work: impl FnMut() -> Result<T>) -> Result<Self> {
        let mut times = Self::default();
        for _ in 0..runs {
            let start = Instant::now();
            let result = work()?;
            times.push(start.elapsed());
            drop(result);
        }
        Ok(times)
    }

    fn push(&mut self, time: Duration) {
        self.0.push(time);
        self.0.sort_unstable();
    }

    fn columns(&self) -> [String; 3] {
        [
            milliseconds(self.0[self.0.len() / 2]),
            milliseconds(self.0[0]),
            milliseconds(self.0[self.0.len() - 1]),
        ]
    }
}

/// Runs a query: once to warm up and for its answer, and then for its figures.
pub async fn query(ctx: &SessionContext, sql: &str, runs: usize) -> Result<(Figures, Answer)> {
    let (batches, ..) = run(ctx, sql).await?;
    let answer = Answer::new(&batches)?;
    drop(batches);
    Ok((figures(runs, || run(ctx, sql)).await?, answer))
}

/// Runs a query whose rows are counted and dropped, each partition on a task of its own.
pub async fn stream(ctx: &SessionContext, sql: &str, runs: usize) -> Result<(Figures, u64)> {
    let (rows, ..) = drain(ctx, sql).await?;
    Ok((figures(runs, || drain(ctx, sql)).await?, rows))
}

/// Does something once under the eyes of the memory sampler, and then for its times, with nobody watching. It tells its time
/// up to the physical plan, and in all.
async fn figures<T, F>(runs: usize, work: impl Fn() -> F) -> Result<Figures>
where
    F: Future<Output = Result<(T, Duration, Duration)>>,
{
    memory::release_unused();
    let sampler = Sampler::start();
    let result = work().await?;
    let peak = sampler.and_then(Sampler::finish);
    drop(result);
    let (mut total, mut planning) = (Times::default(), Times::default());
    for _ in 0..runs {
        let (_, planning_time, total_time) = work().await?;
        planning.push(planning_time);
        total.push(total_time);
    }
    Ok(Figures {
        total,
        planning: Some(planning),
        peak,
    })
}

async fn drain(ctx: &SessionContext, sql: &str) -> Result<(u64, Duration, Duration)> {
    let start = Instant::now();
    let plan = ctx.sql(sql).await?.create_physical_plan().await?;
    let planning = start.elapsed();
    let streams = execute_stream_partitioned(plan, ctx.task_ctx())?;
    let tasks = streams.into_iter().map(|mut stream| {
        tokio::spawn(async move {
            let mut rows = 0;
            while let Some(batch) = stream.try_next().await? {
                rows += batch.num_rows() as u64;
            }
            Ok::<_, DataFusionError>(rows)
        })
    });
    let mut rows = 0;
    for task in tasks.collect::<Vec<_>>() {
        rows += task.await??;
    }
    Ok((rows, planning, start.elapsed()))
}

/// The answer, the time up to the physical plan, and the time up to the answer.
async fn run(ctx: &SessionContext, sql: &str) -> Result<(Vec<RecordBatch>, Duration, Duration)> {
    let start = Instant::now();
    let plan = ctx.sql(sql).await?.create_physical_plan().await?;
    let planning = start.elapsed();
    let batches = collect(plan, ctx.task_ctx()).await?;
    Ok((batches, planning, start.elapsed()))
}

/// What was measured of one query on one format.
#[derive(Debug)]
pub struct Figures {
    pub total: Times,
    pub planning: Option<Times>,
    pub peak: Option<Peak>,
}

impl Figures {
    /// Of something that is not a query.
    pub fn only(total: Times) -> Self {
        Self {
            total,
            planning: None,
            peak: None,
        }
    }
}

const WIDTHS: [usize; 8] = [26, 14, 10, 10, 10, 11, 13, 11];

/// Prints the head of the table.
pub fn print_head() {
    print_line(&[
        "query",
        "data",
        "median ms",
        "min ms",
        "max ms",
        "planning ms",
        "memory + MiB",
        "peak MiB",
    ]);
    print_line(&["---", "---", "--:", "--:", "--:", "--:", "--:", "--:"]);
}

/// Prints a line of the table.
pub fn print_figures(query: &str, data: &str, figures: &Figures) {
    let [median, least, most] = figures.total.columns();
    let planning = figures.planning.as_ref();
    let planning = planning.map_or_else(String::new, |times| times.columns()[0].clone());
    let (growth, peak) = match &figures.peak {
        Some(peak) => {
            let mark = if peak.is_uncertain() { "*" } else { "" };
            (
                format!("{}{mark}", mebibytes(peak.growth())),
                mebibytes(peak.peak),
            )
        }
        None => (String::new(), String::new()),
    };
    print_line(&[
        query, data, &median, &least, &most, &planning, &growth, &peak,
    ]);
}

fn print_line(cells: &[&str; 8]) {
    let cells = cells.iter().zip(WIDTHS).enumerate();
    let cells: Vec<_> = cells
        .map(|(column, (cell, width))| match column {
            0 | 1 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        })
        .collect();
    println!("| {} |", cells.join(" | "));
}

fn milliseconds(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1e3;
    match milliseconds {
        0.0..1.0 => format!("{milliseconds:.3}"),
        1.0..100.0 => format!("{milliseconds:.2}"),
        _ => format!("{milliseconds:.0}"),
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}
