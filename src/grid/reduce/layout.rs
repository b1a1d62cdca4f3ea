//! The layout of a chunk: which cells go to which groups.
//!
//! Adjacent axes are merged where that keeps them simple. The innermost axis, or several of them
//! combined, is the *line*, which is read cell by cell. The other axes split into *bases*, each
//! with its own groups, and *rows*: lines that are added to the groups of the same base.

mod axis_terms;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::grid::index_set::IndexSet;
use crate::grid::reduce::kernel_input::{Base, STREAMS};
use axis_terms::AxisTerms;

/// The term of an index that is not selected.
pub const NO_GROUP: usize = usize::MAX;

/// Lines with fewer cells are combined with the axis before them.
const SHORT: usize = 128;
/// The maximum number of cells of a line that combines two axes.
const MAX_COMBINED_LINE: usize = 16 << 10;
/// The maximum number of cells of a line that is extended by part of an axis.
const MAX_EXTENDED_LINE: usize = 1 << 10;
/// The minimum number of rows that must remain when a line is extended.
const MIN_ROWS: usize = 64;
/// The average number of selected cells per run below which a line is read with its gaps.
const SPARSE: usize = 16;
/// The minimum number of cells of a stream that is read side by side with others.
const LONG_STREAM: usize = 1024;

/// One axis of a chunk: the selected indices, and the term that each adds to the group index of a
/// cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AxisGroups {
    /// The selected indices, relative to the start of the chunk.
    pub selected: IndexSet,
    /// The term of each selected index, in ascending order of the indices. `None` if all terms are
    /// zero.
    pub terms: Option<Arc<[usize]>>,
}

/// The selected cells of a chunk, in row-major order, as sets of rows of equal length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The range from the first selected cell to the last. All offsets count from its start.
    pub span: Range<u64>,
    pub(crate) pieces: Vec<RowPattern>,
}

/// Rows of equal length and the groups that their cells go to. [`super::piece::KernelInput`] describes
/// the fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowPattern {
    pub outer: Vec<Base>,
    pub inner: Vec<Base>,
    pub rows: Vec<usize>,
    pub length: usize,
    /// `true` if more than half of the cells between the first and the last belong to the rows.
    pub is_dense: bool,
    pub target: Target,
}

/// The groups that the cells of a row go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// All cells go to the group of the base.
    Base,
    /// Cells go to consecutive groups, starting at the group of the base.
    Consecutive,
    /// Each cell goes to the group of the base plus its own term, or is ignored if the term is
    /// [`NO_GROUP`].
    Scattered(Vec<usize>),
}

#[derive(Debug, Clone)]
/// One axis of a chunk, or several adjacent axes merged into one.
struct LayoutAxis {
    extent: usize,
    stride: usize,
    selected: Vec<Range<usize>>,
    terms: AxisTerms,
}

impl Layout {
    /// Returns the layout of a chunk with these axes, the last of which varies fastest. `base` is
    /// added to all group indices.
    pub fn new(axes: &[AxisGroups], base: usize) -> Self {
        Self::of_products([axes], base)
    }

    /// Returns the layout of a chunk whose selected cells are disjoint products of indices along the
    /// axes. `base` is added to all group indices.
    pub fn of_products<'a>(
        products: impl IntoIterator<Item = &'a [AxisGroups]>,
        base: usize,
    ) -> Self {
        let mut pieces = Vec::new();
        for axes in products {
            let mut stride = 1;
            let mut parts = Vec::with_capacity(axes.len());
            for axis in axes.iter().rev() {
                let part = LayoutAxis::new(axis, stride);
                stride *= part.extent;
                parts.push(part);
            }
            parts.reverse();
            if parts.iter().all(|part| !part.selected.is_empty()) {
                cut(merge_axes(parts), &mut pieces);
            }
        }
        let start = pieces.iter().map(RowPattern::start).min().unwrap_or(0);
        let end = pieces.iter().map(RowPattern::end).max().unwrap_or(0);
        for piece in &mut pieces {
            piece.is_dense = piece.cells() * 2 > piece.end() - piece.start();
            piece.rebase(start);
            piece.outer.iter_mut().for_each(|outer| outer.group += base);
        }
        Self {
            span: start as u64..end as u64,
            pieces,
        }
    }
}

