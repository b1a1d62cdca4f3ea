//! Round numbers for the ticks of an axis.

use super::text;

/// The maximum number of ticks of an axis.
const MOST: usize = 64;
/// Numbers from here on are written with an exponent.
const LONG: f64 = 1e7;
/// Numbers below this are written with an exponent.
const SHORT: f64 = 1e-5;

/// The numbers that count as round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// 1, 2 and 5 times a power of ten.
    Decimal,
    /// Like `Decimal`, but at least 1.
    Integer,
    /// Like `Decimal`, and the usual fractions of a circle, such as 45 and 90.
    Degrees,
}

impl Round {
    /// Returns the smallest round number that is at least `min`, which must be positive.
    pub fn up(self, min: f64) -> f64 {
        // The tolerance accepts steps that are too small only by rounding.
        let fits = |step: f64| step >= min * (1.0 - 1e-9);
        if self == Self::Degrees && min > 5.0 {
            let parts = [10.0, 15.0, 30.0, 45.0, 60.0, 90.0, 180.0, 360.0];
            if let Some(step) = parts.into_iter().find(|step| fits(*step)) {
                return step;
            }
        }
        let power = 10f64.powi(min.log10().floor() as i32);
        let steps = [1.0, 2.0, 5.0].map(|digit| digit * power);
        let step = steps.into_iter().find(|step| fits(*step));
        let step = step.unwrap_or(10.0 * power);
        match self {
            Self::Integer => step.max(1.0),
            Self::Decimal | Self::Degrees => step,
        }
    }
}

/// Returns the multiples of `step` from `low` to `high`, at most [`MOST`].
pub fn multiples(low: f64, high: f64, step: f64) -> Vec<f64> {
    let first = (low / step - 1e-9).ceil();
    let last = (high / step + 1e-9).floor();
    let count = ((last - first).max(-1.0) + 1.0).min(MOST as f64) as usize;
    (0..count)
        .map(|tick| (first + tick as f64) * step)
        .collect()
}

/// Formats multiples of `step` with the digits needed to tell them apart.
pub fn labels(numbers: &[f64], step: f64) -> Vec<String> {
    let largest = numbers
        .iter()
        .fold(0.0, |size: f64, number| size.max(number.abs()));
    let place = (step.log10() + 1e-9).floor();
    let scientific = largest >= LONG || (largest > 0.0 && largest < SHORT);
    let write = |number: &f64| {
        if number.abs() < step / 2.0 {
            return "0".to_owned();
        }
        if scientific {
            let digits = (number.abs().log10() + 1e-9).floor() - place;
            return format!("{number:.*e}", digits.clamp(0.0, 17.0) as usize);
        }
        format!("{number:.*}", (-place).clamp(0.0, 17.0) as usize)
    };
    let labels: Vec<String> = numbers.iter().map(write).collect();
    if scientific && labels.iter().any(|label| label.len() > 10) {
        return numbers.iter().map(|number| text::number(*number)).collect();
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(low: f64, high: f64, count: usize, round: Round) -> Vec<String> {
        let step = round.up((high - low) / count as f64);
        labels(&multiples(low, high, step), step)
    }

    #[test]
    fn ticks_are_round() {
        let expected: [(f64, f64, usize, Round, &[&str]); 8] = [
            (
                0.0,
                1.0,
                5,
                Round::Decimal,
                &["0", "0.2", "0.4", "0.6", "0.8", "1.0"],
            ),
            (-3.2, 7.9, 4, Round::Decimal, &["0", "5"]),
            (0.0, 3.0, 10, Round::Integer, &["0", "1", "2", "3"]),
            (
                -90.0,
                90.0,
                6,
                Round::Degrees,
                &["-90", "-60", "-30", "0", "30", "60", "90"],
            ),
            (0.0, 350.0, 5, Round::Degrees, &["0", "90", "180", "270"]),
            (0.0, 3e9, 3, Round::Decimal, &["0", "1e9", "2e9", "3e9"]),
            (
                -2e-7,
                2e-7,
                4,
                Round::Decimal,
                &["-2e-7", "-1e-7", "0", "1e-7", "2e-7"],
            ),
            (
                1000.0,
                1000.2,
                2,
                Round::Decimal,
                &["1000.0", "1000.1", "1000.2"],
            ),
        ];
        for (low, high, count, round, labels) in expected {
            let found = ticks(low, high, count, round);
            let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
            assert_eq!(found, labels);
        }
    }

    #[test]
    fn ticks_are_few() {
        assert!(multiples(0.0, 1e300, 1e-300).len() <= MOST);
        assert!(multiples(1.0, 0.0, 1.0).is_empty());
    }
}
