//! Runs statements and meta-commands.

use crate::describe;
use crate::engine::{Cancellation, Engine};
use crate::failure::Failure;
use crate::formats;
use crate::messages;
use crate::meta::{self, Meta};
use crate::output::{self, Format, Output, SharedOutput, Sink};
use crate::script::Script;
use crate::session::Session;
use crate::statements::{self, Kind};
use crate::tables;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, dialect_from_str};
use futures::StreamExt;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Everything a statement needs.
pub struct Shell {
    engine: Engine,
    context: SessionContext,
    output: SharedOutput,
    timings: bool,
}

/// What to do after a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Go on.
    Continue,
    /// Leave the command.
    Quit,
}

/// What a statement gave.
struct Summary {
    rows: usize,
    /// Rows were left out.
    cut: bool,
    /// It was a statement that has no rows, such as SET.
    silent: bool,
}

impl Shell {
    /// A shell over a session.
    pub fn new(engine: Engine, session: Session, output: Output) -> Self {
        Self {
            engine,
            context: session.context,
            output: Arc::new(Mutex::new(output)),
            timings: false,
        }
    }

    /// Tells the rows and seconds of each statement from now on.
    pub fn show_timings(&mut self) {
        self.timings = true;
    }

    /// Forgets a Ctrl-C that came while no statement ran.
    pub fn forget_interrupts(&self) {
        self.engine.forget_interrupts();
    }

    /// The session.
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// Runs scripts one after another, up to the first failure.
    pub fn run_scripts(&self, scripts: Vec<Script>) -> Result<(), Failure> {
        for script in scripts {
            // Reading may wait for somebody to write.
            let text = self.engine.run(|_| async { script.read() })?;
            if self.run_text(&text)? == Control::Quit {
                break;
            }
        }
        Ok(())
    }

    /// Runs the statements of a text one after another, up to the first failure.
    pub fn run_text(&self, text: &str) -> Result<Control, Failure> {
        let mut rest = text;
        loop {
            let (name, dialect) = dialect(&self.context);
            // Where to split anew, after a statement that changed how the following ones are to be read.
            let mut changed = None;
            for piece in statements::split(rest, dialect.as_ref()) {
                let control = match piece.kind {
                    Kind::Statement { .. } => self.run_statement(piece.text)?,
                    Kind::Meta => self.run_meta(piece.text)?,
                };
                if control == Control::Quit {
                    return Ok(Control::Quit);
                }
                if dialect_name(&self.context) != name {
                    changed = Some(piece.end);
                    break;
                }
            }
            match changed {
                Some(end) => rest = &rest[end..],
                None => return Ok(Control::Continue),
            }
        }
    }

    fn run_statement(&self, sql: &str) -> Result<Control, Failure> {
        let started = Instant::now();
        let context = self.context.clone();
        let output = Arc::clone(&self.output);
        let sql = sql.to_owned();
        let summary = self
            .engine
            .run(|cancellation| execute(context, sql, output, cancellation))?;
        if summary.cut {
            messages::note(&format!(
                "{} shown; more follow (.maxrows 0 shows all)",
                counted(summary.rows)
            ));
        }
        if self.timings {
            let what = if summary.silent {
                "done".to_owned()
            } else {
                counted(summary.rows)
            };
            let seconds = started.elapsed().as_secs_f64();
            messages::note(&format!("{what} in {seconds:.3} s"));
        }
        Ok(Control::Continue)
    }

    fn run_meta(&self, line: &str) -> Result<Control, Failure> {
        let meta = meta::parse(line).map_err(Failure::Message)?;
        if meta == Meta::Quit {
            return Ok(Control::Quit);
        }
        let context = self.context.clone();
        let output = Arc::clone(&self.output);
        self.engine
            .run(|cancellation| execute_meta(context, meta, output, cancellation))?;
        Ok(Control::Continue)
    }
}

fn counted(rows: usize) -> String {
    match rows {
        1 => "1 row".to_owned(),
        _ => format!("{rows} rows"),
    }
}

/// The name of the session's dialect, which `SET` may change.
fn dialect_name(context: &SessionContext) -> String {
    let state = context.state_ref();
    let state = state.read();
    state.config_options().sql_parser.dialect.to_string()
}

