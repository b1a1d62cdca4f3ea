//! An axis with its title, bounds and ticks.

use super::clock::Clock;
use super::column::{Column, ColumnKind};
use super::text;
use super::ticks::{self, Round};

/// The maximum number of ticks of an axis.
const MAX_TICKS: usize = 12;

/// A labelled mark on an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// The relative distance from the left or bottom end of the axis, from 0 to 1.
    pub at: f64,
    /// The label.
    pub label: String,
}

/// The type of values along an axis.
#[derive(Debug, Clone, PartialEq)]
pub enum Scale {
    /// Numbers.
    Numbers(Round),
    /// Times in seconds.
    Times(Clock),
    /// Texts. The text with index `i` covers the axis from `i - 0.5` to `i + 0.5`.
    Texts(Vec<String>),
}

/// An axis of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The name, followed by the unit.
    pub title: String,
    /// The lower bound.
    pub low: f64,
    /// The upper bound, which is greater than `low`.
    pub high: f64,
    /// The type of values along the axis.
    pub scale: Scale,
    /// The minimum distance between two ticks.
    pub min: f64,
    /// `true` if the axis starts with the upper bound, as texts that are read downwards do.
    pub is_reversed: bool,
}

impl Axis {
    /// Returns the axis of a column from `low` to `high`.
    pub fn over(column: &Column, low: f64, high: f64) -> Self {
        let scale = match &column.kind {
            ColumnKind::Time(clock) => Scale::Times(clock.clone()),
            ColumnKind::Text => Scale::Texts(column.texts.clone()),
            ColumnKind::Number { is_integer: true } => {
                Scale::Numbers(round(column, Round::Integer))
            }
            _ => Scale::Numbers(round(column, Round::Decimal)),
        };
        let (low, high) = match &scale {
            Scale::Texts(texts) => (-0.5, texts.len().max(1) as f64 - 0.5),
            _ => widened(low, high, &scale),
        };
        Self {
            title: column.title(),
            low,
            high,
            scale,
            min: 0.0,
            is_reversed: false,
        }
    }

    /// Returns an axis of numbers from `low` to `high`.
    pub fn of_numbers(title: String, low: f64, high: f64, round: Round) -> Self {
        let scale = Scale::Numbers(round);
        let (low, high) = widened(low, high, &scale);
        Self {
            title,
            low,
            high,
            scale,
            min: 0.0,
            is_reversed: false,
        }
    }

    /// Extends the axis at both ends by the fraction `part` of its length.
    pub fn with_room(mut self, part: f64) -> Self {
        let room = (self.high - self.low) * part;
        self.low -= room;
        self.high += room;
        self
    }

    /// Returns the relative distance of a value from the start of the axis: 0 to 1 for values on
    /// the axis.
    pub fn place(&self, value: f64) -> f64 {
        let place = (value - self.low) / (self.high - self.low);
        if self.is_reversed { 1.0 - place } else { place }
    }

    /// Chooses ticks for an axis of the given length, and its title. `size` measures a label along
    /// the axis in the unit of `length`; labels are at least `gap` apart. The title includes what
    /// the labels leave out, such as the day of times.
    pub fn ticks(&self, length: f64, size: &dyn Fn(&str) -> f64, gap: f64) -> (Vec<Tick>, String) {
        if let Scale::Texts(texts) = &self.scale {
            return (self.texts(texts, length, size, gap), self.title.clone());
        }
        let mut last = (Vec::new(), self.title.clone());
        for count in (1..=MAX_TICKS).rev() {
            let (ticks, title) = self.about(count);
            let fits = labels_fit(&ticks, length, size, gap);
            if fits && (ticks.len() > 1 || count == 1) {
                return (ticks, title);
            }
            last = (ticks, title);
        }
        // No number of ticks fits: keep at most one.
        last.0.truncate(1);
        last
    }

    /// Returns the title and about `count` ticks.
    fn about(&self, count: usize) -> (Vec<Tick>, String) {
        let tick = |(value, label): (f64, String)| Tick {
            at: self.place(value),
            label,
        };
        let apart = ((self.high - self.low) / count as f64).max(self.min);
        if let Scale::Times(clock) = &self.scale
            && let Some(found) = clock.ticks(self.low, self.high, apart)
        {
            let title = match found.context {
                Some(context) => format!("{} ({context})", self.title),
                None => self.title.clone(),
            };
            return (
                self.in_order_from_low(found.ticks.into_iter().map(tick)),
                title,
            );
        }
        let round = match &self.scale {
            Scale::Numbers(round) => *round,
            _ => Round::Decimal,
        };
        let step = round.up(apart);
        let numbers = ticks::multiples(self.low, self.high, step);
        let labels = ticks::labels(&numbers, step);
        let ticks = numbers.into_iter().zip(labels).map(tick);
        (self.in_order_from_low(ticks), self.title.clone())
    }

