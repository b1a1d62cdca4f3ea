//! A page with title, notes and axes, and the space left for the plot.

use super::font::Font;
use super::scene::{Anchor, Mark};
use crate::axis::Axis;
use crate::palette::Rgb;
use crate::text;
use crate::{Chart, Content};

/// The width of a page in pixels.
pub const WIDTH: f64 = 800.0;
/// The height of a page in pixels, without notes.
const HEIGHT: f64 = 480.0;
/// The margin around the page.
pub const MARGIN: f64 = 16.0;
/// The font size of labels and axis titles.
pub const SIZE: f64 = 12.0;
/// The font size of the page title.
const TITLE_SIZE: f64 = 15.0;
/// The font size of notes.
pub const NOTE_SIZE: f64 = 10.5;
/// The line height, relative to the font size.
pub const LEADING: f64 = 1.4;
/// The maximum width of a label.
pub const WIDEST_LABEL: f64 = 160.0;
/// The distance from one bar to the next.
const BAR_HEIGHT: f64 = 22.0;
/// The colour of text.
pub const INK: Rgb = [0x22, 0x22, 0x22];
/// The colour of less important text.
pub const GREY: Rgb = [0x66, 0x66, 0x66];
/// The colour of axes and frames.
pub const FRAME: Rgb = [0x88, 0x88, 0x88];
/// The colour of grid lines.
const GRID: Rgb = [0xe4, 0xe4, 0xe4];

/// A page under construction: its marks, and the space left for more.
pub struct Page {
    /// The font that measures texts.
    pub font: Font,
    /// The marks drawn so far.
    pub marks: Vec<Mark>,
    /// The height in pixels, with notes.
    pub height: f64,
    /// The bounds of the space left.
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

impl Page {
    /// Creates a page with the title at the top and the notes at the bottom.
    pub fn new(chart: &Chart) -> Result<Self, String> {
        let height = match &chart.content {
            // The height grows with the number of bars, so that every name fits.
            Content::Bars(bars) => (bars.bars.len() as f64 * BAR_HEIGHT + 120.0).max(200.0),
            _ => HEIGHT,
        };
        let mut page = Self {
            font: Font::new()?,
            marks: Vec::new(),
            height,
            left: MARGIN,
            right: WIDTH - MARGIN,
            top: MARGIN,
            bottom: height - MARGIN,
        };
        if let Some(title) = &chart.title {
            let at = (WIDTH / 2.0, page.top + TITLE_SIZE * 0.8);
            let title = page.shortened(title, WIDTH - 2.0 * MARGIN, TITLE_SIZE);
            page.write(at, &title, TITLE_SIZE, Anchor::Middle, INK);
            page.top += TITLE_SIZE * LEADING + 4.0;
        }
        let of_bars = match &chart.content {
            Content::Bars(bars) => bars.note(bars.bars.len()),
            _ => None,
        };
        let notes = of_bars.iter().chain(&chart.notes);
        let notes = notes.flat_map(|note| page.wrapped(note, WIDTH - 2.0 * MARGIN));
        let notes: Vec<String> = notes.collect();
        // Notes extend the page, so that the plot keeps its size.
        let room = notes.len() as f64 * NOTE_SIZE * LEADING;
        page.height += room;
        for (number, note) in notes.iter().enumerate() {
            let y = page.bottom + (number as f64 + 0.8) * NOTE_SIZE * LEADING;
            page.write((MARGIN, y), note, NOTE_SIZE, Anchor::Start, GREY);
        }
        page.bottom -= if notes.is_empty() { 0.0 } else { 6.0 };
        Ok(page)
    }

    /// Draws a line of text.
    pub fn write(&mut self, at: (f64, f64), text: &str, size: f64, anchor: Anchor, colour: Rgb) {
        self.marks.push(Mark::Text {
            at,
            text: text.to_owned(),
            size,
            anchor,
            is_upright: false,
            colour,
        });
    }

    /// Draws a thin line.
    pub fn rule(&mut self, from: (f64, f64), to: (f64, f64), colour: Rgb) {
        self.marks.push(Mark::Line {
            points: vec![from, to],
            colour,
            width: 1.0,
            dash: None,
        });
    }

    /// Shortens a text to at most `width` pixels.
    pub fn shortened(&self, text: &str, width: f64, size: f64) -> String {
        let mut characters = text.chars().count();
        loop {
            let short = text::shortened(text, characters);
            if characters <= 1 || self.font.width(&short, size) <= width {
                return short;
            }
            characters -= 1;
        }
    }

