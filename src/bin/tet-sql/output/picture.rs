//! Draws the last result.

use crate::failure::Failure;
use crate::plot::{Characters, Chart, ChartKind, Colours};
use crate::run::Shell;
use crate::statement::Error;
use crate::statement::headers;
use crate::statement::reading::grouped;
use crate::statement::rewrite::rewritten;
use crate::terminal;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use std::path::PathBuf;

/// Rows that are kept to be drawn.
const MOST_ROWS: usize = 4 << 20;
/// Of what is no terminal.
const USUAL_SIZE: (usize, usize) = (80, 24);
/// Lines of a terminal that stay free for the prompt, and what follows it.
const FREE_LINES: usize = 3;

impl Shell {
    /// Runs the last query again and draws its result, on the terminal or to a file.
    pub(crate) fn plot(
        &self,
        kind: Option<ChartKind>,
        path: Option<PathBuf>,
    ) -> Result<(), Failure> {
        if self.manner.read_only && path.is_some() {
            return Err(Failure::message("--read-only: no files are written"));
        }
        let query = self.last_query()?;
        let context = self.context.clone();
        let chart = self.engine.run(move |_| async move {
            let chart = chart(&context, &query, kind).await;
            Ok(chart?.0)
        })?;
        match path {
            Some(path) => chart.write(&path).map_err(Failure::message),
            None => self.write_text(draw(&chart)),
        }
    }
}

/// The chart of a query's result, and the rows that it has.
pub async fn chart(
    context: &SessionContext,
    query: &str,
    kind: Option<ChartKind>,
) -> Result<(Chart, usize), Error> {
    let query = rewritten(context, query).await?;
    let plan = tet_sql::create_logical_plan(&context.state(), &query).await?;
    let frame = context.execute_logical_plan(plan).await?;
    let mut stream = frame.execute_stream().await?;
    // Axes are called as the statement writes them.
    let fields = stream.schema();
    let schema = headers::as_written(context, &query, &fields);
    let mut batches = Vec::new();
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        rows += batch.num_rows();
        if rows > MOST_ROWS {
            return Err(Failure::message(format!(
                "the result has more than {} rows: GROUP BY or LIMIT leave what can be drawn",
                grouped(MOST_ROWS)
            ))
            .into());
        }
        batches.push(batch);
    }
    let chart = Chart::of(kind, &schema, &batches).map_err(Failure::message)?;
    Ok((chart, rows))
}

fn draw(chart: &Chart) -> String {
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
