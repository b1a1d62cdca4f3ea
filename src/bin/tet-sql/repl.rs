//! The prompt.

use crate::arguments::Arguments;
use crate::complete::Names;
use crate::failure::Failure;
use crate::history;
use crate::messages;
use crate::run::{self, Control, Shell};
use crate::statements;
use datafusion::prelude::SessionContext;
use rustyline::completion::Completer;
use rustyline::config::Behavior;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use std::io::IsTerminal;
use std::path::PathBuf;
use tokio::runtime::{Builder, Runtime};

const PROMPT: &str = "tet> ";

/// Asks for statements until the end of input or `.quit`.
pub fn run(mut shell: Shell, arguments: &Arguments) -> Result<(), Failure> {
    if !arguments.quiet {
        messages::note(&format!(
            "tet-sql {}: end statements with ;, .help lists the commands, .quit leaves",
            env!("CARGO_PKG_VERSION")
        ));
        shell.show_timings();
    }
    let mut editor = editor(&shell).map_err(|error| Failure::message(error.to_string()))?;
    let history = if arguments.no_history {
        None
    } else {
        load_history(&mut editor)
    };
    loop {
        let text = match editor.readline(PROMPT) {
            Ok(text) => text,
            // The line is given up, the prompt stays.
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(Failure::message(error.to_string())),
        };
        if text.trim().is_empty() {
            continue;
        }
        if let Some(path) = &history {
            // Written at once, so that several prompts share it and a lost terminal loses nothing. A history that
            // cannot be written is no reason to bother the user at each statement.
            let _ = editor.add_history_entry(text.as_str());
            let _ = editor.append_history(path);
        } else {
            let _ = editor.add_history_entry(text.as_str());
        }
        shell.forget_interrupts();
        match shell.run_text(bare_word(&text).unwrap_or(&text)) {
            Ok(Control::Continue) => {}
            Ok(Control::Quit) => return Ok(()),
            Err(Failure::Message(message)) => messages::error(&message),
            Err(Failure::Interrupted) => messages::note("cancelled"),
            Err(Failure::BrokenPipe) => return Err(Failure::BrokenPipe),
        }
    }
}

fn editor(shell: &Shell) -> rustyline::Result<Editor<Prompt, DefaultHistory>> {
    // Standard output is for results: if it is no terminal, the prompt has to find one elsewhere.
    let behavior = if std::io::stdout().is_terminal() {
        Behavior::Stdio
    } else {
        Behavior::PreferTerm
    };
    let config = Config::builder()
        .history_ignore_space(true)
        .history_ignore_dups(true)?
        .completion_type(CompletionType::List)
        .behavior(behavior)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Prompt {
        context: shell.context().clone(),
        runtime: Builder::new_current_thread().enable_all().build()?,
    }));
    Ok(editor)
}

fn load_history(editor: &mut Editor<Prompt, DefaultHistory>) -> Option<PathBuf> {
    let result = history::prepare()?.map_err(ReadlineError::from);
    match result.and_then(|path| editor.load_history(&path).map(|()| path)) {
        Ok(path) => Some(path),
        Err(error) => {
            messages::warning(&format!("no history: {error}"));
            None
        }
    }
}

/// The meta-command for a word that other prompts know without a dot, if that is all there is.
fn bare_word(text: &str) -> Option<&'static str> {
    match text
        .trim()
        .trim_end_matches(';')
        .to_ascii_lowercase()
        .as_str()
    {
        "quit" | "exit" => Some(".quit"),
        "help" => Some(".help"),
        _ => None,
    }
}

/// What the line editor asks about a text.
struct Prompt {
    context: SessionContext,
    /// Of its own, since completion must not wait for a statement that is on its way to an end.
    runtime: Runtime,
}

impl Validator for Prompt {
    fn validate(&self, context: &mut ValidationContext) -> rustyline::Result<ValidationResult> {
        if bare_word(context.input()).is_some() {
            return Ok(ValidationResult::Valid(None));
        }
        let (_, dialect) = run::dialect(&self.context);
        Ok(
            if statements::is_complete(context.input(), dialect.as_ref()) {
                ValidationResult::Valid(None)
            } else {
                ValidationResult::Incomplete
            },
        )
    }
}

impl Completer for Prompt {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        // Collected anew each time: statements come and go with tables.
        let names = self.runtime.block_on(Names::of(&self.context));
        Ok(names.complete(&line[..position]))
    }
}

impl Hinter for Prompt {
    type Hint = String;
}

impl Highlighter for Prompt {}

impl Helper for Prompt {}
