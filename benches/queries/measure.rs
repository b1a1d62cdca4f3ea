//! Timing.

use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::physical_plan::{collect, execute_stream_partitioned};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;

use crate::Result;
use crate::answers::Answer;
use crate::memory::{self, Peak, Sampler};

/// Times of several runs, in their order.
#[derive(Debug, Default, Clone)]
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

    /// All of several.
    pub fn all<'a>(times: impl IntoIterator<Item = &'a Self>) -> Self {
        let times = times.into_iter().flat_map(|times| times.0.iter().copied());
        Self(times.collect())
    }

    /// Adds that of one more run.
    pub fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// The median, the least and the most.
    pub fn summary(&self) -> [Duration; 3] {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        [
            sorted[sorted.len() / 2],
            sorted[0],
            sorted[sorted.len() - 1],
        ]
    }

    /// The median of what these times are to others, run by run: whatever slowed one of the two down for a while is likely
    /// to have slowed the other down, too.
    pub fn ratio(&self, others: &Self) -> f64 {
        let pairs = self.0.iter().zip(&others.0);
        let mut ratios: Vec<f64> = pairs
            .map(|(time, other)| time.as_secs_f64() / other.as_secs_f64())
            .collect();
        ratios.sort_unstable_by(f64::total_cmp);
        ratios[ratios.len() / 2]
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
    let peak = peak(&work).await?;
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

/// The memory of one run.
async fn peak<T, F>(work: impl Fn() -> F) -> Result<Option<Peak>>
where
    F: Future<Output = Result<T>>,
{
    memory::release_unused();
    let sampler = Sampler::start();
    let result = work().await?;
    let peak = sampler.and_then(Sampler::finish);
    drop(result);
    Ok(peak)
}

/// A query that was run in turn with others, and with something that is not a query.
pub struct Turns {
    pub figures: Figures,
    pub answer: Answer,
    /// Of the other thing, each time right before the query.
    pub others: Times,
}

/// Runs queries in turn, and something else ahead of each of them, so that all of them see the same ups and downs of the
/// machine.
pub async fn in_turn(
    ctx: &SessionContext,
    queries: &[String],
    runs: usize,
    other: impl Fn() -> Result<()>,
) -> Result<Vec<Turns>> {
    let mut found = Vec::with_capacity(queries.len());
    for sql in queries {
        let (batches, ..) = run(ctx, sql).await?;
        let answer = Answer::new(&batches)?;
        drop(batches);
        let figures = Figures {
            total: Times::default(),
            planning: Some(Times::default()),
            peak: peak(|| run(ctx, sql)).await?,
        };
        found.push(Turns {
            figures,
            answer,
            others: Times::default(),
        });
    }
    other()?;
    for _ in 0..runs {
        for (sql, turns) in queries.iter().zip(&mut found) {
            let start = Instant::now();
            other()?;
            turns.others.push(start.elapsed());
            let (_, planning, total) = run(ctx, sql).await?;
            turns.figures.total.push(total);
            turns
                .figures
                .planning
                .get_or_insert_default()
                .push(planning);
        }
    }
    Ok(found)
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
