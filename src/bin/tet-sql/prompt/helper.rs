//! What the line editor asks about a line.

use crate::prompt::candidates::Candidate;
use crate::prompt::highlight;
use crate::prompt::names::Names;
use crate::run;
use datafusion::prelude::SessionContext;
use rustyline::completion::Completer;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::SearchDirection;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Context};
use std::borrow::Cow;
use tokio::runtime::{Builder, Runtime};

/// Answers from a session.
pub struct Helper {
    context: SessionContext,
    /// Of its own, since completion must not wait for a statement that is on its way to an end.
    runtime: Runtime,
    /// The lines of the statement above the one that is edited.
    before: String,
}

impl Helper {
    /// One that answers from a session.
    pub fn new(context: &SessionContext) -> std::io::Result<Self> {
        Ok(Self {
            context: context.clone(),
            runtime: Builder::new_current_thread().enable_all().build()?,
            before: String::new(),
        })
    }

    /// Notes the lines above the one that is edited next.
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
        let (_, dialect) = run::dialect(&self.context);
        let above = self.before.len();
        // Collected anew each time: statements come and go with tables.
        let (start, candidates) = self.runtime.block_on(async {
            let before = &text[..above + position];
            let names = Names::of(&self.context, &text, before, dialect.as_ref()).await;
            names.complete(&text, above + position, dialect.as_ref())
        });
        // What begins in a line above is not replaced any more.
        Ok(match start.checked_sub(above) {
            Some(start) => (start, candidates),
            None => (position, Vec::new()),
        })
    }
}

impl Hinter for Helper {
    type Hint = String;

    /// The rest of the latest statement that began in the same way, to the end of its line.
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
        let (_, dialect) = run::dialect(&self.context);
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
