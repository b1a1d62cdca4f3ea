//! Measures the time and memory of queries.

use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::physical_plan::{collect, execute_stream_partitioned};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;

use crate::Result;
use crate::answers::Answer;
use crate::memory::{self, Peak, Sampler};

/// The times of several runs, in order.
#[derive(Debug, Default, Clone)]
pub struct Times(Vec<Duration>);

impl Times {
    /// Runs a closure a number of times.
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

    /// Concatenates several sets of times.
    pub fn all<'a>(times: impl IntoIterator<Item = &'a Self>) -> Self {
        let times = times.into_iter().flat_map(|times| times.0.iter().copied());
        Self(times.collect())
    }

    /// Adds the time of one more run.
    pub fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// Returns the median, the min and the max.
    pub fn summary(&self) -> [Duration; 3] {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        [
            sorted[sorted.len() / 2],
            sorted[0],
            sorted[sorted.len() - 1],
        ]
    }

    /// Returns the median of the ratios to other times, run by run: a temporary slowdown of the
    /// machine is likely to affect both times of a pair.
    pub fn ratio(&self, others: &Self) -> f64 {
        let pairs = self.0.iter().zip(&others.0);
        let mut ratios: Vec<f64> = pairs
            .map(|(time, other)| time.as_secs_f64() / other.as_secs_f64())
            .collect();
        ratios.sort_unstable_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    }
}

/// Runs a query once to warm up and for its answer, then for its figures.
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

/// Runs `work` once with the memory sampler and then, for its times, without. `work` returns the
/// time up to the physical plan and the total time.
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

/// Measures the peak memory of one run.
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

/// The figures of a query that alternated with another measurement.
pub struct AlternatingFigures {
    pub figures: Figures,
    pub answer: Answer,
    /// The times of the other measurement, each taken right before the query.
    pub others: Times,
}

/// Runs the queries in turn, with `other` before each of them, so that varying load on the machine
/// affects all of them alike.
pub async fn in_turn(
    ctx: &SessionContext,
    queries: &[String],
    runs: usize,
    other: impl Fn() -> Result<()>,
) -> Result<Vec<AlternatingFigures>> {
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
        found.push(AlternatingFigures {
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

/// Returns the answer, the time up to the physical plan, and the time up to the answer.
async fn run(ctx: &SessionContext, sql: &str) -> Result<(Vec<RecordBatch>, Duration, Duration)> {
    let start = Instant::now();
    let plan = ctx.sql(sql).await?.create_physical_plan().await?;
    let planning = start.elapsed();
    let batches = collect(plan, ctx.task_ctx()).await?;
    Ok((batches, planning, start.elapsed()))
}

/// The figures of one query on one format.
#[derive(Debug)]
pub struct Figures {
    pub total: Times,
    pub planning: Option<Times>,
    pub peak: Option<Peak>,
}

impl Figures {
    /// The figures of a measurement that is not a query.
    pub fn only(total: Times) -> Self {
        Self {
            total,
            planning: None,
            peak: None,
        }
    }
}
