//! Lays out a chart as a scene.

use super::page::{FRAME, GREY, INK, LEADING, MARGIN, NOTE_SIZE, Page, SIZE, WIDEST_LABEL, WIDTH};
use super::scene::{Anchor, Hover, Mark, Scene};
use crate::axis::Axis;
use crate::bars::Bars;
use crate::heat_map::HeatMap;
use crate::histogram::Histogram;
use crate::lines::Lines;
use crate::palette::{self, Rgb};
use crate::text;
use crate::{Chart, Content};
use std::collections::BTreeMap;

/// The maximum number of points with a tooltip.
const MAX_PLACES: usize = 5000;

/// Lays out a chart.
pub fn scene(chart: &Chart) -> Result<Scene, String> {
    let mut page = Page::new(chart)?;
    let hover = match &chart.content {
        Content::Lines(lines) => page.lines(lines),
        Content::HeatMap(map) => page.heat_map(map),
        Content::Histogram(histogram) => page.histogram(histogram),
        Content::Bars(bars) => page.bars(bars),
    };
    let description = match (&chart.title, &chart.content) {
        (Some(title), _) => title.clone(),
        (None, Content::Lines(lines)) => format!("{} over {}", lines.y.title, lines.x.title),
        (None, Content::HeatMap(map)) => format!(
            "{} over {} and {}",
            map.value.title, map.x.title, map.y.title
        ),
        (None, Content::Histogram(histogram)) => format!("histogram of {}", histogram.x.title),
        (None, Content::Bars(bars)) => format!("{} for each {}", bars.value.title, bars.title),
    };
    Ok(Scene {
        width: WIDTH,
        height: page.height,
        marks: page.marks,
        plot: [
            page.left,
            page.top,
            page.right - page.left,
            page.bottom - page.top,
        ],
        description,
        hover,
    })
}

/// The layout of each kind of chart.
impl Page {
    fn lines(&mut self, lines: &Lines) -> Hover {
        if lines.lines.len() > 1 {
            self.legend(lines);
        }
        // Leave room for the last label, which extends beyond the axis.
        self.right -= 14.0;
        self.axes(&lines.x, &lines.y, true);
        self.frame();
        let mut texts: BTreeMap<OrderedCoordinate, (f64, Vec<String>)> = BTreeMap::new();
        // Draw in reverse, so that the first line is on top.
        for (number, line) in lines.lines.iter().enumerate().rev() {
            let (colour, dash) = style(number);
            for piece in &line.pieces {
                let place =
                    |point: &(f64, f64)| (self.x(&lines.x, point.0), self.y(&lines.y, point.1));
                let points: Vec<(f64, f64)> = piece.iter().map(place).collect();
                // A lone point has no line to show it, so draw a dot.
                if let [at] = points.as_slice() {
                    let at = *at;
                    self.marks.push(Mark::Dot {
                        at,
                        radius: 2.5,
                        colour,
                    });
                } else {
                    self.marks.push(Mark::Line {
                        points,
                        colour,
                        width: 1.8,
                        dash,
                    });
                }
            }
        }
        for line in &lines.lines {
            for (x, y) in line.pieces.iter().flatten() {
                let entry = texts
                    .entry(OrderedCoordinate(*x))
                    .or_insert_with(|| (*x, Vec::new()));
                let value = text::number(*y);
                entry.1.push(if lines.lines.len() > 1 {
                    format!("{}: {value}", line.name)
                } else {
                    format!("{}: {value}", lines.y.title)
                });
            }
        }
        let step = texts.len().div_ceil(MAX_PLACES).max(1);
        let places = texts.into_values().step_by(step).map(|(x, values)| {
            (
                self.x(&lines.x, x),
                format!("{}\n{}", lines.x.text(x), values.join("\n")),
            )
        });
        Hover::Across(places.collect())
    }

