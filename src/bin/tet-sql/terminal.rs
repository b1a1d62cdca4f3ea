//! The properties of the terminal, and text that is safe to show on it.

use clap::ColorChoice;
use std::io::IsTerminal;
use std::sync::OnceLock;

/// The size of a terminal that does not report one.
const COLUMNS: usize = 80;
const LINES: usize = 24;

static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// Sets when output is coloured. Only the first call has an effect.
pub fn choose_colours(choice: ColorChoice) {
    let _ = CHOICE.set(choice);
}

/// Returns `true` if standard input is a terminal.
pub fn is_input() -> bool {
    std::io::stdin().is_terminal()
}

/// Returns `true` if standard output is a terminal.
pub fn is_output() -> bool {
    std::io::stdout().is_terminal()
}

/// Returns `true` if standard error is a terminal.
pub fn is_error() -> bool {
    std::io::stderr().is_terminal()
}

/// Returns `true` if standard output is coloured.
pub fn colours_output() -> bool {
    has_colours(is_output())
}

/// Returns `true` if standard error is coloured.
pub fn colours_error() -> bool {
    has_colours(is_error())
}

/// Returns `true` if the prompt is coloured.
pub fn colours_prompt() -> bool {
    has_colours(is_input())
}

/// Follows the command line, else <https://no-color.org> and <https://bixense.com/clicolors>.
fn has_colours(is_terminal: bool) -> bool {
    let is_set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    match CHOICE.get().unwrap_or(&ColorChoice::Auto) {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto if is_set("NO_COLOR").is_some() => false,
        ColorChoice::Auto if is_set("CLICOLOR_FORCE").is_some_and(|value| value != "0") => true,
        ColorChoice::Auto => is_terminal && is_set("TERM").is_none_or(|term| term != "dumb"),
    }
}

/// Returns the width of the terminal in characters.
pub fn columns() -> usize {
    size().map_or(COLUMNS, |(columns, _)| columns)
}

/// Returns the height of the terminal in lines.
pub fn lines() -> usize {
    size().map_or(LINES, |(_, lines)| lines)
}

fn size() -> Option<(usize, usize)> {
    let (columns, lines) = terminal_size::terminal_size()?;
    // Some pseudo-terminals that are not displayed report a size of zero.
    (columns.0 > 0 && lines.0 > 0).then_some((columns.0.into(), lines.0.into()))
}

/// Escapes control characters and characters that change the text direction.
pub fn escape_controls(text: &str) -> String {
    escaped(text, is_obeyed)
}

/// Like [`escape_controls`], but keeps line ends.
pub fn on_lines(text: &str) -> String {
    escaped(text, |character| character != '\n' && is_obeyed(character))
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if is_escaped(character) {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Returns `true` for control characters and characters that change the text direction.
pub fn is_obeyed(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Stops the terminal from echoing Ctrl-C as `^C`. After a progress bar as wide as the terminal,
/// the echo would wrap to a new line, and the bar would not be erased. Dropping this restores the
/// echo.
pub struct EchoGuard {
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
}

impl EchoGuard {
    /// Disables the echo if standard input is a terminal.
    #[cfg(unix)]
    pub fn begin() -> Self {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let before = tcgetattr(std::io::stdin()).ok();
        if let Some(mut silent) = before.clone() {
            silent.local_modes.remove(LocalModes::ECHOCTL);
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &silent);
        }
        Self { before }
    }

    /// Does nothing on this platform.
    #[cfg(not(unix))]
    pub fn begin() -> Self {
        Self {}
    }
}

impl Drop for EchoGuard {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(before) = &self.before {
            use rustix::termios::{OptionalActions, tcsetattr};
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_not_told_what_to_do() {
        assert_eq!(
            escape_controls("a\u{1b}[2J\n\u{202e}é"),
            "a\\u{1b}[2J\\n\\u{202e}é"
        );
        assert_eq!(on_lines("a\n\tb"), "a\n\\tb");
    }
}