    fn wrapped(&self, text: &str, width: f64) -> Vec<String> {
        let mut lines = vec![String::new()];
        for word in text.split_whitespace() {
            let last = lines.len() - 1;
            let longer = format!("{} {word}", lines[last]);
            if lines[last].is_empty() {
                lines[last].push_str(word);
            } else if self.font.width(&longer, NOTE_SIZE) <= width {
                lines[last] = longer;
            } else {
                lines.push(word.to_owned());
            }
        }
        lines
    }

    /// Draws both axes. The space left afterwards is the plot area between the axes.
    pub fn axes(&mut self, x: &Axis, y: &Axis, has_grid: bool) {
        self.bottom -= 2.0 * SIZE * LEADING + 6.0;
        self.top += 4.0;
        let height = self.bottom - self.top;
        let (y_ticks, y_title) = y.ticks(height, &|_| SIZE, SIZE);
        let labels = y_ticks
            .iter()
            .map(|tick| self.shortened(&tick.label, WIDEST_LABEL, SIZE));
        let labels: Vec<String> = labels.collect();
        let widest = labels
            .iter()
            .map(|label| self.font.width(label, SIZE))
            .fold(0.0, f64::max);
        if !y_title.is_empty() {
            let at = (self.left + SIZE * 0.8, (self.top + self.bottom) / 2.0);
            let text = self.shortened(&y_title, height + 20.0, SIZE);
            self.marks.push(Mark::Text {
                at,
                text,
                size: SIZE,
                anchor: Anchor::Middle,
                is_upright: true,
                colour: INK,
            });
            self.left += SIZE * LEADING + 2.0;
        }
        self.left += widest + 8.0;
        for (tick, label) in y_ticks.iter().zip(&labels) {
            let y = self.bottom - tick.at * height;
            if has_grid {
                self.rule((self.left, y), (self.right, y), GRID);
            }
            self.rule((self.left - 4.0, y), (self.left, y), FRAME);
            self.write(
                (self.left - 7.0, y + SIZE * 0.36),
                label,
                SIZE,
                Anchor::End,
                INK,
            );
        }
        self.x_axis(x, has_grid);
    }

    /// Draws the horizontal axis with its ticks and title.
    pub fn x_axis(&mut self, x: &Axis, has_grid: bool) {
        let (left, right, top, bottom) = (self.left, self.right, self.top, self.bottom);
        let width = right - left;
        let (ticks, title) = {
            let font = &self.font;
            x.ticks(
                width,
                &|label| font.width(label, SIZE).min(WIDEST_LABEL),
                SIZE,
            )
        };
        for tick in ticks {
            let x = left + tick.at * width;
            if has_grid {
                self.rule((x, top), (x, bottom), GRID);
            }
            self.rule((x, bottom), (x, bottom + 4.0), FRAME);
            let label = self.shortened(&tick.label, WIDEST_LABEL, SIZE);
            // Keep labels at the ends of the axis on the page.
            let half = self.font.width(&label, SIZE) / 2.0;
            let x = x.min(WIDTH - 4.0 - half).max(4.0 + half);
            self.write((x, bottom + 5.0 + SIZE), &label, SIZE, Anchor::Middle, INK);
        }
        let at = ((left + right) / 2.0, bottom + 7.0 + SIZE + SIZE * LEADING);
        let title = self.shortened(&title, WIDTH - 2.0 * MARGIN, SIZE);
        self.write(at, &title, SIZE, Anchor::Middle, INK);
    }

    /// Draws a frame around the plot area.
    pub fn frame(&mut self) {
        let (left, right, top, bottom) = (self.left, self.right, self.top, self.bottom);
        let points = vec![
            (left, top),
            (right, top),
            (right, bottom),
            (left, bottom),
            (left, top),
        ];
        self.marks.push(Mark::Line {
            points,
            colour: FRAME,
            width: 1.0,
            dash: None,
        });
    }

    /// Returns the x coordinate in pixels of a value on the horizontal axis.
    pub fn x(&self, axis: &Axis, value: f64) -> f64 {
        self.left + axis.place(value) * (self.right - self.left)
    }

    /// Returns the y coordinate in pixels of a value on the vertical axis.
    pub fn y(&self, axis: &Axis, value: f64) -> f64 {
        self.bottom - axis.place(value) * (self.bottom - self.top)
    }
}
