//! Which cells of a chunk go to which groups.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::grid::index_set::IndexSet;
use crate::grid::reduce::piece::Base;

/// The group of a position that is not selected.
pub const NO_GROUP: usize = usize::MAX;

/// Shorter runs of a reduced axis are rather taken together with the axis ahead.
const SHORT: usize = 128;
/// The most cells of a line that is put together from two axes.
const LONGEST_LINE: usize = 16 << 10;
/// Selected positions per run on average, below which the gaps are read along.
const SPARSE: usize = 16;
/// Rows that are read in turn, as far from each other as can be.
const STREAMS: usize = 8;

/// One axis of a chunk: which of its positions are selected, and what each adds to the number of a cell's group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AxisGroups {
    /// Selected positions; its axis is the chunk's.
    pub selected: IndexSet,
    /// A term per position of the chunk, which for an unselected one can be anything. `None` if all are zero.
    pub terms: Option<Vec<usize>>,
}

/// The selected cells of a chunk, row-major, as pieces of equal rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// From the first selected cell to behind the last. Offsets count from its start.
    pub span: Range<u64>,
    pub(crate) pieces: Vec<Piece>,
}

/// Rows of equal length, and where they go. See [`super::piece::Piece`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub outer: Vec<Base>,
    pub inner: Vec<Base>,
    pub rows: Vec<usize>,
    pub length: usize,
    pub target: Target,
}

/// What becomes of the cells of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// All go to the group of the base.
    Base,
    /// Each goes to a group of its own, the next one to the next.
    Neighbours,
    /// Each goes to the group that lies so far behind the base's; those of [`NO_GROUP`] to none.
    Scattered(Vec<usize>),
}

/// How the terms of an axis change along it.
#[derive(Debug, Clone)]
enum Terms {
    Same(usize),
    /// From a first term on by so much with every position.
    Steps(usize, usize),
    /// One per position.
    Any(Vec<usize>),
}

#[derive(Debug, Clone)]
struct Part {
    extent: usize,
    stride: usize,
    selected: Vec<Range<usize>>,
    terms: Terms,
}

impl Layout {
    /// The layout of a chunk with these axes, the last of which varies fastest. `base` is added to all groups.
    pub fn new(axes: &[AxisGroups], base: usize) -> Self {
        let mut stride = 1;
        let mut parts = Vec::with_capacity(axes.len());
        for axis in axes.iter().rev() {
            let part = Part::new(axis, stride);
            stride *= part.extent;
            parts.push(part);
        }
        parts.reverse();
        let mut pieces = Vec::new();
        if parts.iter().all(|part| !part.selected.is_empty()) {
            cut(merged(parts), &mut pieces);
        }
        let start = pieces.iter().map(Piece::start).min().unwrap_or(0);
        let end = pieces.iter().map(Piece::end).max().unwrap_or(0);
        for piece in &mut pieces {
            piece.rebase(start);
            piece.outer.iter_mut().for_each(|outer| outer.group += base);
        }
        Self {
            span: start as u64..end as u64,
            pieces,
        }
    }
}

impl Piece {
    fn start(&self) -> usize {
        let least = |offsets: &mut dyn Iterator<Item = usize>| offsets.min().unwrap_or(0);
        least(&mut self.outer.iter().map(|base| base.offset))
            + least(&mut self.inner.iter().map(|base| base.offset))
            + least(&mut self.rows.iter().copied())
    }

    fn end(&self) -> usize {
        let most = |offsets: &mut dyn Iterator<Item = usize>| offsets.max().unwrap_or(0);
        most(&mut self.outer.iter().map(|base| base.offset))
            + most(&mut self.inner.iter().map(|base| base.offset))
            + most(&mut self.rows.iter().copied())
            + self.length
    }

