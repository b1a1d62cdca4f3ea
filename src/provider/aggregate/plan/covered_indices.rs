//! The sets of indices that groups cover along an axis.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use datafusion::common::{Result, internal_err, resources_err};
use datafusion::execution::memory_pool::MemoryReservation;

use crate::provider::aggregate::plan::products::{
    AxisValues, PerGroup, add_up, product_axes, products,
};
use crate::provider::aggregate::plan::terms::{Term, Terms};

/// The approximate number of bytes that a set takes while sets are being found.
const NODE_BYTES: usize = 64;
/// The approximate number of bytes that a member of a set takes.
const MEMBER_BYTES: usize = 32;
/// The maximum number of sets. Sets are numbered in `u32`; the limit leaves room for the sets that
/// one more product adds.
const MOST_SETS: usize = 1 << 31;

/// The distinct sets of indices that groups cover along an axis, and the set of each group.
///
/// Groups with the same set share the results of an aggregate of coordinates. Each set has one
/// result for each group along the axis that contains some of the set's indices.
#[derive(Debug)]
pub(crate) struct CoveredIndices {
    /// For each set, ranges of groups along the axis with the index of the first group's result.
    sets: Vec<Vec<(Range<usize>, usize)>>,
    /// The set of each group.
    of_groups: PerGroup<u32>,
    /// For each class of grids, the sets that contain the indices of the class.
    with: Vec<Vec<usize>>,
    results: usize,
    bytes: usize,
}

/// A set under construction: another set, extended by the indices of one factor.
struct Node {
    before: u32,
    factor: usize,
}

/// The empty set.
const EMPTY: Node = Node {
    before: 0,
    factor: usize::MAX,
};

impl CoveredIndices {
    /// Finds the sets of `groups` groups along the axis with ordinal `place`.
    ///
    /// # Errors
    /// Fails if there is not enough memory for the sets.
    pub async fn new(
        terms: &Terms,
        place: usize,
        axes: &[AxisValues<u64>],
        groups: usize,
        memory: &MemoryReservation,
    ) -> Result<Self> {
        let mut nodes = vec![EMPTY];
        let mut of_groups = match terms.terms.as_slice() {
            [] => PerGroup::Same(0),
            [term] => {
                nodes.push(Node {
                    before: 0,
                    factor: term.factors[place],
                });
                PerGroup::Same(1)
            }
            _ => PerGroup::Each(find(terms, place, axes, groups, &mut nodes, memory).await?),
        };
        let before = memory.size();
        // Keep only sets that a group has, not the intermediate ones.
        let mut used: Vec<u32> = Vec::new();
        let mut numbers: Vec<Option<u32>> = vec![None; nodes.len()];
        let mut renumber = |set: &mut u32| {
            let number = numbers[*set as usize].get_or_insert_with(|| {
                used.push(*set);
                used.len() as u32 - 1
            });
            *set = *number;
        };
        match &mut of_groups {
            PerGroup::Same(set) => renumber(set),
            PerGroup::Each(sets) => sets.iter_mut().for_each(renumber),
        }
        let different = &axes[place].different;
        let mut all = Self {
            sets: Vec::with_capacity(used.len()),
            with: vec![Vec::new(); different.len()],
            results: 0,
            bytes: 0,
            of_groups,
        };
        for mut node in used {
            let mut members: BTreeSet<usize> = BTreeSet::new();
            while node != 0 {
                let Node { before, factor } = nodes[node as usize];
                let factor = terms.numbers(place, factor).iter();
                members.extend(factor.map(|(number, _)| *number));
                node = before;
            }
            let runs = members.iter().flat_map(|member| different[*member].iter());
            let mut groups = Vec::new();
            for run in add_up(runs.cloned()) {
                let count = run.groups.len();
                groups.push((run.groups, all.results));
                all.results += count;
            }
            all.bytes += (members.len() + groups.len()) * MEMBER_BYTES;
            memory.try_resize(before + all.bytes)?;
            for member in members {
                all.with[member].push(all.sets.len());
            }
            all.sets.push(groups);
        }
        if terms.terms.is_empty() {
            // Without rows and grouping expressions there is one group, which has no indices.
            all.sets = vec![vec![(0..1, 0)]];
            all.results = 1;
        }
        if let PerGroup::Each(sets) = &all.of_groups {
            all.bytes += size_of_val(sets.as_slice());
        }
        memory.try_resize(all.bytes)?;
        Ok(all)
    }

    /// Returns the number of results of all sets.
    pub fn results(&self) -> usize {
        self.results
    }

    /// Returns the size of the sets in bytes.
    pub fn size(&self) -> usize {
        self.bytes
    }

    /// Returns the sets that contain the indices of a class of grids.
    pub fn with(&self, number: usize) -> &[usize] {
        &self.with[number]
    }

    /// Returns the set of a group.
    pub fn of(&self, group: usize) -> usize {
        self.of_groups.of(group) as usize
    }

    /// Returns the index of the result of a set in one of the groups along the axis.
    ///
    /// # Errors
    /// Fails if the set has no index in the group.
    pub fn result(&self, set: usize, group: usize) -> Result<usize> {
        let groups = &self.sets[set];
        let place = groups.partition_point(|(range, _)| range.end <= group);
        match groups.get(place) {
            Some((range, first)) if range.contains(&group) => Ok(first + group - range.start),
            _ => internal_err!("group {group} along the axis has no index in the set"),
        }
    }
}

/// Finds the set of each group by visiting the groups of every product.
async fn find(
    terms: &Terms,
    place: usize,
    axes: &[AxisValues<u64>],
    groups: usize,
    nodes: &mut Vec<Node>,
    memory: &MemoryReservation,
) -> Result<Vec<u32>> {
    let mut order: Vec<&Term> = terms.terms.iter().collect();
    order.sort_by_key(|term| term.factors[place]);
    let mut known: HashMap<(u32, usize), u32> = HashMap::new();
    let mut of_groups = vec![0; groups];
    for term in order {
        let factor = term.factors[place];
        let axes = product_axes(terms, term, axes);
        products(&axes, 1, |line, _| {
            for group in line.groups() {
                let node: &mut u32 = &mut of_groups[group];
                // Products with the same factor are consecutive. If a group's set has the factor at
                // all, the factor was added last.
                if nodes[*node as usize].factor != factor {
                    let before = *node;
                    *node = *known.entry((before, factor)).or_insert_with(|| {
                        nodes.push(Node { before, factor });
                        nodes.len() as u32 - 1
                    });
                }
            }
        })
        .await;
        if nodes.len() > MOST_SETS {
            return resources_err!("groups cover more than {MOST_SETS} distinct sets of indices");
        }
        memory.try_resize(size_of_val(of_groups.as_slice()) + nodes.len() * NODE_BYTES)?;
    }
    Ok(of_groups)
}
