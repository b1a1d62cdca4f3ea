//! The terms of the group index along an axis of a chunk.

use std::ops::Range;

use crate::grid::reduce::layout::NO_GROUP;

/// The terms along an axis.
#[derive(Debug, Clone)]
pub(super) enum AxisTerms {
    /// All indices have this term.
    Same(usize),
    /// The term of index 0 and the difference between consecutive terms.
    Steps(usize, usize),
    /// One term per index, [`NO_GROUP`] if the index is not selected.
    Any(Vec<usize>),
}

impl AxisTerms {
    /// Classifies the terms of the selected indices of an axis of this extent.
    pub fn new(terms: &[usize], selected: &[Range<usize>], extent: usize) -> Self {
        let positions = || {
            selected
                .iter()
                .cloned()
                .flatten()
                .zip(terms.iter().copied())
        };
        let mut rest = positions();
        let Some((first, term)) = rest.next() else {
            return Self::Same(0);
        };
        let Some((second, next)) = rest.next() else {
            return Self::Same(term);
        };
        if terms.iter().all(|other| *other == term) {
            return Self::Same(term);
        }
        let is_step = |position: usize, found: usize, step: usize| {
            step.checked_mul(position - first)
                .and_then(|ahead| ahead.checked_add(term))
                == Some(found)
        };
        if let Some(ahead) = next.checked_sub(term)
            && ahead.is_multiple_of(second - first)
        {
            let step = ahead / (second - first);
            let origin = step
                .checked_mul(first)
                .and_then(|before| term.checked_sub(before));
            if let Some(origin) = origin
                && step > 0
                && rest.all(|(position, found)| is_step(position, found, step))
            {
                return Self::Steps(origin, step);
            }
        }
        let mut any = vec![NO_GROUP; extent];
        for (position, term) in positions() {
            any[position] = term;
        }
        Self::Any(any)
    }

    /// Returns the term of an index.
    pub fn at(&self, position: usize) -> usize {
        match self {
            Self::Same(term) => *term,
            Self::Steps(first, step) => first + position * step,
            Self::Any(terms) => terms[position],
        }
    }
}