impl RowPattern {
    fn start(&self) -> usize {
        let min = |offsets: &mut dyn Iterator<Item = usize>| offsets.min().unwrap_or(0);
        min(&mut self.outer.iter().map(|base| base.offset))
            + min(&mut self.inner.iter().map(|base| base.offset))
            + min(&mut self.rows.iter().copied())
    }

    fn cells(&self) -> usize {
        self.outer.len() * self.inner.len() * self.rows.len() * self.length
    }

    fn end(&self) -> usize {
        let most = |offsets: &mut dyn Iterator<Item = usize>| offsets.max().unwrap_or(0);
        most(&mut self.outer.iter().map(|base| base.offset))
            + most(&mut self.inner.iter().map(|base| base.offset))
            + most(&mut self.rows.iter().copied())
            + self.length
    }

    /// Makes offsets count from `start`, which must not be after the first cell of the rows.
    fn rebase(&mut self, start: usize) {
        let ahead = self.start() - start;
        let first = self.inner.iter().map(|base| base.offset).min().unwrap_or(0);
        self.inner.iter_mut().for_each(|base| base.offset -= first);
        let first = self.rows.iter().copied().min().unwrap_or(0);
        self.rows.iter_mut().for_each(|row| *row -= first);
        let first = self.outer.iter().map(|base| base.offset).min().unwrap_or(0);
        for base in &mut self.outer {
            base.offset = base.offset - first + ahead;
        }
    }
}

impl LayoutAxis {
    fn new(axis: &AxisGroups, stride: usize) -> Self {
        // Lossless casts: the cells of a chunk are in memory or in a memory map, so its extents
        // fit.
        let selected: Vec<_> = axis
            .selected
            .ranges()
            .map(|range| range.start as usize..range.end as usize)
            .collect();
        let extent = axis.selected.length() as usize;
        let terms = match &axis.terms {
            None => AxisTerms::Same(0),
            Some(terms) => AxisTerms::new(terms, &selected, extent),
        };
        Self {
            extent,
            stride,
            selected,
            terms,
        }
    }

    fn is_whole(&self) -> bool {
        matches!(self.selected.as_slice(), [run] if run.len() == self.extent)
    }

    fn positions(&self) -> impl Iterator<Item = usize> + '_ {
        self.selected.iter().cloned().flatten()
    }

    /// Returns `true` if the axis is not grouped by: all its indices have the same term.
    fn is_reduced(&self) -> bool {
        matches!(self.terms, AxisTerms::Same(_))
    }

    /// Returns a term for each index, selected or not.
    fn dense_terms(&self) -> Vec<usize> {
        let mut terms = vec![NO_GROUP; self.extent];
        for position in self.positions() {
            terms[position] = self.terms.at(position);
        }
        terms
    }

    /// Combines this axis and the next one, `behind`, whatever their terms are.
    fn combine(&self, behind: &Self) -> Self {
        let (ahead, inner) = (self.dense_terms(), behind.dense_terms());
        let terms = ahead.iter().flat_map(|ahead| {
            inner.iter().map(move |inner| {
                if *ahead == NO_GROUP || *inner == NO_GROUP {
                    NO_GROUP
                } else {
                    ahead + inner
                }
            })
        });
        let extent = self.extent * behind.extent;
        Self {
            extent,
            stride: behind.stride,
            selected: vec![0..extent],
            terms: AxisTerms::Any(terms.collect()),
        }
    }

    /// Combines this axis and the next one, `behind`, if the result is as simple as both.
    fn merge(&self, behind: &Self) -> Option<Self> {
        let terms = match (&self.terms, &behind.terms) {
            (terms, AxisTerms::Same(0)) if behind.extent == 1 => {
                return Some(Self {
                    stride: behind.stride,
                    terms: terms.clone(),
                    ..self.clone()
                });
            }
            (AxisTerms::Same(0), _) if self.extent == 1 => return Some(behind.clone()),
            (AxisTerms::Same(ahead), AxisTerms::Same(inner)) => AxisTerms::Same(ahead + inner),
            (AxisTerms::Steps(ahead, step), AxisTerms::Steps(inner, 1))
                if *step == behind.extent =>
            {
                AxisTerms::Steps(ahead + inner, 1)
            }
            _ => return None,
        };
        if !behind.is_whole() {
            return None;
        }
        let scale = |run: &Range<usize>| run.start * behind.extent..run.end * behind.extent;
        Some(Self {
            extent: self.extent * behind.extent,
            stride: behind.stride,
            selected: self.selected.iter().map(scale).collect(),
            terms,
        })
    }
}

