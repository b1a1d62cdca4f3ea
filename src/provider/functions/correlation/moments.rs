//! The moments of pairs of numbers.

/// The means of pairs of numbers, and the sums of squares and products of the deviations from them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Moments {
    pub count: u64,
    pub mean_x: f64,
    pub mean_y: f64,
    pub squares_x: f64,
    pub squares_y: f64,
    pub products: f64,
}

impl Moments {
    /// Adds a pair.
    pub fn add(&mut self, x: f64, y: f64) {
        self.count += 1;
        let count = self.count as f64;
        let (from_x, from_y) = (x - self.mean_x, y - self.mean_y);
        self.mean_x += from_x / count;
        self.mean_y += from_y / count;
        let to_y = y - self.mean_y;
        self.squares_x += from_x * (x - self.mean_x);
        self.squares_y += from_y * to_y;
        self.products += from_x * to_y;
    }

    /// Adds the pairs of other moments.
    pub fn merge(&mut self, other: &Self) {
        if self.count == 0 || other.count == 0 {
            if self.count == 0 {
                *self = *other;
            }
            return;
        }
        let count = self.count + other.count;
        let fraction = other.count as f64 / count as f64;
        let weight = self.count as f64 * fraction;
        let (x, y) = (other.mean_x - self.mean_x, other.mean_y - self.mean_y);
        self.count = count;
        self.mean_x += x * fraction;
        self.mean_y += y * fraction;
        self.squares_x += other.squares_x + x * x * weight;
        self.squares_y += other.squares_y + y * y * weight;
        self.products += other.products + x * y * weight;
    }

    /// Returns the correlation. As in DataFusion, it is NaN if both columns contain NaN, and `None` if one of them does, for
    /// fewer than two pairs, or if all numbers of a column are equal.
    pub fn correlation(&self) -> Option<f64> {
        if self.mean_x.is_nan() && self.mean_y.is_nan() {
            return Some(f64::NAN);
        }
        let has_variance = self.squares_x != 0.0 && self.squares_y != 0.0;
        let has_nan = self.mean_x.is_nan() || self.mean_y.is_nan();
        let found = self.products / self.squares_x.sqrt() / self.squares_y.sqrt();
        // Rounding can exceed [-1, 1].
        (self.count > 1 && has_variance && !has_nan).then(|| found.clamp(-1.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_means_lose_no_digits() {
        let pairs = [1.0, 2.0, 2.5, 5.0].into_iter().zip(0..);
        let pairs: Vec<_> = pairs
            .map(|(value, second)| (value, 1_704_067_200.0 + f64::from(second)))
            .collect();
        let mut whole = Moments::default();
        pairs.iter().for_each(|(x, y)| whole.add(*x, *y));
        let expected = 6.25 / (8.6875_f64 * 5.0).sqrt();
        let near = |found: &Moments| (found.correlation().unwrap() - expected).abs() < 1e-6;
        assert!(near(&whole), "{:?}", whole.correlation());
        for split in 0..=pairs.len() {
            let [mut one, mut other] = [Moments::default(); 2];
            pairs[..split].iter().for_each(|(x, y)| one.add(*x, *y));
            pairs[split..].iter().for_each(|(x, y)| other.add(*x, *y));
            one.merge(&other);
            assert!(near(&one), "{split}: {one:?}");
        }
    }

    #[test]
    fn results_that_are_no_number() {
        let of = |pairs: &[(f64, f64)]| {
            let mut moments = Moments::default();
            pairs.iter().for_each(|(x, y)| moments.add(*x, *y));
            moments.correlation()
        };
        let nan = f64::NAN;
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(1.0, 2.0)]), None);
        assert_eq!(of(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(of(&[(1.0, nan), (2.0, 3.0)]), None);
        assert!(of(&[(nan, nan)]).unwrap().is_nan());
        assert!((of(&[(1.0, 1.0), (3.0, 5.0)]).unwrap() - 1.0).abs() < 1e-12);
    }
}
