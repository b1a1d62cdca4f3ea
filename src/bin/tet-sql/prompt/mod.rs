//! The interactive prompt.

mod candidates;
mod complete;
mod files;
mod helper;
mod highlight;
mod history;
mod keywords;
mod meta_commands;
mod names;
mod open;
mod scope;

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::messages;
use crate::prompt::helper::Helper;
use crate::prompt::open::OpenConstruct;
use crate::run::{Control, Shell};
use crate::statement::dialect::dialect;
use crate::statement::splitter;
use crate::terminal;
use rustyline::config::Behavior;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{ColorMode, CompletionType, Config, Editor};
use std::path::PathBuf;

const PROMPT: &str = "tet> ";

/// Reads and runs statements until the end of input or `.quit`.
pub fn run(shell: &Shell, arguments: &Arguments) -> Result<(), Failure> {
    if !arguments.quiet {
        messages::note(&format!(
            "tet-sql {}: end statements with ; (.help lists the commands, .quit leaves)",
            env!("CARGO_PKG_VERSION")
        ));
    }
    let mut editor = editor(shell).map_err(|error| Failure::message(error.to_string()))?;
    let history = if arguments.no_history {
        None
    } else {
        load_history(&mut editor)
    };
    // The lines of an incomplete statement.
    let mut text = String::new();
    loop {
        let prompt = match text.is_empty() {
            true => PROMPT,
            false => OpenConstruct::of(&text, &shell.context).prompt(),
        };
        if let Some(helper) = editor.helper_mut() {
            helper.set_before(&text);
        }
        match editor.readline(prompt) {
            // `\q` leaves even in the middle of a statement.
            Ok(line) if line.trim() == "\\q" => return Ok(()),
            Ok(line) => text.push_str(&line),
            // Ctrl-C discards the statement, and the prompt continues.
            Err(ReadlineError::Interrupted) => {
                text.clear();
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(Failure::message(error.to_string())),
        }
        if text.trim().is_empty() {
            text.clear();
            continue;
        }
        if !is_complete(&text, shell) {
            text.push('\n');
            continue;
        }
        let statement = std::mem::take(&mut text);
        let _ = editor.add_history_entry(statement.trim_end());
        if let Some(path) = &history {
            // Write each statement at once, so that several prompts share the history and a lost
            // terminal loses nothing. Errors are ignored, because a warning after every statement
            // would be a nuisance.
            let _ = editor.append_history(path);
        }
        shell.forget_interrupts();
        match shell.run_text(bare_word(&statement).unwrap_or(&statement)) {
            Ok(Control::Continue) => {}
            Ok(Control::Quit) => return Ok(()),
            Err(Failure::Message(message)) => messages::error(&message),
            Err(Failure::Interrupted) => messages::note("cancelled"),
            Err(Failure::Enough | Failure::Told) => {}
            Err(Failure::BrokenPipe) => return Err(Failure::BrokenPipe),
        }
    }
}

fn is_complete(text: &str, shell: &Shell) -> bool {
    let (_, dialect) = dialect(&shell.context);
    bare_word(text).is_some() || splitter::is_complete(text, dialect.as_ref())
}

fn editor(shell: &Shell) -> rustyline::Result<Editor<Helper, DefaultHistory>> {
    // Standard output is for results. If it is not a terminal, the prompt has to open the terminal
    // itself.
    let behavior = match terminal::is_output() {
        true => Behavior::Stdio,
        false => Behavior::PreferTerm,
    };
    let colours = match terminal::colours_prompt() {
        true => ColorMode::Enabled,
        false => ColorMode::Disabled,
    };
    let config = Config::builder()
        .history_ignore_space(true)
        .history_ignore_dups(true)?
        .completion_type(CompletionType::List)
        .color_mode(colours)
        .behavior(behavior)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Helper::new(&shell.context)?));
    Ok(editor)
}

fn load_history(editor: &mut Editor<Helper, DefaultHistory>) -> Option<PathBuf> {
    let result = history::prepare()?.map_err(ReadlineError::from);
    match result.and_then(|path| editor.load_history(&path).map(|()| path)) {
        Ok(path) => Some(path),
        Err(error) => {
            messages::warning(&format!("no history: {error}"));
            None
        }
    }
}

/// Returns the meta-command for a text that is only `quit`, `exit` or `help`, which other shells
/// accept without a dot.
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
