//! Runs one statement.

pub mod dialect;
pub mod explain;
pub mod headers;
pub mod outcome;
pub mod plan_summary;
pub mod reading;
pub mod rewrite;
pub mod splitter;
pub mod summarize;
pub mod tokens;

use crate::diagnostics::excerpt;
use crate::diagnostics::hints::hints;
use crate::failure::Failure;
use crate::output::export;
use crate::output::formats::{self, MEASURED_ROWS};
use crate::output::head_and_tail::{HeadAndTail, Reader, rows_of};
use crate::output::progress::Progress;
use crate::output::sink::Sink;
use crate::output::{self, Output, SharedOutput, Target};
use crate::session::worker_threads::Cancellation;
use crate::session::write_opening_warnings;
use crate::statement::outcome::{Error, Outcome};
use crate::statement::reading::Reading;
use crate::statement::rewrite::rewritten;
use crate::terminal;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::logical_expr::{LogicalPlan, Statement};
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{DataFrame, SessionContext};
use futures::StreamExt;
use std::sync::Arc;
use std::time::Instant;

/// Options for running a statement.
#[derive(Debug, Clone, Copy)]
pub struct StatementOptions {
    /// `true` to show a progress bar.
    pub progress: bool,
    /// `true` to refuse statements that write.
    pub read_only: bool,
}

/// Runs a statement and writes its result.
pub async fn execute(
    context: SessionContext,
    sql: String,
    output: SharedOutput,
    manner: StatementOptions,
    cancellation: Cancellation,
) -> Result<Outcome, Failure> {
    let result = run(&context, &sql, &output, manner, cancellation).await;
    match result {
        Err(Error::DataFusion(error)) => {
            let width = terminal::columns();
            Err(excerpt::failure(&context, &sql, &error, width).await)
        }
        Err(Error::Failure(failure)) => Err(failure),
        Ok(outcome) => Ok(outcome),
    }
}

async fn run(
    context: &SessionContext,
    sql: &str,
    output: &SharedOutput,
    manner: StatementOptions,
    cancellation: Cancellation,
) -> Result<Outcome, Error> {
    let sql = rewritten(context, sql).await?;
    let sql = sql.as_ref();
    // One copy for the whole statement: copying a session copies the names of all functions.
    let state = context.state();
    let plan = tet_sql::create_logical_plan(&state, sql).await;
    write_opening_warnings(context);
    let plan = plan?;
    if manner.read_only && writes(&plan)? {
        return Err(Failure::message("--read-only: statements that write are refused").into());
    }
    let is_query = is_query(&plan);
    let hints = hints(&plan);
    let explained = match &plan {
        LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => Some(plan.clone()),
        _ => None,
    };
    let frame = match &plan {
        LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => {
            let frame = tet_sql::execute_logical_plan(context, plan).await;
            write_opening_warnings(context);
            frame?
        }
        _ => DataFrame::new(state, plan),
    };
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
                let message =
                    format!("{path}: takes the rows of a query, but this statement is not a query");
                return Err(Failure::message(message).into());
            }
            export::write(context, sql, target, manner.progress, &cancellation).await?
        }
        _ => match explained.filter(|_| output.format().is_for_reading()) {
            Some(plan) => explain::show(context, plan, &output, manner, cancellation).await?,
            None => {
                let result = QueryResult {
                    context,
                    sql,
                    output: &output,
                    manner,
                    cancellation,
                };
                result.show(frame, is_query).await?
            }
        },
    };
    let file = match output.target() {
        Target::Text(file) => Some(file.name()),
        _ => None,
    };
    Ok(Outcome {
        is_query,
        hints,
        written: outcome.written.or(file),
        ..outcome
    })
}

/// Returns `true` if a plan only reads, so that its execution may stop early.
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

/// A result that is about to be written.
struct QueryResult<'a> {
    context: &'a SessionContext,
    sql: &'a str,
    output: &'a Output,
    manner: StatementOptions,
    cancellation: Cancellation,
}

