//! Places of cells on a Hilbert curve.

use crate::format::tiledb::schema::{Dimension, Interval, Scalar};

/// Returns the place of a cell on the curve through the domain of its dimensions.
pub(super) fn place<'a>(
    coordinates: impl ExactSizeIterator<Item = (&'a Dimension, &'a Scalar)>,
) -> u64 {
    // The place has 63 bits.
    let bits = 63 / coordinates.len().max(1) as u32;
    let mut axes: Vec<u64> = coordinates
        .map(|(dimension, value)| bucket(dimension.domain.as_ref(), value, bits))
        .collect();
    transpose(&mut axes, bits);
    let mut place = 0;
    for bit in (0..bits).rev() {
        for axis in &axes {
            place = place << 1 | (axis >> bit & 1);
        }
    }
    place
}

/// Maps a coordinate to a number of `bits` bits.
fn bucket(domain: Option<&Interval>, value: &Scalar, bits: u32) -> u64 {
    if let Scalar::Bytes(text) = value {
        let mut first = [0; 8];
        let length = text.len().min(8);
        first[..length].copy_from_slice(&text[..length]);
        return u64::from_be_bytes(first) >> (64 - bits);
    }
    let Some(Interval { low, high }) = domain else {
        return 0;
    };
    let (distance, length) = match (value, low, high) {
        (Scalar::Float(value), Scalar::Float(low), Scalar::Float(high)) => {
            (value - low, high - low)
        }
        _ => {
            let distance = |value: &Scalar| value.distance_from(low).unwrap_or(0) as f64;
            (distance(value), distance(high))
        }
    };
    let last = (1u64 << bits) - 1;
    match length {
        0.0 => 0,
        _ => ((distance / length * last as f64) as u64).min(last),
    }
}

/// Transforms the coordinates of a point of a grid to the bits of its place, as J. Skilling describes in
/// "Programming the Hilbert curve" (2004).
fn transpose(axes: &mut [u64], bits: u32) {
    for bit in (1..bits).rev() {
        let (flag, lower) = (1 << bit, (1 << bit) - 1);
        for axis in 0..axes.len() {
            if axes[axis] & flag != 0 {
                axes[0] ^= lower;
            } else {
                let swapped = (axes[0] ^ axes[axis]) & lower;
                axes[0] ^= swapped;
                axes[axis] ^= swapped;
            }
        }
    }
    for axis in 1..axes.len() {
        axes[axis] ^= axes[axis - 1];
    }
    let last = axes.last().copied().unwrap_or(0);
    let flips = (1..bits).filter(|bit| last >> bit & 1 == 1);
    let flipped = flips.fold(0, |flipped, bit| flipped ^ ((1u64 << bit) - 1));
    axes.iter_mut().for_each(|axis| *axis ^= flipped);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neighbours on the curve are neighbours in the grid, and every point is on the curve.
    #[test]
    fn the_curve_visits_neighbours() {
        for (dimensions, bits) in [(1, 4), (2, 3), (3, 2), (4, 1)] {
            let points = 1usize << (dimensions as u32 * bits);
            let mut curve = vec![None; points];
            for point in 0..points {
                let axis =
                    |axis: usize| (point >> (axis * bits as usize)) as u64 & ((1 << bits) - 1);
                let original: Vec<u64> = (0..dimensions).map(axis).collect();
                let mut axes = original.clone();
                transpose(&mut axes, bits);
                let mut place = 0;
                for bit in (0..bits).rev() {
                    for axis in &axes {
                        place = place << 1 | (axis >> bit & 1) as usize;
                    }
                }
                assert!(curve[place].replace(original).is_none());
            }
            for pair in curve.windows(2) {
                let (a, b) = (pair[0].as_ref().unwrap(), pair[1].as_ref().unwrap());
                let distance: u64 = a.iter().zip(b).map(|(a, b)| a.abs_diff(*b)).sum();
                assert_eq!(distance, 1, "{a:?}, {b:?}");
            }
        }
    }
}