    /// Orders ticks from left to right, or from bottom to top.
    fn in_order_from_low(&self, ticks: impl DoubleEndedIterator<Item = Tick>) -> Vec<Tick> {
        match self.is_reversed {
            true => ticks.rev().collect(),
            false => ticks.collect(),
        }
    }

    /// Returns a tick for every text, or for every nth text if labels would touch.
    fn texts(
        &self,
        texts: &[String],
        length: f64,
        size: &dyn Fn(&str) -> f64,
        gap: f64,
    ) -> Vec<Tick> {
        let every = |step: usize| -> Vec<Tick> {
            let some = texts.iter().enumerate().step_by(step);
            let tick = |(number, label): (usize, &String)| Tick {
                at: self.place(number as f64),
                label: label.clone(),
            };
            some.map(tick).collect()
        };
        let mut step = 1;
        loop {
            let ticks = every(step);
            if ticks.len() <= 1 || labels_fit(&ticks, length, size, gap) {
                return ticks;
            }
            step += step.div_ceil(2);
        }
    }

    /// Formats a value on the axis.
    pub fn text(&self, value: f64) -> String {
        match &self.scale {
            Scale::Numbers(_) => text::number(value),
            Scale::Times(clock) => clock.text(value),
            Scale::Texts(texts) => texts
                .get(value.max(0.0) as usize)
                .cloned()
                .unwrap_or_default(),
        }
    }
}

/// Returns the rounding for a column: degrees for latitudes and longitudes, else `other`.
fn round(column: &Column, other: Round) -> Round {
    let unit = column
        .unit
        .as_deref()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let name = column.name.to_ascii_lowercase();
    let names = ["lat", "latitude", "lon", "longitude"];
    if unit.starts_with("degrees_") || unit.starts_with("degree_") || names.contains(&name.as_str())
    {
        Round::Degrees
    } else {
        other
    }
}

/// Widens bounds that are equal, or nearly so, so that the axis has a length.
fn widened(low: f64, high: f64, scale: &Scale) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    if high - low > size * 1e-12 && high - low > 1e-290 {
        return (low, high);
    }
    let room = match scale {
        Scale::Times(clock) => clock.single_time_margin().max(size * 1e-9),
        Scale::Numbers(Round::Integer) => 1f64.max(size * 1e-9),
        _ if size > 1e-280 => size * 0.1,
        _ => 1.0,
    };
    (low - room, high + room)
}

/// Returns `true` if adjacent labels are at least `gap` apart.
fn labels_fit(ticks: &[Tick], length: f64, size: &dyn Fn(&str) -> f64, gap: f64) -> bool {
    ticks.windows(2).all(|pair| {
        let apart = (pair[1].at - pair[0].at).abs() * length;
        apart >= (size(&pair[0].label) + size(&pair[1].label)) / 2.0 + gap
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn width(text: &str) -> f64 {
        text.len() as f64
    }

    #[test]
    fn labels_leave_room() {
        let axis = Axis::of_numbers("n".to_owned(), 0.0, 1000.0, Round::Decimal);
        for length in [1.0, 10.0, 30.0, 100.0, 1000.0] {
            let (ticks, _) = axis.ticks(length, &width, 1.0);
            assert!(labels_fit(&ticks, length, &width, 1.0) && !ticks.is_empty());
        }
        let (ticks, _) = axis.ticks(30.0, &width, 1.0);
        let labels: Vec<&str> = ticks.iter().map(|tick| tick.label.as_str()).collect();
        assert_eq!(labels, ["0", "200", "400", "600", "800", "1000"]);
    }

    #[test]
    fn a_reversed_axis_has_its_ticks_from_the_left() {
        let mut axis = Axis::of_numbers("n".to_owned(), 0.0, 100.0, Round::Decimal);
        axis.is_reversed = true;
        let (ticks, _) = axis.ticks(30.0, &width, 1.0);
        assert!(ticks.is_sorted_by(|a, b| a.at < b.at), "{ticks:?}");
        assert_eq!(ticks[0].label, "100");
    }

    #[test]
    fn texts_are_thinned() {
        let texts: Vec<String> = (0..100).map(|number| format!("t{number}")).collect();
        let axis = Axis {
            title: "t".to_owned(),
            low: -0.5,
            high: 99.5,
            scale: Scale::Texts(texts),
            min: 0.0,
            is_reversed: true,
        };
        let (ticks, _) = axis.ticks(50.0, &width, 1.0);
        assert!(ticks.len() > 5 && ticks.len() < 20, "{}", ticks.len());
        assert_eq!(ticks[0].label, "t0");
        assert!((ticks[0].at - 0.995).abs() < 1e-9);
    }

    #[test]
    fn a_single_value_has_an_axis() {
        for value in [0.0, 5.0, -1e-300, 1e300, 1e17] {
            let axis = Axis::of_numbers("n".to_owned(), value, value, Round::Decimal);
            assert!(axis.low < value && value < axis.high, "{value}");
            assert!((axis.place(value) - 0.5).abs() < 1e-6, "{value}");
            assert!(!axis.ticks(40.0, &width, 1.0).0.is_empty());
        }
    }
}
