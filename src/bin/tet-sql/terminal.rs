//! What the terminal is like.

use clap::ColorChoice;
use std::io::IsTerminal;
use std::sync::OnceLock;

/// Of a terminal that does not tell.
const COLUMNS: usize = 80;
const LINES: usize = 24;

static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// Chooses, once, whether there are colours.
pub fn choose_colours(choice: ColorChoice) {
    let _ = CHOICE.set(choice);
}

/// Whether standard input is a terminal.
pub fn is_input() -> bool {
    std::io::stdin().is_terminal()
}

/// Whether standard output is a terminal.
pub fn is_output() -> bool {
    std::io::stdout().is_terminal()
}

/// Whether standard error is a terminal.
pub fn is_error() -> bool {
    std::io::stderr().is_terminal()
}

/// Whether standard output has colours.
pub fn colours_output() -> bool {
    has_colours(is_output())
}

/// Whether standard error has colours.
pub fn colours_error() -> bool {
    has_colours(is_error())
}

/// Whether the prompt has colours.
pub fn colours_prompt() -> bool {
    has_colours(is_input())
}

/// As asked for on the command line, else as <https://no-color.org> and <https://bixense.com/clicolors> have it.
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

/// Columns of characters.
pub fn columns() -> usize {
    size().map_or(COLUMNS, |(columns, _)| columns)
}

/// Lines of characters.
pub fn lines() -> usize {
    size().map_or(LINES, |(_, lines)| lines)
}

fn size() -> Option<(usize, usize)> {
    let (columns, lines) = terminal_size::terminal_size()?;
    // Some that are not drawn anywhere have no size.
    (columns.0 > 0 && lines.0 > 0).then_some((columns.0.into(), lines.0.into()))
}

/// A text as it is written in programs, where terminals would obey it rather than show it, or show it in another order.
pub fn on_a_line(text: &str) -> String {
    escaped(text, is_obeyed)
}

/// The same for a text of several lines.
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

/// Control characters, and those that turn the direction of a text.
pub fn is_obeyed(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Keeps the terminal from showing Ctrl-C as `^C`, which behind a bar as wide as the screen would move it to the next line,
/// out of the reach of what takes it away. Dropping it lets the terminal show keys as before.
pub struct Silence {
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
}

impl Silence {
    /// Begins, if standard input is a terminal.
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

    /// Begins, if standard input is a terminal.
    #[cfg(not(unix))]
    pub fn begin() -> Self {
        Self {}
    }
}

impl Drop for Silence {
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
            on_a_line("a\u{1b}[2J\n\u{202e}é"),
            "a\\u{1b}[2J\\n\\u{202e}é"
        );
        assert_eq!(on_lines("a\n\tb"), "a\n\\tb");
    }
}