    /// Makes offsets count from `start`, which none of the piece's cells lies ahead of.
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

impl Part {
    fn new(axis: &AxisGroups, stride: usize) -> Self {
        // A chunk's cells are in memory or in a map, so its extents fit.
        let selected: Vec<_> = axis
            .selected
            .ranges()
            .map(|range| range.start as usize..range.end as usize)
            .collect();
        let terms = match &axis.terms {
            None => Terms::Same(0),
            Some(terms) => Terms::new(terms, &selected),
        };
        Self {
            extent: axis.selected.length() as usize,
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

    fn is_reduced(&self) -> bool {
        matches!(self.terms, Terms::Same(_))
    }

    /// A term for each of its positions, selected or not.
    fn spelled_out(&self) -> Vec<usize> {
        let mut terms = vec![NO_GROUP; self.extent];
        for position in self.positions() {
            terms[position] = self.terms.at(position);
        }
        terms
    }

    /// This axis and the one behind it as one, whatever they are.
    fn combine(&self, behind: &Self) -> Self {
        let (ahead, inner) = (self.spelled_out(), behind.spelled_out());
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
            terms: Terms::Any(terms.collect()),
        }
    }

    /// The same where the two are as simple together as each is alone.
    fn merge(&self, behind: &Self) -> Option<Self> {
        let terms = match (&self.terms, &behind.terms) {
            (terms, Terms::Same(0)) if behind.extent == 1 => {
                return Some(Self {
                    stride: behind.stride,
                    terms: terms.clone(),
                    ..self.clone()
                });
            }
            (Terms::Same(0), _) if self.extent == 1 => return Some(behind.clone()),
            (Terms::Same(ahead), Terms::Same(inner)) => Terms::Same(ahead + inner),
            (Terms::Steps(ahead, step), Terms::Steps(inner, 1)) if *step == behind.extent => {
                Terms::Steps(ahead + inner, 1)
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

impl Terms {
    fn new(terms: &[usize], selected: &[Range<usize>]) -> Self {
        let mut positions = selected.iter().cloned().flatten();
        let Some(first) = positions.next() else {
            return Self::Same(0);
        };
        let Some(second) = positions.next() else {
            return Self::Same(terms[first]);
        };
        if positions
            .clone()
            .all(|position| terms[position] == terms[first])
            && terms[second] == terms[first]
        {
            return Self::Same(terms[first]);
        }
        let steps = |position: usize, step: usize| {
            step.checked_mul(position - first)
                .and_then(|ahead| ahead.checked_add(terms[first]))
                == Some(terms[position])
        };
        if let Some(ahead) = terms[second].checked_sub(terms[first])
            && ahead.is_multiple_of(second - first)
        {
            let step = ahead / (second - first);
            let origin = step
                .checked_mul(first)
                .and_then(|before| terms[first].checked_sub(before));
            if let Some(origin) = origin
                && step > 0
                && steps(second, step)
                && positions.all(|position| steps(position, step))
            {
                return Self::Steps(origin, step);
            }
        }
        Self::Any(terms.to_vec())
    }

    fn at(&self, position: usize) -> usize {
        match self {
            Self::Same(term) => *term,
            Self::Steps(first, step) => first + position * step,
            Self::Any(terms) => terms[position],
        }
    }
}

/// Neighbouring axes as one, where they can be.
fn merged(parts: Vec<Part>) -> Vec<Part> {
    let mut merged: Vec<Part> = Vec::with_capacity(parts.len());
    for part in parts {
        let together = merged.last().and_then(|ahead| ahead.merge(&part));
        match (together, merged.last_mut()) {
            (Some(together), Some(last)) => *last = together,
            _ => merged.push(part),
        }
    }
    merged
}

fn cut(mut parts: Vec<Part>, pieces: &mut Vec<Piece>) {
    let Some(mut line) = parts.pop() else {
        // An array without axes is one cell.
        pieces.push(Piece {
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
            target: Target::Base,
        });
        return;
    };
    // Rows of a few cells each cost more than what is done with them.
    while line.extent < SHORT
        && let Some(ahead) = parts.last()
        && !(line.is_reduced() && ahead.is_reduced() && parts.len() == 1)
        && (line.is_reduced() || line.extent < STREAMS)
        && line.extent * ahead.extent <= LONGEST_LINE
        && parts[..parts.len() - 1]
            .iter()
            .any(|part| part.is_reduced() && part.positions().count() >= STREAMS)
    {
        line = ahead.combine(&line);
        parts.pop();
    }
    let count: usize = line.selected.iter().map(Range::len).sum();
    if line.selected.len() > 1 && count < line.selected.len() * SPARSE {
        line.terms = Terms::Any(line.spelled_out());
        let first = line.selected.first().map_or(0, |run| run.start);
        let last = line.selected.last().map_or(0, |run| run.end);
        line.selected = vec![first..last];
    }
    let (outer, inner) = bases(&parts);
    for (group, rows) in rows(&parts) {
        let rows = spread(rows);
        for run in &line.selected {
            let (first, target) = match &line.terms {
                Terms::Same(term) => (*term, Target::Base),
                Terms::Steps(first, 1) => (first + run.start, Target::Neighbours),
                terms => {
                    let terms = run.clone().map(|position| terms.at(position));
                    (0, Target::Scattered(terms.collect()))
                }
            };
            let base = |base: &Base| Base {
                offset: base.offset + run.start * line.stride,
                group: base.group + group + first,
            };
            pieces.push(Piece {
                outer: outer.iter().map(base).collect(),
                inner: inner.clone(),
                rows: rows.clone(),
                length: run.len(),
                target,
            });
        }
    }
}

/// Whether every selected position of an axis has a group of its own.
fn is_simple(part: &Part) -> bool {
    match &part.terms {
        Terms::Same(_) => part.positions().nth(1).is_none(),
        Terms::Steps(..) => true,
        Terms::Any(_) => {
            let mut terms: Vec<_> = part
                .positions()
                .map(|position| part.terms.at(position))
                .collect();
            terms.sort_unstable();
            terms.windows(2).all(|pair| pair[0] != pair[1])
        }
    }
}

/// The products of the axes on which every position has a group of its own: of all but the last one, and of the last.
fn bases(parts: &[Part]) -> (Vec<Base>, Vec<Base>) {
    let simple: Vec<&Part> = parts.iter().filter(|part| is_simple(part)).collect();
    let nothing = || {
        vec![Base {
            offset: 0,
            group: 0,
        }]
    };
    let product = |parts: &[&Part]| {
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
        // A single one is the outer: neighbours of that level are read in turn.
        Some((only, [])) => (product(&[only]), nothing()),
        Some((last, ahead)) => (product(ahead), product(&[last])),
        None => (nothing(), nothing()),
    }
}

/// The offsets of the rows along all other axes, for each group that they make.
fn rows(parts: &[Part]) -> Vec<(usize, Vec<usize>)> {
    let mut all = vec![(0, vec![0])];
    for part in parts.iter().filter(|part| !is_simple(part)) {
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

/// The same rows in an order in which the next one is far away: rows that are read together are then streams, each of
/// which goes on where it was.
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
mod tests {
    use super::*;

    /// The group of each cell of the chunk, by the pieces; every cell at most once.
    fn groups(layout: &Layout, cells: usize) -> Vec<Option<usize>> {
        let mut groups = vec![None; cells];
        for piece in &layout.pieces {
            for outer in &piece.outer {
                for inner in &piece.inner {
                    for row in &piece.rows {
                        for cell in 0..piece.length {
                            let group = outer.group + inner.group;
                            let group = match &piece.target {
                                Target::Base => group,
                                Target::Neighbours => group + cell,
                                Target::Scattered(terms) if terms[cell] == NO_GROUP => continue,
                                Target::Scattered(terms) => group + terms[cell],
                            };
                            let at = outer.offset + inner.offset + row + cell;
                            let at = layout.span.start as usize + at;
                            assert!((at as u64) < layout.span.end);
                            assert_eq!(groups[at].replace(group), None);
                        }
                    }
                }
            }
        }
        groups
    }

    fn by_hand(axes: &[AxisGroups]) -> Vec<Option<usize>> {
        let cells = axes.iter().map(|axis| axis.selected.length()).product();
        (0..cells)
            .map(|cell| {
                let mut rest = cell;
                let mut group = Some(0);
                for axis in axes.iter().rev() {
                    let position = rest % axis.selected.length();
                    rest /= axis.selected.length();
                    group = group.filter(|_| axis.selected.contains(position));
                    if let (Some(group), Some(terms)) = (&mut group, &axis.terms) {
                        *group += terms[position as usize];
                    }
                }
                group
            })
            .collect()
    }

    /// Selections and terms of an axis: everything that is told apart.
    fn variants(extent: u64) -> Vec<AxisGroups> {
        let sets = [
            IndexSet::all(extent),
            IndexSet::from_ranges(extent, [extent / 3..extent]),
            IndexSet::from_ranges(extent, (0..extent).step_by(2).map(|p| p..p + 1)),
        ];
        let terms = |term: fn(usize) -> usize| Some((0..extent as usize).map(term).collect());
        let terms = [
            None,
            terms(|_| 3),
            terms(|position| position * 7),
            terms(|position| position),
            terms(|position| position / 3),
            terms(|position| position % 2 * 5),
            terms(|position| 100 - position),
        ];
        let sets = sets.into_iter().filter(|set| !set.is_empty());
        sets.flat_map(|selected| {
            terms.clone().map(|terms| AxisGroups {
                selected: selected.clone(),
                terms,
            })
        })
        .collect()
    }

    #[test]
    fn layouts_agree_with_walking_every_cell() {
        for extents in [[9, 4, 6], [1, 8, 3], [20, 3, 2], [2, 1, 1]] {
            for a in variants(extents[0]) {
                for b in variants(extents[1]) {
                    for c in variants(extents[2]) {
                        let axes = [a.clone(), b.clone(), c];
                        let expected = by_hand(&axes);
                        let layout = Layout::new(&axes, 0);
                        assert_eq!(groups(&layout, expected.len()), expected, "{axes:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn whole_chunks_are_few_pieces() {
        let all = |terms| AxisGroups {
            selected: IndexSet::all(16),
            terms,
        };
        let steps = |step: usize| Some((0..16).map(|position| position * step).collect());
        let layout = Layout::new(&[all(None), all(None), all(None)], 0);
        assert_eq!(layout.span, 0..4096);
        assert_eq!((layout.pieces.len(), layout.pieces[0].length), (1, 4096));
        assert_eq!(layout.pieces[0].target, Target::Base);
        let layout = Layout::new(&[all(None), all(steps(16)), all(steps(1))], 0);
        assert_eq!((layout.pieces.len(), layout.pieces[0].length), (1, 256));
        assert_eq!(layout.pieces[0].target, Target::Neighbours);
        assert_eq!(layout.pieces[0].rows.len(), 16);
        // Short rows of a reduced axis are not added up one by one.
        let layout = Layout::new(&[all(None), all(steps(1)), all(None)], 0);
        assert_eq!((layout.pieces.len(), layout.pieces[0].length), (1, 256));
        assert_eq!(layout.pieces[0].rows.len(), 16);
    }

    #[test]
    fn an_array_without_axes_is_a_cell() {
        assert_eq!(groups(&Layout::new(&[], 0), 1), [Some(0)]);
    }
}
