//! Executes meta-commands.

use crate::failure::Failure;
use crate::messages;
use crate::meta::about;
use crate::meta::describe;
use crate::meta::editor;
use crate::meta::overview::Overview;
use crate::meta::tables;
use crate::meta::{Go, Meta, help};
use crate::output::appearance::{Appearance, Expanded, RowLimit};
use crate::output::formats;
use crate::output::wrapping::on_lines;
use crate::output::{self, Output};
use crate::run::{Control, Shell};
use crate::script::Script;
use crate::session;
use crate::session::worker_threads::Cancellation;
use crate::statement::settle;
use datafusion::arrow::array::RecordBatch;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tet_sql::ArraySessionExt;
use tet_sql::provider::catalog::files::{Input, register_rows};

/// Queries the most important columns of the open files.
const FILES: &str = "SELECT table_schema AS \"schema\", format, tables, stored_bytes AS bytes, path FROM tet_files()";
/// Queries all columns of the open files.
const ALL_OF_FILES: &str = "SELECT * FROM tet_files()";

impl Shell {
    /// Executes a meta-command. `.quit` is left to the caller.
    pub(crate) fn execute_meta(&self, meta: Meta) -> Result<Control, Failure> {
        match meta {
            Meta::Quit => return Ok(Control::Quit),
            Meta::Help(None) => self.write_text(help::all())?,
            Meta::Help(Some(name)) => match help::one(&name) {
                Some(text) => {
                    let width = output::for_text(&self.output).style().width;
                    self.write_text(on_lines(&text, width))?;
                }
                None => {
                    return Err(Failure::message(format!(
                        "no command {name}: .help lists the commands"
                    )));
                }
            },
            Meta::Tables(pattern) => self.list_tables(pattern)?,
            Meta::Files(all) => return self.run_own(if all { ALL_OF_FILES } else { FILES }),
            Meta::Schemas(pattern) => self.list_schemas(pattern)?,
            Meta::Functions(pattern) => return self.run_own(&functions(pattern.as_deref())),
            Meta::Describe(table) => self.describe(table)?,
            Meta::Chunks(table) => {
                let name = table.replace('\'', "''");
                return self.run_own(&format!("SELECT * FROM tet_chunks('{name}')"));
            }
            Meta::Explain(sql) => return self.explain(sql),
            Meta::Plot(kind, path) => self.plot(kind, path)?,
            Meta::Print(text) => self.write_text(text + "\n")?,
            Meta::Show => self.show()?,
            Meta::ChangeDirectory(path) => change_directory(path)?,
            Meta::Connection => self.write_text(about::session(self))?,
            Meta::Go(go) => return self.go(go, &self.last_query()?),
            Meta::Read(path) => return self.run_script(Script::File(path)),
            Meta::Edit(path) => return self.edit(path),
            Meta::Shell(command) => self.run_command(&command)?,
            Meta::Watch(pause, times) => return self.watch(pause, times),
            Meta::Open(path, name) => self.open(path, name)?,
            Meta::Close(schema) => self.close(&schema)?,
            Meta::Output(path) => self.redirect(move |output| output.redirect(path.as_deref()))?,
            Meta::Once(path) => self.redirect(move |output| output.redirect_once(&path))?,
            Meta::Timer(on) => {
                let timings = on.unwrap_or(!self.manner.timings.get());
                self.manner.timings.set(timings);
                self.tell("timer", on_off(timings));
            }
            Meta::Bail(on) => {
                if let Some(on) = on {
                    self.manner.goes_on.set(!on);
                }
                self.tell("bail", on_off(!self.manner.goes_on.get()));
            }
            setting => self.set(setting),
        }
        Ok(Control::Continue)
    }

