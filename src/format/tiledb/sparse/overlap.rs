//! Finds bounding boxes with common points.

use std::cmp::Ordering;

use crate::format::tiledb::schema::Interval;

/// Returns `true` if both boxes, which have an interval per dimension, have points in common.
pub(crate) fn meet(a: &[Interval], b: &[Interval]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.meets(b))
}

/// Returns `true` if any two boxes have points in common.
///
/// Boxes are sorted by their first dimension, and each is compared only with those that overlap it
/// there. Boxes that follow each other are therefore compared once each.
pub(crate) fn any_meet(mut boxes: Vec<&[Interval]>) -> bool {
    boxes.sort_by(|a, b| {
        let order = a.first().zip(b.first());
        let order = order.and_then(|(a, b)| a.low.compare(&b.low));
        order.unwrap_or(Ordering::Equal)
    });
    let meets_first =
        |a: &[Interval], b: &[Interval]| a.iter().zip(b).take(1).all(|(a, b)| a.meets(b));
    boxes.iter().enumerate().any(|(index, a)| {
        let later = boxes[index + 1..].iter();
        let mut near = later.take_while(|b| meets_first(a, b));
        near.any(|b| meet(a, b))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tiledb::schema::Scalar;

    #[test]
    fn boxes_meet_as_in_all_pairs() {
        let interval = |low: i64, length: i64| Interval {
            low: Scalar::Signed(low),
            high: Scalar::Signed(low + length),
        };
        let mut state = 7u64;
        let mut next = |bound: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            ((state >> 33) % bound) as i64
        };
        let mut met = 0;
        for _ in 0..500 {
            let boxes: Vec<[Interval; 2]> = (0..6)
                .map(|_| [interval(next(30), next(6)), interval(next(30), next(6))])
                .collect();
            let boxes: Vec<&[Interval]> = boxes.iter().map(|one| one.as_slice()).collect();
            let mut pairs = (0..6).flat_map(|a| (0..a).map(move |b| (a, b)));
            let expected = pairs.any(|(a, b)| meet(boxes[a], boxes[b]));
            assert_eq!(any_meet(boxes), expected);
            met += usize::from(expected);
        }
        assert!((100..400).contains(&met), "{met} of 500 meet");
    }
}
