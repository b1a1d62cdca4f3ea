//! Results that become files of other formats, by way of COPY.

use crate::ending;
use crate::engine::Cancellation;
use crate::failure::Failure;
use crate::output::CopyTarget;
use crate::progress::Progress;
use crate::reading::Reading;
use crate::statement::{Error, Outcome};
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use std::path::Path;
use std::sync::Arc;
use url::Url;

/// Formats whose files appear at once under their names; the engine's own are written here and there.
const ATOMIC: [&str; 2] = ["TET", "ZARR"];

/// Writes the rows of a query to a file, which is there as a whole or as it was before.
pub async fn write(
    context: &SessionContext,
    sql: &str,
    target: &CopyTarget,
    progress: bool,
    cancellation: &Cancellation,
) -> Result<Outcome, Error> {
    target.check()?;
    let named = |text: &dyn std::fmt::Display| {
        Failure::message(format!("{}: {text}", target.path.display()))
    };
    let folder = match ATOMIC.contains(&target.stored_as) {
        true => None,
        false => {
            let folder = ending::temporary_folder_beside(&target.path);
            Some(folder.map_err(|error| named(&error))?)
        }
    };
    let written = match &folder {
        // Without an ending it would be taken for a folder.
        Some(folder) => folder.path().join("rows").with_extension(target.ending()),
        None => target.path.clone(),
    };
    let copy = format!(
        "COPY (\n{sql}\n) TO {} STORED AS {}",
        literal(&written, folder.is_some()).ok_or_else(|| named(&"no name for a file of rows"))?,
        target.stored_as
    );
    let frame = context.sql(&copy).await?;
    let plan = frame.create_physical_plan().await?;
    let mut bar = Progress::of(&plan, progress, cancellation);
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
    bar.end();
    if folder.is_some() {
        std::fs::rename(&written, &target.path).map_err(|error| named(&error))?;
    }
    target.take();
    let rows = batches.iter().map(count).sum();
    Ok(Outcome {
        rows,
        written: Some(target.path.display().to_string()),
        reading: Reading::of(plan.as_ref()),
        ..Outcome::default()
    })
}

/// The path as COPY takes it. A URL has no characters that the engine would take for a pattern.
fn literal(path: &Path, as_url: bool) -> Option<String> {
    let text = if as_url {
        let absolute = std::path::absolute(path).ok()?;
        Url::from_file_path(absolute).ok()?.to_string()
    } else {
        path.to_str()?.to_owned()
    };
    Some(format!("'{}'", text.replace('\'', "''")))
}

/// The rows that COPY says it has written.
fn count(batch: &RecordBatch) -> usize {
    let column = batch.columns().first();
    let counts = column.and_then(|column| column.as_primitive_opt::<UInt64Type>());
    counts.map_or(0, |counts| counts.values().iter().sum::<u64>() as usize)
}