    /// Changes a setting of results, or shows its value.
    fn set(&self, meta: Meta) {
        let before = output::current(&self.output);
        if let Meta::Mode(Some(format)) = meta {
            self.choose_format(format);
        }
        self.change_appearance(|appearance| match meta {
            Meta::MaxRows(Some(rows)) => {
                appearance.rows = RowLimit::Chosen((rows > 0).then_some(rows));
            }
            Meta::NullValue(ref text) => appearance.null.clone_from(text),
            Meta::Headers(on) => appearance.headers = on.unwrap_or(!appearance.headers),
            Meta::Pager(on) => appearance.pager = on.unwrap_or(!appearance.pager),
            Meta::Expanded(expanded) => {
                let other = match appearance.expanded {
                    Expanded::Off => Expanded::On,
                    _ => Expanded::Off,
                };
                appearance.expanded = expanded.unwrap_or(other);
            }
            _ => {}
        });
        let now = output::current(&self.output);
        let rows = now.row_limit().unwrap_or(0).to_string();
        match meta {
            // Print a value that was asked for, and the new state of a switch. Other changes are
            // silent.
            Meta::Mode(None) => messages::note(before.format().name()),
            Meta::MaxRows(None) => messages::note(&rows),
            Meta::Settings => {
                for (name, value) in settings(&now) {
                    messages::note(&format!("{name:<12} {value}"));
                }
            }
            Meta::Headers(_) => self.tell("headers", on_off(now.appearance.headers)),
            Meta::Pager(_) => self.tell("pager", on_off(now.appearance.pager)),
            Meta::Expanded(_) => self.tell("expanded", expanded_name(&now.appearance)),
            _ => {}
        }
    }

    /// Reports the state of a switch if the commands are typed in a terminal.
    fn tell(&self, name: &str, state: &str) {
        if !self.manner.quiet && crate::terminal::is_input() {
            messages::note(&format!("{name} is {state}"));
        }
    }

    pub(crate) fn write_text(&self, text: String) -> Result<(), Failure> {
        let output = Arc::clone(&self.output);
        self.engine.run(|cancellation| async move {
            write_text(&output::for_text(&output), cancellation, &text)
        })
    }

    fn list_tables(&self, pattern: Option<String>) -> Result<(), Failure> {
        let context = self.context.clone();
        let output = Arc::clone(&self.output);
        self.engine.run(|cancellation| async move {
            let overview = Overview::of(&context, pattern.as_deref()).await?;
            if let Some(pattern) = pattern.filter(|_| overview.is_empty()) {
                messages::note(&format!("no table matches {pattern}; .tables lists all"));
            }
            let output = output::for_text(&output);
            let style = output.style();
            match output.format().is_for_people() && style.expanded != Expanded::On {
                true => write_text(&output, cancellation, &overview.text(style.width)),
                false => write_batch(&output, cancellation, &overview.batch()?),
            }
        })
    }

    fn list_schemas(&self, pattern: Option<String>) -> Result<(), Failure> {
        let context = self.context.clone();
        let output = Arc::clone(&self.output);
        self.engine.run(|cancellation| async move {
            let schemas = tables::schemas(&context, pattern.as_deref())?;
            write_batch(&output::for_text(&output), cancellation, &schemas)
        })
    }

    /// Writes the settings of the shell.
    fn show(&self) -> Result<(), Failure> {
        let output = output::current(&self.output);
        let file = output.file().map(|path| path.display().to_string());
        let directory = std::env::current_dir()?.display().to_string();
        let mut lines: Vec<(&str, String)> = settings(&output).into();
        lines.extend([
            ("bail", on_off(!self.manner.goes_on.get()).to_owned()),
            ("timer", on_off(self.manner.timings.get()).to_owned()),
            ("read_only", on_off(self.manner.read_only).to_owned()),
            ("output", file.unwrap_or_else(|| "stdout".to_owned())),
            ("directory", directory),
        ]);
        lines.sort_unstable();
        let lines = lines
            .iter()
            .map(|(name, value)| format!("{name:<12} {value}\n"));
        self.write_text(lines.collect())
    }

    /// Runs a statement with the options of `\g` or `\gx`.
    pub(crate) fn go(&self, go: Go, sql: &str) -> Result<Control, Failure> {
        if let Some(file) = go.file {
            self.redirect(move |output| output.redirect_once(&file))?;
        }
        if !go.is_expanded {
            return self.run_statement(sql);
        }
        let before = output::current(&self.output).appearance.expanded;
        self.change_appearance(|appearance| appearance.expanded = Expanded::On);
        let result = self.run_statement(sql);
        self.change_appearance(|appearance| appearance.expanded = before);
        result
    }

