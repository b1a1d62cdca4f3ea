//! Which positions along an axis groups have.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use datafusion::common::{Result, internal_err, resources_err};
use datafusion::execution::memory_pool::MemoryReservation;

use crate::provider::aggregate::plan::products::{
    NumberAxis, PerGroup, add_up, product_axes, products,
};
use crate::provider::aggregate::plan::terms::{Term, Terms};

/// About the bytes that a set takes while sets are found.
const NODE_BYTES: usize = 64;
/// About the bytes that a member of a set takes.
const MEMBER_BYTES: usize = 32;
/// Sets that can be numbered, with room for those of one more product.
const MOST_SETS: usize = 1 << 31;

/// The different sets of positions along an axis that groups have, and which group has which.
///
/// Each set has a result for each group along the axis that some of its positions are in.
#[derive(Debug)]
pub(crate) struct PositionSets {
    /// For each set the groups along the axis, and the number of the first one's result.
    sets: Vec<Vec<(Range<usize>, usize)>>,
    /// The number of each group's set.
    of_groups: PerGroup<u32>,
    /// For each of the different things that parts have along the axis, the sets with its positions.
    with: Vec<Vec<usize>>,
    results: usize,
    bytes: usize,
}

/// A set that is another one and the positions of one more factor.
struct Node {
    before: u32,
    factor: usize,
}

/// The set without positions.
const EMPTY: Node = Node {
    before: 0,
    factor: usize::MAX,
};

impl PositionSets {
    /// The sets of so many groups along the axis at `place`.
    ///
    /// # Errors
    /// If there is not enough memory for them.
    pub async fn new(
        terms: &Terms,
        place: usize,
        axes: &[NumberAxis<u64>],
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
        // Of the sets that were found on the way, only those that a group has.
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
            // The one group that there is without rows.
            all.sets = vec![vec![(0..1, 0)]];
            all.results = 1;
        }
        if let PerGroup::Each(sets) = &all.of_groups {
            all.bytes += size_of_val(sets.as_slice());
        }
        memory.try_resize(all.bytes)?;
        Ok(all)
    }

    /// How many results there are in all.
    pub fn results(&self) -> usize {
        self.results
    }

    /// Bytes that they take.
    pub fn size(&self) -> usize {
        self.bytes
    }

    /// The numbers of the sets with the positions of one of the different things along the axis.
    pub fn with(&self, number: usize) -> &[usize] {
        &self.with[number]
    }

    /// The number of a group's set.
    pub fn of(&self, group: usize) -> usize {
        self.of_groups.of(group) as usize
    }

    /// The number of the result of a set in one of the groups along the axis.
    ///
    /// # Errors
    /// If the set has no position there.
    pub fn result(&self, set: usize, group: usize) -> Result<usize> {
        let groups = &self.sets[set];
        let place = groups.partition_point(|(range, _)| range.end <= group);
        match groups.get(place) {
            Some((range, first)) if range.contains(&group) => Ok(first + group - range.start),
            _ => internal_err!("group {group} along an axis has no position of a set"),
        }
    }
}

/// Finds the set of each group, going through the products.
async fn find(
    terms: &Terms,
    place: usize,
    axes: &[NumberAxis<u64>],
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
                // The products of a factor follow each other, so that a group that has had it had it last.
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
            return resources_err!("groups have more than {MOST_SETS} sets of positions");
        }
        memory.try_resize(size_of_val(of_groups.as_slice()) + nodes.len() * NODE_BYTES)?;
    }
    Ok(of_groups)
}
