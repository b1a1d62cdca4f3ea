//! Writes results to files that hold a single result: rows by means of COPY, and pictures.

use crate::failure::Failure;
use crate::output::picture;
use crate::output::progress::Progress;
use crate::output::{Content, SingleTarget};
use crate::session::worker_threads::Cancellation;
use crate::statement::outcome::{Error, Outcome};
use crate::statement::reading::Reading;
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use std::sync::Arc;
use url::Url;

/// Writes the rows of a query, or a picture of them, to a file. An existing file is replaced only
/// by a complete new one.
pub async fn write(
    context: &SessionContext,
    sql: &str,
    target: &SingleTarget,
    progress: bool,
    cancellation: &Cancellation,
) -> Result<Outcome, Error> {
    target.check()?;
    let outcome = match target.content {
        Content::Rows(stored_as) => {
            copy(context, sql, target, stored_as, progress, cancellation).await?
        }
        Content::Picture => draw(context, sql, target).await?,
    };
    target.take();
    Ok(Outcome {
        written: Some(target.path.display().to_string()),
        ..outcome
    })
}

async fn copy(
    context: &SessionContext,
    sql: &str,
    target: &SingleTarget,
    stored_as: &str,
    progress: bool,
    cancellation: &Cancellation,
) -> Result<Outcome, Error> {
    // DataFusion expands patterns such as `*` in paths, but not in URLs.
    let path = std::path::absolute(&target.path).map_err(Failure::from)?;
    let Ok(url) = Url::from_file_path(path) else {
        let message = format!("{}: not a valid file path", target.path.display());
        return Err(Failure::message(message).into());
    };
    let url = url.as_str().replace('\'', "%27");
    let copy = format!("COPY (\n{sql}\n) TO '{url}' STORED AS {stored_as}");
    let plan = tet_sql::create_logical_plan(&context.state(), &copy).await?;
    let frame = context.execute_logical_plan(plan).await?;
    let plan = frame.create_physical_plan().await?;
    let mut bar = Progress::of(&plan, progress, cancellation);
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
    bar.end();
    Ok(Outcome {
        rows: batches.iter().map(count).sum(),
        reading: Reading::of(plan.as_ref()),
        ..Outcome::default()
    })
}

async fn draw(
    context: &SessionContext,
    sql: &str,
    target: &SingleTarget,
) -> Result<Outcome, Error> {
    let (chart, rows) = picture::chart(context, sql, None).await?;
    picture::write(&chart, &target.path)?;
    Ok(Outcome {
        rows,
        ..Outcome::default()
    })
}

/// Returns the number of rows that COPY reports to have written.
fn count(batch: &RecordBatch) -> usize {
    let column = batch.columns().first();
    let counts = column.and_then(|column| column.as_primitive_opt::<UInt64Type>());
    counts.map_or(0, |counts| counts.values().iter().sum::<u64>() as usize)
}
