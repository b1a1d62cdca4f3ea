//! Completes meta-commands and their arguments.

use crate::meta::help;
use crate::output::appearance::Format;
use crate::prompt::candidates::{Candidate, matching};
use crate::prompt::complete::{quoted, word_start};
use crate::prompt::files;
use crate::prompt::names::Names;
use clap::ValueEnum;
use tet_sql_plot::ChartKind;

impl Names {
    /// Completes a line that begins with a meta-command. `line` is `text` without leading spaces.
    pub(super) fn complete_meta(&self, text: &str, line: &str) -> (usize, Vec<Candidate>) {
        let commands = |start: usize| {
            let names = help::names().filter(|name| name.starts_with(&text[start..]));
            let mut names: Vec<&str> = names.collect();
            names.sort_unstable();
            names.dedup();
            (start, names.into_iter().map(Candidate::plain).collect())
        };
        let Some((name, rest)) = line.split_once(char::is_whitespace) else {
            return commands(text.len() - line.len());
        };
        let start = word_start(text);
        let choice = |choices: &[&str]| {
            let choices = choices.iter();
            let choices = choices.filter(|choice| choice.starts_with(&text[start..]));
            let choices = choices.map(|choice| Candidate::plain(*choice));
            (start, choices.collect())
        };
        let formats = || {
            let formats = Format::value_variants().iter().map(|format| format.name());
            choice(&formats.collect::<Vec<_>>())
        };
        let argument = text.len() - rest.trim_start().len();
        let is_kind = |word: &str| {
            let mut kinds = ChartKind::NAMES.iter();
            !word.is_empty() && kinds.any(|(kind, _)| kind.starts_with(word))
        };
        match name {
            ".schema" | "\\d" | "\\d+" | ".chunks" | ".tables" | "\\dt" => {
                self.complete_table(start, &text[start..])
            }
            ".close" => {
                let schemas = self.tables.iter().map(|names| names.schema.as_str());
                (start, matching(schemas, &text[start..]))
            }
            ".mode" => formats(),
            ".headers" | ".header" | ".timer" | "\\timing" | ".bail" => choice(&["off", "on"]),
            "\\x" => choice(&["auto", "off", "on"]),
            "\\pset" if rest.trim_start().starts_with("format ") => formats(),
            "\\pset" => choice(&[
                "expanded",
                "format",
                "maxrows",
                "null",
                "pager",
                "tuples_only",
            ]),
            ".help" | "\\?" => commands(argument),
            ".plot" if is_kind(rest.trim()) => choice(&ChartKind::NAMES.map(|(name, _)| name)),
            ".read" | "\\i" | ".output" | "\\o" | ".once" | ".open" | ".edit" | "\\e" | ".plot"
            | ".cd" | "\\cd" | "\\g" | "\\gx" => {
                let start = argument + usize::from(text[argument..].starts_with('\''));
                (start, quoted(files::beginning_with(&text[start..]), false))
            }
            _ => (text.len(), Vec::new()),
        }
    }
}
