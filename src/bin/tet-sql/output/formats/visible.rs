//! Text for a terminal, which shows control characters rather than obeying them.

use crate::terminal::is_obeyed;
use std::io::{self, Write};

/// Writes text on with control characters escaped, but for line ends and tabs, and characters that turn the direction of a
/// text.
pub struct Visible<W> {
    sink: W,
    /// The bytes of a character whose end has not been written yet.
    begun: Vec<u8>,
    /// `true` to escape characters as JSON does.
    is_json: bool,
}

impl<W> Visible<W> {
    /// A writer before a terminal.
    pub fn new(sink: W, is_json: bool) -> Self {
        Self {
            sink,
            begun: Vec::new(),
            is_json,
        }
    }

    fn escaped(&self, text: &str) -> String {
        let mut escaped = String::with_capacity(text.len());
        for character in text.chars() {
            match character {
                '\n' | '\t' => escaped.push(character),
                _ if !is_obeyed(character) => escaped.push(character),
                _ if self.is_json => escaped += &format!("\\u{:04x}", u32::from(character)),
                _ => escaped.extend(character.escape_default()),
            }
        }
        escaped
    }
}

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.begun) {
            Ok(_) => self.begun.len(),
            // More is to come; what is no text at all is replaced.
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => self.begun.len(),
        };
        let rest = self.begun.split_off(whole);
        let text = self.escaped(&String::from_utf8_lossy(&self.begun));
        self.begun = rest;
        self.sink.write_all(text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_not_told_what_to_do() {
        let text = "a\u{1b}[2J,\u{9b}31m\t日\u{202e}\n";
        let written = |is_json, size| {
            let mut visible = Visible::new(Vec::new(), is_json);
            for some in text.as_bytes().chunks(size) {
                visible.write_all(some).unwrap();
            }
            String::from_utf8(visible.sink).unwrap()
        };
        // Characters may be cut anywhere between two writes.
        for size in [1, 2, 3, 100] {
            assert_eq!(
                written(false, size),
                "a\\u{1b}[2J,\\u{9b}31m\t日\\u{202e}\n"
            );
            assert_eq!(written(true, size), "a\\u001b[2J,\\u009b31m\t日\\u202e\n");
        }
    }
}
