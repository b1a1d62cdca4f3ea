//! Axes around the plot area of a terminal chart.

use super::screen::{Colour, Screen};
use crate::axis::{Axis, Tick};
use crate::text;

/// The plot area, in characters.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// The first column.
    pub left: usize,
    /// The first line.
    pub top: usize,
    /// The number of columns.
    pub width: usize,
    /// The number of lines.
    pub height: usize,
}

impl Frame {
    /// Draws both axes below line `top` and returns the plot area between them.
    pub fn new(screen: &mut Screen, top: usize, axes: (&Axis, &Axis), is_ascii: bool) -> Self {
        Self::within(screen, top, axes, 0, is_ascii)
    }

    /// Like [`Frame::new`], with `free` columns left empty at the right.
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

/// Returns the row, from the top, of a relative height `at` from 0 at the bottom to 1.
pub fn row_of(at: f64, height: usize) -> usize {
    ((1.0 - at.clamp(0.0, 1.0)) * (height - 1) as f64).round() as usize
}

/// Draws a horizontal axis: a line, its labels and its title.
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
        // Centre the label on its tick, but keep it on the screen.
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