/// Merges adjacent axes where that keeps them simple.
fn merge_axes(parts: Vec<LayoutAxis>) -> Vec<LayoutAxis> {
    let mut merged: Vec<LayoutAxis> = Vec::with_capacity(parts.len());
    for part in parts {
        let together = merged.last().and_then(|ahead| ahead.merge(&part));
        match (together, merged.last_mut()) {
            (Some(together), Some(last)) => *last = together,
            _ => merged.push(part),
        }
    }
    merged
}

/// Cuts the selected cells into rows: the innermost axis becomes the line, all others bases or
/// rows.
fn cut(mut parts: Vec<LayoutAxis>, pieces: &mut Vec<RowPattern>) {
    let Some(mut line) = parts.pop() else {
        // An array without axes has one cell.
        pieces.push(RowPattern {
            outer: vec![Base {
                offset: 0,
                group: 0,
            }],
            inner: vec![Base {
                offset: 0,
                group: 0,
            }],
            rows: vec![0],
            length: 1,
            is_dense: true,
            target: Target::Base,
        });
        return;
    };
    // The overhead of a row of few cells exceeds the work on its cells. If there are enough rows,
    // combine axes into a longer line.
    while line.extent < SHORT
        && let Some(ahead) = parts.last()
        && line.extent * ahead.extent <= MAX_COMBINED_LINE
        && has_rows(&parts[..parts.len() - 1])
    {
        line = ahead.combine(&line);
        parts.pop();
    }
    // Otherwise extend the line by part of a reduced axis, all of whose indices have the same term.
    if line.extent < SHORT
        && !line.is_reduced()
        && let Some(ahead) = parts.last_mut()
        && ahead.is_reduced()
        && ahead.is_whole()
        && let Some(share) = (2..=MAX_EXTENDED_LINE / line.extent)
            .rev()
            .find(|share| ahead.extent.is_multiple_of(*share) && ahead.extent / share >= MIN_ROWS)
    {
        let inner = LayoutAxis {
            extent: share,
            stride: ahead.stride,
            selected: std::iter::once(0..share).collect(),
            terms: AxisTerms::Same(0),
        };
        line = inner.combine(&line);
        ahead.stride *= share;
        ahead.extent /= share;
        ahead.selected = std::iter::once(0..ahead.extent).collect();
    }
    let count: usize = line.selected.iter().map(Range::len).sum();
    if line.selected.len() > 1 && count < line.selected.len() * SPARSE {
        line.terms = AxisTerms::Any(line.dense_terms());
        let first = line.selected.first().map_or(0, |run| run.start);
        let last = line.selected.last().map_or(0, |run| run.end);
        line.selected = vec![first..last];
    }
    let (outer, inner) = bases(&parts);
    for (group, rows) in rows(&parts) {
        // Hardware follows short streams best in memory order.
        let rows = if rows.len() / STREAMS * line.extent < LONG_STREAM {
            rows
        } else {
            spread(rows)
        };
        for run in &line.selected {
            let (first, target) = match &line.terms {
                AxisTerms::Same(term) => (*term, Target::Base),
                AxisTerms::Steps(first, 1) => (first + run.start, Target::Consecutive),
                terms => {
                    let terms = run.clone().map(|position| terms.at(position));
                    (0, Target::Scattered(terms.collect()))
                }
            };
            let base = |base: &Base| Base {
                offset: base.offset + run.start * line.stride,
                group: base.group + group + first,
            };
            pieces.push(RowPattern {
                outer: outer.iter().map(base).collect(),
                inner: inner.clone(),
                rows: rows.clone(),
                length: run.len(),
                is_dense: false,
                target,
            });
        }
    }
}

