//! Draws charts as text.

mod abilities;
mod dots;
mod frame;
mod heat_map;
mod screen;

use super::bars::Bars;
use super::histogram::Histogram;
use super::lines::Lines;
use super::text;
use super::{Chart, Content};
use dots::Dots;
use frame::Frame;
use screen::{Colour, Screen};

/// The colours that a terminal supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// No colours, or the output is not a terminal.
    None,
    /// The 8 standard colours, dark and bright.
    Ansi16,
    /// The 256-colour palette.
    Ansi256,
    /// 24-bit colours.
    TrueColour,
}

/// The characters that a terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Characters {
    /// ASCII only.
    Ascii,
    /// Unicode line and block characters.
    Blocks,
    /// Line, block and Braille characters.
    Braille,
}

/// The size and abilities of a terminal.
#[derive(Debug, Clone, Copy)]
struct Canvas {
    width: usize,
    height: usize,
    colours: Colours,
    characters: Characters,
}

/// The marks that tell lines apart where neither colours nor dots can.
const MARKS: [char; 16] = [
    '*', 'o', '+', 'x', '#', '@', '%', '&', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h',
];
/// Blocks that fill a character from the left, and from the bottom, in eighths.
const FROM_LEFT: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
const FROM_BOTTOM: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws a chart, followed by its notes.
pub fn draw(
    chart: &Chart,
    size: (usize, usize),
    colours: Colours,
    characters: Characters,
) -> String {
    // Sizes outside these bounds are not those of a real terminal.
    let canvas = Canvas {
        width: size.0.clamp(24, 1000),
        height: size.1.clamp(8, 500),
        colours,
        characters,
    };
    let mut screen = match &chart.content {
        Content::Lines(lines) => draw_lines(chart, lines, canvas),
        Content::Histogram(histogram) => draw_histogram(chart, histogram, canvas),
        Content::Bars(bars) => draw_bars(chart, bars, canvas),
        Content::HeatMap(map) => heat_map::draw(chart, map, canvas),
    };
    for note in &chart.notes {
        screen.add_line(note, Colour::Dim);
    }
    screen.text(colours, characters)
}

impl Canvas {
    /// Returns a screen with the title on it, and the first free line. Notes reduce the height,
    /// down to half of the terminal.
    fn screen(&self, chart: &Chart) -> (Screen, usize) {
        let notes = chart
            .notes
            .iter()
            .map(|note| Screen::lines_of(note, self.width));
        let height = self
            .height
            .saturating_sub(notes.sum())
            .max(self.height / 2)
            .max(8);
        let mut screen = Screen::new(self.width, height);
        let Some(title) = &chart.title else {
            return (screen, 0);
        };
        screen.put_centred(0, self.width / 2, title, Colour::Plain);
        (screen, 1)
    }

    fn is_ascii(&self) -> bool {
        self.characters == Characters::Ascii
    }
}

fn draw_lines(chart: &Chart, lines: &Lines, canvas: Canvas) -> Screen {
    let (mut screen, mut top) = canvas.screen(chart);
    let are_many = lines.lines.len() > 1;
    // A mark fills a character, so mark charts are coarse: use them only where needed.
    let by_marks = canvas.is_ascii() || (are_many && canvas.colours == Colours::None);
    let mark = |number: usize| {
        if by_marks {
            MARKS[number % MARKS.len()]
        } else {
            '─'
        }
    };
    if are_many {
        top += legend(&mut screen, top, lines, &mark);
    }
    let frame = Frame::new(&mut screen, top, (&lines.x, &lines.y), canvas.is_ascii());
    let (wide, high) = match canvas.characters {
        _ if by_marks => (1, 1),
        Characters::Ascii => (1, 1),
        Characters::Blocks => (2, 2),
        Characters::Braille => (2, 4),
    };
    let mut dots = Dots::new(frame.width * wide, frame.height * high);
    // Draw in reverse, so that the first line is on top.
    for (number, line) in lines.lines.iter().enumerate().rev() {
        for piece in &line.pieces {
            let place =
                |point: &(f64, f64)| dots.place(lines.x.place(point.0), lines.y.place(point.1));
            let places: Vec<(i64, i64)> = piece.iter().map(place).collect();
            dots.line(&places, number);
        }
    }
    for row in 0..frame.height {
        for column in 0..frame.width {
            let (bits, number) = dots.cell(column * wide, row * high, wide, high);
            if bits == 0 {
                continue;
            }
            let c = match (wide, high) {
                (1, 1) => mark(number),
                (2, 2) => dots::quadrants(bits),
                _ => dots::braille(bits),
            };
            screen.put(
                frame.left + column,
                frame.top + row,
                c,
                Colour::Line(number),
            );
        }
    }
    screen
}

/// Draws the legend in at most three lines, and returns the number of lines used.
fn legend(screen: &mut Screen, top: usize, lines: &Lines, mark: &dyn Fn(usize) -> char) -> usize {
    let (mut row, mut column) = (0, 0);
    for (number, line) in lines.lines.iter().enumerate() {
        let name = text::shortened(&line.name, 32);
        let width = Screen::width_of(&name) + 3;
        if column > 0 && column + width > screen.width() {
            (row, column) = (row + 1, 0);
        }
        if row >= 3 {
            return row;
        }
        screen.put(column, top + row, mark(number), Colour::Line(number));
        screen.put_text(column + 2, top + row, &name, Colour::Plain);
        column += width + 1;
    }
    row + 1
}

