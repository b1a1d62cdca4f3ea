use super::*;

/// Returns the group of each cell of the chunk. Panics if a cell is visited twice.
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
                            Target::Consecutive => group + cell,
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
                    *group += terms[axis.selected.rank(position) as usize];
                }
            }
            group
        })
        .collect()
}

/// Returns selections and terms of an axis that cover all cases of the layout.
fn variants(extent: u64) -> Vec<AxisGroups> {
    let sets = [
        IndexSet::all(extent),
        IndexSet::from_ranges(extent, [extent / 3..extent]),
        IndexSet::from_ranges(extent, (0..extent).step_by(2).map(|p| p..p + 1)),
    ];
    type Term = fn(usize) -> usize;
    let terms: [Option<Term>; 7] = [
        None,
        Some(|_| 3),
        Some(|position| position * 7),
        Some(|position| position),
        Some(|position| position / 3),
        Some(|position| position % 2 * 5),
        Some(|position| 100 - position),
    ];
    let sets = sets.into_iter().filter(|set| !set.is_empty());
    sets.flat_map(|selected| {
        terms.map(|term| {
            let positions = selected.ranges().flatten();
            let positions = positions.map(|position| position as usize);
            AxisGroups {
                terms: term.map(|term| positions.map(term).collect()),
                selected: selected.clone(),
            }
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
    assert_eq!(layout.pieces[0].target, Target::Consecutive);
    assert_eq!(layout.pieces[0].rows.len(), 16);
    // Short rows of a reduced axis are combined into a longer line.
    let layout = Layout::new(&[all(None), all(steps(1)), all(None)], 0);
    assert_eq!((layout.pieces.len(), layout.pieces[0].length), (1, 256));
    assert_eq!(layout.pieces[0].rows.len(), 16);
}

#[test]
fn an_array_without_axes_is_a_cell() {
    assert_eq!(groups(&Layout::new(&[], 0), 1), [Some(0)]);
}
