//! Runs one statement.

use crate::engine::Cancellation;
use crate::excerpt;
use crate::export;
use crate::failure::Failure;
use crate::formats;
use crate::hints::hints;
use crate::output::{self, Output, SharedOutput, Sink, Target};
use crate::progress::Progress;
use crate::reading::Reading;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{DataFrame, SessionContext};
use futures::StreamExt;
use std::sync::Arc;
use std::time::Instant;

/// What a statement gave.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Rows that were shown.
    pub rows: usize,
    /// Whether these are all.
    pub extent: Extent,
    /// It was a statement that has no rows, such as SET.
    pub is_silent: bool,
    /// It only read, so that it may run again.
    pub is_query: bool,
    /// The file that rows were written to.
    pub written: Option<String>,
    /// When the last row was there; none: at the end.
    pub finished: Option<Instant>,
    /// What its scans read.
    pub reading: Reading,
    /// What a person who wrote it may want to know.
    pub hints: Vec<String>,
}

/// How much of a result was shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Extent {
    /// All rows.
    #[default]
    Whole,
    /// The first of so many rows; none: of more, but nobody knows how many.
    Cut(Option<usize>),
}

/// How a statement is run.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// Whether a bar is shown.
    pub progress: bool,
    /// Whether files may be written.
    pub read_only: bool,
}

/// Runs a statement and writes its result.
pub async fn execute(
    context: SessionContext,
    sql: String,
    output: SharedOutput,
    manner: Manner,
    cancellation: Cancellation,
) -> Result<Outcome, Failure> {
    let result = run(&context, &sql, &output, manner, cancellation).await;
    match result {
        Err(Error::Engine(error)) => Err(excerpt::failure(&context, &sql, &error).await),
        Err(Error::Failure(failure)) => Err(failure),
        Ok(outcome) => Ok(outcome),
    }
}

/// Why a statement failed.
pub enum Error {
    /// An error of the engine, to be told with the place in the statement.
    Engine(DataFusionError),
    /// Anything else.
    Failure(Failure),
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        Self::Engine(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Engine(error) => error.into(),
            Error::Failure(failure) => failure,
        }
    }
}

async fn run(
    context: &SessionContext,
    sql: &str,
    output: &SharedOutput,
    manner: Manner,
    cancellation: Cancellation,
) -> Result<Outcome, Error> {
    let plan = tet_sql::create_logical_plan(&context.state(), sql).await?;
    if manner.read_only && writes(&plan)? {
        return Err(Failure::message("--read-only: this statement writes").into());
    }
    let is_query = is_query(&plan);
    let hints = hints(&plan);
    let frame = context.execute_logical_plan(plan).await?;
    if frame.schema().fields().is_empty() {
        frame.collect().await?;
        return Ok(Outcome {
            is_silent: true,
            ..Outcome::default()
        });
    }
    let output = output::for_result(output);
    let outcome = match output.target() {
        Target::Single(target) => {
            if !is_query {
                let path = target.path.display();
                let message = format!("{path}: only the rows of a query are written to it");
                return Err(Failure::message(message).into());
            }
            export::write(context, sql, target, manner.progress, &cancellation).await?
        }
        _ => show(context, frame, is_query, &output, manner, cancellation).await?,
    };
    Ok(Outcome {
        is_query,
        hints,
        ..outcome
    })
}

/// Whether a plan only reads, so that its end may be left undone.
fn is_query(plan: &LogicalPlan) -> bool {
    !matches!(
        plan,
        LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::DescribeTable(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::Statement(_)
    )
}

async fn show(
    context: &SessionContext,
    frame: DataFrame,
    is_query: bool,
    output: &Output,
    manner: Manner,
    cancellation: Cancellation,
) -> Result<Outcome, Error> {
    let limit = output.row_limit();
    let (plan, total) = match limit.filter(|_| is_query) {
        None => (frame.create_physical_plan().await?, None),
        Some(limit) => {
            let total = known_rows(frame.clone().create_physical_plan().await?.as_ref());
            // One row more than shown tells whether there are more, and the plan need not make any others.
            let frame = frame.limit(0, Some(limit.saturating_add(1)))?;
            (frame.create_physical_plan().await?, total)
        }
    };
    let mut outcome = Outcome::default();
    let mut progress = Progress::of(&plan, manner.progress, &cancellation);
    let stream = execute_stream(Arc::clone(&plan), context.task_ctx())?;
    let mut sink = output.sink(cancellation);
    let printed = print(
        stream,
        output,
        limit,
        &mut sink,
        &mut progress,
        &mut outcome,
    )
    .await;
    // A reader may take any time.
    outcome.finished = Some(Instant::now());
    match settle(printed, &mut sink) {
        Ok(false) => {}
        Ok(true) => outcome.extent = Extent::Cut(total),
        // Nobody knows how much of it was looked at.
        Err(Error::Failure(Failure::Enough)) => outcome.is_silent = true,
        Err(error) => return Err(error),
    }
    outcome.reading = Reading::of(plan.as_ref());
    Ok(outcome)
}

/// The rows of a plan, if they are known without running it.
fn known_rows(plan: &dyn ExecutionPlan) -> Option<usize> {
    let statistics = StatisticsContext::new();
    let found = statistics.compute(plan, &StatisticsArgs::new()).ok()?;
    match found.num_rows {
        Precision::Exact(rows) => Some(rows),
        _ => None,
    }
}

/// Writes the rows of a stream, as many as are shown, and tells whether some were left out.
async fn print(
    mut stream: SendableRecordBatchStream,
    output: &Output,
    limit: Option<usize>,
    sink: &mut Sink<'_>,
    progress: &mut Progress,
    outcome: &mut Outcome,
) -> Result<bool, Error> {
    let style = output.style();
    // A bar would be in the way of rows that come one after another.
    let takes_turns = output.is_terminal() && !style.is_collected();
    let mut writer = formats::writer(&style, &stream.schema(), sink);
    let mut is_cut = false;
    while let Some(batch) = stream.next().await {
        let mut batch = batch?;
        if let Some(limit) = limit
            && batch.num_rows() > limit - outcome.rows
        {
            batch = batch.slice(0, limit - outcome.rows);
            is_cut = true;
        }
        outcome.rows += batch.num_rows();
        if takes_turns {
            progress.end();
        }
        writer.write(&batch).map_err(Failure::from)?;
        if is_cut {
            break;
        }
    }
    drop(stream);
    progress.end();
    writer.finish().map_err(Failure::from)?;
    Ok(is_cut)
}

/// Writes what is buffered, and prefers the reason that writing failed for to what a format made of it.
pub fn settle<T, E: From<Failure>>(result: Result<T, E>, sink: &mut Sink<'_>) -> Result<T, E> {
    if let Some(failure) = sink.failure() {
        return Err(failure.into());
    }
    let finished = sink.finish();
    let value = result?;
    finished?;
    sink.end()?;
    Ok(value)
}

/// Whether a plan writes files, which EXPLAIN ANALYZE does, too.
fn writes(plan: &LogicalPlan) -> Result<bool, DataFusionError> {
    plan.exists(|plan| Ok(matches!(plan, LogicalPlan::Copy(_) | LogicalPlan::Dml(_))))
}
