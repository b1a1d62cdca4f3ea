//! A grid of coloured characters.

use super::{Characters, Colours};
use crate::palette::{self, Rgb};
use std::fmt::Write;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The colours of lines on terminals with 16 colours. All are visible on white and on black.
const LINES_16: [u8; 8] = [12, 9, 2, 5, 3, 6, 8, 1];
/// The colours of values on terminals with 16 colours, from dark to light.
const SHADES_16: [u8; 6] = [4, 12, 6, 2, 10, 11];
/// The colours of lines. All are visible on white and on black.
const LINES: [Rgb; 8] = [
    [0x2f, 0x8f, 0xd0],
    [0xd5, 0x5e, 0x00],
    [0x00, 0x9e, 0x73],
    [0xcc, 0x79, 0xa7],
    [0xc9, 0x8b, 0x00],
    [0x56, 0xb4, 0xe9],
    [0x88, 0x88, 0x88],
    [0xa8, 0x6a, 0x5c],
];
/// The six levels of each channel in the 216-colour cube.
const CUBE: [u8; 6] = [0, 95, 135, 175, 215, 255];

/// The colour of a character.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Colour {
    /// The default text colour.
    Plain,
    /// A fainter text colour.
    Dim,
    /// The colour of the line with this index.
    Line(usize),
    /// The colour of a value from 0 to 1.
    Shade(f64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Cell {
    /// `None` for the right half of a double-width character.
    c: Option<char>,
    colour: Colour,
    ground: Colour,
}

const EMPTY: Cell = Cell {
    c: Some(' '),
    colour: Colour::Plain,
    ground: Colour::Plain,
};

/// A grid of coloured characters.
#[derive(Debug, Clone)]
pub struct Screen {
    width: usize,
    lines: Vec<Vec<Cell>>,
}

impl Screen {
    /// Creates an empty screen.
    pub fn new(width: usize, height: usize) -> Self {
        Self {
            width,
            lines: vec![vec![EMPTY; width]; height],
        }
    }

    /// Returns the number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of lines.
    pub fn height(&self) -> usize {
        self.lines.len()
    }

    /// Returns the number of columns that a text takes.
    pub fn width_of(text: &str) -> usize {
        text.width()
    }

    /// Returns the number of lines that a text takes when wrapped to `width` columns.
    pub fn lines_of(text: &str, width: usize) -> usize {
        wrapped(text, width).len()
    }

    /// Puts a character. A character outside the screen is ignored.
    pub fn put(&mut self, column: usize, line: usize, c: char, colour: Colour) {
        self.put_on(column, line, c, colour, Colour::Plain);
    }

    /// Puts a character on a background colour.
    pub fn put_on(&mut self, column: usize, line: usize, c: char, colour: Colour, ground: Colour) {
        if let Some(cell) = self
            .lines
            .get_mut(line)
            .and_then(|line| line.get_mut(column))
        {
            *cell = Cell {
                c: Some(c),
                colour,
                ground,
            };
        }
    }

    /// Puts a text that starts at `column`, cut off at the right edge of the screen.
    pub fn put_text(&mut self, column: usize, line: usize, text: &str, colour: Colour) {
        let mut column = column;
        for c in text.chars() {
            let width = c.width().unwrap_or(0);
            if width == 0 || column + width > self.width {
                continue;
            }
            self.put(column, line, c, colour);
            if width == 2
                && let Some(line) = self.lines.get_mut(line)
            {
                line[column + 1].c = None;
            }
            column += width;
        }
    }

    /// Puts a text that ends before column `end`.
    pub fn put_right(&mut self, end: usize, line: usize, text: &str, colour: Colour) {
        self.put_text(end.saturating_sub(text.width()), line, text, colour);
    }

    /// Puts a text centred on column `middle`.
    pub fn put_centred(&mut self, line: usize, middle: usize, text: &str, colour: Colour) {
        let text = crate::text::shortened(text, self.width);
        let width = text.width();
        let column = middle
            .saturating_sub(width / 2)
            .min(self.width.saturating_sub(width));
        self.put_text(column, line, &text, colour);
    }

    /// Appends a text below, wrapped to as many lines as needed.
    pub fn add_line(&mut self, text: &str, colour: Colour) {
        for part in wrapped(text, self.width) {
            self.lines.push(vec![EMPTY; self.width]);
            self.put_text(0, self.lines.len() - 1, &part, colour);
        }
    }

    /// Truncates the screen to `height` lines.
    pub fn cut(&mut self, height: usize) {
        self.lines.truncate(height);
    }

    /// Returns the screen as text with escape sequences for colours.
    pub fn text(&self, colours: Colours, characters: Characters) -> String {
        let mut text = String::new();
        for line in &self.lines {
            let used = line
                .iter()
                .rposition(|cell| *cell != EMPTY)
                .map_or(0, |last| last + 1);
            let mut current = String::new();
            for cell in &line[..used] {
                let Some(c) = cell.c else {
                    continue;
                };
                let wanted = sequence(cell, colours);
                if wanted != current {
                    if !current.is_empty() {
                        text.push_str("\x1b[0m");
                    }
                    text.push_str(&wanted);
                    current = wanted;
                }
                let is_shown = characters != Characters::Ascii || c.is_ascii();
                text.push(if is_shown { c } else { '?' });
            }
            if !current.is_empty() {
                text.push_str("\x1b[0m");
            }
            text.push('\n');
        }
        text
    }
}

/// Returns the escape sequence for the colours of a cell, or an empty string.
fn sequence(cell: &Cell, colours: Colours) -> String {
    if colours == Colours::None {
        return String::new();
    }
    let mut codes: Vec<String> = Vec::new();
    if cell.colour == Colour::Dim {
        codes.push("2".to_owned());
    }
    codes.extend(code(cell.colour, colours, false));
    codes.extend(code(cell.ground, colours, true));
    if codes.is_empty() {
        return String::new();
    }
    format!("\x1b[{}m", codes.join(";"))
}

fn code(colour: Colour, colours: Colours, is_ground: bool) -> Option<String> {
    let rgb = match colour {
        Colour::Plain | Colour::Dim => return None,
        Colour::Line(number) => LINES[number % LINES.len()],
        Colour::Shade(value) => palette::shade(value),
    };
    let add = if is_ground { 10 } else { 0 };
    let mut code = String::new();
    // Writing to a string does not fail.
    let _ = match colours {
        Colours::None => return None,
        Colours::Ansi16 => {
            let number = match colour {
                Colour::Shade(value) => {
                    let count = SHADES_16.len();
                    SHADES_16[((value.clamp(0.0, 1.0) * count as f64) as usize).min(count - 1)]
                }
                Colour::Line(number) => LINES_16[number % LINES_16.len()],
                Colour::Plain | Colour::Dim => return None,
            };
            let base = if number < 8 { 30 } else { 90 - 8 };
            write!(code, "{}", base + number + add)
        }
        Colours::Ansi256 => write!(code, "{};5;{}", 38 + add, nearest_256(rgb)),
        Colours::TrueColour => write!(code, "{};2;{};{};{}", 38 + add, rgb[0], rgb[1], rgb[2]),
    };
    Some(code)
}

/// Returns the index of the nearest colour of the 216-colour cube.
fn nearest_256(rgb: Rgb) -> u8 {
    let level = |channel: u8| {
        let distance = |level: &(usize, u8)| level.1.abs_diff(channel);
        let levels = CUBE.into_iter().enumerate();
        levels.min_by_key(distance).map_or(0, |level| level.0 as u8)
    };
    16 + 36 * level(rgb[0]) + 6 * level(rgb[1]) + level(rgb[2])
}

/// Breaks a text into lines at spaces.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else {
            break;
        };
        if line.is_empty() {
            line.push_str(word);
        } else if line.width() + 1 + word.width() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_switched_only_where_they_change() {
        let mut screen = Screen::new(8, 2);
        screen.put(1, 0, 'a', Colour::Line(1));
        screen.put(2, 0, 'b', Colour::Line(1));
        screen.put_on(3, 0, 'c', Colour::Shade(1.0), Colour::Shade(0.0));
        let text = |colours| screen.text(colours, Characters::Ascii);
        assert_eq!(text(Colours::None), " abc\n\n");
        assert_eq!(
            text(Colours::Ansi16),
            " \x1b[91mab\x1b[0m\x1b[93;44mc\x1b[0m\n\n"
        );
        assert_eq!(
            text(Colours::Ansi256),
            " \x1b[38;5;166mab\x1b[0m\x1b[38;5;220;48;5;53mc\x1b[0m\n\n"
        );
        assert_eq!(
            text(Colours::TrueColour),
            " \x1b[38;2;213;94;0mab\x1b[0m\x1b[38;2;253;231;37;48;2;68;1;84mc\x1b[0m\n\n"
        );
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let mut screen = Screen::new(6, 1);
        screen.put_right(5, 0, "温度", Colour::Plain);
        screen.put(5, 0, '|', Colour::Plain);
        assert_eq!(screen.text(Colours::None, Characters::Braille), " 温度|\n");
        assert_eq!(screen.text(Colours::None, Characters::Ascii), " ??|\n");
    }

    #[test]
    fn long_texts_are_broken() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
    }
}