/// Returns `true` if one of these axes makes at least [`STREAMS`] rows that are added to each
/// other.
fn has_rows(parts: &[LayoutAxis]) -> bool {
    let mut parts = parts.iter();
    parts.any(|part| part.is_reduced() && part.positions().nth(STREAMS - 1).is_some())
}

/// Returns `true` if every selected index of an axis has its own group.
fn has_own_groups(part: &LayoutAxis) -> bool {
    match &part.terms {
        AxisTerms::Same(_) => part.positions().nth(1).is_none(),
        AxisTerms::Steps(..) => true,
        AxisTerms::Any(_) => {
            let mut terms: Vec<_> = part
                .positions()
                .map(|position| part.terms.at(position))
                .collect();
            terms.sort_unstable();
            terms.windows(2).all(|pair| pair[0] != pair[1])
        }
    }
}

/// Returns the bases: the product of all but the last of the axes on which every selected index has
/// its own group, and that last axis.
fn bases(parts: &[LayoutAxis]) -> (Vec<Base>, Vec<Base>) {
    let simple: Vec<&LayoutAxis> = parts.iter().filter(|part| has_own_groups(part)).collect();
    let nothing = || vec![Base::default()];
    let product = |parts: &[&LayoutAxis]| {
        parts.iter().fold(nothing(), |bases, part| {
            let steps = |base: Base| {
                part.positions().map(move |position| Base {
                    offset: base.offset + position * part.stride,
                    group: base.group + part.terms.at(position),
                })
            };
            bases.into_iter().flat_map(steps).collect()
        })
    };
    match simple.split_last() {
        // A single axis is the outer level, whose bases are visited one after another.
        Some((only, [])) => (product(&[only]), nothing()),
        Some((last, ahead)) => (product(ahead), product(&[last])),
        None => (nothing(), nothing()),
    }
}

/// Returns the offsets of the rows along all other axes, per sum of their terms.
fn rows(parts: &[LayoutAxis]) -> Vec<(usize, Vec<usize>)> {
    let mut all = vec![(0, vec![0])];
    for part in parts.iter().filter(|part| !has_own_groups(part)) {
        let mut classes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for position in part.positions() {
            let class = classes.entry(part.terms.at(position)).or_default();
            class.push(position * part.stride);
        }
        all = all
            .iter()
            .flat_map(|(group, rows)| {
                classes.iter().map(move |(term, steps)| {
                    let rows = rows.iter();
                    let rows = rows.flat_map(|row| steps.iter().map(move |step| row + step));
                    (group + term, rows.collect())
                })
            })
            .collect();
    }
    all
}

/// Reorders rows so that consecutive ones are far apart in memory. Rows that are read side by side
/// then form streams, each of which continues where it stopped.
fn spread(rows: Vec<usize>) -> Vec<usize> {
    let turns = rows.len() / STREAMS;
    if turns < 2 {
        return rows;
    }
    let spread = (0..turns * STREAMS).map(|row| rows[row % STREAMS * turns + row / STREAMS]);
    spread
        .chain(rows[turns * STREAMS..].iter().copied())
        .collect()
}

#[cfg(test)]
mod tests;
