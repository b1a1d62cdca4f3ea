//! Runs statements and meta-commands in sequence.

use crate::failure::Failure;
use crate::messages;
use crate::meta::{self, Meta};
use crate::output::appearance::{Appearance, Format};
use crate::output::{self, Output, SharedOutput};
use crate::script::Script;
use crate::session::Session;
use crate::session::worker_threads::WorkerThreads;
use crate::statement::dialect::{dialect, dialect_name};
use crate::statement::outcome::{Extent, Outcome};
use crate::statement::reading::grouped;
use crate::statement::splitter::{self, ItemKind};
use crate::statement::{self, StatementOptions};
use datafusion::prelude::SessionContext;
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tet_sql::provider::sql::budget::check_bytes;
use tet_sql::{ArrayOptions, ArraySettings};

/// The maximum nesting of scripts. Deeper nesting means that a script probably runs itself.
const DEEPEST: usize = 16;

/// The state shared by all statements.
pub struct Shell {
    pub(crate) engine: WorkerThreads,
    pub(crate) context: SessionContext,
    pub(crate) output: SharedOutput,
    /// The options for opening further files.
    pub(crate) options: ArrayOptions,
    pub(crate) manner: ShellOptions,
    /// The last query, for commands that run it again.
    pub(crate) last_query: RefCell<Option<String>>,
    /// The last statement of any kind.
    pub(crate) last_statement: RefCell<Option<String>>,
    depth: Cell<usize>,
    has_failed: Cell<bool>,
}

/// The behaviour of a shell.
#[derive(Debug, Default)]
pub struct ShellOptions {
    /// `true` if the number of rows and the duration of each statement are reported.
    pub timings: Cell<bool>,
    /// `true` if a script continues after a failure.
    pub goes_on: Cell<bool>,
    /// `true` to omit timings, progress bars and hints.
    pub quiet: bool,
    /// `true` if statements cannot write files or run commands.
    pub read_only: bool,
}

/// The next step after a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Continue with the next statement.
    Continue,
    /// Leave the command.
    Quit,
}

impl Shell {
    /// Creates a shell for a session.
    pub fn new(
        engine: WorkerThreads,
        session: Session,
        options: ArrayOptions,
        manner: ShellOptions,
    ) -> Self {
        Self {
            engine,
            context: session.context,
            output: Arc::new(Mutex::new(Output::new(session.files, manner.read_only))),
            options,
            manner,
            last_query: RefCell::default(),
            last_statement: RefCell::default(),
            depth: Cell::default(),
            has_failed: Cell::default(),
        }
    }

    /// Discards a Ctrl-C received while no statement ran.
    pub fn forget_interrupts(&self) {
        self.engine.forget_interrupts();
    }

    /// Changes the appearance of the following results.
    pub fn change_appearance(&self, change: impl FnOnce(&mut Appearance)) {
        let mut output = output::current(&self.output);
        change(&mut output.appearance);
        output::change(&self.output, output);
    }

    /// Sets the format and the file of the following results, if given. The given format takes
    /// precedence over the extension of the file.
    pub fn set_output(&self, format: Option<Format>, file: Option<PathBuf>) -> Result<(), Failure> {
        let choose_format = || {
            if let Some(format) = format {
                self.choose_format(format);
            }
        };
        // Set the format before the file, because a file with an unknown extension needs one, and
        // again afterwards, because the extension selects a format.
        choose_format();
        if let Some(file) = file {
            self.redirect(move |output| output.redirect(Some(&file)))?;
        }
        choose_format();
        Ok(())
    }

    /// Sets the format of the following results.
    pub fn choose_format(&self, format: Format) {
        let mut output = output::current(&self.output);
        output.set_format(format);
        output::change(&self.output, output);
    }

    /// Runs scripts up to the first failure. Returns an error if any statement failed, even if the
    /// script continued.
    pub fn run_scripts(&self, scripts: Vec<Script>) -> Result<(), Failure> {
        for script in scripts {
            if self.run_script(script)? == Control::Quit {
                break;
            }
        }
        match self.has_failed.get() {
            true => Err(Failure::Told),
            false => Ok(()),
        }
    }

    /// Discards failures after which a script continued.
    pub fn forget_failures(&self) {
        self.has_failed.set(false);
    }

