//! Draws the result of a query as a chart.

use crate::failure::Failure;
use crate::statement::headers;
use crate::statement::outcome::Error;
use crate::statement::reading::grouped;
use crate::statement::rewrite::rewritten;
use crate::terminal;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use std::path::Path;
use tet_sql::FormatRegistry;
use tet_sql_plot::{Characters, Chart, ChartKind, Colours};

/// The maximum number of rows that a chart is drawn from.
const MAX_ROWS: usize = 4 << 20;
/// The size of a chart, in columns and lines, if standard output is not a terminal.
const USUAL_SIZE: (usize, usize) = (80, 24);
/// The lines of a terminal that stay free for the prompt and the text below it.
const FREE_LINES: usize = 3;

/// Returns a chart of a query's result and the number of rows of the result.
pub async fn chart(
    context: &SessionContext,
    query: &str,
    kind: Option<ChartKind>,
) -> Result<(Chart, usize), Error> {
    let query = rewritten(context, query).await?;
    let state = context.state();
    let plan = tet_sql::create_logical_plan(&state, &query).await?;
    let frame = context.execute_logical_plan(plan).await?;
    let mut stream = frame.execute_stream().await?;
    // Label the axes with the column headers that the statement uses.
    let fields = stream.schema();
    let schema = headers::as_written(&state, &query, &fields);
    let mut batches = Vec::new();
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        rows += batch.num_rows();
        if rows > MAX_ROWS {
            return Err(Failure::message(format!(
                "the result has more than {} rows, too many to draw: reduce it with GROUP BY or LIMIT",
                grouped(MAX_ROWS)
            ))
            .into());
        }
        batches.push(batch);
    }
    let chart = Chart::of(kind, &schema, &batches).map_err(Failure::message)?;
    Ok((chart, rows))
}

/// Writes a chart to a file. An array file is not overwritten.
pub fn write(chart: &Chart, path: &Path) -> Result<(), Failure> {
    if FormatRegistry::default().recognise(path).is_some() {
        return Err(Failure::message(format!(
            "{}: is an array file; array files are never overwritten",
            path.display()
        )));
    }
    chart.write(path).map_err(Failure::message)
}

/// Returns a chart as text, sized for standard output.
pub fn draw(chart: &Chart) -> String {
    let variable = |name: &str| std::env::var(name).ok();
    let size = match terminal::is_output() {
        true => (
            terminal::columns(),
            terminal::lines().saturating_sub(FREE_LINES),
        ),
        false => USUAL_SIZE,
    };
    let colours = match terminal::colours_output() {
        true => Colours::of(variable),
        false => Colours::None,
    };
    chart.draw(size, colours, Characters::of(variable))
}

#[cfg(test)]
mod tests;
