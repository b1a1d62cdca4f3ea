//! Sorts blocks by their bounds, so that a scan reads the first rows of an ordering early.

use std::cmp::Ordering;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, make_comparator};
use arrow::compute::{SortOptions, concat};
use datafusion::common::Result;

use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::planning::planned_blocks::{PlannedBlocks, segments};

/// The maximum number of blocks that are sorted.
const MAX_BLOCKS: u64 = 1 << 17;

/// Sorted blocks, and the range of steps that each partition reads.
pub(crate) struct SortedBlocks {
    pub blocks: PlannedBlocks,
    pub partitions: Vec<Range<u64>>,
}

/// Sorts blocks by these columns and deals them to at most `partitions` partitions. `None` if the
/// current order is as good.
pub(crate) fn sorted(
    blocks: &PlannedBlocks,
    columns: &[(usize, SortOptions)],
    options: &ReadOptions,
    partitions: usize,
) -> Result<Option<SortedBlocks>> {
    let Some(order) = by_bounds(blocks, columns, options)? else {
        return Ok(None);
    };
    let (order, partitions) = dealt(&order, partitions);
    Ok(Some(SortedBlocks {
        blocks: blocks.reorder(order.into_iter())?,
        partitions,
    }))
}

/// Deals blocks, in their current order, to at most `partitions` partitions. `None` if there are too
/// many blocks.
pub(crate) fn in_turn(blocks: &PlannedBlocks, partitions: usize) -> Result<Option<SortedBlocks>> {
    let Some(count) = blocks.count().filter(|count| *count <= MAX_BLOCKS) else {
        return Ok(None);
    };
    let order: Vec<u64> = (0..count).collect();
    let (order, partitions) = dealt(&order, partitions);
    Ok(Some(SortedBlocks {
        blocks: blocks.reorder(order.into_iter())?,
        partitions,
    }))
}

/// Sorts the steps of all blocks by the bounds of some columns: by the lower bound for an
/// ascending column, by the upper bound for a descending one. Blocks with unknown bounds come
/// first, since they have to be read in any case. `None` if there are no statistics of the first
/// column, or if the blocks are sorted already.
fn by_bounds(
    blocks: &PlannedBlocks,
    columns: &[(usize, SortOptions)],
    options: &ReadOptions,
) -> Result<Option<Vec<u64>>> {
    let Some(count) = blocks.count().filter(|count| *count <= MAX_BLOCKS) else {
        return Ok(None);
    };
    let mut comparators = Vec::new();
    for (column, sort) in columns {
        let Some(bounds) = bounds(blocks, *column, sort.descending, count, options)? else {
            break;
        };
        let sort = SortOptions {
            nulls_first: true,
            ..*sort
        };
        comparators.push(make_comparator(&bounds, &bounds, sort)?);
    }
    if comparators.is_empty() {
        return Ok(None);
    }
    let mut order: Vec<u64> = (0..count).collect();
    // The sort is stable, so tied blocks keep their order.
    order.sort_by(|one, other| {
        let mut orders = comparators
            .iter()
            .map(|compare| compare(*one as usize, *other as usize));
        orders
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    });
    Ok((!order.is_sorted()).then_some(order))
}

fn bounds(
    blocks: &PlannedBlocks,
    column: usize,
    descending: bool,
    count: u64,
    options: &ReadOptions,
) -> Result<Option<ArrayRef>> {
    let list = blocks.list();
    if !list.availability(column, options).is_known {
        return Ok(None);
    }
    let mut bounds: Vec<ArrayRef> = Vec::new();
    for steps in segments(count) {
        let statistics = list.statistics(&[column], &blocks.blocks(steps)?, options)?;
        let Some(known) = statistics.columns.into_iter().next().flatten() else {
            return Ok(None);
        };
        bounds.push(if descending { known.max } else { known.min });
    }
    let bounds: Vec<&dyn Array> = bounds.iter().map(AsRef::as_ref).collect();
    Ok(if bounds.is_empty() {
        None
    } else {
        Some(concat(&bounds)?)
    })
}

/// Deals sorted blocks to at most `partitions` partitions in turn. Returns the blocks of one
/// partition after another, and the range of each partition.
fn dealt(order: &[u64], partitions: usize) -> (Vec<u64>, Vec<Range<u64>>) {
    let partitions = partitions.min(order.len()).max(1);
    let mut dealt = Vec::with_capacity(order.len());
    let mut ranges = Vec::with_capacity(partitions);
    for partition in 0..partitions {
        let start = dealt.len() as u64;
        dealt.extend(order.iter().skip(partition).step_by(partitions));
        ranges.push(start..dealt.len() as u64);
    }
    (dealt, ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_take_turns() {
        for (order, partitions, expected, ranges) in [
            (
                vec![5, 3, 1, 4, 2],
                2,
                vec![5, 1, 2, 3, 4],
                vec![0..3, 3..5],
            ),
            (vec![5, 3], 1, vec![5, 3], vec![0..2]),
            (vec![5, 3], 4, vec![5, 3], vec![0..1, 1..2]),
            (vec![], 3, vec![], vec![0..0]),
        ] {
            let (found, found_ranges) = dealt(&order, partitions);
            assert_eq!((found, found_ranges), (expected, ranges));
        }
    }
}