    /// Runs one script up to the first failure.
    pub fn run_script(&self, script: Script) -> Result<Control, Failure> {
        if self.depth.get() == DEEPEST {
            return Err(Failure::message(format!(
                "scripts are nested {DEEPEST} levels deep: does one run itself?"
            )));
        }
        self.depth.set(self.depth.get() + 1);
        let result = self.run_lines(script);
        self.depth.set(self.depth.get() - 1);
        result
    }

    fn run_lines(&self, script: Script) -> Result<Control, Failure> {
        let name = script.name();
        // Opening or reading a pipe may block until it is written to.
        let mut lines = self.engine.run(|_| async { script.open() })?;
        let mut text = String::new();
        let mut before = 0;
        loop {
            let most = self.most_bytes();
            let (rest, line) = self.engine.run(move |_| async move {
                let line = lines.next(most)?;
                Ok((lines, line))
            })?;
            lines = rest;
            let is_end = line.is_none();
            text += line.as_deref().unwrap_or_default();
            if !is_end && !self.may_run(&text) {
                let options = self.context.copied_config();
                check_bytes(options.options(), &text)
                    .map_err(|error| placed(error.into(), name.as_deref(), before, ""))?;
                continue;
            }
            if self.run_named(&text, name.as_deref(), before)? == Control::Quit {
                return Ok(Control::Quit);
            }
            if is_end {
                return Ok(Control::Continue);
            }
            text.clear();
            before = lines.number();
        }
    }

    /// Returns the maximum size of a statement in bytes.
    fn most_bytes(&self) -> usize {
        let config = self.context.copied_config();
        let ours = config.options().extensions.get::<ArraySettings>();
        ours.map_or(usize::MAX, |ours| ours.limits.statement_bytes)
    }

    /// Returns `true` if the last statement of `text` is complete.
    fn may_run(&self, text: &str) -> bool {
        let trimmed = text.trim();
        // Most lines are quickly recognized as not ending a statement.
        let may_end = trimmed.ends_with(';')
            || trimmed.starts_with(['.', '\\'])
            || trimmed
                .lines()
                .last()
                .is_some_and(|line| line.contains("\\g"));
        may_end && splitter::is_complete(text, dialect(&self.context).1.as_ref())
    }

    /// Runs the statements of a text up to the first failure.
    pub fn run_text(&self, text: &str) -> Result<Control, Failure> {
        self.run_named(text, None, 0)
    }