    fn describe(&self, table: Option<String>) -> Result<(), Failure> {
        let context = self.context.clone();
        let width = output::for_text(&self.output).style().width;
        let text = self.engine.run(move |_| async move {
            match table {
                Some(table) => describe::named(&context, &table, width).await,
                None => describe::all(&context, width).await,
            }
        })?;
        self.write_text(text)
    }

    fn explain(&self, sql: Option<String>) -> Result<Control, Failure> {
        let (word, sql) = match sql {
            None => ("", None),
            Some(sql) => match sql.get(..7) {
                Some(word) if word.eq_ignore_ascii_case("analyze") => {
                    ("ANALYZE ", Some(sql[7..].trim().to_owned()))
                }
                _ => ("", Some(sql)),
            },
        };
        let sql = match sql.filter(|sql| !sql.is_empty()) {
            Some(sql) => sql,
            None => self.last_query()?,
        };
        // EXPLAIN ANALYZE has only one format.
        let format = if word.is_empty() { "FORMAT TREE " } else { "" };
        self.run_own(&format!("EXPLAIN {word}{format}{sql}"))
    }

    /// Runs a statement of the shell itself. The last query and the last statement stay those of
    /// the user.
    fn run_own(&self, sql: &str) -> Result<Control, Failure> {
        let query = self.last_query.borrow().clone();
        let statement = self.last_statement.borrow().clone();
        let result = self.run_statement(sql);
        *self.last_query.borrow_mut() = query;
        *self.last_statement.borrow_mut() = statement;
        result
    }

    pub(crate) fn last_query(&self) -> Result<String, Failure> {
        let query = self.last_query.borrow().clone();
        query.ok_or_else(|| Failure::message("no query has been run yet"))
    }

    fn edit(&self, path: Option<PathBuf>) -> Result<Control, Failure> {
        if self.manner.read_only {
            return Err(Failure::message("--read-only: no commands are run"));
        }
        let last = self.last_statement.borrow().clone().unwrap_or_default();
        let text = match &path {
            Some(path) => editor::edit_file(path)?,
            None => editor::edit_text(&last)?,
        };
        // Ctrl-C may have been pressed in the editor.
        self.forget_interrupts();
        let is_unchanged = path.is_none() && text.trim() == last.trim();
        if text.trim().is_empty() || is_unchanged {
            return Ok(Control::Continue);
        }
        messages::note(&text.trim_end().replace('\t', "    "));
        self.run_text(&text)
    }

    fn run_command(&self, command: &str) -> Result<(), Failure> {
        if self.manner.read_only {
            return Err(Failure::message("--read-only: no commands are run"));
        }
        let status = Command::new("sh").args(["-c", command]).status()?;
        // A Ctrl-C reached the command as well as this process.
        self.forget_interrupts();
        match status.success() {
            true => Ok(()),
            false => Err(Failure::message(format!("{command}: {status}"))),
        }
    }

    fn watch(&self, pause: Duration, times: Option<u64>) -> Result<Control, Failure> {
        let query = self.last_query()?;
        let mut left = times.unwrap_or(u64::MAX);
        while left > 0 {
            left -= 1;
            match self.run_statement(&query) {
                Err(Failure::Interrupted) => break,
                result => result?,
            };
            if left == 0 {
                break;
            }
            let slept = self.engine.run(|_| async move {
                tokio::time::sleep(pause).await;
                Ok(())
            });
            match slept {
                Err(Failure::Interrupted) => break,
                result => result?,
            }
        }
        Ok(Control::Continue)
    }

    fn open(&self, path: PathBuf, name: Option<String>) -> Result<(), Failure> {
        let context = self.context.clone();
        let options = self.options.clone();
        let (path, warnings) = self.engine.run(|_| async move {
            let input = Input::resolve(&path)?;
            let schema = match (input, name) {
                (Input::Rows(stem, path), name) => {
                    register_rows(&context, &name.unwrap_or(stem), &path).await?;
                    return Ok((path, Vec::new()));
                }
                (Input::Directory(path), _) => {
                    let path = path.display();
                    return Err(Failure::message(format!(
                        "{path}: is a directory, expected a file"
                    )));
                }
                (Input::Named(_, path) | Input::File(path), Some(name))
                | (Input::Named(name, path), None) => {
                    context
                        .register_array_file_as(&name, &path, options)
                        .await?
                }
                (Input::File(path), None) => context.register_array_file(&path, options).await?,
            };
            Ok((schema.path().to_owned(), schema.warnings().to_vec()))
        })?;
        if !self.manner.quiet {
            for warning in &warnings {
                messages::warning(warning);
            }
        }
        let mut output = output::current(&self.output);
        output.add_input(path);
        output::change(&self.output, output);
        Ok(())
    }

