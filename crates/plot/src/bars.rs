//! Bar charts: one number for each text.

use super::axis::Axis;
use super::column::{Column, ColumnKind};
use super::text;
use super::ticks::Round;

/// The maximum number of bars in a chart.
pub const MAX_BARS: usize = 40;

/// A bar chart: one number for each text.
#[derive(Debug, Clone)]
pub struct Bars {
    /// The title of the text column.
    pub title: String,
    /// The name of the text column.
    name: String,
    /// The number of distinct texts, which may be more than there are bars.
    count: usize,
    /// The axis of the numbers, which always includes zero.
    pub value: Axis,
    /// Each text with its number, in order of appearance. The number is NaN if it is missing.
    pub bars: Vec<(String, f64)>,
}

impl Bars {
    /// Builds bars of the mean value of each text.
    pub fn of(texts: &Column, values: &Column, notes: &mut Vec<String>) -> Result<Self, String> {
        let mut sums = vec![(0u32, 0.0); texts.texts.len()];
        for (number, value) in texts.values.iter().zip(&values.values) {
            if !value.is_nan() {
                let (count, sum) = &mut sums[*number as usize];
                *count += 1;
                *sum += value;
            }
        }
        if sums.iter().all(|(count, _)| *count == 0) {
            return Err(format!(
                "there is nothing to draw: {} has no finite number",
                values.name
            ));
        }
        if texts.values.len() > texts.texts.len() {
            notes.push(format!(
                "{} the {} of another: their mean is drawn",
                text::counted(
                    texts.values.len() - texts.texts.len(),
                    "row has",
                    "rows have"
                ),
                texts.name
            ));
        }
        let means = sums.into_iter().map(|(count, sum)| sum / f64::from(count));
        let is_integer = matches!(values.kind, ColumnKind::Number { is_integer: true });
        Ok(Self::new(
            texts,
            means.collect(),
            values.title(),
            is_integer,
        ))
    }

    /// Builds bars of the number of rows of each text.
    pub fn counting(texts: &Column) -> Self {
        let mut counts = vec![0.0; texts.texts.len()];
        for number in &texts.values {
            counts[*number as usize] += 1.0;
        }
        Self::new(texts, counts, "rows".to_owned(), true)
    }

    /// Returns the note about the bars that are left out if the first `shown` are drawn.
    pub fn note(&self, shown: usize) -> Option<String> {
        let Self { name, count, .. } = self;
        (shown < *count).then(|| format!("the first {shown} of {count} values of {name} are drawn"))
    }

    fn new(texts: &Column, values: Vec<f64>, title: String, is_integer: bool) -> Self {
        let bars: Vec<(String, f64)> = texts
            .texts
            .iter()
            .cloned()
            .zip(values)
            .take(MAX_BARS)
            .collect();
        let (low, high) = super::column::range(bars.iter().map(|bar| bar.1)).unwrap_or((0.0, 0.0));
        let round = if is_integer {
            Round::Integer
        } else {
            Round::Decimal
        };
        let (low, high) = (low.min(0.0), high.max(0.0));
        // Without any number, no bar is drawn, but the axis needs a length.
        let high = if low == high { 1.0 } else { high };
        let room = (high - low) * 0.04;
        let mut value = Axis::of_numbers(title, low, high, round);
        value.low -= if low < 0.0 { room } else { 0.0 };
        value.high += if high > 0.0 { room } else { 0.0 };
        Self {
            title: texts.title(),
            name: texts.name.clone(),
            count: texts.texts.len(),
            value,
            bars,
        }
    }
}
