//! Axes around the characters of a picture.

use super::screen::{Colour, Screen};
use crate::plot::axis::{Axis, Tick};
use crate::plot::text;

/// Where the characters of the picture are.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// The first column.
    pub left: usize,
    /// The first line.
    pub top: usize,
    /// Columns.
    pub width: usize,
    /// Lines.
    pub height: usize,
}

impl Frame {
    /// Draws two axes, from a line on, that leave the picture all the room there is.
    pub fn new(screen: &mut Screen, top: usize, axes: (&Axis, &Axis), is_ascii: bool) -> Self {
        Self::within(screen, top, axes, 0, is_ascii)
    }

    /// The same, with some columns left free at the right.
    pub fn within(
        screen: &mut Screen,
        top: usize,
        (x, y): (&Axis, &Axis),
        free: usize,
        is_ascii: bool,
    ) -> Self {
        let (width, bottom) = (screen.width().saturating_sub(free), screen.height() - 3);
        let top = if y.title.is_empty() { top } else { top + 1 };
        let height = bottom.saturating_sub(top).max(1);
        let (ticks, title) = y.ticks(height as f64, &|_| 1.0, 1.0);
        let longest = (width / 3).max(4);
        let labels: Vec<String> = ticks
            .iter()
            .map(|tick| text::shortened(&tick.label, longest))
            .collect();
        let left = labels
            .iter()
            .map(|label| Screen::width_of(label))
            .max()
            .unwrap_or(0)
            + 2;
        let frame = Self {
            left,
            top,
            width: width.saturating_sub(left + 1).max(1),
            height,
        };
        if !title.is_empty() {
            screen.put_text(
                0,
                top - 1,
                &text::shortened(&title, screen.width()),
                Colour::Plain,
            );
        }
        let (line, notch) = if is_ascii { ('|', '+') } else { ('│', '┤') };
        for row in 0..height {
            screen.put(left - 1, top + row, line, Colour::Dim);
        }
        for (tick, label) in ticks.iter().zip(labels) {
            let row = top + row_of(tick.at, height);
            screen.put_right(left - 2, row, &label, Colour::Plain);
            screen.put(left - 1, row, notch, Colour::Dim);
        }
        across(screen, x, (left, top + height, frame.width), is_ascii);
        frame
    }
}

/// The row, from the top, for a part of the height from the bottom.
pub fn row_of(at: f64, height: usize) -> usize {
    ((1.0 - at.clamp(0.0, 1.0)) * (height - 1) as f64).round() as usize
}

/// Draws an axis from left to right: a line, the labels and the title.
pub fn across(
    screen: &mut Screen,
    axis: &Axis,
    (left, top, width): (usize, usize, usize),
    is_ascii: bool,
) {
    let size = |label: &str| Screen::width_of(label) as f64;
    let (ticks, title) = axis.ticks(width as f64, &size, 2.0);
    let (corner, line, notch) = if is_ascii {
        ('+', '-', '+')
    } else {
        ('└', '─', '┬')
    };
    screen.put(left - 1, top, corner, Colour::Dim);
    for column in 0..width {
        screen.put(left + column, top, line, Colour::Dim);
    }
    let mut free = 0;
    for Tick { at, label } in &ticks {
        let column = left + (at.clamp(0.0, 1.0) * (width - 1) as f64).round() as usize;
        let label = text::shortened(label, width);
        let taken = Screen::width_of(&label);
        // Around the tick, as far as the screen reaches.
        let begin = column
            .saturating_sub(taken / 2)
            .min(screen.width().saturating_sub(taken));
        screen.put(column, top, notch, Colour::Dim);
        if begin >= free {
            screen.put_text(begin, top + 1, &label, Colour::Plain);
            free = begin + taken + 1;
        }
    }
    screen.put_centred(top + 2, left + width / 2, &title, Colour::Plain);
}