    /// Runs the statements of a text that follows the first `before` lines of the script `name`.
    fn run_named(&self, text: &str, name: Option<&str>, before: usize) -> Result<Control, Failure> {
        let mut rest = text;
        loop {
            let (dialect_before, dialect) = dialect(&self.context);
            // The rest of the text is split again after a statement that changes the SQL dialect.
            let mut changed = None;
            for piece in splitter::split(rest, dialect.as_ref()) {
                let result = match piece.kind {
                    ItemKind::Statement { .. } => self.run_statement(piece.text),
                    ItemKind::Meta => self.run_meta(piece.text),
                    ItemKind::Sent { end } => self.send(&piece.text[..end], &piece.text[end..]),
                };
                let start = text.len() - rest.len() + piece.start(rest);
                match result.map_err(|failure| placed(failure, name, before, &text[..start])) {
                    // A user who left the pager of one result may want the next result.
                    Ok(Control::Continue) | Err(Failure::Enough) => {}
                    Ok(Control::Quit) => return Ok(Control::Quit),
                    Err(Failure::Message(message)) if self.goes_on() => {
                        messages::error(&message);
                        self.has_failed.set(true);
                    }
                    Err(failure) => return Err(failure),
                }
                if dialect_name(&self.context) != dialect_before {
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

    /// Returns `true` if statements continue after a failure. They never do at the prompt.
    fn goes_on(&self) -> bool {
        self.depth.get() > 0 && self.manner.goes_on.get()
    }

    /// Runs one statement, and reports what the result itself does not show.
    pub fn run_statement(&self, sql: &str) -> Result<Control, Failure> {
        let started = Instant::now();
        *self.last_statement.borrow_mut() = Some(sql.to_owned());
        let outcome = self.execute(sql)?;
        if outcome.is_query {
            *self.last_query.borrow_mut() = Some(sql.to_owned());
        }
        let timings = self.manner.timings.get();
        let finished = outcome.finished.unwrap_or_else(Instant::now);
        let seconds = finished.duration_since(started).as_secs_f64();
        if let Some(line) = summary(&outcome, timings.then_some(seconds)) {
            messages::note(&line);
        }
        if !self.manner.quiet {
            for hint in &outcome.hints {
                messages::hint(hint);
            }
        }
        Ok(Control::Continue)
    }

    fn execute(&self, sql: &str) -> Result<Outcome, Failure> {
        let context = self.context.clone();
        let output = Arc::clone(&self.output);
        let manner = StatementOptions {
            progress: !self.manner.quiet,
            read_only: self.manner.read_only,
        };
        let sql = sql.to_owned();
        self.engine
            .run(move |cancellation| statement::execute(context, sql, output, manner, cancellation))
    }

    /// Runs a statement that ends in `\g` or `\gx`.
    fn send(&self, sql: &str, command: &str) -> Result<Control, Failure> {
        match meta::parse(command).map_err(Failure::Message)? {
            Meta::Go(go) => self.go(go, sql.trim_end()),
            // Only `\g` and `\gx` end statements.
            _ => self.run_statement(sql),
        }
    }

    fn run_meta(&self, line: &str) -> Result<Control, Failure> {
        match meta::parse(line).map_err(Failure::Message)? {
            Meta::Quit => Ok(Control::Quit),
            meta => self.execute_meta(meta),
        }
    }
}

/// Adds the script and line to an error. The statement follows `before` lines and then `text`.
fn placed(failure: Failure, name: Option<&str>, before: usize, text: &str) -> Failure {
    match (failure, name) {
        (Failure::Message(message), Some(name)) => {
            let line = before + text.matches('\n').count() + 1;
            Failure::Message(format!("{name}:{line}: {message}"))
        }
        (failure, _) => failure,
    }
}

/// Returns the line below a result: the number of rows and, if `seconds` is given, the duration.
/// Without `seconds`, there is a line only for a truncated result.
fn summary(outcome: &Outcome, seconds: Option<f64>) -> Option<String> {
    let shown = grouped(outcome.rows);
    let rows = match (&outcome.written, outcome.extent) {
        _ if outcome.is_silent => "done".to_owned(),
        (Some(path), _) => format!("{} written to {path}", counted(outcome.rows)),
        (_, Extent::Whole) => counted(outcome.rows),
        (_, Extent::Cut { rows, is_exact }) => {
            let more = if is_exact { "" } else { "more than " };
            format!("{more}{} ({shown} shown)", counted(rows))
        }
    };
    let Some(seconds) = seconds else {
        let rows = format!("{rows}; .maxrows 0 shows all");
        return (outcome.extent != Extent::Whole).then_some(rows);
    };
    let mut line = format!("{rows} in {seconds:.3} s");
    if let Some(read) = outcome.reading.line(seconds) {
        line += " · ";
        line += &read;
    }
    Some(line)
}

fn counted(rows: usize) -> String {
    match rows {
        1 => "1 row".to_owned(),
        _ => format!("{} rows", grouped(rows)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::reading::Reading;

    #[test]
    fn a_line_tells_how_much_there_is() {
        let mut outcome = Outcome {
            rows: 40,
            extent: Extent::Cut {
                rows: 1_048_576_000,
                is_exact: true,
            },
            ..Outcome::default()
        };
        assert_eq!(
            summary(&outcome, None).unwrap(),
            "1,048,576,000 rows (40 shown); .maxrows 0 shows all"
        );
        outcome.extent = Extent::Cut {
            rows: 123_456,
            is_exact: false,
        };
        outcome.reading = Reading {
            total: 24,
            read: 3,
            ..Reading::default()
        };
        assert_eq!(
            summary(&outcome, Some(0.0341)).unwrap(),
            "more than 123,456 rows (40 shown) in 0.034 s · 3 of 24 chunks read"
        );
        let outcome = Outcome {
            rows: 1,
            ..Outcome::default()
        };
        assert_eq!(summary(&outcome, None), None);
        assert_eq!(summary(&outcome, Some(1.0)).unwrap(), "1 row in 1.000 s");
    }

    #[test]
    fn errors_of_scripts_have_a_line() {
        let failure = placed(Failure::message("no"), Some("a.sql"), 3, "SELECT 1;\n");
        assert!(matches!(failure, Failure::Message(text) if text == "a.sql:5: no"));
    }
}