impl QueryResult<'_> {
    async fn show(&self, frame: DataFrame, is_query: bool) -> Result<Outcome, Error> {
        let (state, logical) = frame.into_parts();
        let plan = state.create_physical_plan(&logical).await?;
        let headers = self.headers(&state, plan.schema());
        let limit = self.output.row_limit().filter(|_| is_query);
        let is_longer = |limit: &usize| match rows_of(plan.as_ref()) {
            Precision::Exact(rows) => rows > *limit,
            _ => true,
        };
        if let Some(limit) = limit.filter(is_longer) {
            let reader = Reader {
                context: self.context,
                progress: self.manner.progress,
                cancellation: &self.cancellation,
            };
            let frame = DataFrame::new(state, logical);
            let ends = reader.read(frame, plan, limit).await?;
            return self.write_ends(&ends, &headers);
        }
        let mut outcome = Outcome::default();
        let progress = Progress::of(&plan, self.manner.progress, &self.cancellation);
        let stream = execute_stream(Arc::clone(&plan), self.context.task_ctx())?;
        let mut sink = self.output.sink(self.cancellation.clone());
        let printed = self
            .print(stream, &headers, &mut sink, progress, &mut outcome)
            .await;
        // Taken here because `settle` waits until the user quits the pager.
        outcome.finished = Some(Instant::now());
        outcome.is_silent = has_left(settle(printed, &mut sink))?;
        outcome.reading = Reading::of(plan.as_ref());
        Ok(outcome)
    }

    /// Returns the column headers: as written in the statement if people read the format,
    /// DataFusion's names otherwise.
    fn headers(&self, state: &SessionState, schema: SchemaRef) -> SchemaRef {
        match self.output.format().is_for_reading() {
            true => headers::as_written(state, self.sql, &schema),
            false => schema,
        }
    }

    /// Writes the rows of a stream as they arrive, below these headers.
    async fn print(
        &self,
        mut stream: SendableRecordBatchStream,
        headers: &SchemaRef,
        sink: &mut Sink<'_>,
        mut progress: Progress,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        let style = self.output.style();
        // The progress bar would collide with rows on the terminal, so it ends when the first rows
        // are written.
        let measured = match style.is_measured() {
            true => MEASURED_ROWS,
            false => 0,
        };
        let mut writer = formats::writer(&style, headers, sink);
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            outcome.rows += batch.num_rows();
            if self.output.is_terminal() && outcome.rows >= measured {
                progress.end();
            }
            writer.write(&batch).map_err(Failure::from)?;
        }
        drop(stream);
        progress.end();
        writer.finish().map_err(Failure::from)?;
        Ok(())
    }

    /// Writes rows that have already been read.
    fn write_ends(&self, ends: &HeadAndTail, headers: &SchemaRef) -> Result<Outcome, Error> {
        let finished = Some(Instant::now());
        let mut sink = self.output.sink(self.cancellation.clone());
        let mut writer = formats::writer(&self.output.style(), headers, &mut sink);
        let mut write = || {
            for batch in &ends.first {
                writer.write(batch)?;
            }
            if !ends.last.is_empty() {
                writer.skip()?;
            }
            for batch in &ends.last {
                writer.write(batch)?;
            }
            writer.finish()
        };
        let written = write().map_err(Failure::from);
        drop(writer);
        let is_silent = has_left(settle(written.map_err(Error::from), &mut sink))?;
        let batches = ends.first.iter().chain(&ends.last);
        Ok(Outcome {
            rows: batches.map(RecordBatch::num_rows).sum(),
            extent: ends.extent,
            is_silent,
            finished,
            reading: ends.reading,
            ..Outcome::default()
        })
    }
}

/// Returns `true` if the reader quit the pager before the end of the result.
fn has_left(result: Result<(), Error>) -> Result<bool, Error> {
    match result {
        Ok(()) => Ok(false),
        Err(Error::Failure(Failure::Enough)) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Completes a result. If writing failed, returns the reason rather than the error that a format
/// writer made of it.
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

/// Returns `true` if a plan writes. EXPLAIN without ANALYZE runs nothing.
fn writes(plan: &LogicalPlan) -> Result<bool, DataFusionError> {
    if matches!(plan, LogicalPlan::Explain(_)) {
        return Ok(false);
    }
    // Files that are opened later write to the cache directory.
    if let LogicalPlan::Statement(Statement::SetVariable(set)) = plan {
        return Ok(set.variable.eq_ignore_ascii_case("tet.cache_dir"));
    }
    plan.exists(|plan| Ok(matches!(plan, LogicalPlan::Copy(_) | LogicalPlan::Dml(_))))
}
