//! Blocks in the order of their bounds, so that the first rows of an order come first.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, make_comparator};
use arrow::compute::{SortOptions, concat};
use datafusion::common::Result;

use crate::provider::options::ReadOptions;
use crate::provider::pruning::segments;
use crate::provider::source::BlockList;

/// The most blocks that are put in order.
const MOST_BLOCKS: u64 = 1 << 17;

/// The positions of all blocks, ordered by the bounds of some columns: by the least of a column in ascending order, by the
/// greatest in descending order, and what is unknown first, since it has to be read in any case. `None` if nothing is
/// known of the first column, or if the blocks are in this order as they are.
pub(super) fn by_bounds(
    blocks: &dyn BlockList,
    columns: &[(usize, SortOptions)],
    options: &ReadOptions,
) -> Result<Option<Vec<u64>>> {
    let Some(count) = blocks.count().filter(|count| *count <= MOST_BLOCKS) else {
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
    // Blocks that tie stay as they are.
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
    blocks: &dyn BlockList,
    column: usize,
    descending: bool,
    count: u64,
    options: &ReadOptions,
) -> Result<Option<ArrayRef>> {
    if !blocks.has_statistics(column, options) {
        return Ok(None);
    }
    let mut bounds: Vec<ArrayRef> = Vec::new();
    for positions in segments(count) {
        let Some(known) = blocks.block_statistics(column, &positions, options)? else {
            return Ok(None);
        };
        bounds.push(if descending {
            known.greatest
        } else {
            known.least
        });
    }
    let bounds: Vec<&dyn Array> = bounds.iter().map(AsRef::as_ref).collect();
    Ok(if bounds.is_empty() {
        None
    } else {
        Some(concat(&bounds)?)
    })
}

/// The same order for so many partitions that take turns, one partition after another.
pub(super) fn dealt(order: &[u64], partitions: usize) -> Arc<[u64]> {
    let deal = |partition| order.iter().skip(partition).step_by(partitions.max(1));
    (0..partitions.max(1)).flat_map(deal).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_take_turns() {
        assert_eq!(*dealt(&[5, 3, 1, 4, 2], 2), [5, 1, 2, 3, 4]);
        assert_eq!(*dealt(&[5, 3], 1), [5, 3]);
        assert!(dealt(&[], 3).is_empty());
    }
}
