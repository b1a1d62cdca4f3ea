//! Messages on standard error.
//!
//! Write failures are ignored, because there is no other place to report them.

use crate::output::wrapping::wrapped;
use crate::terminal;
use anstyle::{AnsiColor, Style};
use std::io::Write;

/// Reports a failed statement.
pub fn error(message: &str) {
    say(AnsiColor::Red, "error", message);
}

/// Reports a problem that does not stop the command.
pub fn warning(message: &str) {
    say(AnsiColor::Yellow, "warning", message);
}

/// Suggests something helpful.
pub fn hint(message: &str) {
    say(AnsiColor::Cyan, "hint", message);
}

/// Writes a line of information.
pub fn note(message: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", shown(message));
}

/// Escapes control characters on a terminal, because any message may contain text from a file.
fn shown(message: &str) -> String {
    match terminal::is_error() {
        true => terminal::on_lines(message),
        false => message.to_owned(),
    }
}

fn say(colour: AnsiColor, kind: &str, message: &str) {
    let style = match terminal::colours_error() {
        true => colour.on_default().bold(),
        false => Style::new(),
    };
    let message = shown(message);
    let width = terminal::is_error().then(terminal::columns);
    let message = with_wrapped_sentence(kind, &message, width);
    let _ = writeln!(
        std::io::stderr().lock(),
        "{style}{kind}:{style:#} {message}"
    );
}

/// Wraps the first line of a message, which follows its kind and a colon. The other lines are an excerpt of the
/// statement, with a mark below the faulty text.
fn with_wrapped_sentence(kind: &str, message: &str, width: Option<usize>) -> String {
    let (sentence, excerpt) = message.split_at(message.find('\n').unwrap_or(message.len()));
    let before = format!("{kind}: ");
    let sentence = wrapped(&format!("{before}{sentence}"), width, 0);
    format!(
        "{}{excerpt}",
        sentence.strip_prefix(&before).unwrap_or(&sentence)
    )
}

#[cfg(test)]
mod tests {
    use super::with_wrapped_sentence;

    #[test]
    fn sentences_are_wrapped_and_excerpts_are_not() {
        let excerpt = "\nLINE 1: SELECT   nothing FROM temperature\n                 ^^^^^^^";
        let message = format!("there is no column nothing in temperature{excerpt}");
        let wrapped = with_wrapped_sentence("error", &message, Some(24));
        let expected = format!("there is no\ncolumn nothing in\ntemperature{excerpt}");
        assert_eq!(wrapped, expected);
        assert_eq!(with_wrapped_sentence("error", &message, None), message);
    }
}