    /// Draws the names of the lines in rows above the plot.
    fn legend(&mut self, lines: &Lines) {
        const SAMPLE: f64 = 22.0;
        const GAP: f64 = 18.0;
        let mut x = self.left;
        let mut y = self.top + SIZE * 0.8;
        for (number, line) in lines.lines.iter().enumerate() {
            let name = self.shortened(&line.name, 240.0, SIZE);
            let width = SAMPLE + 6.0 + self.font.width(&name, SIZE);
            if x > self.left && x + width > self.right {
                (x, y) = (self.left, y + SIZE * LEADING);
            }
            let (colour, dash) = style(number);
            self.marks.push(Mark::Line {
                points: vec![(x, y - SIZE * 0.35), (x + SAMPLE, y - SIZE * 0.35)],
                colour,
                width: 2.4,
                dash,
            });
            self.write((x + SAMPLE + 6.0, y), &name, SIZE, Anchor::Start, INK);
            x += width + GAP;
        }
        self.top = y + SIZE * 0.6;
    }

    fn heat_map(&mut self, map: &HeatMap) -> Hover {
        self.colour_bar(&map.value);
        self.axes(&map.x, &map.y, false);
        let (width, height) = (self.right - self.left, self.bottom - self.top);
        let (columns, rows) = if map.is_even() {
            (map.columns(), map.rows())
        } else {
            (width as usize, height as usize)
        };
        let shade = |value: f64| (!value.is_nan()).then(|| palette::shade(map.shade(value)));
        let pixels = map.dots(columns, rows).into_iter().map(shade);
        self.marks.push(Mark::Image {
            left: self.left,
            top: self.top,
            width,
            height,
            columns,
            pixels: pixels.collect(),
        });
        self.frame();
        let middles = |edges: &[f64], axis: &Axis| -> Vec<String> {
            edges
                .windows(2)
                .map(|pair| axis.text((pair[0] + pair[1]) / 2.0))
                .collect()
        };
        let (value, unit) = match map.value.title.rsplit_once(" [") {
            Some((name, unit)) => (name.to_owned(), format!(" {}", unit.trim_end_matches(']'))),
            None => (map.value.title.clone(), String::new()),
        };
        Hover::Cells {
            x_edges: map
                .x_edges
                .iter()
                .map(|edge| self.x(&map.x, *edge))
                .collect(),
            x_texts: middles(&map.x_edges, &map.x),
            y_edges: map
                .y_edges
                .iter()
                .map(|edge| self.y(&map.y, *edge))
                .collect(),
            y_texts: middles(&map.y_edges, &map.y),
            values: map
                .cells
                .iter()
                .map(|cell| (!cell.is_nan()).then_some(*cell))
                .collect(),
            names: [map.x.title.clone(), map.y.title.clone(), value],
            unit,
        }
    }

    /// Draws the colour scale at the right.
    fn colour_bar(&mut self, axis: &Axis) {
        const BAR: f64 = 16.0;
        const SHADES: usize = 256;
        let (top, bottom) = (self.top + 4.0, self.bottom - 2.0 * SIZE * LEADING - 6.0);
        let height = bottom - top;
        let (ticks, title) = axis.ticks(height, &|_| SIZE, SIZE);
        let widest = ticks
            .iter()
            .map(|tick| self.font.width(&tick.label, SIZE))
            .fold(0.0, f64::max);
        let right = self.right - SIZE * LEADING - 4.0;
        let left = right - widest - 8.0 - BAR;
        let shade =
            |number: usize| Some(palette::shade(1.0 - (number as f64 + 0.5) / SHADES as f64));
        self.marks.push(Mark::Image {
            left,
            top,
            width: BAR,
            height,
            columns: 1,
            pixels: (0..SHADES).map(shade).collect(),
        });
        for tick in ticks {
            let y = bottom - tick.at * height;
            self.rule((left + BAR, y), (left + BAR + 4.0, y), FRAME);
            self.write(
                (left + BAR + 7.0, y + SIZE * 0.36),
                &tick.label,
                SIZE,
                Anchor::Start,
                INK,
            );
        }
        let text = self.shortened(&title, height + 20.0, SIZE);
        self.marks.push(Mark::Text {
            at: (self.right - 1.0, (top + bottom) / 2.0),
            text,
            size: SIZE,
            anchor: Anchor::Middle,
            is_upright: true,
            colour: INK,
        });
        self.right = left - 16.0;
    }

