//! What is said on standard error.
//!
//! A standard error that cannot be written is no reason to stop, so failures of these writes are dropped.

use anstyle::{AnsiColor, Style};
use std::io::{IsTerminal, Write};

/// A failed statement.
pub fn error(message: &str) {
    let style = style();
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "{style}error:{style:#} {message}");
}

/// Something odd that stops nothing.
pub fn warning(message: &str) {
    let _ = writeln!(std::io::stderr().lock(), "warning: {message}");
}

/// A line of information.
pub fn note(message: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{message}");
}

/// Red on a terminal, unless colours are unwanted (<https://no-color.org>).
fn style() -> Style {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    if unwanted || !std::io::stderr().is_terminal() {
        Style::new()
    } else {
        AnsiColor::Red.on_default().bold()
    }
}
