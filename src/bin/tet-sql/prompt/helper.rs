//! Completion, hints and highlighting for the line editor.

use crate::prompt::candidates::Candidate;
use crate::prompt::highlight;
use crate::prompt::names::Names;
use crate::statement::dialect::dialect;
use datafusion::prelude::SessionContext;
use rustyline::completion::Completer;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::SearchDirection;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Context};
use std::borrow::Cow;
use tokio::runtime::{Builder, Runtime};

/// Completes, hints and highlights with the names of a session.
pub struct Helper {
    context: SessionContext,
    /// A separate runtime, because completion must not wait for a cancelled statement that is still
    /// finishing.
    runtime: Runtime,
    /// The lines of the statement above the edited line.
    before: String,
}

impl Helper {
    /// Creates a helper for a session.
    pub fn new(context: &SessionContext) -> std::io::Result<Self> {
        Ok(Self {
            context: context.clone(),
            runtime: Builder::new_current_thread().enable_all().build()?,
            before: String::new(),
        })
    }

    /// Sets the lines above the line that is edited next.
    pub fn set_before(&mut self, before: &str) {
        before.clone_into(&mut self.before);
    }
}

impl Completer for Helper {
    type Candidate = Candidate;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Candidate>)> {
        let text = format!("{}{line}", self.before);
        let (_, dialect) = dialect(&self.context);
        let above = self.before.len();
        // Collect the names each time, because statements create and drop tables.
        let (start, candidates) = self.runtime.block_on(async {
            let before = &text[..above + position];
            let names = Names::of(&self.context, &text, before, dialect.as_ref()).await;
            names.complete(&text, above + position, dialect.as_ref())
        });
        // A word that begins in a line above can no longer be replaced.
        Ok(match start.checked_sub(above) {
            Some(start) => (start, candidates),
            None => (position, Vec::new()),
        })
    }
}

impl Hinter for Helper {
    type Hint = String;

    /// Returns the rest of the latest statement in the history that begins with the same text, up
    /// to the end of its line.
    fn hint(&self, line: &str, position: usize, context: &Context<'_>) -> Option<String> {
        if line.is_empty() || position < line.len() {
            return None;
        }
        let text = format!("{}{line}", self.before);
        let history = context.history();
        let latest = history.len().checked_sub(1)?;
        let found = history.starts_with(&text, latest, SearchDirection::Reverse);
        let entry = found.ok()??.entry;
        let rest = entry.get(text.len()..)?.lines().next()?;
        (!rest.is_empty()).then(|| rest.to_owned())
    }
}

impl Highlighter for Helper {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        let (_, dialect) = dialect(&self.context);
        Cow::Owned(highlight::coloured(&self.before, line, dialect.as_ref()))
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(highlight::hint(hint))
    }

    fn highlight_candidate<'c>(&self, candidate: &'c str, _: CompletionType) -> Cow<'c, str> {
        Cow::Borrowed(candidate)
    }

    fn highlight_char(&self, _: &str, _: usize, _: CmdKind) -> bool {
        true
    }
}

impl Validator for Helper {}

impl rustyline::Helper for Helper {}