    fn histogram(&mut self, histogram: &Histogram) -> Hover {
        self.right -= 14.0;
        self.axes(&histogram.x, &histogram.y, true);
        let mut places = Vec::new();
        for (bin, count) in histogram.counts.iter().enumerate() {
            let (from, to) = (
                self.x(&histogram.x, histogram.edges[bin]),
                self.x(&histogram.x, histogram.edges[bin + 1]),
            );
            let top = self.y(&histogram.y, *count as f64);
            let gap = if to - from > 4.0 { 1.0 } else { 0.0 };
            if *count > 0 {
                // A count above zero is at least one pixel high.
                let top = top.min(self.bottom - 1.0);
                self.marks.push(Mark::Box {
                    left: from,
                    top,
                    width: to - from - gap,
                    height: self.bottom - top,
                    colour: palette::LINES[0],
                });
            }
            places.push(((from + to) / 2.0, histogram.text(bin)));
        }
        self.frame();
        Hover::Across(places)
    }

    fn bars(&mut self, bars: &Bars) -> Hover {
        let names = bars
            .bars
            .iter()
            .map(|bar| self.shortened(&bar.0, 2.0 * WIDEST_LABEL, SIZE));
        let names: Vec<String> = names.collect();
        let widest = names
            .iter()
            .map(|name| self.font.width(name, SIZE))
            .fold(0.0, f64::max);
        let title = self.shortened(&bars.title, WIDTH - 2.0 * MARGIN, SIZE);
        self.write(
            (self.left, self.top + SIZE * 0.8),
            &title,
            SIZE,
            Anchor::Start,
            INK,
        );
        self.top += SIZE * LEADING + 2.0;
        self.bottom -= 2.0 * SIZE * LEADING + 6.0;
        self.left += widest + 10.0;
        self.right -= 14.0;
        self.x_axis(&bars.value, true);
        let height = (self.bottom - self.top) / bars.bars.len() as f64;
        let zero = self.x(&bars.value, 0.0);
        let mut places = Vec::new();
        for (number, ((name, value), label)) in bars.bars.iter().zip(&names).enumerate() {
            let middle = self.top + (number as f64 + 0.5) * height;
            self.write(
                (self.left - 7.0, middle + SIZE * 0.36),
                label,
                SIZE,
                Anchor::End,
                INK,
            );
            let shown = if value.is_nan() {
                "NULL".to_owned()
            } else {
                text::number(*value)
            };
            places.push((middle, format!("{name}\n{}: {shown}", bars.value.title)));
            if value.is_nan() {
                self.write(
                    (zero + 6.0, middle + SIZE * 0.36),
                    "NULL",
                    NOTE_SIZE,
                    Anchor::Start,
                    GREY,
                );
                continue;
            }
            let end = self.x(&bars.value, *value);
            let thick = (height * 0.7).min(40.0);
            self.marks.push(Mark::Box {
                left: zero.min(end),
                top: middle - thick / 2.0,
                width: (end - zero).abs(),
                height: thick,
                colour: palette::LINES[0],
            });
        }
        self.frame();
        self.rule((zero, self.top), (zero, self.bottom), FRAME);
        Hover::Down(places)
    }
}

/// Returns the colour and dash of a line. Dashes tell lines apart once the colours repeat.
fn style(number: usize) -> (Rgb, Option<f64>) {
    let colours = palette::LINES.len();
    let dash = (number >= colours).then_some(5.0);
    (palette::LINES[number % colours], dash)
}

/// A coordinate with a total order, for use as a map key. It is never NaN.
#[derive(Debug, Clone, Copy)]
struct OrderedCoordinate(f64);

impl PartialEq for OrderedCoordinate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OrderedCoordinate {}

impl PartialOrd for OrderedCoordinate {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OrderedCoordinate {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