fn draw_histogram(chart: &Chart, histogram: &Histogram, canvas: Canvas) -> Screen {
    let (mut screen, top) = canvas.screen(chart);
    let frame = Frame::new(
        &mut screen,
        top,
        (&histogram.x, &histogram.y),
        canvas.is_ascii(),
    );
    for column in 0..frame.width {
        // A column of characters that covers several bins shows the highest.
        let value = |column: usize| {
            let part = column as f64 / frame.width as f64;
            histogram.x.low + part * (histogram.x.high - histogram.x.low)
        };
        let bin = |value: f64| {
            histogram
                .edges
                .partition_point(|edge| *edge <= value)
                .saturating_sub(1)
        };
        let middle = (value(column) + value(column + 1)) / 2.0;
        let last = histogram.counts.len() - 1;
        let is_narrow = histogram.counts.len() > frame.width;
        let (first, end) = if is_narrow {
            (
                bin(value(column)).min(last),
                bin(value(column + 1)).min(last),
            )
        } else {
            (bin(middle).min(last), bin(middle).min(last))
        };
        let count = histogram.counts[first..=end]
            .iter()
            .max()
            .copied()
            .unwrap_or_default();
        let height = histogram.y.place(count as f64).clamp(0.0, 1.0);
        bar_up(&mut screen, &frame, column, height, canvas.is_ascii());
    }
    screen
}

fn bar_up(screen: &mut Screen, frame: &Frame, column: usize, height: f64, is_ascii: bool) {
    if height <= 0.0 {
        return;
    }
    let parts = if is_ascii { 1 } else { 8 };
    // A count above zero is always visible.
    let filled = ((height * (frame.height * parts) as f64).round() as usize).max(1);
    for row in 0..frame.height {
        let part = filled.saturating_sub(row * parts).min(parts);
        let c = if is_ascii { '#' } else { FROM_BOTTOM[part] };
        if part > 0 {
            screen.put(
                frame.left + column,
                frame.top + frame.height - 1 - row,
                c,
                Colour::Line(0),
            );
        }
    }
}

/// Draws horizontal bars, with a text before each.
fn draw_bars(chart: &Chart, bars: &Bars, canvas: Canvas) -> Screen {
    let (mut screen, top) = canvas.screen(chart);
    screen.put_text(0, top, &bars.title, Colour::Plain);
    let top = top + 1;
    let room = screen.height().saturating_sub(top + 3).max(1);
    let most = bars.bars.len().min(room);
    // The note about the bars that are left out takes lines of its own.
    let shown = match bars.note(most) {
        Some(note) => {
            let room = room.saturating_sub(Screen::lines_of(&note, canvas.width));
            most.min(room.max(1))
        }
        None => most,
    };
    let names = bars
        .bars
        .iter()
        .map(|bar| Screen::width_of(&bar.0))
        .max()
        .unwrap_or(0);
    let left = names.min(canvas.width / 3) + 2;
    let numbers = bars
        .bars
        .iter()
        .map(|bar| text::number(bar.1).len())
        .max()
        .unwrap_or(0)
        + 1;
    let width = canvas.width.saturating_sub(left + numbers).max(8);
    let is_ascii = canvas.is_ascii();
    let zero = bars.value.place(0.0);
    for (row, (name, value)) in bars.bars.iter().take(shown).enumerate() {
        let name = text::shortened(name, left - 2);
        screen.put_right(left - 1, top + row, &name, Colour::Plain);
        screen.put(
            left - 1,
            top + row,
            if is_ascii { '|' } else { '│' },
            Colour::Dim,
        );
        if value.is_nan() {
            screen.put_text(left, top + row, "NULL", Colour::Dim);
            continue;
        }
        let place = bars.value.place(*value);
        let end = bar_across(
            &mut screen,
            (left, top + row, width),
            zero.min(place),
            zero.max(place),
            is_ascii,
        );
        screen.put_text(
            left + end + 1,
            top + row,
            &text::number(*value),
            Colour::Dim,
        );
    }
    let bottom = top + shown;
    frame::across(&mut screen, &bars.value, (left, bottom, width), is_ascii);
    screen.cut(bottom + 3);
    if let Some(note) = bars.note(shown) {
        screen.add_line(&note, Colour::Dim);
    }
    screen
}

/// Draws a bar between two relative widths, and returns the column after its end.
fn bar_across(
    screen: &mut Screen,
    (left, top, width): (usize, usize, usize),
    from: f64,
    to: f64,
    is_ascii: bool,
) -> usize {
    let parts = if is_ascii { 1 } else { 8 };
    let part = |place: f64| (place.clamp(0.0, 1.0) * (width * parts) as f64).round() as usize;
    let (from, to) = (part(from), part(to));
    for column in from / parts..to.div_ceil(parts) {
        let (begin, end) = (column * parts, (column + 1) * parts);
        let covered = to.min(end) - from.max(begin).min(to.min(end));
        let c = match covered {
            0 => continue,
            _ if is_ascii => '#',
            8 => '█',
            // Unicode has no blocks that fill a character from the right, except the right half.
            _ if from > begin => {
                if covered >= 6 {
                    '█'
                } else {
                    '▐'
                }
            }
            _ => FROM_LEFT[covered],
        };
        screen.put(left + column, top, c, Colour::Line(0));
    }
    to.div_ceil(parts)
}
