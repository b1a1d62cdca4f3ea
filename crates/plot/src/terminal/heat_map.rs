//! Heat maps in the terminal, with one or two cells per character.

use super::frame::{Frame, row_of};
use super::screen::{Colour, Screen};
use super::{Canvas, Characters, Colours};
use crate::Chart;
use crate::heat_map::HeatMap;
use crate::text;

/// Characters from light to dark, for terminals without colours.
const INK_ASCII: [char; 9] = ['.', ':', '-', '=', '+', '*', '#', '%', '@'];
const INK_BLOCKS: [char; 4] = ['░', '▒', '▓', '█'];

/// Draws a heat map with its colour scale at the right.
pub fn draw(chart: &Chart, map: &HeatMap, canvas: Canvas) -> Screen {
    let (mut screen, top) = canvas.screen(chart);
    let rows = screen.height().saturating_sub(top + 4).max(1);
    let (ticks, _) = map.value.ticks(rows as f64, &|_| 1.0, 1.0);
    let labels = ticks
        .iter()
        .map(|tick| Screen::width_of(&tick.label))
        .max()
        .unwrap_or(0);
    let bar = labels + 5;
    let y_title = (!map.y.title.is_empty()).then_some(map.y.title.as_str());
    let frame = Frame::within(&mut screen, top, (&map.x, &map.y), bar, canvas.is_ascii());
    let taken = y_title.map_or(0, Screen::width_of);
    let line = frame.top.saturating_sub(1);
    let title = text::shortened(&map.value.title, canvas.width.saturating_sub(taken + 2));
    screen.put_right(canvas.width, line, &title, Colour::Plain);
    let pen = Pen {
        canvas,
        halves: canvas.colours != Colours::None && !canvas.is_ascii(),
    };
    let high = if pen.halves { 2 } else { 1 };
    let dots = map.dots(frame.width, frame.height * high);
    let shades: Vec<Option<f64>> = dots
        .into_iter()
        .map(|value| (!value.is_nan()).then(|| map.shade(value)))
        .collect();
    for row in 0..frame.height {
        for column in 0..frame.width {
            let upper = shades[row * high * frame.width + column];
            let lower = shades[(row * high + high - 1) * frame.width + column];
            pen.put(
                &mut screen,
                frame.left + column,
                frame.top + row,
                (upper, lower),
            );
        }
    }
    let left = frame.left + frame.width + 2;
    for row in 0..frame.height {
        let shade = |part: f64| Some(1.0 - (row as f64 + part) / frame.height as f64);
        let pair = if pen.halves {
            (shade(0.25), shade(0.75))
        } else {
            (shade(0.5), shade(0.5))
        };
        for column in left..left + 2 {
            pen.put(&mut screen, column, frame.top + row, pair);
        }
    }
    for tick in &ticks {
        screen.put_text(
            left + 3,
            frame.top + row_of(tick.at, frame.height),
            &tick.label,
            Colour::Plain,
        );
    }
    screen
}

struct Pen {
    canvas: Canvas,
    /// `true` if a character shows two values, one above the other.
    halves: bool,
}

impl Pen {
    fn put(
        &self,
        screen: &mut Screen,
        column: usize,
        row: usize,
        pair: (Option<f64>, Option<f64>),
    ) {
        let (c, colour, ground) = match pair {
            (None, None) => return,
            (Some(value), _) if self.canvas.colours == Colours::None => {
                (self.ink(value), Colour::Plain, Colour::Plain)
            }
            (Some(value), _) if !self.halves => (' ', Colour::Plain, Colour::Shade(value)),
            (Some(upper), Some(lower)) if upper == lower => {
                ('█', Colour::Shade(upper), Colour::Plain)
            }
            (Some(upper), Some(lower)) => ('▀', Colour::Shade(upper), Colour::Shade(lower)),
            (Some(upper), None) => ('▀', Colour::Shade(upper), Colour::Plain),
            (None, Some(lower)) => ('▄', Colour::Shade(lower), Colour::Plain),
        };
        screen.put_on(column, row, c, colour, ground);
    }

    fn ink(&self, value: f64) -> char {
        let inks: &[char] = if self.canvas.characters == Characters::Ascii {
            &INK_ASCII
        } else {
            &INK_BLOCKS
        };
        inks[((value * inks.len() as f64) as usize).min(inks.len() - 1)]
    }
}
