//! Messages on standard error.
//!
//! Write failures are ignored, because there is no other place to report them.

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
    let _ = writeln!(
        std::io::stderr().lock(),
        "{style}{kind}:{style:#} {message}"
    );
}