    fn close(&self, schema: &str) -> Result<(), Failure> {
        let names = self.context.copied_config().options().catalog.clone();
        let catalog = self.context.catalog(&names.default_catalog);
        let files = catalog.as_ref().map_or_else(Vec::new, |catalog| {
            let mut names = catalog.schema_names();
            names.retain(|name| !session::OWN_SCHEMAS.contains(&name.as_str()));
            names
        });
        let exact = files.iter().find(|name| *name == schema);
        let found = exact.or_else(|| files.iter().find(|name| name.eq_ignore_ascii_case(schema)));
        let (Some(catalog), Some(found)) = (catalog, found) else {
            return Err(Failure::message(format!("no file is open as {schema}")));
        };
        catalog.deregister_schema(found, true)?;
        if names.default_schema == *found {
            let state = self.context.state_ref();
            let mut state = state.write();
            let options = state.config_mut().options_mut();
            options.catalog.default_schema = session::OWN_SCHEMAS[0].to_owned();
        }
        Ok(())
    }

    /// Redirects results. Runs on a worker thread, because opening a pipe blocks until the pipe has
    /// a reader.
    pub(crate) fn redirect(
        &self,
        change: impl FnOnce(&mut Output) -> Result<(), Failure> + Send + 'static,
    ) -> Result<(), Failure> {
        let mut output = output::current(&self.output);
        if self.manner.read_only {
            return Err(Failure::message("--read-only: no files are written"));
        }
        let changed = self.engine.run(|_| async move {
            change(&mut output)?;
            Ok(output)
        })?;
        output::change(&self.output, changed);
        Ok(())
    }
}

/// Returns a query for the functions whose names match a pattern.
fn functions(pattern: Option<&str>) -> String {
    let pattern = tables::like_pattern(pattern.unwrap_or("*")).replace('\'', "''");
    format!(
        "SELECT function_name AS name, function_type AS kind, syntax_example AS call, description \
         FROM tet_functions() WHERE function_name ILIKE '{pattern}' ORDER BY name, kind"
    )
}

/// Changes to a directory, or to the home directory.
fn change_directory(path: Option<PathBuf>) -> Result<(), Failure> {
    let home = || etcetera::home_dir().map_err(|_| Failure::message("there is no home directory"));
    let path = path.map_or_else(home, Ok)?;
    let changed = std::env::set_current_dir(&path);
    changed.map_err(|error| Failure::message(format!("{}: {error}", path.display())))
}

fn write_batch(
    output: &Output,
    cancellation: Cancellation,
    batch: &RecordBatch,
) -> Result<(), Failure> {
    let mut sink = output.sink(cancellation);
    let mut writer = formats::writer(&output.style(), batch.schema_ref(), &mut sink);
    let result = writer.write(batch).and_then(|()| writer.finish());
    drop(writer);
    settle(result.map_err(Failure::from), &mut sink)
}

fn write_text(output: &Output, cancellation: Cancellation, text: &str) -> Result<(), Failure> {
    let mut sink = output.sink(cancellation);
    let result = sink.write_all(text.as_bytes());
    settle(result.map_err(Failure::from), &mut sink)
}

/// Returns all settings of results under psql's names.
fn settings(output: &Output) -> [(&'static str, String); 6] {
    let appearance = &output.appearance;
    let null = appearance.null.as_deref().unwrap_or("that of the format");
    [
        ("expanded", expanded_name(appearance).to_owned()),
        ("format", output.format().name().to_owned()),
        ("maxrows", output.row_limit().unwrap_or(0).to_string()),
        ("null", null.to_owned()),
        ("pager", on_off(appearance.pager).to_owned()),
        ("tuples_only", on_off(!appearance.headers).to_owned()),
    ]
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn expanded_name(appearance: &Appearance) -> &'static str {
    match appearance.expanded {
        Expanded::Off => "off",
        Expanded::On => "on",
        Expanded::Automatic => "auto",
    }
}
