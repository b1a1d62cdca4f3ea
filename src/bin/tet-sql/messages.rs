//! What is said on standard error.
//!
//! A standard error that cannot be written is no reason to stop, so failures of these writes are dropped.

use crate::terminal;
use anstyle::{AnsiColor, Style};
use std::io::Write;

/// A failed statement.
pub fn error(message: &str) {
    say(AnsiColor::Red, "error", message);
}

/// Something odd that stops nothing.
pub fn warning(message: &str) {
    say(AnsiColor::Yellow, "warning", message);
}

/// Something that helps.
pub fn hint(message: &str) {
    say(AnsiColor::Cyan, "hint", message);
}

/// A line of information.
pub fn note(message: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", shown(message));
}

/// A text of a file may be a part of any message.
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
