//! Escapes control characters in text for a terminal, which would otherwise obey them.

use crate::terminal::is_obeyed;
use std::io::{self, Write};

/// A writer that escapes control characters and characters that change the direction of text. Line
/// ends and tabs pass through.
pub struct Visible<W> {
    sink: W,
    /// The first bytes of a character that is not complete yet.
    begun: Vec<u8>,
    /// `true` to escape characters as JSON does.
    is_json: bool,
}

impl<W> Visible<W> {
    /// Creates a writer in front of a sink.
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
            // The last character may be incomplete until the next write. Invalid bytes are
            // replaced.
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
    fn control_characters_are_escaped() {
        let text = "a\u{1b}[2J,\u{9b}31m\t日\u{202e}\n";
        let written = |is_json, size| {
            let mut visible = Visible::new(Vec::new(), is_json);
            for some in text.as_bytes().chunks(size) {
                visible.write_all(some).unwrap();
            }
            String::from_utf8(visible.sink).unwrap()
        };
        // A write may end in the middle of a character.
        for size in [1, 2, 3, 100] {
            assert_eq!(
                written(false, size),
                "a\\u{1b}[2J,\\u{9b}31m\t日\\u{202e}\n"
            );
            assert_eq!(written(true, size), "a\\u001b[2J,\\u009b31m\t日\\u202e\n");
        }
    }
}
