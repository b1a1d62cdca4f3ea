//! The part of an array that a window of another grid reads.

use std::ops::Range;

use datafusion::common::{Result, exec_err};

use crate::grid::Window;
use crate::provider::join::lookup::keys::{KeyTerms, NO_KEY};

/// The part of an array that a window of another grid reads.
#[derive(Debug)]
pub(super) struct Part {
    /// The smallest window of the array that holds all matches.
    pub window: Window,
    /// Terms that add up to the number of a cell's match in `window`, along the axes of the other window.
    /// `None` if cells and matches have the same numbers.
    pub terms: Option<Vec<KeyTerms>>,
}

impl Part {
    /// Returns the part for a window of the other grid, whose axes have these `lengths`. `positions` are the indices
    /// along each axis of the array, and `own_lengths` the lengths of these axes.
    ///
    /// # Errors
    /// Returns an error if the part has 2^32 cells or more.
    pub fn try_new(
        positions: &[KeyTerms],
        lengths: &[u64],
        window: &Window,
        own_lengths: &[u64],
    ) -> Result<Self> {
        let known = positions
            .iter()
            .map(|positions| within(positions, lengths, window));
        let known: Vec<Vec<u32>> = known.collect();
        let axes = positions.iter().flat_map(|positions| &positions.axes);
        if axes.copied().eq(0..lengths.len()) {
            let lines = known.iter().zip(own_lengths);
            let lines = lines.map(|(indices, length)| consecutive(indices, *length));
            if let Some(ranges) = lines.collect::<Option<Vec<_>>>() {
                return Ok(Self {
                    window: Window::new(ranges),
                    terms: None,
                });
            }
        }
        let ranges = known.iter().map(|indices| {
            let known = indices.iter().filter(|index| **index != NO_KEY);
            // Cells without a match read any cell.
            let first = known.clone().min().map_or(0, |first| u64::from(*first));
            first..known.max().map_or(first, |last| u64::from(*last)) + 1
        });
        let own = Window::new(ranges.collect());
        let cells = own.shape().try_fold(1u32, |cells, extent| {
            cells.checked_mul(u32::try_from(extent).ok()?)
        });
        if cells.is_none() {
            return exec_err!("a join reads a window of 2^32 cells or more");
        }
        let mut stride = 1;
        let mut terms = Vec::with_capacity(known.len());
        let axes = positions.iter().zip(known).zip(own.ranges());
        for ((positions, indices), range) in axes.rev() {
            // The window has less than 2^32 cells.
            let term = |index: u32| match index {
                NO_KEY => 0,
                index => (index - range.start as u32) * stride,
            };
            let of_axis = indices.into_iter().map(term).collect::<Vec<_>>();
            terms.push(KeyTerms {
                axes: positions.axes.clone(),
                terms: of_axis.into(),
            });
            stride *= (range.end - range.start).max(1) as u32;
        }
        Ok(Self {
            window: own,
            terms: Some(terms),
        })
    }
}

/// Returns the indices of the combinations in a window, in row-major order.
fn within(positions: &KeyTerms, lengths: &[u64], window: &Window) -> Vec<u32> {
    let mut combinations = vec![0];
    for axis in &positions.axes {
        let range = &window.ranges()[*axis];
        let along = combinations.into_iter().flat_map(|combination: u64| {
            range
                .clone()
                .map(move |index| combination * lengths[*axis] + index)
        });
        combinations = along.collect();
    }
    let combinations = combinations.into_iter();
    combinations
        .map(|combination| positions.terms[combination as usize])
        .collect()
}

/// Returns the range of all indices, if they are consecutive apart from [`NO_KEY`], and the range is within an axis of
/// this length.
fn consecutive(indices: &[u32], length: u64) -> Option<Range<u64>> {
    let known = indices.iter().position(|index| *index != NO_KEY)?;
    let first = u64::from(indices[known]).checked_sub(known as u64)?;
    let range = first..first + indices.len() as u64;
    let are_consecutive = indices
        .iter()
        .zip(range.clone())
        .all(|(index, expected)| *index == NO_KEY || u64::from(*index) == expected);
    (are_consecutive && range.end <= length).then_some(range)
}