/// The session's dialect and its name.
pub fn dialect(context: &SessionContext) -> (String, Box<dyn Dialect>) {
    let name = dialect_name(context);
    let dialect = dialect_from_str(&name).unwrap_or_else(|| Box::new(GenericDialect {}));
    (name, dialect)
}

async fn execute(
    context: SessionContext,
    sql: String,
    output: SharedOutput,
    cancellation: Cancellation,
) -> Result<Summary, Failure> {
    let plan = context.state().create_logical_plan(&sql).await?;
    SQLOptions::new().verify_plan(&plan)?;
    let mut frame = context.execute_logical_plan(plan).await?;
    if frame.schema().fields().is_empty() {
        frame.collect().await?;
        return Ok(Summary {
            rows: 0,
            cut: false,
            silent: true,
        });
    }
    let output = output::current(&output);
    let limit = output.row_limit();
    // One row more than shown tells whether there are more, and the plan need not make any others.
    if let Some(limit) = limit
        && is_query(frame.logical_plan())
    {
        frame = frame.limit(0, Some(limit.saturating_add(1)))?;
    }
    let stream = frame.execute_stream().await?;
    let mut sink = output.sink(cancellation);
    let result = print(stream, output.format, limit, &mut sink).await;
    settle(result, &mut sink)
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

async fn print(
    mut stream: SendableRecordBatchStream,
    format: Format,
    limit: Option<usize>,
    sink: &mut Sink<'_>,
) -> Result<Summary, Failure> {
    let mut writer = formats::writer(format, &stream.schema(), sink);
    let mut rows = 0;
    let mut cut = false;
    while let Some(batch) = stream.next().await {
        let mut batch = batch?;
        if let Some(limit) = limit
            && batch.num_rows() > limit - rows
        {
            batch = batch.slice(0, limit - rows);
            cut = true;
        }
        rows += batch.num_rows();
        writer.write(&batch)?;
        if cut {
            break;
        }
    }
    drop(stream);
    writer.finish()?;
    Ok(Summary {
        rows,
        cut,
        silent: false,
    })
}

/// Writes what is buffered, and prefers the reason that writing failed for to what a format made of it.
fn settle<T>(result: Result<T, Failure>, sink: &mut Sink<'_>) -> Result<T, Failure> {
    if let Some(failure) = sink.failure() {
        return Err(failure);
    }
    let finished = sink.finish();
    let value = result?;
    finished?;
    sink.start()?;
    Ok(value)
}

async fn execute_meta(
    context: SessionContext,
    meta: Meta,
    output: SharedOutput,
    cancellation: Cancellation,
) -> Result<(), Failure> {
    let current = output::current(&output);
    let mut changed = current.clone();
    let is_cancelled = cancellation.clone();
    match meta {
        // Handled by the shell.
        Meta::Quit => {}
        Meta::Help => write_text(&current, cancellation, &meta::help())?,
        Meta::Tables => {
            let batch = tables::batch(&context)?;
            let mut sink = current.sink(cancellation);
            let mut writer = formats::writer(current.format, batch.schema_ref(), &mut sink);
            let result = writer.write(&batch).and_then(|()| writer.finish());
            drop(writer);
            settle(result.map_err(Failure::from), &mut sink)?;
        }
        Meta::Schema(table) => {
            let text = match table {
                Some(table) => describe::one(&context, &table).await?,
                None => describe::all(&context).await?,
            };
            write_text(&current, cancellation, &text)?;
        }
        Meta::Mode(Some(format)) => changed.format = format,
        Meta::Mode(None) => messages::note(current.format.name()),
        Meta::MaxRows(Some(rows)) => changed.set_row_limit(rows),
        Meta::MaxRows(None) => messages::note(&current.row_limit().unwrap_or(0).to_string()),
        Meta::Output(path) => changed.redirect(path.as_deref())?,
    }
    // A file may have taken its time to open.
    if is_cancelled.is_cancelled() {
        return Err(Failure::Interrupted);
    }
    output::change(&output, changed);
    Ok(())
}

fn write_text(output: &Output, cancellation: Cancellation, text: &str) -> Result<(), Failure> {
    let mut sink = output.sink(cancellation);
    let result = sink.write_all(text.as_bytes());
    settle(result.map_err(Failure::from), &mut sink)
}
